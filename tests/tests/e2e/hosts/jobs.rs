//! Jobs of Slurm in a lab: `belljar submit` and `belljar sweep` submit and follow them.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Output};

use belljar_tests::lab::wait_for;
use belljar_tests::{Dir, Scenario};

use super::site::{SOON, Site};

/// Resources of a job that does not need a host for itself.
const SMALL: [&str; 4] = ["--cpus-per-host", "1", "--mem", "2 GiB"];

/// One host.
struct Jobs(Site);

impl Deref for Jobs {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.0
    }
}

impl Jobs {
    fn start() -> Option<Self> {
        Site::start(1).map(Self)
    }

    fn endless(&self, nodes: u32, command: &str) -> String {
        self.scenario(&Scenario::new(nodes, command).limited("3600 s"))
    }

    /// `belljar submit` of such a scenario into the folder `out`.
    fn submit(&self, workload: &str, more: &[&str]) -> Command {
        let path = self.endless(2, workload);
        let mut command = self.command(&["submit", &path, "--out", "out"]);
        command.args(SMALL).args(more);
        command
    }

    fn squeue(&self) -> String {
        self.lab.head().run("squeue --noheader --format=%T").stdout
    }

    /// Waits until nodes of the job's run have booted.
    fn wait_until_it_runs(&self) {
        let console = self.file("out.incomplete/console/node0.log");
        let boots = || fs::metadata(&console).is_ok_and(|file| file.len() > 0);
        let runs = wait_for(SOON, || boots().then_some(()));
        let log = fs::read_to_string(self.file("out.job/job.log")).unwrap_or_default();
        assert!(
            runs.is_some(),
            "{}\n{log}\n{}",
            self.squeue(),
            self.lab.logs()
        );
    }

    /// The reported end of the job's interrupted run. Slurm may report the job's end before the run has written it.
    fn ending(&self) -> String {
        let summary = self.file("out.incomplete/summary.json");
        let text = wait_for(SOON, || fs::read_to_string(&summary).ok());
        text.expect("the run ended in order")
    }

