//! The code of a run's processes: the programs and libraries of its image and of the workload, for unwinding stacks.
//!
//! Made once for all nodes of an image on this host, for runs that record frames or samples. The first page of each file is read
//! at once, and the rest when a process maps it. Called when the nodes' parts are loaded.

use std::io::{self, Read};
use std::sync::Arc;

use belljar_images::{ErofsError, Image, root_tree};
use belljar_unwind::{Code, Files, PAGE};
use object::read::ReadCache;

use crate::plan::Plan;

/// The code of the files on nodes of `plan` with `image`, if frames of calls, or samples, are recorded.
///
/// # Errors
/// If the image's root file system cannot be read.
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

/// The path on nodes of the workload's file of this name.
pub fn workload_path(name: &str) -> String {
    format!("/root/{name}")
}

fn start(file: impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    file.take(PAGE as u64).read_to_end(&mut start)?;
    Ok(start)
}
