//! Detours of a node's processors: times for which daemons, a hypervisor or the firmware take a processor from
//! the guest's programs.
//!
//! During a detour the processor's clock advances and it executes nothing; events due meanwhile are handled
//! afterwards. The times and lengths of detours follow from a seed and the node alone, not from the guest's
//! behaviour or the ends of runs. A detour that falls entirely into a processor's sleep takes no time; a detour
//! under way when an interrupt would end the sleep delays the wake-up. The run loop queries detours; the owner of
//! a node begins them, and they are saved with the node.

use belljar_cpu::Cycles;
use belljar_sim::{Distribution, Frequency, Random, Seed, Span, Time};
use serde::{Deserialize, Serialize};

use super::Node;
use super::processor::Activity;

/// A source of detours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseSource {
    /// Mean time between the beginnings of consecutive detours.
    pub period: Span,
    /// The distribution of these times. If it is fixed, the first detour begins at a random time within a period.
    pub spacing: Distribution,
    /// Mean length of a detour; if there are several, one is drawn for each detour.
    pub lengths: Vec<Span>,
    /// The distribution of lengths.
    pub distribution: Distribution,
    /// True if all processors of all nodes have the detours at the same times.
    pub is_synchronised: bool,
    /// The number that distinguishes its random stream from the node's other sources.
    pub number: u8,
}

/// The shortest time between detours; drawn times are never smaller.
const SHORTEST_GAP: Span = Span::from_ns(1);

/// Counters of a node's detours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseCounts {
    /// Detours that interrupted an executing processor; overlapping ones count once.
    pub detours: u64,
    /// Cycles lost in these detours, summed over all processors.
    pub stolen: Cycles,
}

/// A node's detours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Noise {
    /// For each processor, the detours of its sources.
    processors: Vec<Vec<Detours>>,
    /// For each processor, the end of its last lost time.
    lost_to: Vec<Cycles>,
    counts: NoiseCounts,
}

/// The detours of one source at one processor.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Detours {
    source: NoiseSource,
    random: Random,
    /// Beginning and length of the next detour, or of the present one.
    start: Time,
    length: Span,
}

impl NoiseSource {
    /// True if detours can be drawn from it.
    pub fn is_sound(&self) -> bool {
        let drawn = self.spacing.is_sound() && self.distribution.is_sound();
        drawn && self.period >= SHORTEST_GAP && !self.lengths.is_empty()
    }

    /// The stream of random numbers for a processor of a node.
    fn stream(&self, seed: Seed, node: u64, processor: usize) -> Random {
        let own = match self.is_synchronised {
            true => 1 << 48,
            false => (processor as u64) << 32 | node,
        };
        Random::new(seed, "noise", u64::from(self.number) << 56 | own)
    }
}

impl Detours {
    fn new(source: &NoiseSource, mut random: Random, from: Time) -> Self {
        let first = match source.spacing {
            Distribution::Fixed => {
                let phase = random.next_u64() % source.period.as_ps().max(1);
                Span::from_ps(phase)
            }
            spacing => spacing.draw(source.period, &mut random),
        };
        let mut own = Self {
            source: source.clone(),
            random,
            start: from + first,
            length: Span::ZERO,
        };
        own.draw_length();
        own
    }

    fn draw_length(&mut self) {
        let lengths = &self.source.lengths;
        let mean = match &lengths[..] {
            [] => Span::ZERO,
            [one] => *one,
            several => several[(self.random.next_u64() % several.len() as u64) as usize],
        };
        self.length = self.source.distribution.draw(mean, &mut self.random);
    }

    /// The cycles at which it begins and ends.
    fn cycles(&self, frequency: Frequency) -> (Cycles, Cycles) {
        let [from, to] = [self.start, self.start + self.length];
        (frequency.cycle_at(from), frequency.cycle_at(to))
    }

    /// Continues with the first detour that ends after `now`.
    fn pass(&mut self, now: Cycles, frequency: Frequency) {
        while self.cycles(frequency).1 <= now && self.start < Time::MAX {
            let spacing = self.source.spacing;
            let gap = spacing.draw(self.source.period, &mut self.random);
            self.start += gap.max(SHORTEST_GAP);
            self.draw_length();
        }
    }
}

impl Noise {
    /// Continues the counters of another node.
    pub(super) fn go_on(&mut self, counts: NoiseCounts) {
        self.counts = counts;
    }

