//! Execution of the calls of a run by their partners, without times.
//!
//! A thread begins the operations of its next call, and goes on when all operations that the call completed may be complete. The
//! result does not depend on the order in which threads are executed. Called by `order`, once for each rule of sends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use belljar_job::MeetingId;
use belljar_mpi::SendMode;
use belljar_trace::Event;

use super::{OrderedKind, RunOrder};
use crate::causes::hang::PartNeeds;

/// Limit on words of all vector clocks.
const MOST_WORDS: usize = 1 << 26;

/// The calls of all threads that happened before a point of one thread.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// By thread; the entry of the own thread is `own`.
    others: Rc<[u32]>,
    thread: u32,
    own: u32,
}

impl Clock {
    /// The number of calls of a thread that happened before.
    pub(super) fn of(&self, thread: u32) -> u32 {
        match thread == self.thread {
            true => self.own,
            false => self.others.get(thread as usize).copied().unwrap_or(0),
        }
    }
}

/// The next call of a thread.
#[derive(Debug)]
struct Cursor {
    next: usize,
    has_begun: bool,
    clock: Clock,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Awaited {
    Operation(u32),
    Meeting(MeetingId),
}

/// An execution.
#[derive(Debug)]
pub(super) struct Replay<'a> {
    order: &'a RunOrder,
    /// True if sends wait for their receives.
    is_unbuffered: bool,
    has_clocks: bool,
    words: usize,
    cursors: Vec<Cursor>,
    /// By operation, the clock at its begin, and the thread and its call that completed it.
    begun: Vec<Option<Clock>>,
    ended: Vec<Option<(u32, u32)>>,
    /// By operation, the clock after the call that completed it.
    completed: Vec<Option<Clock>>,
    /// By thread and number of its call, the clocks of probes.
    probed: BTreeMap<(u32, u32), Clock>,
    waiting: BTreeMap<Awaited, Vec<u32>>,
    /// Points whose clocks are wanted: a thread, and the number of its calls before.
    wanted: BTreeSet<(u32, u32)>,
    points: BTreeMap<(u32, u32), Clock>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(order: &'a RunOrder, is_unbuffered: bool) -> Self {
        let threads = order.steps.len();
        let has_clocks = (order.has_wildcards || order.has_selections) && !is_unbuffered;
        let width = if has_clocks { threads } else { 0 };
        let empty: Rc<[u32]> = vec![0; width].into();
        let cursor = |thread| Cursor {
            next: 0,
            has_begun: false,
            clock: Clock {
                others: Rc::clone(&empty),
                thread,
                own: 0,
            },
        };
        Self {
            order,
            is_unbuffered,
            has_clocks,
            words: 0,
            cursors: (0..threads as u32).map(cursor).collect(),
            begun: vec![None; order.operations.len()],
            ended: vec![None; order.operations.len()],
            completed: vec![None; order.operations.len()],
            probed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            wanted: BTreeSet::new(),
            points: BTreeMap::new(),
        }
    }

    /// An execution that keeps the clocks of points: of threads, after numbers of their calls.
    pub(super) fn with_points(order: &'a RunOrder, wanted: BTreeSet<(u32, u32)>) -> Self {
        let mut replay = Self::new(order, false);
        replay.has_clocks = true;
        let empty: Rc<[u32]> = vec![0; replay.cursors.len()].into();
        for cursor in &mut replay.cursors {
            cursor.clock.others = Rc::clone(&empty);
        }
        replay.wanted = wanted;
        replay
    }

    /// The clocks of the wanted points that were reached.
    pub(super) fn into_points(self) -> BTreeMap<(u32, u32), Clock> {
        self.points
    }

    /// Executes all calls that can be executed.
    pub(super) fn run(&mut self) {
        let mut ready: VecDeque<u32> = (0..self.cursors.len() as u32).collect();
        while let Some(thread) = ready.pop_front() {
            while self.step(thread, &mut ready) {}
        }
    }

    /// Executes a part of a thread's next call; false if there is none, or it waits.
    fn step(&mut self, thread: u32, ready: &mut VecDeque<u32>) -> bool {
        let order = self.order;
        let cursor = &mut self.cursors[thread as usize];
        let Some(step) = order.steps[thread as usize].get(cursor.next) else {
            return false;
        };
        if !cursor.has_begun {
            cursor.has_begun = true;
            cursor.clock.own += 1;
            let clock = cursor.clock.clone();
            for operation in &step.begins {
                self.begun[*operation as usize] = Some(clock.clone());
                let mut awaited = vec![Awaited::Operation(*operation)];
                if let OrderedKind::Part { meeting, .. } =
                    &order.operations[*operation as usize].what
                {
                    awaited.push(Awaited::Meeting(*meeting));
                }
                for awaited in awaited {
                    ready.extend(self.waiting.remove(&awaited).into_iter().flatten());
                }
            }
        }
        let is_strict = !(step.polls && self.is_unbuffered);
        let blocked = step
            .ends
            .iter()
            .find_map(|operation| self.awaits(*operation));
        if let Some(awaited) = blocked.filter(|_| is_strict) {
            self.waiting.entry(awaited).or_default().push(thread);
            return false;
        }
        for operation in &step.ends {
            self.join(thread, *operation);
            let own = self.cursors[thread as usize].clock.own;
            self.ended[*operation as usize] = Some((thread, own));
        }
        if self.has_clocks {
            let clock = &self.cursors[thread as usize].clock;
            for operation in &step.ends {
                self.completed[*operation as usize] = Some(clock.clone());
            }
        }
        let cursor = &mut self.cursors[thread as usize];
        let point = (thread, cursor.clock.own);
        if self.wanted.contains(&point) {
            self.points.insert(point, cursor.clock.clone());
        }
        if step.probes {
            let place = (thread, cursor.clock.own);
            self.probed.insert(place, cursor.clock.clone());
        }
        cursor.next += 1;
        cursor.has_begun = false;
        true
    }

