//! Collection of statistics by call site, event by event.
//!
//! It keeps sums by site and by transition, bounded in number; those beyond the limit are counted together. Sites are
//! numbered in the order of appearance, and renumbered at the end by their times. Used by
//! [`call_sites`](crate::call_sites).

use std::collections::BTreeMap;

use belljar_job::{Communicators, ProcessKey};
use belljar_sim::figures::significant;
use belljar_trace::{Event, TraceHeader};

use super::number::SiteNumbers;
use super::{CallSites, SiteFrame, SiteStat, TransitionStat};
use crate::causes::waiting::WaitCollector;
use crate::sums::stat::{DIGITS, Volume};

/// Most transitions that are kept.
const MOST_TRANSITIONS: usize = 1 << 19;

/// Most threads whose last call is kept.
const MOST_THREADS: usize = 1 << 20;

/// Sums over durations.
#[derive(Clone, Copy, Debug, Default)]
struct DurationSums {
    count: u64,
    total: u64,
    min: u64,
    max: u64,
    reciprocal_seconds: f64,
}

impl DurationSums {
    fn add(&mut self, ps: u64) {
        self.min = if self.count == 0 {
            ps
        } else {
            self.min.min(ps)
        };
        self.max = self.max.max(ps);
        self.count += 1;
        self.total = self.total.saturating_add(ps);
    }

    /// Adds `count` times with the sum `total`, all within `extremes`.
    fn add_several(&mut self, count: u64, total: u64, extremes: (u64, u64)) {
        let before = if self.count == 0 { u64::MAX } else { self.min };
        self.min = before.min(extremes.0);
        self.max = self.max.max(extremes.1);
        self.count = self.count.saturating_add(count);
        self.total = self.total.saturating_add(total);
    }

    fn mean(&self) -> u64 {
        self.total.checked_div(self.count).unwrap_or(0)
    }
}

#[derive(Clone, Debug, Default)]
struct SiteSum {
    calls: u64,
    sent: u64,
    received: u64,
    times: DurationSums,
}

/// Collects [`CallSites`] from all events of a trace, in its order.
#[derive(Debug)]
pub(crate) struct SiteCollector<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    waits: WaitCollector<'a>,
    numbers: SiteNumbers,
    /// By number, minus one.
    sites: Vec<SiteSum>,
    transitions: BTreeMap<(u32, u32), DurationSums>,
    /// Each thread's last call that returned: its site, and the cycle.
    left: BTreeMap<(ProcessKey, u32), (u32, u64)>,
    beyond: u64,
    transitions_beyond: u64,
}

impl<'a> SiteCollector<'a> {
    /// Creates an empty collector for the trace with this header and `communicators`, of sites that are distinguished
    /// by at most `frames` frames.
    pub(crate) fn new(
        header: &'a TraceHeader,
        communicators: &'a Communicators,
        frames: u8,
    ) -> Self {
        Self {
            header,
            communicators,
            waits: WaitCollector::new(header, communicators),
            numbers: SiteNumbers::new(frames),
            sites: Vec::new(),
            transitions: BTreeMap::new(),
            left: BTreeMap::new(),
            beyond: 0,
            transitions_beyond: 0,
        }
    }

    /// Adds an event; its own figures only count if it is wanted.
    pub(crate) fn observe(&mut self, event: &Event, wanted: bool) {
        let counts = event.selected && event.depth == 0;
        let number = if counts { self.number(event) } else { 0 };
        let wanted = wanted && counts && number > 0;
        self.waits.observe_labelled(event, wanted, number.into());
        if !counts {
            return;
        }
        self.transition(event, number, wanted);
        if wanted {
            self.call(event, number);
        }
    }

    /// Returns the number of a call's site; 0 beyond the limit.
    fn number(&mut self, event: &Event) -> u32 {
        let number = self.numbers.number(event);
        if number == 0 {
            self.beyond = self.beyond.saturating_add(event.calls());
        }
        let sites = self.sites.len().max(number as usize);
        self.sites.resize(sites, SiteSum::default());
        number
    }

    fn call(&mut self, event: &Event, number: u32) {
        let span = event.exit.map(|exit| self.span(event, event.entry, exit));
        let several = event.durations().filter(|_| event.calls() > 1);
        let ps = |cycles| self.header.frequency(event.node).time_of(cycles).as_ps();
        let several = several.map(|(least, most)| {
            let inside = ps(event.duration().unwrap_or(0));
            (inside, (ps(least), ps(most)))
        });
        let volume = Volume::of(event, self.communicators);
        let Some(sum) = self.sites.get_mut(number as usize - 1) else {
            return;
        };
        sum.calls = sum.calls.saturating_add(event.calls());
        sum.sent = sum.sent.saturating_add(volume.sent);
        sum.received = sum.received.saturating_add(volume.received);
        match (several, span) {
            (Some((inside, extremes)), _) => {
                sum.times.add_several(event.calls(), inside, extremes);
            }
            (None, Some(span)) => sum.times.add(span),
            (None, None) => {}
        }
    }

