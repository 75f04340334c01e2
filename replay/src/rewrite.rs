//! A replay as a trace: the traced calls at their times in the replay.
//!
//! Each thread's time is rescaled so that its calls begin and end at the replayed times; times within a call, or between two, keep their
//! relative position. All other data of a call is as traced, including its node. Used by `belljar replay --out`.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::{Contents, TraceReader, TraceWriter};
use belljar_program::Program;
use belljar_sim::Time;
use belljar_trace::{Accounts, Event, TraceError, TraceSummary};

use crate::outcome::Outcome;

/// A thread's time: entries and exits of its calls, in the trace and in the replay.
struct Bend<'a> {
    were: Vec<(u64, u64)>,
    are: &'a [(u64, u64)],
    /// The calls before this one were written.
    next: usize,
}

impl Bend<'_> {
    /// Returns the replayed times of the program's next call with these traced times. Calls that took no time may have the same times: they are
    /// taken in their order.
    fn call(&mut self, entry: u64, exit: u64) -> Option<(u64, u64)> {
        let first = self.were.partition_point(|were| were.0 < entry);
        let from = first.max(self.next);
        let same = self.were.get(from..)?.iter();
        let mut same = same.take_while(|were| were.0 == entry);
        let at = from + same.position(|were| were.1 == exit)?;
        self.next = at + 1;
        self.are.get(at).copied()
    }

    /// Maps a traced `time` to the replay, in picoseconds.
    fn of(&self, time: u64) -> u64 {
        let after = self.were.partition_point(|(entry, _)| *entry <= time);
        let Some(at) = after.checked_sub(1) else {
            let first = self.were.first().zip(self.are.first());
            let ahead = first.map_or(0, |((entry, _), _)| entry.saturating_sub(time));
            return first.map_or(time, |(_, (entry, _))| entry.saturating_sub(ahead));
        };
        let ((entry, exit), (is_entry, is_exit)) = (self.were[at], self.are[at]);
        if time <= exit {
            return between(time, (entry, exit), (is_entry, is_exit));
        }
        match self.were.get(after).zip(self.are.get(after)) {
            Some(((next, _), (is_next, _))) => between(time, (exit, *next), (is_exit, *is_next)),
            None => is_exit.saturating_add(time - exit),
        }
    }
}

/// Maps `time` linearly from one span to another.
fn between(time: u64, from: (u64, u64), to: (u64, u64)) -> u64 {
    let whole = u128::from(from.1.saturating_sub(from.0));
    let part = u128::from(time.saturating_sub(from.0));
    let length = u128::from(to.1.saturating_sub(to.0));
    let within = (part * length).checked_div(whole).unwrap_or(0);
    to.0.saturating_add(u64::try_from(within).unwrap_or(u64::MAX))
}

/// Writes the trace at `from`, the source of `program`, to the new file `to`, with the times of `outcome`.
///
/// # Errors
/// Returns [`TraceError`] if the trace cannot be read or the new file cannot be written.
pub fn write_trace(
    from: &Path,
    to: &Path,
    program: &Program,
    outcome: &Outcome,
) -> Result<(), TraceError> {
    let mut bends = BTreeMap::new();
    for (thread, are) in program.threads.iter().zip(&outcome.times) {
        let node = program.processes[thread.process as usize].node;
        let were = thread.traced().take(are.len()).collect();
        let bend = Bend { were, are, next: 0 };
        bends.insert((node, thread.number, thread.thread), bend);
    }
    let mut reader = TraceReader::open(from)?;
    let header = reader.header().clone();
    let contents = Contents {
        accounted: false,
        ..reader.contents()
    };
    let mut events: Vec<(u64, Event)> = Vec::new();
    for mut event in reader.by_ref() {
        let clock = header.frequency(event.node);
        let bend = bends.get_mut(&(event.node, event.process, event.thread));
        let of = |cycles: u64| clock.time_of(cycles).as_ps();
        let were = (of(event.entry), event.exit.map(of));
        let (entry, exit) = bend.map_or(were, |bend| {
            let own = were.1.filter(|_| event.depth == 0);
            match own.and_then(|exit| bend.call(were.0, exit)) {
                Some((entry, exit)) => (entry, Some(exit)),
                None => (bend.of(were.0), were.1.map(|exit| bend.of(exit))),
            }
        });
        event.entry = clock.cycle_at(Time::from_ps(entry));
        event.exit = exit.map(|exit| clock.cycle_at(Time::from_ps(exit)));
        // The processor's accounts are unknown for another network.
        event.accounts = Accounts::default();
        events.push((exit.unwrap_or(u64::MAX), event));
    }
    events.sort_by_key(|(returned, _)| *returned);
    let file = std::fs::File::create_new(to).map_err(|source| TraceError::Io {
        action: "create",
        path: to.to_owned(),
        source,
    })?;
    let mut writer = TraceWriter::over(file, to, &header, contents)?;
    for (_, event) in events {
        writer.push(event)?;
    }
    let summary = reader.summary().cloned();
    writer.finish(&summary.unwrap_or(TraceSummary {
        nodes: Vec::new(),
        ending: "replayed from a trace that breaks off".to_owned(),
    }))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_without_length_keep_their_order() {
        let are = [(10, 20), (20, 35), (35, 36), (50, 60)];
        let mut bend = Bend {
            were: vec![(0, 0), (0, 0), (0, 0), (5, 5)],
            are: &are,
            next: 0,
        };
        let calls = [(0, 0), (0, 0), (0, 0), (5, 5)].map(|call| bend.call(call.0, call.1));
        assert_eq!(calls, are.map(Some));
        assert_eq!(bend.call(5, 5), None);
    }

    #[test]
    fn time_is_bent_in_proportion() {
        let are = [(1000, 1200), (1400, 1410)];
        let bend = Bend {
            were: vec![(100, 200), (300, 400)],
            are: &are,
            next: 0,
        };
        for (was, is) in [
            (40, 940),
            (100, 1000),
            (150, 1100),
            (200, 1200),
            (250, 1300),
            (300, 1400),
            (350, 1405),
            (400, 1410),
            (500, 1510),
        ] {
            assert_eq!(bend.of(was), is, "{was}");
        }
    }
}
