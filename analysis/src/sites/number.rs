//! Numbers for call sites.
//!
//! A site is a function and the frames from which it is called, as many of them as tell sites apart. Numbers are from 1, as sites
//! come up; there are bounds, and calls at sites beyond them have the number 0. Called by every analysis that asks where
//! calls are made.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_mpi::FUNCTIONS;
use belljar_trace::{CallStack, Event, Frame};

use crate::dump::frames::SiteFrame;

/// Sites that are kept, at most.
const MOST_SITES: usize = 1 << 17;

/// What libraries' names begin with that bind MPI to another language: what they call is called for the program.
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

/// A call site: the function that is called, and the frames by which its site is told apart.
pub(crate) type CallSite = (u16, Vec<Frame>);

/// The call sites that came up so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct SiteNumbers {
    frames: u8,
    all: Vec<CallSite>,
    /// Of stacks as the trace has them, and as they tell sites apart.
    by_stack: BTreeMap<(u16, Option<Arc<CallStack>>), u32>,
    by_frames: BTreeMap<CallSite, u32>,
}

impl SiteNumbers {
    /// None so far, of sites that are told apart by at most `frames` frames.
    pub(crate) fn new(frames: u8) -> Self {
        Self {
            frames,
            ..Self::default()
        }
    }

    /// How many frames tell sites apart, at most.
    pub(crate) fn frames(&self) -> u8 {
        self.frames
    }

    /// How many sites there are; their numbers are from 1 to this.
    pub(crate) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// The site of this number.
    pub(crate) fn site(&self, number: u32) -> Option<&CallSite> {
        self.all.get((number as usize).checked_sub(1)?)
    }

    /// Its function's name and its frames, as results have them.
    pub(crate) fn shown(&self, number: u32) -> (&'static str, Vec<SiteFrame>) {
        let Some((function, frames)) = self.site(number) else {
            return ("MPI_?", Vec::new());
        };
        let function = FUNCTIONS.get(usize::from(*function));
        let name = function.map_or("MPI_?", |function| function.name);
        (name, frames.iter().map(SiteFrame::of).collect())
    }

    /// The number of a call's site; 0 where there are too many.
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

    /// The frames by which a call's site is told apart: without those of bindings, as the program's line is what is asked
    /// for.
    fn apart(&self, event: &Event) -> Vec<Frame> {
        let frames = event.site.0.as_ref().map_or(&[][..], |stack| &stack.0);
        let first = frames.iter().position(|frame| !is_binding(frame));
        let frames = &frames[first.unwrap_or(0)..];
        frames[..frames.len().min(self.frames.into())].to_vec()
    }
}

/// Whether a frame is of a library that binds MPI to another language.
fn is_binding(frame: &Frame) -> bool {
    let Some(file) = &frame.file else {
        return false;
    };
    let name = file.path.rsplit('/').next().unwrap_or_default();
    BINDINGS.iter().any(|binding| name.starts_with(binding))
}
