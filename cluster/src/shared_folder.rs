//! A folder that all nodes share: `/root` of node 0, exported over NFS by the nodes' own kernels, as clusters share home folders.
//!
//! Modules come from each node's image, whose kernel they belong to. Before the workload starts, a script on node 0 loads them
//! and mounts the folder on all other nodes; its traffic crosses the simulated network. Called when a plan and its run disk are made.

use belljar_images::Image;

use crate::plan::error::PlanError;
use crate::scenario::Scenario;

/// The folder of the modules and the script, on the run disk.
pub(crate) const FOLDER: &str = "shared-folder";
/// The script that shares the folder.
pub(crate) const START: &str = include_str!("shared_folder/start.sh");
/// Shell lines that call it. The shell must leave `/root` and enter it again, as another file system is mounted there.
pub(crate) const CALL: &str =
    "cd / || exit 125\n/run/belljar/shared-folder/start || exit 125\ncd /root || exit 125\n";

/// Whether the nodes of `scenario` share a folder, with these images.
///
/// # Errors
/// If the scenario requests it and the kernel of an image has no NFS.
pub(crate) fn resolve(scenario: &Scenario, images: &[Image]) -> Result<bool, PlanError> {
    let without = images.iter().find(|image| image.nfs.is_none());
    let default = scenario.slurm.is_some() && without.is_none();
    let is_shared = scenario.workload.shared_folder.unwrap_or(default);
    if !is_shared || scenario.nodes.count() < 2 {
        return Ok(false);
    }
    without.map_or(Ok(true), |image| {
        Err(PlanError::NoNfs {
            image: image.manifest.recipe.clone(),
        })
    })
}

/// The warning of a run with Slurm on several nodes with these images that share no folder, as a kernel has no NFS.
pub(crate) fn warning<'a>(mut images: impl Iterator<Item = &'a Image>) -> Option<String> {
    let image = images.find(|image| image.nfs.is_none())?;
    Some(format!(
        "nodes share no folder, as the kernel of image {} has no NFS: files stay on the node that writes them",
        image.manifest.recipe
    ))
}
