//! Delay costs: the root causes of waits, along chains of waits.
//!
//! A wait of a rank B for a rank A has its causes in the time of A since B had last caught up with A. B catches up by receiving a
//! message from A, by a wait of A for B, by leaving a meeting of both, or at the begin of MPI. In that time A spent longer than B did.
//! The surplus of A in each code, over B's time in the same code, is a *delay*; the wait's share of it is a *direct* cost. The waits
//! of A in that time were passed on: the wait's share of these goes to *their* causes, as *indirect* costs. Shares are in proportion
//! and add up to the wait, so that all costs add up to all waiting. The definition was introduced by D. Böhme, M. Geimer, F. Wolf and
//! L. Arnold, "Identifying the root causes of wait states in large-scale parallel applications" (ICPP 2010; ACM TOPC 3(2), 2016),
//! whose short-term and long-term costs are direct and indirect ones. They replay the trace backwards; here each thread carries the
//! causes of its latest waits forward, so that one pass with bounded memory suffices. Two rules follow: waits of A and of B for the
//! same cause are compared, too, and B never delays itself.
//!
//! Calls are processed in the order of their threads, each call once the causes of its wait are known. Used by `calls`.

/// The costs by rank, code, function and loop.
mod costs;
/// Causes and their shares.
mod shares;
/// The recent past of a thread.
mod timeline;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use belljar_job::{Member, ProcessKey};

use super::calls::Call;
pub(crate) use costs::PlaceNames;
pub use costs::{CodeDelay, CodePlace, DelayCosts, FunctionDelay, LoopDelay, RankDelay};
use costs::{Codes, Costs};
use shares::{Cause, Share, scaled};
use timeline::{Components, Timeline, Together};

/// Most stretches of all threads that are kept at once.
const MOST_STRETCHES: usize = 1 << 20;
/// Most calls of all threads that wait for the causes of earlier waits.
const MOST_PENDING: usize = 1 << 21;

/// A thread, by its process and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThreadKey {
    pub(super) process: ProcessKey,
    pub(super) number: u32,
}

/// The place of a call in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallPlace {
    /// The function.
    pub(super) function: u16,
    /// Its call site's number, 0 if unknown.
    pub(super) site: u32,
}

/// Numbers of the loops around a call, and around the work before it; 0 outside of loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InLoops {
    /// The number around the call.
    pub(crate) call: u32,
    /// The number around the work since the call before.
    pub(crate) work: u32,
}

/// A thread that a call depended on, and the time of its arrival, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partner {
    pub(super) thread: ThreadKey,
    pub(super) at: u64,
}

/// A call with known waiting.
#[derive(Clone, Debug, Default)]
pub(super) struct Closed {
    /// The partner that arrived last, if the call waited.
    pub(super) waited_for: Option<Partner>,
    /// All partners.
    pub(super) partners: Vec<Partner>,
    /// The meeting of several threads, and the time at which the last of them arrived.
    pub(super) met: Option<(u64, u64)>,
}

/// A call that is not in its thread's past yet.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) call: Call,
    /// Time of entry, in picoseconds.
    pub(super) entry: u64,
    /// Time of return, in picoseconds.
    pub(super) exit: u64,
    pub(super) place: CallPlace,
    pub(super) loops: InLoops,
    /// True if its waiting counts.
    pub(super) counts: bool,
    /// The causes of its waits; `None` until they are known.
    pub(super) closed: Option<Closed>,
}

#[derive(Debug, Default)]
struct Actor {
    timeline: Timeline,
    /// The place of the last call in the past.
    last: Option<CallPlace>,
    pending: VecDeque<PendingCall>,
    /// Threads that wait until the past of this one is known up to a time.
    blocked: BTreeSet<(u64, u32)>,
}

/// Calls, and the causes of their waits.
#[derive(Debug, Default)]
pub(super) struct Delays {
    numbers: BTreeMap<ThreadKey, u32>,
    members: Vec<Member>,
    actors: Vec<Actor>,
    codes: Codes,
    costs: Costs,
    pending: usize,
    /// Threads whose first pending call may have become known.
    ready: Vec<u32>,
}

