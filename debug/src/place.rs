//! Positions of a run by words: `start`, `end`, `1.25 ms`, `rank 3, MPI_Recv #17`, `send`.
//!
//! Calls are counted by repeating the run from the start of its ranks, so that a position needs no trace. Called by
//! `belljar debug --at` and by the command `monitor goto`.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use belljar_cluster::observe::timeline::Moved;
use belljar_cluster::run::error::RunError;
use belljar_cluster::scenario::quantity::Duration;
use belljar_mpi::{Boundary, FUNCTIONS};
use belljar_sim::{Span, Time};
use belljar_trace::Event;

use crate::partner::MessageSide;
use crate::session::{Session, SessionError};

/// Most instructions from the end of a slice to a call in the next one.
const MOST_STEPS: u32 = 1 << 17;
/// Virtual time between two looks at the processes: before ranks begin, and then.
const COARSE: Span = Span::from_ms(20);
const FINE: Span = Span::from_ms(1);

/// A position of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The start of the run.
    Start,
    /// The end of the run.
    End,
    /// When all ranks have initialized MPI.
    Initialized,
    /// A virtual time.
    At(Time),
    /// A rank's call of a function, when it is entered.
    Call {
        /// The rank in `MPI_COMM_WORLD`.
        rank: u32,
        /// The function.
        function: String,
        /// The number of the call among the rank's calls of the function, from 1.
        number: u64,
    },
    /// The call on one side of a message, while the shown rank is at the other side.
    Partner {
        /// The side.
        side: MessageSide,
        /// The number of the message among those of the call at which the rank is, from 1.
        number: usize,
    },
}

/// A text that is not a position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It has the form of no position.
    #[error(
        "{0:?} is no position; give start, end, init, a time such as \"1.5 ms\", a call such as \"rank 3, MPI_Recv #17\", or send or receive for the other side of a message"
    )]
    Form(String),
    /// MPI has no such function.
    #[error("MPI has no function {0}; names are those of the C interface, such as MPI_Recv")]
    Function(String),
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let form = || PlaceError::Form(text.to_owned());
        match text.trim() {
            "start" => return Ok(Self::Start),
            "end" => return Ok(Self::End),
            "init" => return Ok(Self::Initialized),
            _ => {}
        }
        if let Some(rest) = text.trim().strip_prefix("rank ") {
            let (rank, call) = rest.split_once(',').ok_or_else(form)?;
            let (function, number) = match call.split_once('#') {
                Some((function, number)) => {
                    (function.trim(), number.trim().parse().map_err(|_| form())?)
                }
                None => (call.trim(), 1),
            };
            if !FUNCTIONS.iter().any(|known| known.name == function) {
                return Err(PlaceError::Function(function.to_owned()));
            }
            return Ok(Self::Call {
                rank: rank.trim().parse().map_err(|_| form())?,
                function: function.to_owned(),
                number: Some(number).filter(|number| *number > 0).ok_or_else(form)?,
            });
        }
        for side in [MessageSide::Send, MessageSide::Receive] {
            if let Some(rest) = text.trim().strip_prefix(side.word()) {
                let number = match rest.trim() {
                    "" => Some(1),
                    rest => rest.strip_prefix('#').and_then(|it| it.trim().parse().ok()),
                };
                let number = number.filter(|number| *number > 0).ok_or_else(form)?;
                return Ok(Self::Partner { side, number });
            }
        }
        let time = text.parse::<Duration>().map_err(|_| form())?;
        Ok(Self::At(Time::ZERO + time.0))
    }
}

impl Session {
    /// Moves to `place`, forwards or backwards.
    ///
    /// # Errors
    /// If the run does not have that position, or the host fails it.
    pub fn goto(&mut self, place: &Place, stop: &AtomicBool) -> Result<Moved, SessionError> {
        match place {
            Place::Start => {
                if self.shows_all {
                    let start = self.timeline.start();
                    return Ok(self.timeline.goto_time(start)?);
                }
                self.find_ranks(Time::MAX, stop)?;
                let first = self.ranks_from.unwrap_or(self.timeline.start());
                Ok(self.timeline.goto_time(first)?)
            }
            Place::End => self.goto_end(stop),
            Place::At(time) => {
                self.find_ranks(*time, stop)?;
                let first = self.ranks_from.filter(|first| first <= time);
                if first.is_none() && !self.shows_all {
                    return Err(SessionError::NoRanks(*time));
                }
                let moved = self.timeline.goto_time(*time)?;
                let end = self.timeline.position().time;
                if matches!(moved, Moved::Ended(_)) && end < *time {
                    return Err(SessionError::AfterEnd { asked: *time, end });
                }
                let moved = self.back_to_ranks(moved)?;
                match self.shows_all || !self.rank_processes().is_empty() {
                    true => Ok(moved),
                    false => Err(SessionError::RanksGone(*time)),
                }
            }
            Place::Initialized => self.goto_initialized(stop),
            Place::Call {
                rank,
                function,
                number,
            } => self.goto_call(*rank, function, *number, stop),
            Place::Partner { side, number } => self.goto_partner(*side, *number, stop),
        }
    }

