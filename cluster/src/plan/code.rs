//! The code that a run's processes may have: the programs and libraries of its image and of the workload, by which stacks
//! are unwound.
//!
//! Made once for all nodes of an image on this host, for runs that record frames or samples; of each file its first page is read then,
//! and more when a process has it. Called when the nodes' parts are loaded.

use std::io::{self, Read};
use std::sync::Arc;

use belljar_images::{ErofsError, Image, root_tree};
use belljar_unwind::{Code, Files, PAGE};
use object::read::ReadCache;

use crate::plan::Plan;

/// The code of the files that nodes of `plan` with `image` have, if frames of its calls, or samples, are recorded.
///
/// # Errors
/// When the image's root file system can't be read.
pub(crate) fn code_files(plan: &Plan, image: &Image) -> Result<Option<Arc<Files>>, ErofsError> {
    let has_frames = plan.trace.enabled && plan.trace.frames > 0;
    if !has_frames && plan.profile.is_none() {
        return Ok(None);
    }
    let mut files = Files::default();
    for file in root_tree(&image.root)?.files {
        let path = file.path.clone();
        if let Ok(start) = start(file.clone()) {
            files.add(&path, &start, move || {
                Code::parse(&ReadCache::new(file.clone()))
            });
        }
    }
    for (name, content) in &plan.files {
        let content: Arc<[u8]> = content.as_slice().into();
        let start = content[..content.len().min(PAGE)].to_vec();
        let path = workload_path(name);
        files.add(&path, &start, move || Code::parse(&content[..]));
    }
    Ok(Some(Arc::new(files)))
}

/// Where nodes have the workload's file of this name.
pub fn workload_path(name: &str) -> String {
    format!("/root/{name}")
}

fn start(file: impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.take(PAGE as u64).read_to_end(&mut start)?;
    Ok(start)
}
