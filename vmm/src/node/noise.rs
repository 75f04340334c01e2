//! Detours of a node's processors: something takes them for a while, as a system's daemons, a hypervisor or the
//! firmware do, and the guest's programs do not get to run.
//!
//! While a detour lasts the processor's clock moves and it executes nothing; whatever is due meanwhile is done
//! after it. When detours are, and how long they last, follows from a seed and the node alone, never from what
//! the guest does or where runs are cut. A detour that falls into a processor's sleep takes nothing; one that is
//! under way when an interrupt would end the sleep delays it. Asked by the run loop; whoever makes a node begins
//! its noise, and it is saved with the node.

use belljar_cpu::Cycles;
use belljar_sim::{Distribution, Frequency, Random, Seed, Span, Time};
use serde::{Deserialize, Serialize};

use super::Node;
use super::processor::Activity;

/// One kind of detours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseSource {
    /// Time from the beginning of one to that of the next, on average.
    pub period: Span,
    /// How these times are spread. Where they are fixed, the first detour comes at a random time within a period.
    pub spacing: Distribution,
    /// How long they last, on average; of several numbers, one of them each time.
    pub lengths: Vec<Span>,
    /// How lengths are spread.
    pub distribution: Distribution,
    /// All processors of all nodes have them at the same times.
    pub is_synchronised: bool,
    /// What tells its random numbers from those of the node's other sources.
    pub number: u8,
}

/// The shortest time from one detour to the next: what is drawn is never less.
const SHORTEST_GAP: Span = Span::from_ns(1);

/// What detours took from a node's processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseCounts {
    /// Detours that a processor took which was executing; of those that overlap, one.
    pub detours: u64,
    /// Cycles for which such processors executed nothing, of all processors together.
    pub stolen: Cycles,
}

/// A node's detours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Noise {
    /// Of each processor, by its sources.
    processors: Vec<Vec<Detours>>,
    /// Up to when each lost time last.
    lost_to: Vec<Cycles>,
    counts: NoiseCounts,
}

/// The detours of one source at one processor.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Detours {
    source: NoiseSource,
    random: Random,
    /// The next one, or the one that lasts: when it begins, and how long it is.
    start: Time,
    length: Span,
}

impl NoiseSource {
    /// Whether detours can be drawn of it.
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

    /// From when to when it lasts.
    fn cycles(&self, frequency: Frequency) -> (Cycles, Cycles) {
        let [from, to] = [self.start, self.start + self.length];
        (frequency.cycle_at(from), frequency.cycle_at(to))
    }

    /// Continues with the first detour that is not over at `now`.
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
    /// Whether it can be that of a node whose processors' clocks are these: each is before the end of the detours
    /// that it has, so that no time is spent on those that were before.
    pub(super) fn is_sound(&self, clocks: &[Cycles], frequency: Frequency) -> bool {
        let is_near = |detours: &Detours, now: Cycles| {
            detours.source.is_sound() && detours.cycles(frequency).1 > now
        };
        let mut each = self.processors.iter().zip(clocks);
        self.processors.len() == clocks.len()
            && self.lost_to.len() == clocks.len()
            && each.all(|(all, now)| all.iter().all(|detours| is_near(detours, *now)))
    }

    /// Continues with the detours that are not over at these clocks of the processors.
    fn pass(&mut self, clocks: &[Cycles], frequency: Frequency) {
        for (all, now) in self.processors.iter_mut().zip(clocks) {
            all.iter_mut()
                .for_each(|detours| detours.pass(*now, frequency));
        }
    }

    /// Until when the processor `index` is away, if it is at `now`.
    fn away(&self, index: usize, now: Cycles, frequency: Frequency) -> Option<Cycles> {
        let each = self.processors.get(index)?.iter();
        let lasting = each.map(|detours| detours.cycles(frequency));
        let here = lasting.filter(|(from, to)| (*from..*to).contains(&now));
        here.map(|(_, to)| to).max()
    }
}

impl Node {
    /// Has processors take detours of these `sources` from time `from` on, as node number `index` does under
    /// `seed`.
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

    /// Its detours, to be saved.
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

    /// What detours took so far; `None` where there are none.
    pub fn noise(&self) -> Option<NoiseCounts> {
        self.noise.as_ref().map(|noise| noise.counts)
    }

    /// Until when the processor whose turn it is is away, if it is now; detours that are over are passed.
    pub(super) fn detour_of_current(&mut self) -> Option<Cycles> {
        let (now, current) = (self.current().now(), self.rotation.current);
        let noise = self.noise.as_mut()?;
        for detours in &mut noise.processors[current] {
            detours.pass(now, self.frequency);
        }
        noise.away(current, now, self.frequency)
    }

    /// Keeps the processor whose turn it is from all it would do up to `until`.
    pub(super) fn lose_time(&mut self, until: Cycles) {
        let (now, current) = (self.current().now(), self.rotation.current);
        let executes = self.current().activity == Activity::Running;
        self.current_mut().vcpu.skip_to(until);
        if let Some(noise) = self.noise.as_mut().filter(|_| executes) {
            let counts = &mut noise.counts;
            counts.stolen = counts.stolen.saturating_add(until.saturating_sub(now));
            // One that a run's end cut in two is one.
            let lost_to = std::mem::replace(&mut noise.lost_to[current], until);
            let detours = noise.counts.detours;
            noise.counts.detours = detours.saturating_add(u64::from(lost_to != now));
        }
    }

    /// When the next detour of the processor whose turn it is begins.
    pub(super) fn next_detour(&self) -> Option<Cycles> {
        let noise = self.noise.as_ref()?;
        let each = noise.processors.get(self.rotation.current)?.iter();
        each.map(|detours| detours.cycles(self.frequency).0).min()
    }

    /// When processor `index` can execute next: now, or when its detour is over.
    pub(super) fn back_at(&self, index: usize) -> Cycles {
        let now = self.processors[index].now();
        let noise = self.noise.as_ref();
        let away = noise.and_then(|noise| noise.away(index, now, self.frequency));
        away.unwrap_or(now)
    }
}