    fn is_begun(&self, operation: u32) -> bool {
        self.begun[operation as usize].is_some()
    }

    /// The operations of others that this one needs, as far as the run has them.
    fn needed(&self, operation: u32) -> (Vec<u32>, Option<MeetingId>) {
        let own = &self.order.operations[operation as usize];
        match &own.what {
            OrderedKind::Send { mode, .. } => {
                let waits = match mode {
                    SendMode::Synchronous => true,
                    SendMode::Buffered => false,
                    SendMode::Standard | SendMode::Ready => self.is_unbuffered,
                };
                (own.partner.filter(|_| waits).into_iter().collect(), None)
            }
            OrderedKind::Receive { .. } => (own.partner.into_iter().collect(), None),
            OrderedKind::Part { meeting, needs, .. } => {
                let parts = self
                    .order
                    .meetings
                    .get(meeting)
                    .map_or(&[][..], |parts| parts);
                let needed = match needs {
                    PartNeeds::All => parts.to_vec(),
                    PartNeeds::Nobody => Vec::new(),
                    PartNeeds::Root(root) => {
                        let is_root = |part: &&u32| {
                            let what = &self.order.operations[**part as usize].what;
                            matches!(what, OrderedKind::Part { member, .. } if member == root)
                        };
                        parts.iter().filter(is_root).copied().collect()
                    }
                };
                (needed, Some(*meeting))
            }
        }
    }

    /// The first event that an operation waits for; `None` if it may be complete.
    fn awaits(&self, operation: u32) -> Option<Awaited> {
        let (needed, meeting) = self.needed(operation);
        let missing = needed.into_iter().find(|needed| !self.is_begun(*needed))?;
        Some(meeting.map_or(Awaited::Operation(missing), Awaited::Meeting))
    }

    /// Adds the calls before the operations that a completed one needed to a thread's clock.
    fn join(&mut self, thread: u32, operation: u32) {
        if !self.has_clocks {
            return;
        }
        let (needed, _) = self.needed(operation);
        let clocks = needed
            .into_iter()
            .filter_map(|needed| self.begun[needed as usize].clone());
        for clock in clocks.collect::<Vec<Clock>>() {
            let own = &self.cursors[thread as usize].clock;
            if clock.thread == thread {
                continue;
            }
            let is_new = clock.own > own.of(clock.thread)
                || clock
                    .others
                    .iter()
                    .zip(own.others.iter())
                    .any(|(new, old)| new > old);
            if !is_new {
                continue;
            }
            let mut others: Vec<u32> = own.others.to_vec();
            for (old, new) in others.iter_mut().zip(clock.others.iter()) {
                *old = (*old).max(*new);
            }
            if let Some(old) = others.get_mut(clock.thread as usize) {
                *old = (*old).max(clock.own);
            }
            self.words += others.len();
            self.cursors[thread as usize].clock.others = others.into();
        }
        // Too many clocks: those that there are stay.
        if self.words > MOST_WORDS {
            self.has_clocks = false;
        }
    }

    /// True if the clocks of all operations are known.
    pub(super) fn has_clocks(&self) -> bool {
        self.has_clocks
    }

    /// The clock at an operation's begin.
    pub(super) fn begin_of(&self, operation: u32) -> Option<&Clock> {
        self.begun[operation as usize].as_ref()
    }

    /// The thread that completed an operation, and the number of its call.
    pub(super) fn end_of(&self, operation: u32) -> Option<(u32, u32)> {
        self.ended[operation as usize]
    }

    /// The clock after the call that completed an operation.
    pub(super) fn completion_of(&self, operation: u32) -> Option<&Clock> {
        self.completed[operation as usize].as_ref()
    }

    /// The clock after a probe, by the number of its call.
    pub(super) fn probe_clock(&self, thread: u32, call: u32) -> Option<&Clock> {
        self.probed.get(&(thread, call))
    }

    /// Threads with calls that could not be executed.
    pub(super) fn stuck(&self) -> impl Iterator<Item = u32> {
        let cursors = (0..).zip(&self.cursors);
        let left = cursors
            .filter(|(thread, cursor)| cursor.next < self.order.steps[*thread as usize].len());
        left.map(|(thread, _)| thread)
    }

    /// The thread that a stuck thread waits for.
    pub(super) fn blocker(&self, thread: u32) -> Option<u32> {
        let cursor = &self.cursors[thread as usize];
        let step = self.order.steps[thread as usize].get(cursor.next)?;
        let mut needed = step
            .ends
            .iter()
            .flat_map(|operation| self.needed(*operation).0);
        let missing = needed.find(|needed| !self.is_begun(*needed))?;
        Some(self.order.operations[missing as usize].thread)
    }

    /// The call in which a thread is stuck, as an example of its call site.
    pub(super) fn call_of(&self, thread: u32) -> Option<&'a Rc<Event>> {
        let cursor = &self.cursors[thread as usize];
        let step = self.order.steps[thread as usize].get(cursor.next)?;
        self.order.examples.get(step.place as usize)
    }
}
