//! What makes the processors of a run's nodes.
//!
//! Nodes of a run share translated code, which changes no result. Whether the host can carry them is found
//! out once, before any node is made. Called by [`Parts`](crate::plan::parts) and by `belljar boot`.

use std::sync::Arc;

use belljar_cpu::{CpuError, Vcpu};
use belljar_exact::{CodePool, CodeShare, ExactConfig, ExactVcpu};
use belljar_kvm::{Host, KvmConfig, KvmVcpu, Machine, Means};
use belljar_sim::{Random, Seed};
use belljar_vmm::VcpuParts;

use crate::plan::Plan;
use crate::scenario::Results;
use crate::scenario::engine::{Engine, KvmOptions};

/// Bytes of translated code that nodes share, and of all that each has for itself together.
/// Tables take three times as much.
const SHARED_CODE: usize = 256 << 20;
const OWN_CODE: usize = 768 << 20;
/// Lets each node translate all its code for itself, which changes no result: tests compare.
const OWN_CODE_ONLY: &str = "BELLJAR_OWN_CODE";

/// What makes a node's processors, in order.
pub(crate) type Maker = Box<dyn FnMut(VcpuParts) -> Result<Box<dyn Vcpu + Send>, CpuError>>;

/// What all nodes' processors are made with.
#[derive(Clone)]
pub(crate) enum Makers {
    /// With translated code that the nodes of each kind share, where they do.
    Exact(Vec<CodePool>),
    Kvm(Virtualisation),
}

/// The host's virtualisation, tried out.
#[derive(Clone)]
pub(crate) struct Virtualisation {
    host: Arc<Host>,
    means: Means,
}

impl Makers {
    /// Those of the engine of `plan`.
    ///
    /// # Errors
    /// When the host has nothing for it to work with.
    pub(crate) fn open(plan: &Plan) -> Result<Self, CpuError> {
        let shares = plan.nodes > 1 && std::env::var_os(OWN_CODE_ONLY).is_none();
        Ok(match plan.engine {
            Engine::Exact => {
                let room = SHARED_CODE / plan.kinds().len();
                let kinds = plan.kinds().iter().filter(|_| shares);
                Self::Exact(kinds.map(|_| CodePool::with_room(room)).collect())
            }
            Engine::Kvm => Self::Kvm(Virtualisation::open(plan.kvm)?),
        })
    }

    /// What makes the processors of a node of `plan` of kind number `kind`, which draws random numbers as
    /// node `index` does.
    pub(crate) fn node(&self, plan: &Plan, kind: usize, index: u32, seed: Seed) -> Maker {
        match self {
            Self::Exact(pools) => exact(plan, (kind, pools.get(kind)), index, seed),
            Self::Kvm(kvm) => kvm.clone().maker(),
        }
    }
}

fn exact(plan: &Plan, (kind, pool): (usize, Option<&CodePool>), index: u32, seed: Seed) -> Maker {
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
    /// That of this host, to be used with `options`.
    ///
    /// # Errors
    /// When it cannot carry nodes, or not with these.
    pub(crate) fn open(options: KvmOptions) -> Result<Self, CpuError> {
        let probe = belljar_kvm::probe(options.wanted())?;
        Ok(Self {
            host: Host::open()?,
            means: probe.means,
        })
    }

    /// What makes a node's processors: the first one brings the machine that the others join.
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
