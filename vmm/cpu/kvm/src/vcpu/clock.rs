//! A virtual clock that runs while the guest does: what happens between two runs is taken
//! out of the guest's time stamp counter, and how well that works is measured.
//!
//! One cycle of the clock is one of the host's time stamp counter.

use belljar_cpu::Cycles;

/// How long the guest runs at most before its clock is looked at, in nanoseconds: a thread
/// that waits for a processor within such a time and not beyond it has the guest see that
/// time pass.
const LOOK_AFTER: u64 = 250_000;
/// But no less than this many times what entering and leaving cost: where a processor is
/// emulated, guests would come to nothing else.
const LOOK_IN_COSTS: u64 = 32;

/// What lies between our look at the host's counter and the guest's next instruction, and the
/// other way round, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Costs {
    pub entry: u64,
    pub exit: u64,
    /// By how much a clock was off, with these left out, that had been stopped; at worst:
    /// that of a host that did something else, too.
    pub jitter: u64,
    /// The same in half of all cases.
    pub typical_jitter: u64,
}

impl Costs {
    /// A way into the guest and out took so long in all: the costs cannot be higher. They
    /// would be, measured while the host was busy, and time would stand still.
    fn bound_by(&mut self, elapsed: u64) {
        let both = u128::from(self.entry) + u128::from(self.exit);
        if both > u128::from(elapsed) {
            self.entry = (u128::from(self.entry) * u128::from(elapsed) / both) as u64;
            self.exit = self.exit.min(elapsed - self.entry);
        }
    }
}

/// The host's clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostTime {
    /// The time stamp counter.
    pub tsc: u64,
    /// What this thread had of a processor, in nanoseconds.
    pub thread: u64,
}

/// How far the clock was from what it should have been, in cycles, since the vCPU was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockError {
    /// Times that the guest was stopped by the clock.
    pub stops: u64,
    /// How far it had run beyond where it should have stopped, all together.
    pub overrun: u64,
    /// The same, at worst.
    pub worst_overrun: u64,
    /// Time in which the host ran something else, and which the guest does not know of.
    pub hidden: u64,
    /// Time in which the host ran something else, and which passed for the guest, too.
    pub seen: u64,
}

/// A vCPU's clock.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    now: Cycles,
    /// How far the guest set its counter ahead of the clock, modulo 2^64.
    pub(crate) guest_offset: u64,
    costs: Costs,
    host_khz: u64,
    started: HostTime,
    granted: u64,
    pub(crate) error: ClockError,
}

impl Clock {
    /// A clock at zero on a host whose counter runs at `host_khz`.
    pub(crate) fn new(host_khz: u64, costs: Costs) -> Self {
        Self {
            now: 0,
            guest_offset: 0,
            costs,
            host_khz: host_khz.max(1),
            started: HostTime::default(),
            granted: 0,
            error: ClockError::default(),
        }
    }

    pub(crate) fn now(&self) -> Cycles {
        self.now
    }

    /// How long the guest may run, with `left` cycles of its turn left, before its clock is
    /// looked at: in nanoseconds, and in cycles.
    pub(crate) fn grant(&self, left: u64) -> (u64, u64) {
        let cost = self.nanoseconds(self.costs.entry.saturating_add(self.costs.exit));
        let most = LOOK_AFTER.max(cost.saturating_mul(LOOK_IN_COSTS));
        let most = self.nanoseconds(left).clamp(1, most);
        (most, left.min(self.cycles(most)))
    }

    /// Moves the clock forward.
    pub(crate) fn skip_to(&mut self, to: Cycles) {
        self.now = self.now.max(to);
    }

    /// Sets the clock, of a vCPU that has not run yet.
    pub(crate) fn set(&mut self, now: Cycles) {
        self.now = now;
    }

    /// The guest sets its counter.
    pub(crate) fn set_tsc(&mut self, value: u64) {
        self.guest_offset = value.wrapping_sub(self.now);
    }

    /// The guest is about to be entered for at most `granted` cycles. By how much its
    /// counter has to be ahead of the host's, modulo 2^64.
    pub(crate) fn start(&mut self, host: HostTime, granted: u64) -> u64 {
        self.started = host;
        self.granted = granted;
        let entered = host.tsc.wrapping_add(self.costs.entry);
        self.now
            .wrapping_add(self.guest_offset)
            .wrapping_sub(entered)
    }

    /// The guest was left. What it cannot have seen passes neither for it nor here.
    pub(crate) fn stop(&mut self, host: HostTime) {
        let elapsed = host.tsc.wrapping_sub(self.started.tsc);
        self.costs.bound_by(elapsed);
        let overhead = self.costs.entry + self.costs.exit;
        // A guest that does nothing but ask would otherwise ask for ever at one time.
        let elapsed = (elapsed - overhead).max(1);
        let worked = self.cycles(host.thread.saturating_sub(self.started.thread));
        let worked = worked.saturating_sub(overhead).min(elapsed);
        let waited = elapsed - worked;
        let passed = if waited <= self.granted {
            // It may have been before the timer went off, even if the guest was left long
            // after that: then the guest continued after it, and saw its counter.
            self.error.seen += waited;
            elapsed
        } else {
            // It was in part after `granted`, by when the timer had gone off: while the
            // thread waited for a processor from then on, no instruction ran.
            let passed = worked.max(self.granted);
            self.error.hidden += elapsed - passed;
            passed
        };
        self.now += passed;
    }

