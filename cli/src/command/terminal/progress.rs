//! Progress of long work: one line on standard error, with the time that is left.
//!
//! The line appears if standard error is a terminal and the work takes over two seconds. It disappears before results are
//! printed. Libraries report their steps to closures and are independent of this module. Called by the commands. The host's clock
//! measures the work; no result depends on it.
#![allow(clippy::disallowed_methods)]

use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use belljar_archive::{ReadPosition, observed};
use indicatif::{ProgressBar, ProgressStyle};

use super::notes;

/// Work that takes less is not shown.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between checks of the work.
const INTERVAL: Duration = Duration::from_millis(200);

/// The work that is shown, the innermost last, and its line.
struct Shown {
    tasks: Vec<Arc<Counters>>,
    bar: Option<ProgressBar>,
    /// True while a thread draws.
    draws: bool,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown {
    tasks: Vec::new(),
    bar: None,
    draws: false,
});

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Counters {
    begin: Instant,
    /// The unit of steps, such as `replays`; of reading, the file.
    what: Mutex<String>,
    unit: Unit,
    done: AtomicU64,
    /// All steps; 0 while that is unknown.
    all: AtomicU64,
    /// The reader of the present pass.
    reader: AtomicU64,
    /// When the present pass began, in nanoseconds since `begin`.
    pass: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// `12 of 200 replays`.
    Steps,
    /// `reading hpl-4/trace.bjt: 43 %`.
    Share,
}

/// Work in progress. It is shown until this is dropped.
#[derive(Debug)]
pub(crate) struct TerminalTask(Arc<Counters>);

impl TerminalTask {
    /// Shows `all` steps of this name, or an unknown number of steps.
    pub(crate) fn of_steps(name: &str, all: Option<u64>) -> Self {
        Self::begin(name, all.unwrap_or(0), Unit::Steps)
    }

    fn begin(name: &str, all: u64, unit: Unit) -> Self {
        let counters = Arc::new(Counters {
            begin: Instant::now(),
            what: Mutex::new(name.to_owned()),
            unit,
            done: AtomicU64::new(0),
            all: AtomicU64::new(all),
            reader: AtomicU64::new(0),
            pass: AtomicU64::new(0),
        });
        let mut shown = shown();
        shown.tasks.push(Arc::clone(&counters));
        if !shown.draws && io::stderr().is_terminal() && notes::are_wanted() {
            // Without a thread no line appears.
            let drawing = thread::Builder::new().name("progress".into()).spawn(draw);
            shown.draws = drawing.is_ok();
        }
        drop(shown);
        Self(counters)
    }

    /// Sets the number of finished steps.
    pub(crate) fn set(&self, done: u64) {
        self.0.done.store(done, Ordering::Relaxed);
    }

    /// Sets the number of all steps, which may change.
    pub(crate) fn expect(&self, all: u64) {
        self.0.all.store(all, Ordering::Relaxed);
    }

    /// Another step is done. Returns how many are.
    pub(crate) fn step(&self) -> u64 {
        self.0.done.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records the position of a pass over a file. If several readers alternate, the latest pass is shown.
    fn read(&self, path: &Path, position: ReadPosition) {
        let before = self.0.reader.load(Ordering::Relaxed);
        if position.reader < before {
            return;
        }
        if position.reader > before {
            self.0.reader.store(position.reader, Ordering::Relaxed);
            let since = u64::try_from(self.0.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.0.pass.store(since, Ordering::Relaxed);
            let mut what = self.0.what.lock().unwrap_or_else(PoisonError::into_inner);
            *what = format!("reading {}", path.display());
        }
        self.0.all.store(position.length, Ordering::Relaxed);
        self.0.done.store(position.offset, Ordering::Relaxed);
    }
}

impl Drop for TerminalTask {
    fn drop(&mut self) {
        let mut shown = shown();
        shown.tasks.retain(|task| !Arc::ptr_eq(task, &self.0));
        if shown.tasks.is_empty() {
            shown.take_away();
        }
    }
}

impl Shown {
    fn take_away(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Draws the innermost work, if the outermost has lasted long enough.
    fn draw(&mut self) {
        let (Some(first), Some(last)) = (self.tasks.first(), self.tasks.last()) else {
            return self.take_away();
        };
        if first.begin.elapsed() < PATIENCE {
            return;
        }
        let line = last.line();
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar
        });
        bar.set_message(line);
        bar.tick();
    }
}

impl Counters {
    fn line(&self) -> String {
        let what = self.what.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, all) = (&self.done, &self.all);
        let (done, all) = (done.load(Ordering::Relaxed), all.load(Ordering::Relaxed));
        let pass = Duration::from_nanos(self.pass.load(Ordering::Relaxed));
        let elapsed = self.begin.elapsed().saturating_sub(pass);
        line(&what, self.unit, done, all, elapsed)
    }
}

