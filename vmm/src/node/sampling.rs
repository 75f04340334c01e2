//! Stops at points of virtual time for sampling the processors' activity.
//!
//! Points are the multiples of a span, the same for all processors. An executing processor stops at each point,
//! before the first instruction that begins at or after it; a sleeping one skips points. Stops do not affect the
//! guest: the current processor continues unchanged. The run loop queries the points.

use belljar_cpu::Cycles;
use belljar_sim::{Frequency, Span, Time};
use serde::{Deserialize, Serialize};

use super::{Node, NodeStop};

/// The progress of a node's processors through points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    every: Span,
    /// The number of this node's first point.
    first: u64,
    /// The position of each processor.
    places: Vec<SamplingPosition>,
}

/// The position of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SamplingPosition {
    /// The number of the next point, which is at that multiple of the span.
    number: u64,
    /// The end of its last execution.
    ran_to: Cycles,
}

impl Sampling {
    fn cycle(&self, number: u64, frequency: Frequency) -> Cycles {
        frequency.cycle_at(Time::from_ps(number.saturating_mul(self.every.as_ps())))
    }

    /// The number of the first point at or after `cycle`.
    fn number_at(&self, cycle: Cycles, frequency: Frequency) -> u64 {
        let about = frequency.time_of(cycle).as_ps() / self.every.as_ps().max(1);
        let mut numbers = about..;
        let found = numbers.find(|number| self.cycle(*number, frequency) >= cycle);
        found.unwrap_or(about)
    }

    /// The number of this node's first point.
    pub fn first(&self) -> u64 {
        self.first
    }
}

impl Node {
    /// Stops the node with [`NodeStop::Sample`] each time an executing processor reaches a multiple of `every`,
    /// from now on.
    pub fn sample_every(&mut self, every: Span) {
        self.disturb();
        let every = every.max(Span::from_ps(1));
        let mut sampling = Sampling {
            every,
            first: 0,
            places: Vec::new(),
        };
        sampling.first = sampling.number_at(self.now_cycles(), self.frequency);
        let place = |processor: &super::Processor| SamplingPosition {
            number: sampling.number_at(processor.now(), self.frequency),
            ran_to: processor.now(),
        };
        sampling.places = self.processors.iter().map(place).collect();
        self.sampling = Some(sampling);
    }

    /// The state of sampling, to be [continued](Self::resume_sampling).
    pub fn sampling(&mut self) -> Option<&Sampling> {
        self.disturb();
        self.sampling.as_ref()
    }

    /// Continues the sampling of another node of the same kind, or ends it with `None`. Returns true if it fits
    /// this node.
    pub fn resume_sampling(&mut self, sampling: Option<Sampling>) -> bool {
        self.disturb();
        let fits = sampling.as_ref().is_none_or(|it| {
            it.places.len() == self.processors.len() && it.every > Span::from_ps(0)
        });
        self.sampling = sampling.filter(|_| fits);
        fits
    }

    /// The number of the first point at or after the node's clock, which is its slowest processor's.
    pub fn next_sample(&self) -> Option<u64> {
        let sampling = self.sampling.as_ref()?;
        Some(sampling.number_at(self.now_cycles(), self.frequency))
    }

    /// The time of the current processor's next point, if there is sampling.
    pub(super) fn sample_of_current(&self) -> Option<Cycles> {
        let sampling = self.sampling.as_ref()?;
        let place = sampling.places.get(self.rotation.current)?;
        Some(sampling.cycle(place.number, self.frequency))
    }

    /// Records the end of the current processor's execution.
    pub(super) fn note_ran(&mut self) {
        let (now, current) = (self.current().now(), self.rotation.current);
        if let Some(sampling) = &mut self.sampling {
            sampling.places[current].ran_to = now;
        }
    }

    /// The stop for the points that the current processor has reached when it is about to execute.
    pub(super) fn take_sample(&mut self) -> Option<NodeStop> {
        let (now, current) = (self.current().now(), self.rotation.current);
        if self.sample_of_current()? > now {
            return None;
        }
        let frequency = self.frequency;
        let sampling = self.sampling.as_mut()?;
        let SamplingPosition { number, ran_to } = sampling.places[current];
        let here = sampling.number_at(now, frequency);
        // Points within the last instruction count; those in the sleep after it do not.
        let executed = sampling.number_at(ran_to, frequency).min(here);
        let is_here = sampling.cycle(here, frequency) == now;
        let count = executed.saturating_sub(number) + u64::from(is_here);
        let next = here + u64::from(is_here);
        sampling.places[current].number = next;
        (count > 0).then_some(NodeStop::Sample {
            number: if is_here {
                here
            } else {
                executed.saturating_sub(1)
            },
            count,
            vcpu: current as u32,
        })
    }
}
