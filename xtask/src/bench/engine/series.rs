//! One row of commands after another, in one guest or on the bare processor, and the
//! host's time of each.
//!
//! A guest boots once for all rows of its level, and marks on its console show the start
//! and end of each, as boots differ from each other by as much as a kernel takes.

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
/// Longer than any series: a longer silence means a hang.
const SILENCE: Duration = Duration::from_secs(600);
const BEGIN: &str = "belljar-bench begin ";
const END: &str = "belljar-bench end ";

/// Seconds of host time by the name of a row.
pub(super) type Seconds = BTreeMap<&'static str, f64>;

/// A named command to measure.
#[derive(Clone)]
pub(super) struct MeasuredCommand {
    pub name: &'static str,
    /// A shell's command.
    pub command: String,
}

/// A script that runs all of `steps` and marks each on its standard output.
fn script(steps: &[MeasuredCommand]) -> String {
    let step = |MeasuredCommand { name, command }: &MeasuredCommand| {
        format!("echo '{BEGIN}{name}'\n{command} >/dev/null || exit 1\necho '{END}{name}'\n")
    };
    steps.iter().map(step).collect()
}

/// Times of `steps` on the bare processor, run in `folder`.
pub(super) fn bare(bench: &Bench, steps: &[MeasuredCommand]) -> Result<Seconds> {
    let console = bench.folder.join("bare.log");
    let output = File::create(&console)?;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script(steps)])
        .current_dir(&bench.folder)
        .stdout(output);
    follow(bench, shell, &console, steps)
}

/// Times of `steps` in a guest of Belljar.
pub(super) fn ours(bench: &Bench, level: &str, steps: &[MeasuredCommand]) -> Result<Seconds> {
    let scenario = write_scenario(bench, level, steps)?;
    let out = bench.fresh_out();
    let mut run = Command::new(&bench.belljar);
    run.arg("run").arg(scenario).arg("--quiet");
    run.arg("--out").arg(&out).stdout(Stdio::null());
    // A run's directory gets its final name when the run is complete.
    let output = out.with_extension("incomplete").join("stdout");
    follow(bench, run, &output, steps)
}

/// Times of `steps` in a guest of QEMU's.
pub(super) fn qemu(bench: &Bench, level: &str, steps: &[MeasuredCommand]) -> Result<Seconds> {
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
    follow(bench, command, &console, steps)
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

/// Runs `command`, and detects the start and end of each of `steps` on `console`.
fn follow(
    bench: &Bench,
    mut command: Command,
    console: &Path,
    steps: &[MeasuredCommand],
) -> Result<Seconds> {
    let errors = bench.folder.join("errors.log");
    let child = command
        .stdin(Stdio::null())
        .stderr(File::create(&errors)?)
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let mut child = Owned(child);
    let mut marks = Marks::default();
    let ended = loop {
        let ended = child.0.try_wait()?;
        marks.look(console)?;
        if ended.is_some() || marks.heard.elapsed() > SILENCE {
            break ended;
        }
        std::thread::sleep(LOOK);
    };
    if !ended.is_some_and(|status| status.success()) {
        let errors = fs::read_to_string(&errors)?;
        bail!(
            "{command:?} failed:\n{errors}\nThe console says:\n{}",
            marks.text
        );
    }
    steps.iter().map(|step| marks.time_of(step.name)).collect()
}

/// A child that ends with its owner.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Marks on a console, with their times.
struct Marks {
    /// The console's file, once it exists; it may be renamed meanwhile.
    file: Option<File>,
    text: String,
    /// Length of the examined text.
    seen: usize,
    heard: Instant,
    times: BTreeMap<String, Instant>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            file: None,
            text: String::new(),
            seen: 0,
            heard: Instant::now(),
            times: BTreeMap::new(),
        }
    }
}

impl Marks {
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
        self.heard = Instant::now();
        self.text.push_str(&String::from_utf8_lossy(&bytes));
        while let Some(length) = self.text[self.seen..].find('\n') {
            let line = self.text[self.seen..self.seen + length].trim();
            if line.starts_with(BEGIN) || line.starts_with(END) {
                self.times.insert(line.to_owned(), self.heard);
            }
            self.seen += length + 1;
        }
        Ok(())
    }

    fn time_of(&self, name: &'static str) -> Result<(&'static str, f64)> {
        let at = |kind: &str| {
            let mark = self.times.get(&format!("{kind}{name}"));
            mark.with_context(|| format!("no `{kind}{name}` in the console:\n{}", self.text))
        };
        Ok((name, (*at(END)? - *at(BEGIN)?).as_secs_f64()))
    }
}
