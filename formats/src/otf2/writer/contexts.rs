//! Call sites as calling contexts: a frame is nested in its caller's.
//!
//! Sites with equal outer frames share these. A frame is named by its file and address, as the file itself is not available here. Filled as calls
//! come, defined at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_trace::{CallStack, Frame};

/// Most sites, and most contexts of them, that are kept.
const MOST: usize = 1 << 20;

/// The contexts of all calls.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    sites: BTreeMap<Arc<CallStack>, u32>,
    frames: BTreeMap<String, u32>,
    numbers: BTreeMap<(u32, Option<u32>), u32>,
    /// For each context, by number: the frame, and the context of the caller.
    list: Vec<(u32, Option<u32>)>,
}

impl Contexts {
    /// Returns the context of a site; `None` if there are too many.
    pub(super) fn of(&mut self, site: &Arc<CallStack>) -> Option<u32> {
        if let Some(known) = self.sites.get(site) {
            return Some(*known);
        }
        let mut context = None;
        for frame in site.0.iter().rev() {
            if self.list.len().max(self.sites.len()) >= MOST {
                return None;
            }
            let fresh = self.frames.len() as u32;
            let frame = *self.frames.entry(name(frame)).or_insert(fresh);
            let fresh = self.list.len() as u32;
            let number = *self.numbers.entry((frame, context)).or_insert(fresh);
            if number == fresh {
                self.list.push((frame, context));
            }
            context = Some(number);
        }
        self.sites.insert(site.clone(), context?);
        context
    }

    /// Returns the contexts, by number: the frame, and the context of the caller.
    pub(super) fn list(&self) -> &[(u32, Option<u32>)] {
        &self.list
    }

    /// Returns frames, and the number of each.
    pub(super) fn frames(&self) -> impl Iterator<Item = (&str, u32)> {
        let frames = self.frames.iter();
        frames.map(|(name, number)| (name.as_str(), *number))
    }
}

/// Names a frame: its file's last name and the address there.
fn name(frame: &Frame) -> String {
    let file = frame.file.as_ref();
    let file = file.and_then(|file| file.path.rsplit('/').next());
    match file {
        Some(file) => format!("{file}+{:#x}", frame.address),
        None => format!("{:#x}", frame.address),
    }
}
