//! Requests of clients to a run, and its answers.
//!
//! The host's clock limits the pace of virtual time; no result depends on it.
#![allow(clippy::disallowed_methods)]

/// Requests for the messages that wait.
mod queues;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use belljar_sim::Time;

use super::Look;
use crate::run::checkpoint::Report;
use queues::QueuesRequests;

/// Time limit for an answer of the run, which may be busy writing results.
const PATIENCE: Duration = Duration::from_secs(5);
/// Sleep of a paused run between checks.
const NAP: Duration = Duration::from_millis(20);
/// Maximum number of waiting input bytes.
const MOST_TYPED: usize = 64 << 10;
/// Delay of a paced run, in picoseconds, from which the pace starts anew.
const LATE: u64 = 100_000_000_000;

/// Requests of clients, and answers of the run.
#[derive(Debug, Default)]
pub struct Mailbox {
    /// True if there is work for the run.
    called: AtomicBool,
    inner: Mutex<Inner>,
    /// Notified of a new look.
    answered: Condvar,
    /// Notified of new work.
    called_for: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    wanted: bool,
    look: Look,
    looks: u64,
    typed: VecDeque<(u32, Vec<u8>)>,
    typed_bytes: usize,
    checkpoints: Requests,
    queues: QueuesRequests,
    /// By client.
    holds: BTreeMap<u64, Hold>,
    log: Option<File>,
    closed: bool,
}

/// Requested checkpoints and their results.
#[derive(Debug, Default)]
struct Requests {
    wanted: bool,
    /// Number of times that the run has taken such requests.
    taken: u64,
    /// The checkpoint of the last time.
    number: Option<u32>,
    /// The last checkpoint with a known result.
    last: Option<(u32, Result<Report, String>)>,
}

impl Requests {
    /// True if a request made after `before` times has no answer yet.
    fn waits(&self, before: u64) -> bool {
        let known = self.last.as_ref().map_or(0, |(number, _)| *number);
        self.taken == before || self.number.is_some_and(|number| known < number)
    }
}

/// A client's limits on virtual time.
#[derive(Clone, Copy, Debug, Default)]
struct Hold {
    paused: bool,
    pace: Option<Pace>,
}

#[derive(Clone, Copy, Debug)]
struct Pace {
    ratio: f64,
    /// The host time and virtual time at which the pace started.
    since: Option<(Instant, Time)>,
}

/// Work for a run before it continues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Input for nodes.
    pub(crate) typed: Vec<(u32, Vec<u8>)>,
    /// True if a client requests a look.
    pub(crate) look: bool,
    /// True if a client has paused virtual time.
    pub(crate) paused: bool,
    /// True if a client requests a checkpoint.
    pub(crate) checkpoint: bool,
    /// True if a client requests the messages that wait.
    pub(crate) queues: bool,
}

