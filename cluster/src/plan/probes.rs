//! Probes for MPI calls, in the libraries of a run's image and in the workload's files, for nodes of the exact engine.
//!
//! Made once for all nodes of an image on this host, from the same files that the guests read. The template of clones
//! has no probes, as it runs no workload. Called when the nodes' parts are loaded.

/// Probes of the user's.
pub mod own;

use std::sync::Arc;

use belljar_cpu::{ProbedPage, Probes};
use belljar_images::{ErofsError, root_tree};
use belljar_symbols::KernelSymbols;
use belljar_trace::Probe;
use belljar_tracer::Targets;
use belljar_vmm::KernelImage;
use object::read::ReadCache;

use crate::plan::Plan;
use crate::plan::nodes::code::workload_path;
use crate::scenario::engine::Engine;

/// The kernel's function that ends a process.
const PROCESS_END: &str = "do_group_exit";

/// Probes of a run's nodes.
#[derive(Clone)]
pub(crate) struct RunProbes {
    /// The probes for the engine.
    pub(crate) probes: Arc<Probes>,
    /// Their meaning for the tracer.
    pub(crate) targets: Arc<Targets>,
    /// The user's probes among them.
    pub(crate) own: Arc<[Probe]>,
}

impl RunProbes {
    /// The probes for nodes of `plan` with image number `image` and this kernel: of calls and ends of processes, if calls are seen by
    /// probes, and of receives.
    ///
    /// # Errors
    /// If the image's root file system cannot be read.
    pub(crate) fn of(
        plan: &Plan,
        image: usize,
        kernel: &KernelImage,
    ) -> Result<Option<Self>, ErofsError> {
        if !plan.trace.enabled || plan.engine != Engine::Exact {
            return Ok(None);
        }
        let sees_calls = plan.traces_by_probes();
        let mut targets = Targets::default();
        for file in root_tree(&plan.images[image].image.root)?.files {
            let path = file.path.clone();
            match sees_calls {
                true => targets.add(&path, &ReadCache::new(file)),
                false => targets.add_receives(&ReadCache::new(file)),
            }
        }
        for (name, content) in &plan.files {
            match sees_calls {
                true => targets.add(name, &content[..]),
                false => targets.add_receives(&content[..]),
            }
        }
        let ends = KernelSymbols::positions(kernel.contents(), &[PROCESS_END]);
        if let Some(address) = ends.get(PROCESS_END).filter(|_| sees_calls) {
            targets.add_process_end(*address);
        }
        add_own(plan, image, &mut targets)?;
        let pages = targets.pages().iter().map(|page| ProbedPage {
            bytes: page.bytes.clone(),
            places: page.places.clone(),
        });
        Ok(Some(Self {
            probes: Arc::new(Probes::new(pages).with_kernel(targets.kernel())),
            targets: Arc::new(targets),
            own: plan.probes.iter().map(|own| own.probe.clone()).collect(),
        }))
    }
}

/// Adds the user's probes after all others; two probes at one place both record.
fn add_own(plan: &Plan, image: usize, targets: &mut Targets) -> Result<(), ErofsError> {
    if plan.probes.is_empty() {
        return Ok(());
    }
    let places = |path: &str| {
        let probes = plan.probes.iter().zip(0..);
        let found = probes.filter_map(|(own, number)| Some((own.places[image].get(path)?, number)));
        let each = |(places, number): (&Vec<u64>, u32)| -> Vec<(u64, u32)> {
            places.iter().map(|place| (*place, number)).collect()
        };
        found.flat_map(each).collect::<Vec<(u64, u32)>>()
    };
    for file in root_tree(&plan.images[image].image.root)?.files {
        let found = places(&file.path);
        if !found.is_empty() {
            let data = ReadCache::new(file);
            for (place, number) in found {
                targets.add_own(&data, place, number);
            }
        }
    }
    for (name, content) in &plan.files {
        for (place, number) in places(&workload_path(name)) {
            targets.add_own(&content[..], place, number);
        }
    }
    for (place, number) in places(own::KERNEL) {
        targets.add_kernel(place, number);
    }
    Ok(())
}
