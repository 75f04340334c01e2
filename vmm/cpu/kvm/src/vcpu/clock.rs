//! A virtual clock that runs while the guest runs: time between two runs is subtracted from the
//! guest's time stamp counter, and the remaining error is measured.
//!
//! A cycle of the clock is a cycle of the host's time stamp counter.

use belljar_cpu::Cycles;

/// The longest time for which the guest runs before its clock is read, in nanoseconds. If the
/// thread waits for a processor for less than that, the guest sees that time pass.
const LOOK_AFTER: u64 = 250_000;
/// The least such time, as a multiple of the cost of entering and leaving: on an emulated
/// processor, guests would otherwise make no progress.
const LOOK_IN_COSTS: u64 = 32;

/// The times between this process's read of the host's counter and the guest's next instruction,
/// and back, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransitionCosts {
    pub entry: u64,
    pub exit: u64,
    /// The largest error of a stopped clock with these costs subtracted, including times at which
    /// the host was busy otherwise.
    pub jitter: u64,
    /// The median of that error.
    pub typical_jitter: u64,
}

impl TransitionCosts {
    /// Limits the costs by the duration of an entry and exit. Costs measured on a busy host would
    /// be too high, and the clock would stop.
    fn bound_by(&mut self, elapsed: u64) {
        let both = u128::from(self.entry) + u128::from(self.exit);
        if both > u128::from(elapsed) {
            self.entry = (u128::from(self.entry) * u128::from(elapsed) / both) as u64;
            self.exit = self.exit.min(elapsed - self.entry);
        }
    }
}

/// The host's clocks at a point of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostTime {
    /// The time stamp counter.
    pub tsc: u64,
    /// The thread's processor time, in nanoseconds.
    pub thread: u64,
}

/// The clock's accumulated errors in cycles, since the vCPU was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockError {
    /// Number of stops by the clock.
    pub stops: u64,
    /// Cycles beyond these stops' times, summed.
    pub overrun: u64,
    /// The largest of them.
    pub worst_overrun: u64,
    /// Time in which the host ran other threads, hidden from the guest.
    pub hidden: u64,
    /// Time in which the host ran other threads, visible to the guest.
    pub seen: u64,
}

/// A vCPU's clock.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    now: Cycles,
    /// The difference of the guest's counter and the clock, set by the guest, modulo 2^64.
    pub(crate) guest_offset: u64,
    costs: TransitionCosts,
    host_khz: u64,
    started: HostTime,
    granted: u64,
    pub(crate) error: ClockError,
}

impl Clock {
    /// A clock at zero on a host whose counter runs at `host_khz`.
    pub(crate) fn new(host_khz: u64, costs: TransitionCosts) -> Self {
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

    /// The longest run before the clock is read, with `left` cycles of the turn left: in
    /// nanoseconds, and in cycles.
    pub(crate) fn grant(&self, left: u64) -> (u64, u64) {
        let cost = self.nanoseconds(self.costs.entry.saturating_add(self.costs.exit));
        let most = LOOK_AFTER.max(cost.saturating_mul(LOOK_IN_COSTS));
        let most = self.nanoseconds(left).clamp(1, most);
        (most, left.min(self.cycles(most)))
    }

    /// Advances the clock.
    pub(crate) fn skip_to(&mut self, to: Cycles) {
        self.now = self.now.max(to);
    }

    /// Sets the clock of a vCPU that has not run yet.
    pub(crate) fn set(&mut self, now: Cycles) {
        self.now = now;
    }

    /// Handles the guest's write of its counter.
    pub(crate) fn set_tsc(&mut self, value: u64) {
        self.guest_offset = value.wrapping_sub(self.now);
    }

    /// Records an entry for at most `granted` cycles. Returns the required difference of the
    /// guest's counter and the host's, modulo 2^64.
    pub(crate) fn start(&mut self, host: HostTime, granted: u64) -> u64 {
        self.started = host;
        self.granted = granted;
        let entered = host.tsc.wrapping_add(self.costs.entry);
        self.now
            .wrapping_add(self.guest_offset)
            .wrapping_sub(entered)
    }

    /// Records the exit. Time that the guest cannot have seen is not added to its clock.
    pub(crate) fn stop(&mut self, host: HostTime) {
        let elapsed = host.tsc.wrapping_sub(self.started.tsc);
        self.costs.bound_by(elapsed);
        let overhead = self.costs.entry + self.costs.exit;
        // Otherwise a guest that only exits would do so forever at the same time.
        let elapsed = (elapsed - overhead).max(1);
        let worked = self.cycles(host.thread.saturating_sub(self.started.thread));
        let worked = worked.saturating_sub(overhead).min(elapsed);
        let waited = elapsed - worked;
        let passed = if waited <= self.granted {
            // The wait may have ended before the timer's signal, even if the exit came long after:
            // then the guest continued afterwards, and saw its counter.
            self.error.seen += waited;
            elapsed
        } else {
            // Part of the wait was after `granted`, when the timer's signal was pending: no
            // instruction ran in that part.
            let passed = worked.max(self.granted);
            self.error.hidden += elapsed - passed;
            passed
        };
        self.now += passed;
    }

    /// Counts a stop by the clock at the end of its time, which was `until`.
    pub(crate) fn count_stop(&mut self, until: Cycles) {
        let overrun = self.now.saturating_sub(until);
        self.error.stops += 1;
        self.error.overrun += overrun;
        self.error.worst_overrun = self.error.worst_overrun.max(overrun);
    }

    /// Its measured errors, by name.
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

    /// Converts nanoseconds to cycles of the host's counter.
    pub(crate) fn cycles(&self, nanoseconds: u64) -> u64 {
        (u128::from(nanoseconds) * u128::from(self.host_khz) / 1_000_000) as u64
    }

    /// Converts cycles of the host's counter to nanoseconds.
    pub(crate) fn nanoseconds(&self, cycles: u64) -> u64 {
        (u128::from(cycles) * 1_000_000 / u128::from(self.host_khz)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of 2 GHz: 2 cycles a nanosecond.
    fn clock() -> Clock {
        let costs = TransitionCosts {
            entry: 100,
            exit: 60,
            ..TransitionCosts::default()
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
        let cheap = TransitionCosts {
            entry: 1_000,
            exit: 600,
            ..TransitionCosts::default()
        };
        assert_eq!(grant(cheap, 3_000), (1_500, 3_000));
        assert_eq!(grant(cheap, 10_000_000), (250_000, 500_000));
        // Entering and leaving cost 50 us: a 32nd of 1.6 ms.
        let dear = TransitionCosts {
            entry: 70_000,
            exit: 30_000,
            ..TransitionCosts::default()
        };
        assert_eq!(grant(dear, 3_000), (1_500, 3_000));
        assert_eq!(grant(dear, 10_000_000), (1_600_000, 3_200_000));
        // A timer of zero would never fire.
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
        // The thread ran for 3160 of these 1 000 160 cycles.
        clock.stop(at(1_000_160, 1_580));
        assert_eq!(clock.now(), 4_000);
        assert_eq!(clock.error.hidden, 996_000);
        // Time in which the guest really ran is not subtracted.
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

    /// A wait before the timer's signal, which arrived late: the guest saw all of that time.
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
