//! One row of commands after another, in one guest or on the bare processor, and the
//! host's time of each.
//!
//! A guest boots once for all rows of its level, and marks on its console show the start
//! and end of each, as boots differ from each other by as much as a kernel takes. A row that
//! exceeds its limit of host time ends the guest, and another one runs the rows after it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::super::Bench;
use super::super::qemu::{GuestConnection, Machine};

/// Interval of reading a console, which bounds the error of a time.
const LOOK: Duration = Duration::from_micros(200);
/// Limit on a boot, and on the end after the last row.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
const BEGIN: &str = "belljar-bench begin ";
const END: &str = "belljar-bench end ";
const FAILED: &str = "belljar-bench failed ";

/// Seconds of host time by the name of a row.
pub(super) type Seconds = BTreeMap<&'static str, f64>;

/// A named command to measure.
#[derive(Clone)]
pub(super) struct MeasuredCommand {
    pub name: &'static str,
    /// A shell's command.
    pub command: String,
}

/// A row without a time on one side.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SkippedStep {
    pub side: Side,
    pub name: &'static str,
    pub reason: String,
}

/// The place where commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Bare,
    Belljar,
    Qemu,
}

impl Side {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare processor",
            Self::Belljar => "Belljar",
            Self::Qemu => "QEMU",
        }
    }
}

/// A side with its guests' level, and each row's limit of host time.
#[derive(Clone, Copy)]
pub(super) struct Series<'a> {
    pub bench: &'a Bench,
    pub side: Side,
    /// Ignored on the bare processor.
    pub level: &'static str,
    pub limit: Duration,
}

impl Series<'_> {
    /// Times of `steps`; steps without a time are added to `skipped`, whose steps are not run again.
    pub(super) fn run(
        self,
        steps: &[MeasuredCommand],
        skipped: &mut Vec<SkippedStep>,
    ) -> Result<Seconds> {
        let known = |step: &&MeasuredCommand| {
            let same = |it: &SkippedStep| it.side == self.side && it.name == step.name;
            !skipped.iter().any(same)
        };
        let mut left: Vec<MeasuredCommand> = steps.iter().filter(known).cloned().collect();
        let mut seconds = Seconds::new();
        while !left.is_empty() {
            let (command, console) = self.command(&left)?;
            let followed = self.follow(command, &console)?;
            let mut done = 0;
            for step in &left {
                let skip = |reason| SkippedStep {
                    side: self.side,
                    name: step.name,
                    reason,
                };
                match followed.outcome(step.name) {
                    StepOutcome::Took(took) => {
                        seconds.insert(step.name, took);
                    }
                    StepOutcome::Failed => skipped.push(skip("it failed".to_owned())),
                    StepOutcome::Stopped => {
                        let limit = self.limit.as_secs();
                        skipped.push(skip(format!("it takes more than {limit} s")));
                    }
                    StepOutcome::NotBegun => break,
                }
                done += 1;
            }
            if done == 0 {
                // Another guest would not boot either.
                let limit = BOOT_LIMIT.as_secs();
                skipped.extend(left.iter().map(|step| SkippedStep {
                    side: self.side,
                    name: step.name,
                    reason: format!("its guest does not boot within {limit} s"),
                }));
                break;
            }
            left.drain(..done);
        }
        Ok(seconds)
    }

    /// The command that runs `steps`, and the file of its marks.
    fn command(self, steps: &[MeasuredCommand]) -> Result<(Command, PathBuf)> {
        match self.side {
            Side::Bare => bare(self.bench, steps),
            Side::Belljar => ours(self.bench, self.level, steps),
            Side::Qemu => qemu(self.bench, self.level, steps),
        }
    }

    /// Runs `command`, and detects the start and end of each step on `console`. A step over its
    /// limit ends the command.
    fn follow(self, mut command: Command, console: &Path) -> Result<Marks> {
        let errors = self.bench.folder.join("errors.log");
        let child = command
            .stdin(Stdio::null())
            .stderr(File::create(&errors)?)
            .spawn()
            .with_context(|| format!("cannot start {command:?}"))?;
        let mut child = Owned(child);
        let mut marks = Marks::new(self.side);
        let ended = loop {
            let ended = child.0.try_wait()?;
            marks.look(console)?;
            if ended.is_some() {
                break ended;
            }
            let limit = if marks.running.is_some() {
                self.limit
            } else {
                BOOT_LIMIT
            };
            if marks.latest.elapsed() > limit {
                break None;
            }
            std::thread::sleep(LOOK);
        };
        if ended.is_some_and(|status| !status.success()) {
            let errors = fs::read_to_string(&errors)?;
            bail!(
                "{command:?} failed:\n{errors}\nThe console says:\n{}",
                marks.text
            );
        }
        Ok(marks)
    }
}

/// A script that runs all of `steps` and marks each on its standard output.
fn script(steps: &[MeasuredCommand]) -> String {
    let step = |MeasuredCommand { name, command }: &MeasuredCommand| {
        format!(
            "echo '{BEGIN}{name}'\n\
             if {command} >/dev/null; then echo '{END}{name}'; else echo '{FAILED}{name}'; fi\n"
        )
    };
    steps.iter().map(step).collect()
}

/// The same, for a shell that ends its step when it is ended itself.
fn ending_script(steps: &[MeasuredCommand]) -> String {
    let waiting = |step: &MeasuredCommand| {
        let command = format!("{{ {} >/dev/null & child=$!; wait $child; }}", step.command);
        MeasuredCommand { command, ..*step }
    };
    let steps: Vec<_> = steps.iter().map(waiting).collect();
    format!("trap 'kill -KILL $child; exit 1' TERM\n{}", script(&steps))
}