impl Delays {
    /// Handles the return of a thread's call. If it is not closed, [`close`](Self::close) follows for it.
    pub(super) fn enter(&mut self, thread: ThreadKey, member: Member, call: PendingCall) {
        let actor = self.actor(thread, member);
        let own = &mut self.actors[actor as usize];
        own.pending.push_back(call);
        self.pending += 1;
        if self.actors[actor as usize].pending.len() == 1 {
            self.begin(actor);
        }
        self.follow();
        if self.pending > MOST_PENDING {
            self.force(actor);
        }
    }

    /// Handles a call with known waiting.
    pub(super) fn close(&mut self, thread: ThreadKey, member: Member, call: Call, closed: Closed) {
        let actor = self.actor(thread, member);
        let pending = &mut self.actors[actor as usize].pending;
        let place = pending.binary_search_by_key(&call, |pending| pending.call);
        let Ok(place) = place else {
            return;
        };
        pending[place].closed = Some(closed);
        if place == 0 {
            self.ready.push(actor);
            self.follow();
        }
    }

    fn actor(&mut self, thread: ThreadKey, member: Member) -> u32 {
        let next = self.actors.len() as u32;
        let number = *self.numbers.entry(thread).or_insert(next);
        if number == next {
            self.members.push(member);
            self.actors.push(Actor::default());
        }
        number
    }

    /// Returns the number of stretches that each thread keeps.
    fn most(&self) -> usize {
        (MOST_STRETCHES / self.actors.len().max(1)).clamp(16, 1024)
    }

    /// Handles a call that has become the first pending one of its thread: the work before it is past.
    fn begin(&mut self, actor: u32) {
        let most = self.most();
        let own = &mut self.actors[actor as usize];
        let Some(first) = own.pending.front() else {
            return;
        };
        let code = self.codes.between(own.last, first.place, first.loops.work);
        own.timeline.code(code, first.entry, most);
        self.ready.push(actor);
        // Stretches are known up to here: waits that need them continue.
        let at = own.timeline.at().max(first.entry);
        while let Some((until, other)) = own.blocked.first().copied()
            && until <= at
        {
            own.blocked.pop_first();
            self.ready.push(other);
        }
    }

    /// Moves calls into the past, as far as causes are known.
    fn follow(&mut self) {
        while let Some(actor) = self.ready.pop() {
            while self.is_known(actor) {
                self.pass(actor, true);
            }
        }
    }

    /// True if the causes of the first pending call's wait are past.
    fn is_known(&mut self, actor: u32) -> bool {
        let Some(first) = self.actors[actor as usize].pending.front() else {
            return false;
        };
        let Some(closed) = &first.closed else {
            return false;
        };
        let Some(partner) = closed.waited_for else {
            return true;
        };
        let until = partner.at.min(first.exit);
        let Some(other) = self.numbers.get(&partner.thread).copied() else {
            return true;
        };
        if other == actor || self.actors[other as usize].timeline.at() >= until {
            return true;
        }
        self.actors[other as usize].blocked.insert((until, actor));
        false
    }

    /// Moves the first pending call of a thread into the past although the causes of its wait are unknown.
    fn force(&mut self, actor: u32) {
        self.pass(actor, false);
        self.follow();
    }

    /// Moves the first pending call of a thread into the past; its wait has `known` causes.
    fn pass(&mut self, actor: u32, known: bool) {
        let most = self.most();
        let Some(call) = self.actors[actor as usize].pending.pop_front() else {
            return;
        };
        self.pending -= 1;
        let closed = call.closed.unwrap_or_default();
        if let Some(partner) = closed.waited_for {
            let other = self.numbers.get(&partner.thread).copied();
            let until = partner.at.min(call.exit);
            let wait = until.saturating_sub(call.entry);
            let shares = match other.filter(|other| known && *other != actor) {
                Some(other) => self.causes(actor, other, call.entry, until),
                None => vec![Share {
                    cause: Cause::NONE,
                    time: wait,
                    direct: false,
                }],
            };
            if call.counts {
                self.costs.add(&shares);
            }
            self.actors[actor as usize]
                .timeline
                .wait(shares, until, most);
        }
        let code = self.codes.within(call.place, call.loops.call);
        let own = &mut self.actors[actor as usize];
        own.timeline.code(code, call.exit, most);
        own.last = Some(call.place);
        for partner in closed.partners.iter().filter(|it| it.at <= call.exit) {
            if let Some(other) = self.numbers.get(&partner.thread) {
                let point = Together {
                    own: partner.at.max(call.entry),
                    other: partner.at,
                };
                own.timeline.caught_up(*other, point);
            }
        }
        if let Some((meeting, at)) = closed.met.filter(|(_, at)| *at <= call.exit) {
            own.timeline.met(meeting, at);
        }
        self.begin(actor);
    }

