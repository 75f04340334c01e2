//! A job that is played repeatedly over a network that others use as well.
//!
//! The network's operator takes the frames that the job's hosts send, and passes in the frames that arrive for them. The result depends only on their arrival times:
//! neither on the length of steps nor on when frames were passed in. Used by runs with background traffic, which operate the network.

use std::sync::Arc;

use belljar_fabric::{Frame, Routes, RoutingError, Topology};
use belljar_networks::{LiveNetwork, LiveState, Sent};
use belljar_sim::Time;
use self_cell::self_cell;
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, EngineState, Timing};
use crate::prepared::PreparedJob;

/// The settings of a background job.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundSetting {
    /// The network's host of each of the job's hosts.
    pub hosts: Vec<u32>,
    /// The time at which it first begins.
    pub start: Time,
    /// The factor of its processors' own work: 0.5 for processors that are twice as fast.
    pub scale: f64,
    /// The number of times that it is played, one after the other; unlimited if absent.
    pub times: Option<u64>,
}

/// The progress of a background job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackgroundFigures {
    /// The number of times that it was begun.
    pub begun: u64,
    /// The number of times that it was played to its end.
    pub ended: u64,
    /// The shortest duration, in picoseconds.
    pub shortest_ps: u64,
    /// The sum of all durations.
    pub sum_ps: u64,
    /// The longest duration.
    pub longest_ps: u64,
    /// Frames that its hosts sent.
    pub frames: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// If it can never end: a rank that waits forever, and the number of its call.
    pub stuck: Option<(u32, u32)>,
}

/// The mutable state of a [`Background`], as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BackgroundState {
    engine: EngineState,
    network: LiveState,
    figures: BackgroundFigures,
    begun_at: u64,
}

/// The error for a state from which a job cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state of a background job is damaged, or of another job")]
pub struct BackgroundStateError;

type LiveEngine<'p> = Engine<'p, 'p, LiveNetwork>;

self_cell! {
    /// An engine with the job that it plays.
    struct Player {
        owner: Arc<PreparedJob>,

        #[not_covariant]
        dependent: LiveEngine,
    }
}

/// A job that is played on a network that others use as well.
pub struct Background {
    player: Player,
    times: Option<u64>,
    figures: BackgroundFigures,
    /// The time at which it last began, in picoseconds.
    begun_at: u64,
    /// The time of the next event, cached because it is read far more often than it changes.
    next: Option<Time>,
}

impl Background {
    /// Creates a job on hosts of a topology with these routes, before any event.
    ///
    /// # Errors
    /// Returns an error if the topology does not fit the routing.
    pub fn new(
        job: Arc<PreparedJob>,
        setting: &BackgroundSetting,
        topology: &Topology,
        routes: &Routes,
    ) -> Result<Self, RoutingError> {
        let scale = setting.scale;
        let links = topology.links();
        let spans = job.costs.at(&job.clocks, scale);
        let processes = job.program.processes.iter();
        let hosts: Vec<u32> = processes
            .map(|process| setting.hosts.get(process.node as usize).copied())
            .map(|host| host.unwrap_or(0))
            .collect();
        let spans = spans.over(hosts.iter().map(|host| {
            let link = topology.link_of(*host);
            links[link as usize].spec.bandwidth
        }));
        let network = LiveNetwork::new(topology.clone(), routes, spans.paces(&hosts))?;
        let player = Player::new(job, |job| {
            let timing = Timing::Replayed(&job.calibration.residuals);
            let network = Box::new(network);
            Engine::new(&job.program, network, spans, &hosts, scale, timing).without_times()
        });
        let mut background = Self {
            player,
            times: setting.times,
            figures: BackgroundFigures::default(),
            begun_at: 0,
            next: None,
        };
        background.begin(setting.start.as_ps());
        background.look_ahead();
        Ok(background)
    }

    /// Returns the job.
    pub fn job(&self) -> &PreparedJob {
        self.player.borrow_owner()
    }

    /// Returns its progress.
    pub fn figures(&self) -> BackgroundFigures {
        self.figures
    }

    /// Returns the time of the next event, if there is one.
    pub fn next_time(&self) -> Option<Time> {
        self.next
    }

    fn look_ahead(&mut self) {
        let next = self.player.with_dependent(|_, engine| engine.next_time());
        self.next = next.map(Time::from_ps);
    }

