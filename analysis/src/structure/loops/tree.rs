//! Conversion of counted iterations to the tree of loops and sequences.
//!
//! The parts of a loop's iteration are sorted so that each call comes after its predecessors, and otherwise by first calls.
//! Adjacent parts that run in the same iterations are one sequence. Used by `loops`.

use std::collections::{BTreeMap, BTreeSet};

use belljar_job::Communicators;
use belljar_trace::TraceHeader;

use super::measure::{LoopSum, Occurrence};
use super::nesting::Nesting;
use super::{
    ClassLoops, Iterations, LoopMeasure, LoopPart, ProgramPart, Sequence, SequenceCall, When,
};
use crate::structure::flow::{Class, END, FlowThread, PerThread, Spread, threads};

/// An item of a loop's body or of the program: a node, or a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LoopItem {
    Node(u32),
    Loop(usize),
}

/// A class and all its measurements.
pub(super) struct Tree<'a> {
    pub(super) measure: &'a LoopMeasure,
    class: &'a Class,
    nesting: &'a Nesting,
    header: &'a TraceHeader,
    /// The parts of each loop, and last of the program, in order.
    items: Vec<Vec<LoopItem>>,
    /// The class's threads, in its order.
    members: Vec<FlowThread>,
}

/// Returns the loops of a class.
pub(super) fn class(
    measure: &LoopMeasure,
    number: usize,
    header: &TraceHeader,
    communicators: &Communicators,
) -> ClassLoops {
    let tree = Tree::new(measure, number, header, communicators);
    let (class, nesting) = (tree.class, tree.nesting);
    let body = tree.body(nesting.loops.len());
    let outermost = body.iter().filter_map(|part| match part {
        ProgramPart::Loop(part) => Some(part.time.total_ps),
        ProgramPart::Sequence(_) => None,
    });
    let outermost: Vec<u64> = outermost.collect();
    let sum = |of: &dyn Fn(usize) -> u64| {
        let each = class.threads.iter().map(|thread| of(*thread));
        each.fold(0, u64::saturating_add)
    };
    ClassLoops {
        name: threads::words(&tree.members, communicators),
        threads: tree.members.clone(),
        calls: sum(&|thread| measure.walks[thread].calls),
        time_ps: sum(&|thread| {
            let flow = &measure.flows.threads()[thread].1;
            tree.ps(thread, flow.last)
                .saturating_sub(tree.ps(thread, flow.first))
        }),
        in_mpi_ps: sum(&|thread| tree.ps(thread, measure.walks[thread].mpi)),
        outermost_loops: outermost.len() as u64,
        outermost_ps: outermost.iter().copied().fold(0, u64::saturating_add),
        phases: tree.phases(),
        body,
    }
}

/// Returns the headers of the loops of a class, by number.
pub(super) fn headers(
    measure: &LoopMeasure,
    number: usize,
    header: &TraceHeader,
    communicators: &Communicators,
) -> Vec<String> {
    let tree = Tree::new(measure, number, header, communicators);
    let loops = tree.nesting.loops.iter();
    loops.map(|own| tree.words(own.header).1).collect()
}

/// Returns the parts of each loop and of the program, in order.
fn ordered(nesting: &Nesting, edges: impl Iterator<Item = (u32, u32)>) -> Vec<Vec<LoopItem>> {
    let program = nesting.loops.len();
    let region = |chain: &[usize], depth: usize| match depth {
        0 => program,
        _ => chain[depth - 1],
    };
    let item = |node: u32, depth: usize| match nesting.chains[node as usize].get(depth) {
        Some(inner) => LoopItem::Loop(*inner),
        None => LoopItem::Node(node),
    };
    // By region: parts with their first nodes, and the order between them.
    let mut firsts: Vec<BTreeMap<LoopItem, u32>> = vec![BTreeMap::new(); program + 1];
    for node in END + 1..nesting.chains.len() as u32 {
        let chain = &nesting.chains[node as usize];
        for depth in 0..=chain.len() {
            let items = &mut firsts[region(chain, depth)];
            items.entry(item(node, depth)).or_insert(node);
        }
    }
    let mut after: Vec<BTreeSet<(LoopItem, LoopItem)>> = vec![BTreeSet::new(); program + 1];
    for (from, to) in edges.filter(|(from, to)| *from > END && *to > END) {
        let (chain, other) = (&nesting.chains[from as usize], &nesting.chains[to as usize]);
        let depth = chain
            .iter()
            .zip(other)
            .take_while(|(one, other)| one == other)
            .count();
        let own = region(chain, depth);
        let back = own != program && nesting.loops[own].header == to;
        let (from, to) = (item(from, depth), item(to, depth));
        if !back && from != to {
            after[own].insert((from, to));
        }
    }
    let regions = firsts.into_iter().zip(after);
    regions
        .map(|(items, after)| sorted(&items, &after))
        .collect()
}