    /// Returns the causes of a wait of `own` for `other`, from `entry` until `until`, with their shares.
    fn causes(&self, own: u32, other: u32, entry: u64, until: u64) -> Vec<Share> {
        let (waiting, late) = (&self.actors[own as usize], &self.actors[other as usize]);
        let since = self.together(own, other, entry, until);
        let spent = late.timeline.between(since.other, until);
        let compared = waiting.timeline.between(since.own, entry);
        let surplus = self.surplus(own, other, spent, compared);
        let wait = until.saturating_sub(entry);
        let shares = scaled(surplus, wait);
        if shares.is_empty() && wait > 0 {
            let cause = Cause {
                actor: other,
                code: 0,
            };
            return vec![Share {
                cause,
                time: wait,
                direct: true,
            }];
        }
        shares
    }

    /// Returns the latest point at which `own` had caught up with `other`, before a wait for it.
    fn together(&self, own: u32, other: u32, entry: u64, until: u64) -> Together {
        let (waiting, late) = (
            &self.actors[own as usize].timeline,
            &self.actors[other as usize].timeline,
        );
        let forward = waiting.points(other);
        // Points of the other thread count only if it had waited: otherwise it was already late.
        let backward = late
            .points(own)
            .filter(|point| point.own == point.other)
            .map(|point| Together {
                own: point.other,
                other: point.own,
            });
        let met = waiting
            .common(late)
            .map(|at| Together { own: at, other: at });
        let points = forward.chain(backward).chain(met);
        let points = points.filter(|point| point.other < until && point.own <= entry);
        let latest = points.max_by_key(|point| (point.other, point.own));
        latest.unwrap_or(Together { own: 0, other: 0 })
    }

    /// Returns the surplus of the thread that was waited for.
    fn surplus(
        &self,
        own: u32,
        other: u32,
        spent: Components,
        mut compared: Components,
    ) -> Vec<Share> {
        // Codes in different loops are compared, as ranks of different classes number their loops separately.
        let mut codes: BTreeMap<u32, u64> = BTreeMap::new();
        for (code, time) in &compared.codes {
            let sum = codes.entry(self.codes.bare(*code)).or_default();
            *sum = sum.saturating_add(*time);
        }
        let mut shares = Vec::new();
        for (code, time) in spent.codes {
            let left = codes.entry(self.codes.bare(code)).or_default();
            let (time, taken) = (time.saturating_sub(*left), time.min(*left));
            *left -= taken;
            let cause = Cause { actor: other, code };
            shares.push(Share {
                cause,
                time,
                direct: true,
            });
        }
        let member = self.members.get(own as usize);
        for (cause, time) in spent.waits {
            if member.is_some() && self.members.get(cause.actor as usize) == member {
                continue;
            }
            let time = time.saturating_sub(compared.waits.remove(&cause).unwrap_or(0));
            shares.push(Share {
                cause,
                time,
                direct: false,
            });
        }
        shares
    }

    /// Ends the input and returns the costs, with code named by `places`.
    pub(super) fn finish(mut self, places: &PlaceNames<'_>) -> DelayCosts {
        // Open waits get no more stretches.
        for actor in 0..self.actors.len() as u32 {
            for pending in &mut self.actors[actor as usize].pending {
                pending.closed.get_or_insert_default();
            }
            self.ready.push(actor);
        }
        self.follow();
        for actor in 0..self.actors.len() as u32 {
            while !self.actors[actor as usize].pending.is_empty() {
                self.force(actor);
            }
        }
        self.costs.finish(&self.codes, &self.members, places)
    }
}

#[cfg(test)]
mod tests;