/// The line of some work.
fn line(what: &str, unit: Unit, done: u64, all: u64, elapsed: Duration) -> String {
    let left = remaining(elapsed, done, all);
    let left = left.map_or_else(String::new, |left| format!(", {} left", in_words(left)));
    match (unit, all) {
        (Unit::Steps, 0) => format!("{done} {what}, {}", in_words(elapsed)),
        (Unit::Steps, all) => format!("{done} of {all} {what}{left}"),
        (Unit::Share, 0) => what.to_owned(),
        (Unit::Share, all) => {
            let share = u128::from(done) * 100 / u128::from(all);
            format!("{what}: {share} %{left}")
        }
    }
}

/// The remaining time, if further steps are as fast as the first `done` of `all`; `None` before the first step.
fn remaining(elapsed: Duration, done: u64, all: u64) -> Option<Duration> {
    let rest = u128::from(all.checked_sub(done)?);
    let nanoseconds = (elapsed.as_nanos() * rest).checked_div(u128::from(done))?;
    Some(Duration::from_nanos(
        u64::try_from(nanoseconds).unwrap_or(u64::MAX),
    ))
}

/// A length of time as text: the two largest units.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() >= 500_000_000);
    match (seconds / 86400, seconds / 3600, seconds / 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

/// Draws until no work is left.
fn draw() {
    loop {
        thread::sleep(INTERVAL);
        let mut shown = shown();
        if shown.tasks.is_empty() {
            shown.take_away();
            shown.draws = false;
            return;
        }
        shown.draw();
    }
}

/// Removes the line for good, before results or the program's end.
pub(crate) fn clear() {
    let mut shown = shown();
    shown.tasks.clear();
    shown.take_away();
}

/// Writes on standard error while the line is out of the way.
pub(crate) fn above(write: impl FnOnce()) {
    let bar = shown().bar.clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Does `work`, and shows how far it is in the traces that it reads.
pub(crate) fn of_traces<T>(work: impl FnOnce() -> T) -> T {
    let task = TerminalTask::begin("working", 0, Unit::Share);
    let reads = TerminalTask(Arc::clone(&task.0));
    observed(move |path, position| reads.read(path, position), work)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_rest_takes_as_long_as_its_share() {
        assert_eq!(remaining(10 * SECOND, 0, 100), None);
        assert_eq!(remaining(10 * SECOND, 20, 100), Some(40 * SECOND));
        assert_eq!(remaining(10 * SECOND, 100, 100), Some(Duration::ZERO));
        // A file that grew meanwhile.
        assert_eq!(remaining(10 * SECOND, 101, 100), None);
        let most = remaining(SECOND, 1, u64::MAX);
        assert_eq!(most, Some(Duration::from_nanos(u64::MAX)));
    }

    #[test]
    fn lines_have_what_is_known() {
        let of = |unit, counts: (u64, u64), seconds| {
            line("replays", unit, counts.0, counts.1, SECOND * seconds)
        };
        assert_eq!(of(Unit::Steps, (0, 200), 3), "0 of 200 replays");
        assert_eq!(
            of(Unit::Steps, (50, 200), 30),
            "50 of 200 replays, 1 min 30 s left"
        );
        assert_eq!(of(Unit::Steps, (7, 0), 3), "7 replays, 3 s");
        assert_eq!(of(Unit::Share, (0, 0), 3), "replays");
        assert_eq!(
            of(Unit::Share, (1, 4), 3600),
            "replays: 25 %, 3 h 0 min left"
        );
    }

    #[test]
    fn times_have_two_units() {
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min 0 s"),
            (3_725, "1 h 2 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(in_words(SECOND * seconds), words);
        }
        assert_eq!(in_words(Duration::from_millis(1600)), "2 s");
    }
}
