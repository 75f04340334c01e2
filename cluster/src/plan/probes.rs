//! Where a run's MPI calls are seen: probes in the libraries of its image and in the workload's
//! own files, which nodes of the exact engine get.
//!
//! Made once for all nodes of this host, from the very files that the guests see. The template
//! of clones gets none, as it runs no workload. Called when the nodes' parts are loaded.

use std::sync::Arc;

use belljar_cpu::{ProbedPage, Probes};
use belljar_images::{ErofsError, root_tree};
use belljar_tracer::Targets;
use object::read::ReadCache;

use crate::plan::Plan;

/// What the nodes of a run are watched with.
#[derive(Clone)]
pub(crate) struct RunProbes {
    /// What an engine looks for.
    pub(crate) probes: Arc<Probes>,
    /// What that means.
    pub(crate) targets: Arc<Targets>,
}

impl RunProbes {
    /// The probes for `plan`, if its calls are seen by probes.
    ///
    /// # Errors
    /// When the image's root file system can't be read.
    pub(crate) fn of(plan: &Plan) -> Result<Option<Self>, ErofsError> {
        if !plan.traces_by_probes() {
            return Ok(None);
        }
        let mut targets = Targets::default();
        for file in root_tree(&plan.image.root)?.files {
            let path = file.path.clone();
            targets.add(&path, &ReadCache::new(file));
        }
        for (name, content) in &plan.files {
            targets.add(name, &content[..]);
        }
        let pages = targets.pages().iter().map(|page| ProbedPage {
            bytes: page.bytes.clone(),
            places: page.places.clone(),
        });
        Ok(Some(Self {
            probes: Arc::new(Probes::new(pages)),
            targets: Arc::new(targets),
        }))
    }
}
