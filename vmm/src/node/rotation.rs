//! The rotation of turns among a node's processors.
//!
//! Virtual time is cut into slices, which begin at multiples of their length. Within a slice
//! processor 0 runs to the slice's end, then processor 1, and so on; then the next slice begins. So
//! clocks differ by a slice at most, and the order of all of a node's instructions depends only on
//! the executed code. A limit within a slice ends it early; for runs independent of their division,
//! choose limits between slices. A single processor has no slices.

use belljar_cpu::Cycles;
use belljar_sim::{Frequency, Span, Time};

/// The present slice.
#[derive(Clone, Debug)]
pub(super) struct Rotation {
    frequency: Frequency,
    /// `None` for a single processor.
    slice: Option<Span>,
    /// The processor whose turn it is.
    pub(super) current: usize,
    /// The end of the slice.
    pub(super) end: Cycles,
}

impl Rotation {
    /// The state before the first slice of `processors` processors.
    pub(super) fn new(processors: usize, slice: Span, frequency: Frequency) -> Self {
        let slice = (processors > 1).then_some(slice);
        Self {
            frequency,
            slice,
            current: 0,
            end: slice.map_or(Cycles::MAX, |_| 0),
        }
    }

    /// True if there are several processors.
    pub(super) fn has_slices(&self) -> bool {
        self.slice.is_some()
    }

    /// The beginning of the slice that contains `cycle`.
    pub(super) fn begin(&self, cycle: Cycles) -> Cycles {
        self.slice.map_or(0, |slice| {
            let number = self.frequency.time_of(cycle).as_ps() / slice.as_ps();
            self.boundary(slice, number)
        })
    }

    /// The end of the slice that contains `cycle`.
    pub(super) fn end_of(&self, cycle: Cycles) -> Cycles {
        let Some(slice) = self.slice else {
            return Cycles::MAX;
        };
        let number = self.frequency.time_of(cycle).as_ps() / slice.as_ps();
        let mut ends = (number + 1..).map(|number| self.boundary(slice, number));
        // A slice shorter than a cycle may end at its own beginning.
        ends.find(|&end| end > cycle).unwrap_or(Cycles::MAX)
    }

    fn boundary(&self, slice: Span, number: u64) -> Cycles {
        let time = Time::from_ps(number.saturating_mul(slice.as_ps()));
        self.frequency.cycle_at(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lie_side_by_side() {
        for (hz, slice) in [
            (1_000_000_000, Span::from_us(1)),
            (2_600_000_000, Span::from_ns(2_301)),
            (2_600_000_000, Span::from_ps(100_001)),
        ] {
            let frequency = Frequency::from_hz(hz).unwrap();
            let rotation = Rotation::new(2, slice, frequency);
            let mut at = 0;
            for _ in 0..1000 {
                let end = rotation.end_of(at);
                assert!(end > at);
                assert_eq!(rotation.begin(at), at);
                assert_eq!(rotation.begin(end - 1), at);
                assert_eq!(rotation.end_of(end - 1), end);
                at = end;
            }
            let whole = frequency.cycle_at(Time::from_ps(1000 * slice.as_ps()));
            assert_eq!(at, whole);
        }
        let alone = Rotation::new(1, Span::from_us(1), Frequency::from_hz(1).unwrap());
        assert_eq!(alone.end_of(5), Cycles::MAX);
    }
}