    /// True if this can be the noise of a node whose processors have these clocks. Each clock must be before the
    /// end of its present detours, so that loading it does not draw all earlier ones.
    pub(super) fn is_sound(&self, clocks: &[Cycles], frequency: Frequency) -> bool {
        let is_near = |detours: &Detours, now: Cycles| {
            detours.source.is_sound() && detours.cycles(frequency).1 > now
        };
        let mut each = self.processors.iter().zip(clocks);
        self.processors.len() == clocks.len()
            && self.lost_to.len() == clocks.len()
            && each.all(|(all, now)| all.iter().all(|detours| is_near(detours, *now)))
    }

    /// Continues with the detours that end after these clocks of the processors.
    fn pass(&mut self, clocks: &[Cycles], frequency: Frequency) {
        for (all, now) in self.processors.iter_mut().zip(clocks) {
            all.iter_mut()
                .for_each(|detours| detours.pass(*now, frequency));
        }
    }

    /// The end of the detour of processor `index` at `now`, if there is one.
    fn away(&self, index: usize, now: Cycles, frequency: Frequency) -> Option<Cycles> {
        let each = self.processors.get(index)?.iter();
        let lasting = each.map(|detours| detours.cycles(frequency));
        let here = lasting.filter(|(from, to)| (*from..*to).contains(&now));
        here.map(|(_, to)| to).max()
    }
}

impl Node {
    /// Begins detours of `sources` at time `from`, as node number `index` under `seed`.
    pub fn begin_noise(&mut self, sources: &[NoiseSource], seed: Seed, index: u64, from: Time) {
        self.disturb();
        let of = |processor: usize| {
            let sound = sources.iter().filter(|source| source.is_sound());
            let begin = |source: &NoiseSource| {
                Detours::new(source, source.stream(seed, index, processor), from)
            };
            sound.map(begin).collect()
        };
        self.noise = Some(Noise {
            processors: (0..self.processors.len()).map(of).collect(),
            lost_to: vec![0; self.processors.len()],
            counts: NoiseCounts::default(),
        });
    }

    /// The detours, for saving.
    pub(super) fn save_noise(&mut self) -> Option<Noise> {
        let clocks = self.clocks();
        let noise = self.noise.as_mut()?;
        noise.pass(&clocks, self.frequency);
        Some(noise.clone())
    }

    /// The clock of each processor.
    pub(super) fn clocks(&self) -> Vec<Cycles> {
        self.processors.iter().map(super::Processor::now).collect()
    }

    /// Counters of detours so far; `None` without noise.
    pub fn noise(&self) -> Option<NoiseCounts> {
        self.noise.as_ref().map(|noise| noise.counts)
    }

    /// The end of the current processor's present detour, if any; finished detours are passed.
    pub(super) fn detour_of_current(&mut self) -> Option<Cycles> {
        let (now, current) = (self.current().now(), self.rotation.current);
        if let Some(noise) = &mut self.noise {
            for detours in &mut noise.processors[current] {
                detours.pass(now, self.frequency);
            }
        }
        self.away(current, now)
    }

    /// Advances the current processor to `until` without executing.
    pub(super) fn lose_time(&mut self, until: Cycles) {
        let (now, current) = (self.current().now(), self.rotation.current);
        let executes = self.current().activity == Activity::Running;
        self.current_mut().vcpu.skip_to(until);
        if let Some(noise) = self.noise.as_mut().filter(|_| executes) {
            let counts = &mut noise.counts;
            counts.stolen = counts.stolen.saturating_add(until.saturating_sub(now));
            // A detour split by a run's end counts once.
            let lost_to = std::mem::replace(&mut noise.lost_to[current], until);
            let detours = noise.counts.detours;
            noise.counts.detours = detours.saturating_add(u64::from(lost_to != now));
        }
    }

    /// The beginning of the current processor's next detour.
    pub(super) fn next_detour(&self) -> Option<Cycles> {
        let current = self.rotation.current;
        let noise = self.noise.iter();
        let drawn = noise
            .filter_map(|noise| noise.processors.get(current))
            .flatten();
        let drawn = drawn.map(|detours| detours.cycles(self.frequency).0);
        let given = self.absences.next(current, self.current().now());
        drawn.chain(given.map(|(from, _)| from)).min()
    }

    /// The time at which processor `index` can execute next: now, or the end of its detour.
    pub(super) fn back_at(&self, index: usize) -> Cycles {
        let now = self.processors[index].now();
        self.away(index, now).unwrap_or(now)
    }

    /// The end of the detour of processor `index` at `now`, if there is one.
    fn away(&self, index: usize, now: Cycles) -> Option<Cycles> {
        let noise = self.noise.as_ref();
        let drawn = noise.and_then(|noise| noise.away(index, now, self.frequency));
        let given = self.absences.next(index, now);
        let given = given.filter(|(from, _)| *from <= now).map(|(_, to)| to);
        drawn.max(given)
    }
}