impl Mailbox {
    /// True if there is work for the run.
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Ordering::Relaxed)
    }

    /// Takes the work.
    pub(crate) fn take(&self) -> Work {
        let mut inner = self.lock();
        self.called
            .store(!inner.holds.is_empty(), Ordering::Relaxed);
        inner.typed_bytes = 0;
        let typed: Vec<_> = inner.typed.drain(..).collect();
        if !typed.is_empty() {
            inner.forget_pace();
        }
        Work {
            look: std::mem::take(&mut inner.wanted),
            checkpoint: std::mem::take(&mut inner.checkpoints.wanted),
            queues: std::mem::take(&mut inner.queues.wanted),
            paused: inner.holds.values().any(|hold| hold.paused),
            typed,
        }
    }

    /// Answers the requests for a look.
    pub(crate) fn publish(&self, look: Look) {
        let mut inner = self.lock();
        inner.look = look;
        inner.looks += 1;
        self.answered.notify_all();
    }

    /// Records that `bytes` were typed into `node` at `at`; returns the length of the record.
    pub(crate) fn log(&self, at: Time, node: u32, bytes: &[u8]) -> io::Result<u64> {
        let line = format!("{} node{node} {}\n", at.as_ps(), bytes.escape_ascii());
        match &mut self.lock().log {
            Some(file) => file.write_all(line.as_bytes()).map(|()| line.len() as u64),
            None => Ok(0),
        }
    }

    /// Sets the number of the requested checkpoint; `None` if it cannot be made.
    pub(crate) fn take_checkpoint(&self, number: Option<u32>) {
        let mut inner = self.lock();
        inner.checkpoints.taken += 1;
        inner.checkpoints.number = number;
        self.answered.notify_all();
    }

    /// Reports the result of a checkpoint.
    pub fn tell_checkpoint(&self, number: u32, outcome: Result<&Report, &str>) {
        let outcome = outcome.cloned().map_err(str::to_owned);
        self.lock().checkpoints.last = Some((number, outcome));
        self.answered.notify_all();
    }

    /// Requests a checkpoint, and waits until it is on the disk; returns the reason if it
    /// fails.
    pub(crate) fn checkpoint(&self) -> Result<Report, String> {
        let mut inner = self.lock();
        let before = inner.checkpoints.taken;
        inner.checkpoints.wanted = true;
        self.call(&inner);
        let waiting = |inner: &mut Inner| !inner.closed && inner.checkpoints.waits(before);
        let inner = self.answered.wait_while(inner, waiting);
        let inner = inner.unwrap_or_else(PoisonError::into_inner);
        if inner.checkpoints.taken > before && inner.checkpoints.number.is_none() {
            return Err("this run keeps no checkpoints".to_owned());
        }
        match &inner.checkpoints.last {
            Some((_, outcome)) if !inner.checkpoints.waits(before) => outcome.clone(),
            _ => Err("the run is ending".to_owned()),
        }
    }

    /// Sleeps briefly if virtual time is limited at `now`, and returns true then. Afterwards
    /// the run must check for work again.
    pub(crate) fn hold(&self, now: Time) -> bool {
        let mut inner = self.lock();
        let Some(nap) = inner.nap(now) else {
            return false;
        };
        let nap = self.called_for.wait_timeout(inner, nap);
        drop(nap.unwrap_or_else(PoisonError::into_inner));
        true
    }

    /// True if a client may still send input.
    pub(crate) fn is_attended(&self) -> bool {
        !self.lock().holds.is_empty()
    }

    /// Ends all requests, as the run is over.
    pub fn close(&self) {
        self.lock().closed = true;
        self.answered.notify_all();
    }

    /// The run's state; `None` if the run is over or does not answer.
    pub(crate) fn look(&self) -> Option<Look> {
        let mut inner = self.lock();
        let before = inner.looks;
        inner.wanted = true;
        self.call(&inner);
        let unanswered = |inner: &mut Inner| inner.looks == before && !inner.closed;
        let (inner, _) = self
            .answered
            .wait_timeout_while(inner, PATIENCE, unanswered)
            .unwrap_or_else(PoisonError::into_inner);
        (inner.looks != before).then(|| inner.look.clone())
    }

    /// Queues `bytes` for `node`; `false` if too much input is waiting. The first time, `open`
    /// makes the file for the record of input.
    pub(crate) fn type_in(
        &self,
        node: u32,
        bytes: Vec<u8>,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<bool> {
        let mut inner = self.lock();
        if inner.typed_bytes + bytes.len() > MOST_TYPED {
            return Ok(false);
        }
        if inner.log.is_none() {
            inner.log = Some(open()?);
        }
        inner.typed_bytes += bytes.len();
        inner.typed.push_back((node, bytes));
        self.call(&inner);
        Ok(true)
    }

    /// Pauses or continues virtual time for `client`.
    pub(crate) fn pause(&self, client: u64, paused: bool) {
        self.change(client, |hold| hold.paused = paused);
    }

    /// Sets or removes the pace of virtual time for `client`.
    pub(crate) fn pace(&self, client: u64, ratio: Option<f64>) {
        let pace = ratio.map(|ratio| Pace { ratio, since: None });
        self.change(client, |hold| hold.pace = pace);
    }

    /// Removes the requests of `client`.
    pub(crate) fn leave(&self, client: u64) {
        self.change(client, |hold| *hold = Hold::default());
    }

    fn change(&self, client: u64, change: impl FnOnce(&mut Hold)) {
        let mut inner = self.lock();
        let hold = inner.holds.entry(client).or_default();
        change(hold);
        if !hold.paused && hold.pace.is_none() {
            inner.holds.remove(&client);
        }
        self.call(&inner);
    }

    fn call(&self, _: &MutexGuard<'_, Inner>) {
        self.called.store(true, Ordering::Relaxed);
        self.called_for.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Paces start anew, so that a user sees the effect of input at once.
    fn forget_pace(&mut self) {
        for hold in self.holds.values_mut() {
            if let Some(pace) = &mut hold.pace {
                pace.since = None;
            }
        }
    }

    /// The time that the run must sleep at `now`.
    fn nap(&mut self, now: Time) -> Option<Duration> {
        if self.wanted || self.checkpoints.wanted || !self.typed.is_empty() {
            return Some(Duration::ZERO);
        }
        if self.holds.values().any(|hold| hold.paused) {
            return Some(NAP);
        }
        let paces = self
            .holds
            .values_mut()
            .filter_map(|hold| hold.pace.as_mut());
        paces.filter_map(|pace| pace.nap(now)).max()
    }
}

impl Pace {
    fn nap(&mut self, now: Time) -> Option<Duration> {
        let host = Instant::now();
        let (since, from) = *self.since.get_or_insert((host, now));
        let allowed = host.duration_since(since).as_secs_f64() * self.ratio * 1e12;
        let used = now.since(from).as_ps() as f64;
        if allowed - used > LATE as f64 {
            self.since = Some((host, now));
        }
        (used > allowed).then_some(NAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn who_asks_is_answered_by_the_run() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.is_called());
        thread::scope(|scope| {
            let asking = scope.spawn(|| mailbox.look());
            while !mailbox.is_called() {
                thread::yield_now();
            }
            assert!(mailbox.take().look);
            let rounds = 17;
            mailbox.publish(Look {
                rounds,
                ..Look::default()
            });
            assert_eq!(asking.join().unwrap().unwrap().rounds, 17);
        });
        assert!(!mailbox.is_called());
        mailbox.close();
        assert_eq!(mailbox.look(), None);
    }

    #[test]
    fn virtual_time_waits_as_long_as_a_client_wants_it() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.hold(Time::ZERO));
        mailbox.pause(1, true);
        mailbox.pause(2, true);
        assert!(mailbox.take().paused && mailbox.hold(Time::ZERO));
        mailbox.leave(1);
        assert!(mailbox.hold(Time::ZERO) && mailbox.is_attended());
        mailbox.pause(2, false);
        assert!(!mailbox.hold(Time::ZERO) && !mailbox.is_attended());
    }

    #[test]
    fn a_paced_run_waits_until_it_is_time() {
        let mailbox = Mailbox::default();
        mailbox.pace(1, Some(1.0));
        let later = Time::from_ps(60_000_000_000);
        let start = Instant::now();
        assert!(!mailbox.hold(Time::ZERO));
        while mailbox.hold(later) {}
        assert!(start.elapsed() >= Duration::from_millis(60));
    }

    #[test]
    fn only_so_much_waits_to_be_typed() {
        let mailbox = Mailbox::default();
        let type_in = |count| {
            mailbox
                .type_in(3, vec![b'x'; count], tempfile::tempfile)
                .unwrap()
        };
        assert!(type_in(MOST_TYPED));
        assert!(!type_in(1));
        assert_eq!(mailbox.take().typed, [(3, vec![b'x'; MOST_TYPED])]);
        assert!(type_in(1));
    }
}