    /// Runs from the start until there are ranks, to `until` at most.
    fn find_ranks(&mut self, until: Time, stop: &AtomicBool) -> Result<(), SessionError> {
        if self.ranks_from.is_some() {
            return Ok(());
        }
        self.follow_calls(stop, |session, _| {
            let is_over = session.timeline.position().time >= until;
            (is_over || session.ranks_from.is_some()).then_some(())
        })?;
        Ok(())
    }

    /// Moves to the last position at which a rank exists; without ranks, to the end of the run.
    fn goto_end(&mut self, stop: &AtomicBool) -> Result<Moved, SessionError> {
        let mut moved = Moved::Reached;
        if self.timeline.end().is_none() || self.ranks_from.is_none() {
            self.follow_calls(stop, |_, _| None::<()>)?;
        }
        while moved == Moved::Reached {
            self.timeline.forget_stops();
            moved = self.timeline.forward(Time::MAX, stop)?;
        }
        self.back_to_ranks(moved)
    }

    fn goto_initialized(&mut self, stop: &AtomicBool) -> Result<Moved, SessionError> {
        let mut done = BTreeSet::new();
        let found = self.follow_calls(stop, |session, calls| {
            for call in calls {
                if begins(call) {
                    done.insert((call.node, call.process));
                }
            }
            let last = calls.iter().filter(|call| begins(call));
            let last = last
                .filter_map(|call| Some((call.node, call.exit?)))
                .max_by_key(|it| it.1);
            last.filter(|_| session.ranks > 0 && done.len() as u64 >= session.ranks)
        })?;
        match found {
            Some((node, cycle)) => self.goto_cycle(node, cycle),
            None => self.goto_end(stop),
        }
    }

    fn goto_call(
        &mut self,
        rank: u32,
        function: &str,
        number: u64,
        stop: &AtomicBool,
    ) -> Result<Moved, SessionError> {
        let mut seen = 0;
        let found = self.follow_calls(stop, |session, calls| {
            for call in calls {
                let is_wanted =
                    call.rank == rank && call.depth == 0 && name_of(call.function) == function;
                seen += u64::from(is_wanted);
                if is_wanted && seen == number {
                    return Some((call.node, call.entry));
                }
            }
            // A call that never returns is only found among the open ones.
            session.open_call(rank, function, number.checked_sub(seen + 1)?)
        })?;
        match found {
            Some((node, cycle)) => {
                let moved = self.goto_cycle(node, cycle)?;
                self.enter_call(node, cycle)?;
                self.show_rank(rank, node);
                Ok(moved)
            }
            None => Err(SessionError::NoCall {
                rank,
                function: function.to_owned(),
                number,
                seen,
            }),
        }
    }

    /// Node and entry of an open call of a rank, after `before` other open ones of the function.
    fn open_call(&self, rank: u32, function: &str, before: u64) -> Option<(u32, u64)> {
        let open = self.open_calls().into_iter();
        let mut open = open.filter(|call| {
            call.rank == rank && call.depth == 0 && name_of(call.function) == function
        });
        let call = open.nth(usize::try_from(before).ok()?)?;
        Some((call.node, call.entry))
    }

    /// On a node whose processors take turns, moves from the end of a slice to the call entered at `cycle`. Stays at the
    /// end of the slice if the node waits for other nodes in between.
    pub(crate) fn enter_call(&mut self, node: u32, cycle: u64) -> Result<(), SessionError> {
        if !self.timeline.plan().has_slices() {
            return Ok(());
        }
        for _ in 0..MOST_STEPS {
            let entered = |call: &Event| call.node == node && call.entry == cycle;
            if self.open_calls().iter().any(entered) {
                break;
            }
            let retired = self.timeline.runner(node).node().retired();
            match self.timeline.step_to(node, retired + 1) {
                Err(RunError::NoPosition { .. }) => {
                    let frequency = self.timeline.runner(node).node().frequency();
                    self.timeline.goto_time(frequency.time_of(cycle))?;
                    break;
                }
                stepped => stepped?,
            }
        }
        Ok(())
    }

