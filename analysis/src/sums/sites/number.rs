//! Numbers for call sites.
//!
//! A site is a function and the frames from which it is called, up to the number that distinguishes sites. Numbers are from 1, in
//! the order of appearance; calls at sites beyond the limit have the number 0. Used by all analyses of call sites.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_mpi::FUNCTIONS;
use belljar_trace::{CallStack, Event, Frame};

use crate::dump::frames::SiteFrame;

/// Most sites that are kept.
const MOST_SITES: usize = 1 << 17;

/// Prefixes of the names of libraries that bind MPI to another language: they call on behalf of the program.
const BINDINGS: [&str; 9] = [
    "libmpichfort.",
    "libmpifort.",
    "libmpichf90.",
    "libfmpich.",
    "libmpi_mpifh.",
    "libmpi_usempi",
    "libmpichcxx.",
    "libmpicxx.",
    "libmpi_cxx.",
];

/// A call site: the called function, and the frames that distinguish its site.
pub(crate) type CallSite = (u16, Vec<Frame>);

/// The call sites so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteNumbers {
    frames: u8,
    all: Vec<CallSite>,
    /// Numbers by complete stacks, and by the frames that distinguish sites.
    by_stack: BTreeMap<(u16, Option<Arc<CallStack>>), u32>,
    by_frames: BTreeMap<CallSite, u32>,
}

impl SiteNumbers {
    /// Creates an empty set, of sites that are distinguished by at most `frames` frames.
    pub(crate) fn new(frames: u8) -> Self {
        Self {
            frames,
            ..Self::default()
        }
    }

    /// Returns the most frames that distinguish sites.
    pub(crate) fn frames(&self) -> u8 {
        self.frames
    }

    /// Returns the number of sites; they are numbered from 1 to this.
    pub(crate) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// Returns the site with this number.
    pub(crate) fn site(&self, number: u32) -> Option<&CallSite> {
        self.all.get((number as usize).checked_sub(1)?)
    }

    /// Returns its function's name and its frames, for results.
    pub(crate) fn shown(&self, number: u32) -> (&'static str, Vec<SiteFrame>) {
        let Some((function, frames)) = self.site(number) else {
            return ("MPI_?", Vec::new());
        };
        let function = FUNCTIONS.get(usize::from(*function));
        let name = function.map_or("MPI_?", |function| function.name);
        (name, frames.iter().map(SiteFrame::of).collect())
    }

    /// Returns the number of a call's site; 0 beyond the limit.
    pub(crate) fn number(&mut self, event: &Event) -> u32 {
        let key = (event.function, event.site.0.clone());
        if let Some(number) = self.by_stack.get(&key) {
            return *number;
        }
        let own = (event.function, self.apart(event));
        let number = match self.by_frames.get(&own) {
            Some(number) => *number,
            None if self.all.len() >= MOST_SITES => return 0,
            None => {
                self.all.push(own.clone());
                let number = self.len();
                self.by_frames.insert(own, number);
                number
            }
        };
        if self.by_stack.len() >= 2 * MOST_SITES {
            self.by_stack.clear();
        }
        self.by_stack.insert(key, number);
        number
    }

    /// Returns the frames that distinguish a call's site, without those of bindings, since the program's line is of interest.
    fn apart(&self, event: &Event) -> Vec<Frame> {
        let frames = event.site.0.as_ref().map_or(&[][..], |stack| &stack.0);
        let first = frames.iter().position(|frame| !is_binding(frame));
        let frames = &frames[first.unwrap_or(0)..];
        frames[..frames.len().min(self.frames.into())].to_vec()
    }
}

/// True if a frame is in a library that binds MPI to another language.
fn is_binding(frame: &Frame) -> bool {
    let Some(file) = &frame.file else {
        return false;
    };
    let name = file.path.rsplit('/').next().unwrap_or_default();
    BINDINGS.iter().any(|binding| name.starts_with(binding))
}