    fn nothing_runs(&self) {
        let binary = self.dir.binary().to_str().unwrap();
        let gone = wait_for(SOON, || (!self.lab.host(0).runs(binary)).then_some(()));
        assert!(gone.is_some(), "{:?}", self.lab.host(0).processes());
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(mut command: Command) -> (Output, String) {
    let output = command.output().expect("belljar starts");
    let words = format!("{}\n{}", text(&output.stdout), text(&output.stderr));
    (output, words)
}

#[test]
fn a_submitted_run_comes_home_with_what_it_printed() {
    let Some(jobs) = Jobs::start() else { return };
    let (output, words) = done(jobs.submit("true", &["--set", "seed=7"]));
    assert_eq!(output.status.code(), Some(0), "{words}");
    let summary = fs::read_to_string(jobs.file("out/summary.json")).expect("the run is whole");
    assert!(summary.contains("\"seed\": 7"), "{summary}");
    assert!(
        text(&output.stdout).contains("the workload ended well"),
        "{words}"
    );
    let place = format!("the run directory is {}", jobs.file("out").display());
    assert!(words.contains(&place), "{words}");
    assert!(words.contains("ended well on h0;"), "{words}");
}

#[test]
fn what_becomes_of_the_workload_becomes_of_submit() {
    let Some(jobs) = Jobs::start() else { return };
    let (output, words) = done(jobs.submit("exit 3", &[]));
    assert_eq!(output.status.code(), Some(3), "{words}");
    // The name is in use then.
    let (output, words) = done(jobs.submit("true", &[]));
    assert_eq!(output.status.code(), Some(1));
    assert!(words.contains("exists already"), "{words}");
}

#[test]
fn what_slurm_refuses_is_told_in_its_words() {
    let Some(jobs) = Jobs::start() else { return };
    let (output, words) = done(jobs.submit("true", &["--partition", "nowhere"]));
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(!jobs.file("out.job").exists(), "the name is free again");
    assert!(words.contains("invalid partition"), "{words}");
    assert_eq!(words.matches("error:").count(), 1, "{words}");
}

#[test]
fn a_cancelled_job_ends_in_order() {
    let Some(jobs) = Jobs::start() else { return };
    let submit = jobs.submit("while :; do :; done", &[]);
    let follows = std::thread::spawn(|| done(submit));
    jobs.wait_until_it_runs();
    jobs.lab.head().run("scancel --name=test");
    let (output, words) = follows.join().expect("nothing goes wrong");
    // The exit code is Slurm's own, or the run's.
    let code = output.status.code();
    assert!([Some(1), Some(143)].contains(&code), "{code:?} {words}");
    assert!(words.contains("CANCELLED"), "{words}");
    assert!(jobs.ending().contains("interrupted"), "{}", jobs.ending());
    jobs.nothing_runs();
}

#[test]
fn a_job_is_told_before_its_time_is_over() {
    let Some(jobs) = Jobs::start() else { return };
    // Its only minute is the one before the end.
    let (output, words) = done(jobs.submit("while :; do :; done", &["--time", "1"]));
    assert_eq!(output.status.code(), Some(143), "{words}");
    assert!(!words.contains("TIMEOUT"), "{words}");
    assert!(jobs.ending().contains("interrupted"), "{}", jobs.ending());
    jobs.nothing_runs();
}

#[test]
fn a_job_that_is_not_followed_any_more_goes_on() {
    let Some(jobs) = Jobs::start() else { return };
    let mut submit = jobs.submit("while :; do :; done", &[]);
    let child = submit
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("belljar starts");
    jobs.wait_until_it_runs();
    let head = jobs.lab.head().processes().into_iter();
    let mut own = head.filter(|process| process.command.contains(" submit "));
    let id = own.next().expect("submit follows").id.to_string();
    let told = Command::new("kill").args(["-INT", &id]).status();
    assert!(told.expect("kill starts").success());
    let output = child.wait_with_output().expect("submit ends");
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    assert!(
        words.contains("continues; follow it with: tail -F"),
        "{words}"
    );
    assert!(words.contains("scancel"), "{words}");
    assert_eq!(jobs.squeue(), "RUNNING\n");
}

/// The table of a sweep, without its last two columns, which depend on the host.
fn table(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the table was written");
    let short = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        cells[..cells.len() - 2].join(",")
    };
    text.lines().map(short).collect()
}

const VARIED: [&str; 4] = [
    "--set",
    "nodes.count=[1, 2]",
    "--set",
    "workload.command=[test 1 = 1, exit 3, no-such-program]",
];

#[test]
fn a_sweep_makes_one_table_of_an_array_of_jobs_and_the_same_one_here() {
    let Some(jobs) = Jobs::start() else { return };
    let path = jobs.endless(2, "true");
    let sweep = |more: &[&str]| {
        let mut command = jobs.command(&["sweep", &path]);
        command.args(VARIED).args(more);
        done(command)
    };
    let (output, words) =
        sweep(&[SMALL.as_slice(), &["--out", "jobs", "--at-a-time", "2"]].concat());
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("an array of 6"), "{words}");
    let slurm = table(&jobs.file("jobs/sweep.csv"));
    let begins = [
        "nodes.count,workload.command,exit_code,ending,virtual_seconds,mpi_calls",
        "1,test 1 = 1,0,",
        "1,exit 3,3,",
        "1,no-such-program,127,",
        "2,test 1 = 1,0,",
        "2,exit 3,3,",
        "2,no-such-program,127,",
    ];
    assert_eq!(slurm.len(), begins.len(), "{slurm:#?}");
    for (line, begin) in slurm.iter().zip(begins) {
        assert!(line.starts_with(begin), "{slurm:#?}");
    }
    let (output, words) = sweep(&["--here", "--out", "here"]);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("[6/6]"), "{words}");
    assert_eq!(table(&jobs.file("here/sweep.csv")), slurm);
    fs::remove_file(jobs.file("here/sweep.csv")).expect("the file is our own");
    let (_, words) = done(jobs.command(&["sweep", "here"]));
    assert_eq!(table(&jobs.file("here/sweep.csv")), slurm, "{words}");
}

#[test]
fn a_wrong_combination_is_told_of_before_any_runs() {
    let Some(dir) = Dir::new() else { return };
    let path = dir.write("s.toml", &Scenario::new(1, "true").text());
    let arguments = ["sweep", "--here", "--out", "out", "--set"];
    let varied = ["nodes.memory=[256 MiB, 3 us]", path.to_str().unwrap()];
    let (_, error, code) = dir.call(&[arguments.as_slice(), &varied].concat());
    assert_eq!(code, Some(1));
    assert!(error.contains("with nodes.memory=\"3 us\""), "{error}");
    assert!(!dir.path("out").exists());
}