    /// The guest was stopped because its time was over, which it was at `until`.
    pub(crate) fn count_stop(&mut self, until: Cycles) {
        let overrun = self.now.saturating_sub(until);
        self.error.stops += 1;
        self.error.overrun += overrun;
        self.error.worst_overrun = self.error.worst_overrun.max(overrun);
    }

    /// What is known of its errors, by name.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        let error = self.error;
        vec![
            ("stops", error.stops),
            ("overrun_ns", self.nanoseconds(error.overrun)),
            ("worst_overrun_ns", self.nanoseconds(error.worst_overrun)),
            ("hidden_ns", self.nanoseconds(error.hidden)),
            ("seen_ns", self.nanoseconds(error.seen)),
            ("worst_jitter_ns", self.nanoseconds(self.costs.jitter)),
        ]
    }

    /// Cycles of the host's counter in so many nanoseconds.
    pub(crate) fn cycles(&self, nanoseconds: u64) -> u64 {
        (u128::from(nanoseconds) * u128::from(self.host_khz) / 1_000_000) as u64
    }

    /// Nanoseconds in which the host's counter passes so many cycles.
    pub(crate) fn nanoseconds(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1_000_000 / u128::from(self.host_khz)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2 GHz: 2 cycles a nanosecond.
    fn clock() -> Clock {
        let costs = Costs {
            entry: 100,
            exit: 60,
            ..Costs::default()
        };
        Clock::new(2_000_000, costs)
    }

    fn at(tsc: u64, thread: u64) -> HostTime {
        HostTime { tsc, thread }
    }

    #[test]
    fn a_stopped_clock_stands() {
        let mut clock = clock();
        let offset = clock.start(at(10_000, 0), 5_000);
        assert_eq!(10_100_u64.wrapping_add(offset), 0);
        // The guest runs 1000 cycles.
        clock.stop(at(11_160, 580));
        assert_eq!(clock.now(), 1_000);
        let offset = clock.start(at(900_000, 700), 5_000);
        assert_eq!(900_100_u64.wrapping_add(offset), 1_000);
        assert_eq!(clock.error, ClockError::default());
    }

    #[test]
    fn the_clock_is_looked_at_in_time_and_not_for_ever() {
        let grant = |costs, left| Clock::new(2_000_000, costs).grant(left);
        let cheap = Costs {
            entry: 1_000,
            exit: 600,
            ..Costs::default()
        };
        assert_eq!(grant(cheap, 3_000), (1_500, 3_000));
        assert_eq!(grant(cheap, 10_000_000), (250_000, 500_000));
        // Entering and leaving cost 50 us: a 32nd of 1.6 ms.
        let dear = Costs {
            entry: 70_000,
            exit: 30_000,
            ..Costs::default()
        };
        assert_eq!(grant(dear, 3_000), (1_500, 3_000));
        assert_eq!(grant(dear, 10_000_000), (1_600_000, 3_200_000));
        // A timer of nothing would never go off.
        assert_eq!(grant(cheap, 1), (1, 1));
    }

    #[test]
    fn costs_that_were_measured_too_high_do_not_stop_time() {
        let mut clock = clock();
        clock.start(at(0, 0), 5_000);
        clock.stop(at(80, 40));
        assert_eq!(clock.now(), 1);
        assert_eq!((clock.costs.entry, clock.costs.exit), (50, 30));
        clock.start(at(0, 0), 5_000);
        clock.stop(at(100, 50));
        assert_eq!(clock.now(), 21);
    }

    #[test]
    fn what_the_guest_wrote_into_its_counter_stays() {
        let mut clock = clock();
        clock.skip_to(500);
        clock.set_tsc(0);
        let offset = clock.start(at(1_000, 0), 1);
        assert_eq!(1_100_u64.wrapping_add(offset), 0);
        clock.skip_to(200);
        assert_eq!(clock.now(), 500);
    }

    #[test]
    fn a_thread_that_waited_past_its_end_lost_no_virtual_time_to_that() {
        let mut clock = clock();
        clock.start(at(0, 0), 4_000);
        // Of 1 000 160 cycles it had a processor for 3160.
        clock.stop(at(1_000_160, 1_580));
        assert_eq!(clock.now(), 4_000);
        assert_eq!(clock.error.hidden, 996_000);
        // What it really worked for is not taken away.
        clock.start(at(0, 0), 4_000);
        clock.stop(at(9_160, 4_580));
        assert_eq!(clock.now(), 13_000);
        clock.count_stop(12_000);
        clock.count_stop(13_000);
        assert_eq!(clock.error.stops, 2);
        assert_eq!(
            (clock.error.overrun, clock.error.worst_overrun),
            (1000, 1000)
        );
    }

    /// A wait before the timer went off, whose signal then came late: the guest saw it all.
    #[test]
    fn a_guest_that_was_stopped_too_late_does_not_see_time_go_back() {
        let mut clock = clock();
        clock.start(at(0, 0), 4_000);
        clock.stop(at(9_160, 3_080));
        assert_eq!(clock.now(), 9_000);
        assert_eq!((clock.error.seen, clock.error.hidden), (3_000, 0));
    }

    #[test]
    fn a_guest_that_saw_the_time_pass_does_not_see_it_go_back() {
        let mut clock = clock();
        clock.start(at(0, 0), 1_000_000);
        clock.stop(at(500_160, 50_080));
        assert_eq!(clock.now(), 500_000);
        assert_eq!(clock.error.seen, 400_000);
    }
}
