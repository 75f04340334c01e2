//! Construction of nodes' processors.
//!
//! Nodes of a run share translated code, without an effect on results. The host is checked once, before
//! any node is made. Called by [`SharedParts`](crate::plan::nodes::parts) and by `belljar boot`.

use std::sync::Arc;

use belljar_cpu::{CpuError, Vcpu};
use belljar_exact::{CodePool, CodeShare, ExactConfig, ExactVcpu};
use belljar_kvm::{Host, KvmConfig, KvmVcpu, Machine, Means};
use belljar_sim::{Random, Seed};
use belljar_vmm::VcpuParts;

use crate::plan::Plan;
use crate::plan::nodes::kept_code::{CodeFolder, KeptCode};
use crate::scenario::Results;
use crate::scenario::engine::{Engine, KvmOptions};

/// Bytes of translated code shared by nodes, and of the total of the nodes' private code. Tables take
/// three times this size.
const SHARED_CODE: usize = 256 << 20;
const OWN_CODE: usize = 768 << 20;
/// Disables shared translations, without an effect on results; tests compare both.
const OWN_CODE_ONLY: &str = "BELLJAR_OWN_CODE";

/// Makes a node's processors, in order.
pub(crate) type Maker = Box<dyn FnMut(VcpuParts) -> Result<Box<dyn Vcpu + Send>, CpuError>>;

/// The parts for all nodes' processors.
#[derive(Clone)]
pub(crate) enum Makers {
    /// With translated code that the nodes of each kind share, unless disabled, and its files.
    Exact(Vec<CodePool>, KeptCode),
    Kvm(Virtualisation),
}

/// The host's virtualisation, after a test.
#[derive(Clone)]
pub(crate) struct Virtualisation {
    host: Arc<Host>,
    means: Means,
}

impl Makers {
    /// The makers for the engine of `plan`.
    ///
    /// # Errors
    /// If the host lacks the requirements of the engine.
    pub(crate) fn open(plan: &Plan) -> Result<Self, CpuError> {
        Ok(match plan.engine {
            Engine::Exact => {
                let (pools, kept) = pools(plan);
                Self::Exact(pools, kept)
            }
            Engine::Kvm => Self::Kvm(Virtualisation::open(plan.kvm)?),
        })
    }

    /// The same for a template, which runs code that no clone runs again: it shares none.
    pub(crate) fn template(&self, plan: &Plan, kind: usize, seed: Seed) -> Maker {
        match self {
            Self::Exact(..) => exact(plan, kind, None, 0, seed),
            Self::Kvm(kvm) => kvm.clone().maker(),
        }
    }

    /// The files of translated code.
    pub(crate) fn kept_code(&self) -> KeptCode {
        match self {
            Self::Exact(_, kept) => kept.clone(),
            Self::Kvm(_) => KeptCode::default(),
        }
    }

    /// Makes the processors of a node of `plan` of kind number `kind`, with the random numbers of node
    /// `index`.
    pub(crate) fn node(&self, plan: &Plan, kind: usize, index: u32, seed: Seed) -> Maker {
        match self {
            Self::Exact(pools, _) => exact(plan, kind, pools.get(kind), index, seed),
            Self::Kvm(kvm) => kvm.clone().maker(),
        }
    }
}

/// The pools of translated code for each kind of nodes, and their files; none if disabled.
fn pools(plan: &Plan) -> (Vec<CodePool>, KeptCode) {
    // One node translates nearly as fast as code of earlier runs is read.
    if plan.nodes == 1 || std::env::var_os(OWN_CODE_ONLY).is_some() {
        return Default::default();
    }
    let room = SHARED_CODE / plan.kinds().len();
    if let Some(folder) = CodeFolder::open() {
        return folder.pools(plan, room);
    }
    let kinds = plan.kinds().iter();
    let pools = kinds.map(|_| CodePool::with_room(room)).collect();
    (pools, KeptCode::default())
}

fn exact(plan: &Plan, kind: usize, pool: Option<&CodePool>, index: u32, seed: Seed) -> Maker {
    let mut share = CodeShare::with_room(OWN_CODE / plan.nodes.max(1) as usize);
    if let Some(pool) = pool {
        share = share.pooled(pool);
    }
    let kind = &plan.kinds()[kind];
    let (ratio, timing) = (kind.ratio, kind.timing.clone());
    let host_results = plan.results == Results::Host;
    Box::new(move |parts| {
        let stream = VcpuParts::random_stream(parts.index, u64::from(index));
        let config = ExactConfig {
            ram: parts.ram,
            cpuid: parts.cpuid,
            instruction_set: parts.instruction_set,
            ratio,
            timing: timing.clone(),
            random: Random::new(seed, belljar_exact::RANDOM_STREAM, stream),
            host_results,
        };
        Ok(Box::new(ExactVcpu::sharing(config, &share)?))
    })
}

impl Virtualisation {
    /// The virtualisation of this host with `options`.
    ///
    /// # Errors
    /// If it cannot carry nodes, or not with these options.
    pub(crate) fn open(options: KvmOptions) -> Result<Self, CpuError> {
        let probe = belljar_kvm::probe(options.wanted())?;
        Ok(Self {
            host: Host::open()?,
            means: probe.means,
        })
    }

    /// Makes a node's processors: the first one creates the virtual machine, and the others join it.
    pub(crate) fn maker(self) -> Maker {
        let mut machine: Option<Arc<Machine>> = None;
        Box::new(move |parts| {
            let machine = match &machine {
                Some(machine) => machine.clone(),
                None => machine
                    .insert(Arc::new(Machine::new(&self.host, parts.ram)?))
                    .clone(),
            };
            let config = KvmConfig {
                machine,
                index: parts.index,
                cpuid: parts.cpuid,
                instruction_set: parts.instruction_set,
                means: self.means,
            };
            Ok(Box::new(KvmVcpu::new(config)?))
        })
    }
}
