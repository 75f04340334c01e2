//! Signals that end the program: Ctrl-C (SIGINT), SIGTERM and SIGHUP.
//!
//! Without a `Deferral` a signal ends the program at once: child processes are ended, unfinished outputs are removed, and the
//! exit code is 128 plus the signal's number, as in shells. Under a deferral the first signal sets its flag, and the command ends
//! in order; a second one ends the program at once. Called by `main` and by the commands. The host's clock bounds the wait for
//! children.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::progress;

/// Shells' exit codes of signals start above this number.
const SIGNALS: i32 = 128;
/// The time that child processes have to end by themselves.
const FAREWELL: Duration = Duration::from_millis(500);
/// The time that work with steps has to notice a signal.
const PATIENCE: Duration = Duration::from_millis(800);
const NAP: Duration = Duration::from_millis(10);

/// The last signal, or 0.
static LAST: AtomicI32 = AtomicI32::new(0);
/// True while the program ends by a signal.
static ENDING: AtomicBool = AtomicBool::new(false);
/// The active deferral.
static DEFERRED: Mutex<Option<Flags>> = Mutex::new(None);

/// True while Ctrl-C is for a child process in the terminal.
static CHILD: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Debug)]
struct Flags {
    stop: Arc<AtomicBool>,
    /// Set by work that saw `stop`; `None` for work without a time limit.
    noticed: Option<Arc<AtomicBool>>,
}

fn deferred() -> MutexGuard<'static, Option<Flags>> {
    DEFERRED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of a command by a signal, with words about the work that is kept.
#[derive(Debug, thiserror::Error)]
#[error("interrupted: {0}")]
pub(crate) struct Interrupted(pub(crate) String);

/// Reports the end of a command by a signal, with words about the work that is kept. Returns the exit code.
pub(crate) fn report(kept: &str) -> ExitCode {
    super::colour::error_line("interrupted", Some(kept));
    ExitCode::from(exit_code())
}

/// Starts the thread that takes signals.
///
/// # Errors
/// When the host starts no thread or handles no signal.
pub(crate) fn listen() -> io::Result<()> {
    let signals = match is_ignored(SIGHUP) {
        // nohup: the program outlives its terminal.
        true => vec![SIGINT, SIGTERM],
        false => vec![SIGINT, SIGTERM, SIGHUP],
    };
    let mut signals = Signals::new(signals)?;
    let take = move || signals.forever().for_each(received);
    thread::Builder::new().name("signals".into()).spawn(take)?;
    Ok(())
}

/// True if the program was started with this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Leaves Ctrl-C to a child process that has the terminal, until the end of this program.
pub(crate) fn leave_to_child() {
    CHILD.store(true, Ordering::Relaxed);
}

fn received(signal: i32) {
    if signal == SIGINT && CHILD.load(Ordering::Relaxed) {
        return;
    }
    LAST.store(signal, Ordering::Relaxed);
    let flags = deferred().clone();
    let Some(flags) = flags else {
        end(signal);
    };
    if flags.stop.swap(true, Ordering::Relaxed) {
        end(signal);
    }
    if let Some(noticed) = flags.noticed {
        thread::spawn(move || {
            thread::sleep(PATIENCE);
            let is_current = |held: &Flags| Arc::ptr_eq(&held.stop, &flags.stop);
            let holds = deferred().as_ref().is_some_and(is_current);
            if holds && !noticed.load(Ordering::Relaxed) {
                end(signal);
            }
        });
    }
}

/// Ends the program.
fn end(signal: i32) -> ! {
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread is ending the program. If that thread hangs, the third signal ends the program here.
        thread::sleep(FAREWELL * 2);
        process::exit(SIGNALS + signal);
    }
    progress::clear();
    end_children();
    let _abandoned = belljar_files::abandon();
    super::colour::error_line("interrupted", None);
    process::exit(SIGNALS + signal)
}

/// Waits for the end of the program if a signal ends it: errors that follow from that are not the reason.
pub(crate) fn give_way() {
    while ENDING.load(Ordering::SeqCst) {
        thread::sleep(NAP);
    }
}

/// The exit code of a command that ended in order after a signal.
fn exit_code() -> u8 {
    let signal = match LAST.load(Ordering::Relaxed) {
        0 => SIGINT,
        signal => signal,
    };
    u8::try_from(SIGNALS + signal).unwrap_or(1)
}

/// Ends child processes and their descendants, by force if necessary.
fn end_children() {
    let begin = Instant::now();
    let mut signal = Signal::SIGTERM;
    loop {
        let children = descendants();
        if children.is_empty() {
            return;
        }
        let is_late = begin.elapsed() > FAREWELL;
        if signal == Signal::SIGTERM || is_late {
            for child in &children {
                let _ = kill(Pid::from_raw(*child), signal);
            }
        }
        if is_late && signal == Signal::SIGKILL {
            return;
        }
        signal = Signal::SIGKILL;
        thread::sleep(NAP);
    }
}

/// Running child processes and their descendants.
fn descendants() -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in procfs::process::all_processes().into_iter().flatten() {
        if let Ok(stat) = process.and_then(|process| process.stat())
            && !matches!(stat.state, 'Z' | 'X')
        {
            children.entry(stat.ppid).or_default().push(stat.pid);
        }
    }
    let mut all = Vec::new();
    let mut above = vec![i32::try_from(process::id()).unwrap_or(0)];
    while let Some(parent) = above.pop() {
        let own = children.remove(&parent).unwrap_or_default();
        above.extend(&own);
        all.extend(own);
    }
    all
}

/// While it lives, the first signal sets its flag.
#[derive(Debug)]
pub(crate) struct Deferral(Flags);

impl Deferral {
    /// For work that ends in order at the flag, without a time limit.
    pub(crate) fn begin() -> Self {
        Self::with(None)
    }

    /// For work in steps that calls [`is_wanted`](Self::is_wanted) at each. If a step takes too long, the program ends at once.
    pub(crate) fn of_steps() -> Self {
        Self::with(Some(Arc::default()))
    }

    fn with(noticed: Option<Arc<AtomicBool>>) -> Self {
        let flags = Flags {
            stop: Arc::default(),
            noticed,
        };
        *deferred() = Some(flags.clone());
        Self(flags)
    }

    /// The flag.
    pub(crate) fn flag(&self) -> &Arc<AtomicBool> {
        &self.0.stop
    }

    /// True if a signal requested the end.
    pub(crate) fn is_wanted(&self) -> bool {
        let wanted = self.0.stop.load(Ordering::Relaxed);
        if wanted && let Some(noticed) = &self.0.noticed {
            noticed.store(true, Ordering::Relaxed);
        }
        wanted
    }
}

impl Drop for Deferral {
    fn drop(&mut self) {
        let mut held = deferred();
        if held
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(&held.stop, &self.0.stop))
        {
            *held = None;
        }
    }
}