/// Sorts items so that each comes after its predecessors, and otherwise by their first nodes.
fn sorted(
    items: &BTreeMap<LoopItem, u32>,
    after: &BTreeSet<(LoopItem, LoopItem)>,
) -> Vec<LoopItem> {
    let mut waits: BTreeMap<LoopItem, u32> = items.keys().map(|item| (*item, 0)).collect();
    for (_, to) in after {
        *waits.entry(*to).or_default() += 1;
    }
    let mut left: BTreeSet<(u32, LoopItem)> =
        items.iter().map(|(item, first)| (*first, *item)).collect();
    let mut ready: BTreeSet<(u32, LoopItem)> = left
        .iter()
        .copied()
        .filter(|(_, item)| waits[item] == 0)
        .collect();
    let mut order = Vec::new();
    // If a loop has several entries, items may wait for each other: then the first goes first.
    while let Some(next) = ready.pop_first().or_else(|| left.first().copied()) {
        left.remove(&next);
        order.push(next.1);
        for (_, to) in after
            .range((next.1, LoopItem::Node(0))..)
            .take_while(|(from, _)| *from == next.1)
        {
            let Some(count) = waits.get_mut(to) else {
                continue;
            };
            *count = count.saturating_sub(1);
            let key = (items[to], *to);
            if *count == 0 && left.contains(&key) {
                ready.insert(key);
            }
        }
    }
    order
}

impl<'a> Tree<'a> {
    /// Creates the tree of a class, by its number.
    pub(super) fn new(
        measure: &'a LoopMeasure,
        number: usize,
        header: &'a TraceHeader,
        communicators: &Communicators,
    ) -> Self {
        let class = &measure.flows.classes[number];
        let nesting = &measure.nestings[number];
        let flow = &measure.flows.threads()[class.threads[0]].1;
        let edges = flow.edges.iter().map(|edge| (edge.from, edge.to));
        Self {
            measure,
            class,
            nesting,
            header,
            items: ordered(nesting, edges),
            members: measure.flows.members(&class.threads, communicators),
        }
    }

    /// Returns the outermost loops, in order.
    pub(super) fn outermost(&self) -> impl DoubleEndedIterator<Item = usize> {
        let items = self.items[self.nesting.loops.len()].iter();
        items.filter_map(|item| match item {
            LoopItem::Loop(number) => Some(*number),
            LoopItem::Node(_) => None,
        })
    }
    pub(super) fn ps(&self, thread: usize, cycles: u64) -> u64 {
        let (key, _) = &self.measure.flows.threads()[thread];
        self.header.frequency(key.0).time_of(cycles).as_ps()
    }

    /// Returns the sums of the class's threads.
    pub(super) fn sums(&self, number: usize) -> impl Iterator<Item = (usize, &LoopSum)> {
        let threads = self.class.threads.iter();
        threads.map(move |thread| (*thread, &self.measure.walks[*thread].loops[number]))
    }

    fn body(&self, region: usize) -> Vec<ProgramPart> {
        let mut parts: Vec<ProgramPart> = Vec::new();
        for item in &self.items[region] {
            match item {
                LoopItem::Loop(number) => {
                    parts.push(ProgramPart::Loop(self.one_loop(*number, region)))
                }
                LoopItem::Node(node) => {
                    let when = self.when(region, |walk| &walk.nodes[*node as usize]);
                    let call = self.call(*node);
                    match parts.last_mut() {
                        Some(ProgramPart::Sequence(sequence)) if sequence.when == when => {
                            sequence.calls.push(call);
                        }
                        _ => parts.push(ProgramPart::Sequence(Sequence {
                            when,
                            calls: vec![call],
                        })),
                    }
                }
            }
        }
        parts
    }