    /// Adds a frame that arrives at a host of the job at `time`, up to which it has not been played. Frames for one host must be added in the order of time.
    pub fn hand_in(&mut self, time: Time, host: u32, frame: Frame) {
        self.player
            .with_dependent_mut(|_, engine| engine.network().hand_in(time, host, frame));
        self.next = Some(self.next.map_or(time, |next| next.min(time)));
    }

    /// Plays all events before `end`, and adds the sent frames to `sent`. All frames that arrive before must have been added.
    pub fn advance(&mut self, end: Time, sent: &mut Vec<Sent>) {
        if self.next.is_none_or(|next| next >= end) {
            return;
        }
        let last = end.as_ps().saturating_sub(1);
        let mut arrived = Vec::new();
        while let Some(now) = self.player.with_dependent_mut(|_, engine| {
            let mut now = engine.step(last, &mut arrived)?;
            while !engine.pauses()
                && let Some(next) = engine.step(last, &mut arrived)
            {
                now = next;
            }
            Some(now)
        }) {
            self.look(now);
        }
        self.look_ahead();
        let before = sent.len();
        self.player
            .with_dependent_mut(|_, engine| sent.extend(engine.network().sent()));
        for own in &sent[before..] {
            self.figures.frames += 1;
            self.figures.bytes += own.frame.length() as u64;
        }
    }

    /// Begins it again once it has ended and all of its messages have arrived.
    fn look(&mut self, now: u64) {
        let (ended, rests) = self.player.with_dependent_mut(|_, engine| {
            let rests = engine.rests() && engine.network().is_quiet();
            (engine.ended(), rests)
        });
        if let Some((at, _)) = ended {
            let took = at.saturating_sub(self.begun_at);
            let figures = &mut self.figures;
            figures.shortest_ps = match figures.ended {
                0 => took,
                _ => figures.shortest_ps.min(took),
            };
            figures.ended += 1;
            figures.longest_ps = figures.longest_ps.max(took);
            figures.sum_ps = figures.sum_ps.saturating_add(took);
        }
        if !rests || self.figures.stuck.is_some() {
            return;
        }
        if self.figures.ended < self.figures.begun {
            self.figures.stuck = self.stuck();
            return;
        }
        if self.times.is_none_or(|times| self.figures.begun < times) {
            self.begin(now.max(self.begun_at.saturating_add(LEAST_PS)));
        }
    }

    fn begin(&mut self, now: u64) {
        self.player.with_dependent_mut(|job, engine| {
            engine.reset();
            engine.begin_threads(now, 0..job.program.threads.len() as u32);
        });
        self.begun_at = now;
        self.figures.begun += 1;
    }

    fn stuck(&self) -> Option<(u32, u32)> {
        self.player.with_dependent(|job, engine| {
            let (thread, call) = engine.stuck().next()?;
            let process = job.program.threads[thread as usize].process;
            Some((job.program.processes[process as usize].rank, call))
        })
    }

    /// Returns the mutable state; the sent frames must have been taken.
    pub fn save(&mut self) -> BackgroundState {
        let (engine, network) = self
            .player
            .with_dependent_mut(|_, engine| (engine.save(), engine.network().save()));
        BackgroundState {
            engine,
            network,
            figures: self.figures,
            begun_at: self.begun_at,
        }
    }

    /// Continues from an untrusted `state`.
    ///
    /// # Errors
    /// Returns an error if it does not fit this job on these hosts; it must not be used any more then.
    pub fn restore(&mut self, state: BackgroundState) -> Result<(), BackgroundStateError> {
        let counts = [
            state.figures.begun,
            state.figures.ended,
            state.figures.frames,
            state.figures.bytes,
            state.begun_at,
        ];
        let sound = counts.iter().all(|count| *count <= MOST_COUNTED)
            && self.player.with_dependent_mut(|_, engine| {
                engine.network().restore(state.network) && engine.restore(state.engine)
            });
        if !sound {
            return Err(BackgroundStateError);
        }
        self.figures = state.figures;
        self.begun_at = state.begun_at;
        self.look_ahead();
        Ok(())
    }
}

/// Least time from one beginning to the next: a job that takes no time would be repeated endlessly at one time.
const LEAST_PS: u64 = 1_000_000;

/// An upper bound for any count within representable time.
const MOST_COUNTED: u64 = 1 << 62;

#[cfg(test)]
mod tests;