    fn transition(&mut self, event: &Event, number: u32, wanted: bool) {
        let thread = ((event.node, event.process), event.thread);
        let before = self.left.remove(&thread);
        if let Some((from, left)) = before.filter(|(_, left)| *left <= event.entry)
            && wanted
        {
            self.interval(event, (from, number), left);
        }
        if event.calls() > 1 && wanted {
            self.intervals_within(event, number);
        }
        if let Some(exit) = event.exit
            && number > 0
            && self.left.len() < MOST_THREADS
        {
            self.left.insert(thread, (number, exit));
        }
    }

    fn interval(&mut self, event: &Event, which: (u32, u32), left: u64) {
        let full = self.transitions.len() >= MOST_TRANSITIONS;
        if full && !self.transitions.contains_key(&which) {
            self.transitions_beyond += 1;
            return;
        }
        let span = self.span(event, left, event.entry);
        let rate = self.header.frequency(event.node).as_hz() as f64;
        let times = self.transitions.entry(which).or_default();
        times.add(span);
        times.reciprocal_seconds += rate / (event.entry - left).max(1) as f64;
    }

    /// Adds the intervals between calls of one record as if they were equally long, since the individual ones are
    /// unknown.
    fn intervals_within(&mut self, event: &Event, number: u32) {
        let (which, count) = ((number, number), event.calls() - 1);
        let full = self.transitions.len() >= MOST_TRANSITIONS;
        if full && !self.transitions.contains_key(&which) {
            self.transitions_beyond = self.transitions_beyond.saturating_add(count);
            return;
        }
        let frequency = self.header.frequency(event.node);
        let total = frequency.time_of(event.outside()).as_ps();
        let mean = total / count;
        let cycles = (event.outside() as f64 / count as f64).max(1.0);
        let times = self.transitions.entry(which).or_default();
        times.add_several(count, total, (mean, mean));
        times.reciprocal_seconds += count as f64 * frequency.as_hz() as f64 / cycles;
    }

    fn span(&self, event: &Event, from: u64, to: u64) -> u64 {
        let frequency = self.header.frequency(event.node);
        let from = frequency.time_of(from).as_ps();
        frequency.time_of(to).as_ps().saturating_sub(from)
    }

    /// Returns the statistics.
    pub(super) fn finish(mut self) -> CallSites {
        let waiting = self.waits.labelled();
        let mut order: Vec<u32> = (1..=self.sites.len() as u32).collect();
        order.retain(|number| self.sites[*number as usize - 1].calls > 0);
        order.sort_by_key(|number| {
            let sum = &self.sites[*number as usize - 1];
            (std::cmp::Reverse(sum.times.total), *number)
        });
        let mut numbers: BTreeMap<u32, u32> = order.iter().copied().zip(1..).collect();
        let sites = order.iter().zip(1..).map(|(number, site)| {
            let waiting_ps = waiting.get(&u64::from(*number));
            let waiting_ps = waiting_ps.map_or(0, |sum| sum.waited().1);
            let sum = &self.sites[*number as usize - 1];
            stat(site, self.numbers.shown(*number), sum, waiting_ps)
        });
        let sites: Vec<SiteStat> = sites.collect();
        let total = sites.iter().map(|site| site.total_ps);
        let mut number = |own: u32| -> u32 {
            // The site of a call before the first selected one is not in the list.
            *numbers.entry(own).or_insert(0)
        };
        let transitions = self
            .transitions
            .iter()
            .map(|((from, to), times)| TransitionStat {
                from: number(*from),
                to: number(*to),
                count: times.count,
                total_ps: times.total,
                mean_ps: times.mean(),
                min_ps: times.min,
                max_ps: times.max,
                harmonic_mean_s: significant(times.count as f64 / times.reciprocal_seconds, DIGITS),
            });
        let mut transitions: Vec<TransitionStat> = transitions.collect();
        transitions.sort_by_key(|it| (std::cmp::Reverse(it.total_ps), it.from, it.to));
        CallSites {
            frames: self.numbers.frames(),
            total_ps: total.fold(0, u64::saturating_add),
            sites,
            transitions,
            probes: Vec::new(),
            beyond: self.beyond,
            transitions_beyond: self.transitions_beyond,
        }
    }
}

fn stat(
    site: u32,
    shown: (&'static str, Vec<SiteFrame>),
    sum: &SiteSum,
    waiting_ps: u64,
) -> SiteStat {
    let (function, frames) = shown;
    SiteStat {
        site,
        function,
        frames,
        calls: sum.calls,
        returned: sum.times.count,
        sent: sum.sent,
        received: sum.received,
        total_ps: sum.times.total,
        mean_ps: sum.times.mean(),
        min_ps: sum.times.min,
        max_ps: sum.times.max,
        waiting_ps,
    }
}