    fn call(&self, node: u32) -> SequenceCall {
        let all = self.measure.flows.threads();
        let mut visits = PerThread::default();
        let mut in_mpi = Spread::default();
        for thread in &self.class.threads {
            let (key, flow) = &all[*thread];
            let own = &flow.nodes[node as usize];
            visits.add(own.visits);
            in_mpi.add(&own.time, self.header.frequency(key.0));
        }
        let (function, text) = self.words(node);
        SequenceCall {
            function,
            text,
            visits,
            in_mpi,
        }
    }

    fn words(&self, node: u32) -> (&'static str, String) {
        let flow = &self.measure.flows.threads()[self.class.threads[0]].1;
        let signature = flow.nodes[node as usize].signature.as_ref();
        signature.map_or(("", String::new()), |signature| {
            let partners = self.class.partners(node as usize);
            (signature.function(), signature.words(&partners))
        })
    }

    fn one_loop(&self, number: usize, region: usize) -> LoopPart {
        let own = &self.nesting.loops[number];
        let mut entries = PerThread::default();
        let mut time = Spread::default();
        let mut iterations = Iterations {
            min: u64::MAX,
            ..Iterations::default()
        };
        let (mut calls, mut in_mpi_ps) = (0u64, 0);
        let mut computing = Vec::with_capacity(self.members.len());
        for ((thread, sum), member) in self.sums(number).zip(&self.members) {
            let (key, _) = &self.measure.flows.threads()[thread];
            entries.add(sum.entries);
            time.add(&sum.time, self.header.frequency(key.0));
            iterations.min = iterations.min.min(sum.iterations.min);
            iterations.max = iterations.max.max(sum.iterations.max);
            iterations.total = iterations.total.saturating_add(sum.total);
            calls = calls.saturating_add(sum.calls);
            in_mpi_ps = u64::saturating_add(in_mpi_ps, self.ps(thread, sum.mpi));
            let outside = sum.time.total.saturating_sub(sum.mpi);
            computing.push((*member, self.ps(thread, outside)));
        }
        iterations.mean = iterations.total as f64 / entries.total.max(1) as f64;
        LoopPart {
            when: self.when(region, |walk| &walk.loops[number].occurrence),
            header: self.words(own.header).1,
            function: self.words(own.header).0,
            irreducible: own.irreducible,
            entries,
            iterations,
            time,
            calls,
            in_mpi_ps,
            computing,
            body: self.body(number),
        }
    }

    /// Returns the iterations of a region in which a part runs.
    fn when<'b>(&'b self, region: usize, of: impl Fn(&'b super::Walk) -> &'b Occurrence) -> When {
        if region == self.nesting.loops.len() {
            return When::Always;
        }
        let (mut times, mut all) = (0u64, 0u64);
        let mut same = None;
        let mut differs = false;
        for (thread, sum) in self.sums(region) {
            let occurrence = of(&self.measure.walks[thread]);
            times = times.saturating_add(occurrence.visits);
            all = all.saturating_add(sum.total);
            let own = one(occurrence, sum);
            differs |= same.as_ref().is_some_and(|same| *same != own);
            same = Some(own);
        }
        match same {
            Some(Some(when)) if !differs => when,
            _ => When::Some { times, of: all },
        }
    }
}

/// Returns the iterations of a loop in which a part runs in one thread; `None` if labels cannot describe them.
fn one(occurrence: &Occurrence, sum: &LoopSum) -> Option<When> {
    /// Number of labels up to which they are easier to read than a count.
    const FEW: usize = 4;
    if occurrence.visits == sum.total {
        return Some(When::Always);
    }
    let few = |labels: &crate::structure::flow::label::Labels| {
        let list = labels.list().filter(|list| list.len() <= FEW)?;
        Some(list.to_vec())
    };
    if !occurrence.differs && occurrence.entries == sum.entries {
        let of = sum.iterations.max;
        return Some(When::Iterations {
            labels: few(occurrence.first()?)?,
            of: (sum.iterations.min == of).then_some(of),
        });
    }
    Some(When::Overall {
        labels: few(&occurrence.all)?,
        of: sum.total,
    })
}