/// Runs `steps` on the bare processor.
fn bare(bench: &Bench, steps: &[MeasuredCommand]) -> Result<(Command, PathBuf)> {
    let console = bench.folder.join("bare.log");
    let output = File::create(&console)?;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &ending_script(steps)])
        .current_dir(&bench.folder)
        .stdout(output);
    Ok((shell, console))
}

/// Runs `steps` in a guest of Belljar.
fn ours(bench: &Bench, level: &str, steps: &[MeasuredCommand]) -> Result<(Command, PathBuf)> {
    let scenario = write_scenario(bench, level, steps)?;
    let out = bench.fresh_out();
    let mut run = Command::new(&bench.belljar);
    run.arg("run").arg(scenario).arg("--quiet");
    run.arg("--out").arg(&out).stdout(Stdio::null());
    // A run's directory gets its final name when the run is complete.
    let output = out.with_extension("incomplete").join("stdout");
    Ok((run, output))
}

/// Runs `steps` in a guest of QEMU's.
fn qemu(bench: &Bench, level: &str, steps: &[MeasuredCommand]) -> Result<(Command, PathBuf)> {
    let disk = bench.run_disk(&write_scenario(bench, level, steps)?)?;
    let console = bench.folder.join("qemu.log");
    File::create(&console)?;
    let machine = Machine {
        image: &bench.image,
        disk: &disk,
        level,
        memory_mib: 1024,
        node: (0, 1),
        link: GuestConnection::None,
        console: Some(&console),
    };
    let mut command = machine.command();
    command.stdout(Stdio::null());
    Ok((command, console))
}

fn write_scenario(bench: &Bench, level: &str, steps: &[MeasuredCommand]) -> Result<PathBuf> {
    let path = bench.folder.join("series.toml");
    let recipe = crate::root().join("images/bookworm-mpich.toml");
    let kernels = bench.folder.join("kernels");
    let command = script(steps);
    let text = format!(
        "name = \"series\"\nimage = {{ recipe = {recipe:?} }}\n\
         nodes = {{ count = 1, memory = \"1 GiB\", clock = \"1 GHz\", level = {level:?}, boot = \"each\" }}\n\
         workload = {{ command = {command:?}, limit = \"3000 s\", files = {{ kernels = {kernels:?} }} }}\n\
         trace = {{ enabled = false, library = false }}\n"
    );
    fs::write(&path, text)?;
    Ok(path)
}

/// A child that ends with its owner.
struct Owned(Child);

/// Time for a child to end its own children.
const GRACE: Duration = Duration::from_secs(5);

impl Drop for Owned {
    fn drop(&mut self) {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if ended(&mut self.0) {
            return;
        }
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let began = Instant::now();
        while !ended(&mut self.0) && began.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The end of a step, as its marks show it.
#[derive(Debug, PartialEq)]
enum StepOutcome {
    /// In seconds.
    Took(f64),
    Failed,
    Stopped,
    NotBegun,
}

/// Marks on a console, with their times.
struct Marks {
    side: Side,
    /// The console's file, once it exists; it may be renamed meanwhile.
    file: Option<File>,
    text: String,
    /// Length of the examined text.
    seen: usize,
    /// The time of the latest mark, or of the start.
    latest: Instant,
    /// The step that has begun and not ended.
    running: Option<String>,
    times: BTreeMap<String, Instant>,
}

impl Marks {
    fn new(side: Side) -> Self {
        Self {
            side,
            file: None,
            text: String::new(),
            seen: 0,
            latest: Instant::now(),
            running: None,
            times: BTreeMap::new(),
        }
    }

    fn look(&mut self, console: &Path) -> Result<()> {
        if self.file.is_none() {
            self.file = File::open(console).ok();
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        if file.read_to_end(&mut bytes)? == 0 {
            return Ok(());
        }
        let now = Instant::now();
        self.text.push_str(&String::from_utf8_lossy(&bytes));
        while let Some(length) = self.text[self.seen..].find('\n') {
            let line = self.text[self.seen..self.seen + length].trim().to_owned();
            self.mark(line, now);
            self.seen += length + 1;
        }
        Ok(())
    }

    /// Handles a line of the console, and prints the progress.
    fn mark(&mut self, line: String, now: Instant) {
        let side = self.side.name();
        if let Some(name) = line.strip_prefix(BEGIN) {
            self.running = Some(name.to_owned());
        } else if let Some(name) = line.strip_prefix(END) {
            let took = (now - self.latest).as_secs_f64();
            eprintln!("{side}: {name} took {took:.2} s");
            self.running = None;
        } else if let Some(name) = line.strip_prefix(FAILED) {
            eprintln!("{side}: {name} failed");
            self.running = None;
        } else {
            return;
        }
        self.latest = now;
        self.times.insert(line, now);
    }

    fn outcome(&self, name: &str) -> StepOutcome {
        let at = |kind: &str| self.times.get(&format!("{kind}{name}"));
        match (at(BEGIN), at(END), at(FAILED)) {
            (Some(begin), Some(end), _) => StepOutcome::Took((*end - *begin).as_secs_f64()),
            (_, _, Some(_)) => StepOutcome::Failed,
            (Some(_), _, _) => StepOutcome::Stopped,
            _ => StepOutcome::NotBegun,
        }
    }
}

#[cfg(test)]
mod tests;