    /// Shows the first thread of a rank.
    pub(crate) fn show_rank(&mut self, rank: u32, node: u32) {
        let processes = self.rank_processes();
        let mut own = processes
            .iter()
            .filter(|process| process.rank == Some(rank) && process.node == node);
        self.shown = own.next().and_then(|process| {
            let first = process.process.threads.first()?;
            Some(process.thread(first))
        });
    }

    /// Runs from the start of the ranks, and passes the calls of each part to `find` until it returns a result.
    pub(crate) fn follow_calls<T>(
        &mut self,
        stop: &AtomicBool,
        mut find: impl FnMut(&mut Self, &[Event]) -> Option<T>,
    ) -> Result<Option<T>, SessionError> {
        // No call precedes the ranks.
        let start = self.calls_from.unwrap_or(self.timeline.start());
        self.timeline.goto_time(start)?;
        self.timeline.forget_stops();
        let mut part = COARSE;
        loop {
            let before = self.timeline.position().time;
            let moved = self.timeline.forward(before + part, stop)?;
            if self.ranks_from.is_none() && self.has_mpi() && part == COARSE {
                // Ranks began in this part, and may have ended.
                part = FINE;
                self.timeline.goto_time(before)?;
                continue;
            }
            self.note_ranks(before);
            let mut calls = self.timeline.take_calls();
            calls.sort_by_key(|call| (call.node, call.process, call.entry));
            if let Some(found) = find(self, &calls) {
                return Ok(Some(found));
            }
            if !matches!(moved, Moved::Reached) {
                return Ok(None);
            }
        }
    }

    /// True if a process of any node has begun to use MPI.
    fn has_mpi(&self) -> bool {
        let mut nodes = 0..self.timeline.plan().nodes;
        nodes.any(|node| {
            let runner = self.timeline.runner(node);
            let tracer = runner.tracer();
            tracer.is_some_and(|tracer| !tracer.processes().is_empty())
        })
    }

    /// Notes the ranks of the present position; `before` is a position shortly before it.
    fn note_ranks(&mut self, before: Time) {
        if self.rank_processes().is_empty() {
            return;
        }
        // The debugger's numbers of processes are known from now on.
        self.processes();
        self.ranks = self.ranks.max(self.job_size().unwrap_or(0));
        let now = self.timeline.position().time;
        self.ranks_from.get_or_insert(now);
        self.calls_from.get_or_insert(before);
    }

    /// Moves to a cycle of a node's clock.
    pub(crate) fn goto_cycle(&mut self, node: u32, cycle: u64) -> Result<Moved, SessionError> {
        let frequency = self.timeline.runner(node).node().frequency();
        Ok(self.timeline.goto_time(frequency.time_of(cycle))?)
    }
}

/// True for a call that initializes MPI.
fn begins(call: &Event) -> bool {
    call.meaning().boundary() == Some(Boundary::Start)
}

/// The name of a function by its number in traces.
pub(crate) fn name_of(function: u16) -> &'static str {
    let known = FUNCTIONS.get(usize::from(function));
    known.map_or("?", |function| function.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read() {
        let call = |rank, function: &str, number| Place::Call {
            rank,
            function: function.to_owned(),
            number,
        };
        let partner = |side, number| Place::Partner { side, number };
        for (text, place) in [
            ("start", Place::Start),
            ("end", Place::End),
            ("1.5 ms", Place::At(Time::from_ps(1_500_000_000))),
            ("rank 3, MPI_Recv #17", call(3, "MPI_Recv", 17)),
            ("rank 0,MPI_Barrier", call(0, "MPI_Barrier", 1)),
            ("send", partner(MessageSide::Send, 1)),
            ("receive #3", partner(MessageSide::Receive, 3)),
        ] {
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
        for text in [
            "",
            "rank",
            "rank x, MPI_Recv",
            "rank 1, MPI_Recv #0",
            "soon",
            "send 3",
            "send #0",
            "receiver",
        ] {
            assert_eq!(
                text.parse::<Place>(),
                Err(PlaceError::Form(text.to_owned()))
            );
        }
        let unknown = "rank 1, MPI_Receive".parse::<Place>();
        assert_eq!(unknown, Err(PlaceError::Function("MPI_Receive".to_owned())));
    }
}
