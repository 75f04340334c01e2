//! Samples summed up by stack.
//!
//! Memory grows with the number of distinct stacks, not of samples. Frames are addresses in files here; naming them yields [`Named`] stacks of
//! functions. Filled by `read`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::form::{CodeFile, Head, Sample, SampleFrame, Samples};

/// Pseudo-function for the kernel's code, under its functions.
const KERNEL: &str = "[kernel]";
/// Pseudo-function for code outside of any file.
const NO_FILE: &str = "[unknown]";

/// Selection of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Samples of these nodes; all nodes if empty.
    pub nodes: Vec<u32>,
    /// Samples of processes with these ranks; all processes if empty.
    pub ranks: Vec<u32>,
    /// From this virtual time on, in picoseconds.
    pub from: Option<u64>,
    /// Before this virtual time, in picoseconds.
    pub to: Option<u64>,
    /// Samples of processes in these spans of virtual time only, if given.
    pub spans: Option<Spans>,
}

/// Spans in picoseconds for which a process's samples count, by its node and rank; several if processes with the same rank followed each other.
pub type Spans = BTreeMap<(u32, u32), Vec<(u64, u64)>>;

/// The frame below each stack, which keeps stacks of different nodes or ranks separate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// No frame.
    #[default]
    None,
    /// The node.
    Node,
    /// The rank; the node, if there is no rank.
    Rank,
}

/// A processor's activity, as far as samples distinguish it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Doing {
    node: u32,
    rank: Option<u32>,
    /// `None` outside of the kernel; inside, the name of its function if known.
    kernel: Option<Option<Arc<str>>>,
    /// From the innermost frame outward; files are numbered by the tally.
    stack: Vec<SampleFrame>,
}

/// The function that begins at each address of a kernel; a range outside of functions has no name.
pub type KernelFunctions = BTreeMap<u64, Option<Arc<str>>>;

/// Samples of any number of nodes, summed up.
#[derive(Debug, Default)]
pub struct Tally {
    filter: Filter,
    /// The kernels of the nodes from each number on.
    kernels: BTreeMap<u32, KernelFunctions>,
    every: u64,
    files: Vec<CodeFile>,
    numbers: BTreeMap<CodeFile, u32>,
    counts: BTreeMap<Doing, u64>,
    /// Points that processors of the filter's nodes reached, executing or asleep.
    points: u64,
    /// Points at which they executed, for any rank.
    busy: u64,
}

impl Tally {
    /// Creates a tally of the samples that pass `filter`.
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            ..Self::default()
        }
    }

    /// Names the kernel's functions for nodes from number `first` on, up to the first node of another kernel.
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

    /// Returns the range of the selected points, at this distance from each other.
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
        let stack = stack.into_iter().flatten().map(|frame| SampleFrame {
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

    /// Records that the node of `head` reached no point from `next` on.
    pub(crate) fn end(&mut self, head: &Head, next: u64) {
        if self.has_node(head.node) {
            let (from, to) = self.window(head.every);
            let points = next.min(to).saturating_sub(head.first.max(from));
            let points = points.saturating_mul(u64::from(head.vcpus));
            self.points = self.points.saturating_add(points);
        }
    }

    /// Returns the tally with functions instead of addresses. `functions` returns the functions at an address of a file, from the innermost
    /// inlined function to the outer function; empty for an unnamed address.
    pub fn name(
        &self,
        split: Split,
        mut functions: impl FnMut(&CodeFile, u64) -> Vec<String>,
    ) -> Named {
        let mut known: BTreeMap<SampleFrame, Vec<Arc<str>>> = BTreeMap::new();
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
        frame: &SampleFrame,
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

/// Stacks of functions, with the number of samples of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Virtual time of a sample, in picoseconds.
    pub every: u64,
    /// Points that processors reached, executing or asleep.
    pub points: u64,
    /// Points at which they executed.
    pub busy: u64,
    /// True if samples of all processes count.
    pub of_all: bool,
    /// By stack, from the outermost frame inward.
    pub stacks: BTreeMap<Vec<Arc<str>>, u64>,
}

impl Named {
    /// Returns the number of selected samples.
    pub fn samples(&self) -> u64 {
        let counts = self.stacks.values();
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }
}
