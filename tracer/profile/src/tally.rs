//! Samples summed up by stack.
//!
//! Takes memory for each stack that differs, not for each sample. Frames are places in files here; naming them gives
//! [`Named`] stacks of functions. Filled by `read`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::form::{CodeFile, Frame, Head, Sample, Samples};

/// What the kernel's code is called, under its functions.
const KERNEL: &str = "[kernel]";
/// What code of no file is called.
const NO_FILE: &str = "[unknown]";

/// Which samples count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of these nodes; of all when empty.
    pub nodes: Vec<u32>,
    /// Of processes of these ranks; of all processes when empty.
    pub ranks: Vec<u32>,
    /// From this virtual time on, in picoseconds.
    pub from: Option<u64>,
    /// Before this virtual time, in picoseconds.
    pub to: Option<u64>,
    /// Of processes in these spans of virtual time alone, if any are given.
    pub spans: Option<Spans>,
}

/// From when to when, in picoseconds, samples of a process count, by its node and rank; several where processes with one rank followed each other.
pub type Spans = BTreeMap<(u32, u32), Vec<(u64, u64)>>;

/// What stands below each stack, so that those of different ones stay apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Nothing.
    #[default]
    None,
    /// The node.
    Node,
    /// The rank; the node, where there is none.
    Rank,
}

/// What a processor did, as far as it is told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Doing {
    node: u32,
    rank: Option<u32>,
    /// Whether the kernel was running, and in which function, as far as its name is known.
    kernel: Option<Option<Arc<str>>>,
    /// From the innermost frame outward, files by their numbers in the tally.
    stack: Vec<Frame>,
}

/// What begins at which address of a kernel: a function; what is none begins at addresses without a name.
pub type KernelFunctions = BTreeMap<u64, Option<Arc<str>>>;

/// Samples of any number of nodes, summed up.
#[derive(Debug, Default)]
pub struct Tally {
    filter: Filter,
    /// The kernels of nodes from these numbers on.
    kernels: BTreeMap<u32, KernelFunctions>,
    every: u64,
    files: Vec<CodeFile>,
    numbers: BTreeMap<CodeFile, u32>,
    counts: BTreeMap<Doing, u64>,
    /// Points that processors of the filter's nodes came to or slept through.
    points: u64,
    /// Those of them that samples of any rank stand for.
    busy: u64,
}

