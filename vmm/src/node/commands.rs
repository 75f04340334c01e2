//! Commands to a node's init at given times, as a scenario's failures need them.
//!
//! The node's owner gives them again to a restored node, and may change those that are not due yet. So only the time up to which they were
//! delivered is part of a saved state. Commands of a cycle precede all deliveries of it. Called by the run loop.

use belljar_cpu::Cycles;
use belljar_sim::{Frequency, Time};

use super::Node;

/// Commands by time, and the delivered ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    /// Bytes for the control console, by cycle, one entry for a cycle.
    list: Vec<(Cycles, Vec<u8>)>,
    /// Commands of earlier cycles were delivered.
    pub(super) due_from: Cycles,
}

impl Commands {
    fn set(&mut self, commands: &[(Time, String)], from: Time, frequency: Frequency) {
        self.due_from = self.due_from.max(frequency.cycle_at(from));
        let timed = commands.iter();
        let mut timed: Vec<(Cycles, &String)> = timed
            .map(|(at, line)| (frequency.cycle_at(*at), line))
            .collect();
        timed.sort();
        self.list.clear();
        for (at, line) in timed {
            let bytes = format!("{line}\n").into_bytes();
            match self.list.last_mut() {
                Some((last, all)) if *last == at => all.extend(bytes),
                _ => self.list.push((at, bytes)),
            }
        }
    }

    fn first(&self) -> Option<&(Cycles, Vec<u8>)> {
        let due = self.due_from;
        self.list
            .get(self.list.partition_point(|(at, _)| *at < due))
    }

    /// The time of the next commands.
    pub(super) fn next(&self) -> Option<Cycles> {
        self.first().map(|(at, _)| *at)
    }

    /// Takes the next commands, if they are due at `now`.
    pub(super) fn take_due(&mut self, now: Cycles) -> Option<Vec<u8>> {
        let (at, bytes) = self.first().filter(|(at, _)| *at <= now)?.clone();
        self.due_from = at + 1;
        Some(bytes)
    }
}

impl Node {
    /// Sets the lines that the control console (`hvc0`) gets at given times, from `from` on. Those that a saved state has delivered are
    /// not repeated.
    pub fn set_commands(&mut self, commands: &[(Time, String)], from: Time) {
        self.disturb();
        self.commands.set(commands, from, self.frequency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_once_and_later_ones_can_change() {
        let frequency = Frequency::from_hz(1_000_000_000).unwrap();
        let at = |ns: u64| Time::from_ps(1000 * ns);
        let line = |ns: u64, text: &str| (at(ns), text.to_owned());
        let mut commands = Commands::default();
        commands.set(
            &[
                line(2, "past"),
                line(7, "c"),
                line(5, "a"),
                line(5, "b"),
                line(9, "d"),
            ],
            at(3),
            frequency,
        );
        assert_eq!((commands.next(), commands.take_due(4)), (Some(5), None));
        assert_eq!(commands.take_due(6), Some(b"a\nb\n".to_vec()));
        assert_eq!((commands.next(), commands.take_due(6)), (Some(7), None));
        commands.set(&[line(5, "a"), line(8, "e")], Time::ZERO, frequency);
        assert_eq!(commands.next(), Some(8));
        assert_eq!(commands.take_due(20), Some(b"e\n".to_vec()));
        assert_eq!(commands.next(), None);
    }
}