impl Tally {
    /// Of the samples that `filter` lets through.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            ..Self::default()
        }
    }

    /// Names the functions of the kernel that nodes from number `first` on have, up to those for which another one is named.
    #[must_use]
    pub fn with_kernel(mut self, first: u32, functions: KernelFunctions) -> Self {
        self.kernels.insert(first, functions);
        self
    }

    fn kernel_function(&self, node: u32, address: u64) -> Option<Arc<str>> {
        let (_, kernel) = self.kernels.range(..=node).next_back()?;
        let (_, function) = kernel.range(..=address).next_back()?;
        function.clone()
    }

    fn has_node(&self, node: u32) -> bool {
        self.filter.nodes.is_empty() || self.filter.nodes.contains(&node)
    }

    /// The numbers of the points that count, at such a distance from each other.
    fn window(&self, every: u64) -> (u64, u64) {
        let from = self.filter.from.map_or(0, |from| from.div_ceil(every));
        let to = self.filter.to.map_or(u64::MAX, |to| to.div_ceil(every));
        (from, to)
    }

    pub(crate) fn begin(&mut self, head: &Head) {
        self.every = self.every.max(head.every);
    }

    pub(crate) fn add(&mut self, head: &Head, record: &Samples) {
        if !self.has_node(head.node) {
            return;
        }
        let files: Vec<u32> = record.files.iter().map(|file| self.number(file)).collect();
        let (from, to) = self.window(head.every);
        for sample in &record.samples {
            if (from..to).contains(&sample.number) {
                self.busy = self.busy.saturating_add(sample.count);
                if self.has_rank(sample) && self.is_in_span(head, sample) {
                    self.count(head.node, sample, record, &files);
                }
            }
        }
    }

    fn has_rank(&self, sample: &Sample) -> bool {
        let ranks = &self.filter.ranks;
        ranks.is_empty() || sample.rank.is_some_and(|rank| ranks.contains(&rank))
    }

    fn is_in_span(&self, head: &Head, sample: &Sample) -> bool {
        let Some(spans) = &self.filter.spans else {
            return true;
        };
        let own = sample.rank.and_then(|rank| spans.get(&(head.node, rank)));
        let at = sample.number.saturating_mul(head.every);
        own.is_some_and(|own| own.iter().any(|(from, to)| (*from..*to).contains(&at)))
    }

    fn count(&mut self, node: u32, sample: &Sample, record: &Samples, files: &[u32]) {
        let stack = record.stacks.get(sample.stack as usize);
        let stack = stack.into_iter().flatten().map(|frame| Frame {
            file: frame
                .file
                .and_then(|file| files.get(file as usize).copied()),
            address: frame.address,
        });
        let doing = Doing {
            node,
            rank: sample.rank,
            kernel: sample
                .kernel
                .map(|address| self.kernel_function(node, address)),
            stack: stack.collect(),
        };
        let count = self.counts.entry(doing).or_default();
        *count = count.saturating_add(sample.count);
    }

    fn number(&mut self, file: &CodeFile) -> u32 {
        if let Some(number) = self.numbers.get(file) {
            return *number;
        }
        let number = self.files.len() as u32;
        self.files.push(file.clone());
        self.numbers.insert(file.clone(), number);
        number
    }

    /// The node of `head` came to no point from `next` on.
    pub(crate) fn end(&mut self, head: &Head, next: u64) {
        if self.has_node(head.node) {
            let (from, to) = self.window(head.every);
            let points = next.min(to).saturating_sub(head.first.max(from));
            let points = points.saturating_mul(u64::from(head.vcpus));
            self.points = self.points.saturating_add(points);
        }
    }

    /// The same with functions instead of places. `functions` tells those at an address of a file: the innermost inlined one
    /// first, the one that they are in last; none where it has no name.
    pub fn name(
        &self,
        split: Split,
        mut functions: impl FnMut(&CodeFile, u64) -> Vec<String>,
    ) -> Named {
        let mut known: BTreeMap<Frame, Vec<Arc<str>>> = BTreeMap::new();
        let mut named = Named {
            every: self.every,
            points: self.points,
            busy: self.busy,
            of_all: self.filter.ranks.is_empty() && self.filter.spans.is_none(),
            stacks: BTreeMap::new(),
        };
        for (doing, count) in &self.counts {
            let mut stack: Vec<Arc<str>> = Vec::new();
            if let Some(function) = &doing.kernel {
                stack.extend(function.clone());
                stack.push(KERNEL.into());
            }
            for frame in &doing.stack {
                let names = known
                    .entry(*frame)
                    .or_insert_with(|| self.names(frame, &mut functions));
                stack.extend(names.iter().cloned());
            }
            stack.extend(below(doing, split).map(Arc::from));
            stack.reverse();
            let sum = named.stacks.entry(stack).or_default();
            *sum = sum.saturating_add(*count);
        }
        named
    }

    fn names(
        &self,
        frame: &Frame,
        functions: &mut impl FnMut(&CodeFile, u64) -> Vec<String>,
    ) -> Vec<Arc<str>> {
        let file = frame.file.and_then(|file| self.files.get(file as usize));
        let Some(file) = file else {
            return vec![NO_FILE.into()];
        };
        let names = functions(file, frame.address);
        if names.is_empty() {
            let name = file.path.rsplit('/').next().unwrap_or_default();
            return vec![format!("[{name}]").into()];
        }
        names.into_iter().map(Arc::from).collect()
    }
}

fn below(doing: &Doing, split: Split) -> Option<String> {
    match (split, doing.rank) {
        (Split::None, _) => None,
        (Split::Rank, Some(rank)) => Some(format!("rank {rank}")),
        _ => Some(format!("node {}", doing.node)),
    }
}

/// Stacks of functions, with how many samples are of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Virtual time for which a sample stands, in picoseconds.
    pub every: u64,
    /// Points that processors came to or slept through.
    pub points: u64,
    /// Those at which they executed.
    pub busy: u64,
    /// Whether samples of all processes count.
    pub of_all: bool,
    /// By stack, from the outermost frame inward.
    pub stacks: BTreeMap<Vec<Arc<str>>, u64>,
}

impl Named {
    /// All samples that count.
    pub fn samples(&self) -> u64 {
        let counts = self.stacks.values();
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }
}
