//! `belljar` at a terminal: completions, progress, colours and Ctrl-C.
//!
//! `script` provides terminals, and `bash` completions. If a host lacks one, its tests are skipped and print a note.

#![allow(missing_docs, clippy::print_stderr, clippy::disallowed_methods)]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const BELLJAR: &str = env!("CARGO_BIN_EXE_belljar");

/// The longest wait for events that are immediate on an idle host.
const PATIENCE: Duration = Duration::from_secs(300);

/// A folder with the run directory `run`, which has a pinned trace.
fn folder_with_a_run() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/frozen/runs/halo");
    for file in fs::read_dir(pinned).unwrap().flatten() {
        fs::copy(file.path(), run.join(file.file_name())).unwrap();
    }
    folder
}

fn is_installed(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

fn belljar(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(BELLJAR);
    command.current_dir(folder).args(words);
    // Variables of the calling environment would decide about colours.
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    command
}

fn output(folder: &Path, words: &[&str]) -> Output {
    belljar(folder, words).output().unwrap()
}

/// A command on a new terminal; its standard output is the terminal's content.
fn at_terminal(folder: &Path, words: &str) -> Command {
    let mut command = Command::new("script");
    command.current_dir(folder);
    let line = format!("{BELLJAR} {words}");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]);
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    command.stdin(Stdio::null());
    command
}

/// The words that bash offers for the last one of a line.
fn completed(folder: &Path, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <(belljar completions bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
        _clap_complete_belljar belljar "${COMP_WORDS[COMP_CWORD]}" "" 2>/dev/null
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let path = std::env::var("PATH").unwrap_or_default();
    let own = Path::new(BELLJAR).parent().unwrap().display();
    let output = Command::new("bash")
        .current_dir(folder)
        .args(["-c", script, "bash"])
        .args(words)
        .env("PATH", format!("{own}:{path}"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn bash_completes_values() {
    if !is_installed("bash") {
        return;
    }
    let folder = folder_with_a_run();
    fs::create_dir(folder.path().join("runs")).unwrap();
    fs::rename(folder.path().join("run"), folder.path().join("runs/own")).unwrap();
    fs::write(folder.path().join("ring.toml"), "name = \"ring\"").unwrap();
    fs::write(folder.path().join("ring.txt"), "").unwrap();
    let of = |words: &[&str]| completed(folder.path(), words);
    assert_eq!(of(&["belljar", "rep"]), ["report", "replay"]);
    assert_eq!(of(&["belljar", "report", "ru"]), ["runs/"]);
    assert_eq!(of(&["belljar", "report", "runs/"]), ["runs/own"]);
    assert_eq!(of(&["belljar", "trace", "wait", "runs/o"]), ["runs/own"]);
    assert_eq!(of(&["belljar", "run", "ri"]), ["ring.toml"]);
    let keys = of(&["belljar", "run", "ring.toml", "--set", "network.late"]);
    assert_eq!(keys, ["network.latency="]);
    let recipes = of(&["belljar", "image", "build", "bookworm-mp"]);
    assert_eq!(recipes, ["bookworm-mpich"]);
    let models = of(&["belljar", "replay", "runs/own", "--model", ""]);
    assert_eq!(models, ["packet", "flow", "loggops"]);
}

#[test]
fn every_shell_has_a_script() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = output(folder.path(), &["completions", shell]);
        assert!(script.status.success(), "{shell}");
        let text = String::from_utf8(script.stdout).unwrap();
        assert!(text.contains("BELLJAR_COMPLETE"), "{text}");
    }
}

/// Text of a table of waiting, with and without colours.
#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let folder = folder_with_a_run();
    let of = |words: &[&str]| output(folder.path(), words);
    let plain = of(&["trace", "wait", "run"]);
    let always = of(&["trace", "wait", "run", "--color", "always"]);
    let text = String::from_utf8(plain.stdout).unwrap();
    let coloured = String::from_utf8(always.stdout).unwrap();
    assert!(!text.contains('\x1b'), "{text}");
    assert!(coloured.contains("\x1b[31m"), "{coloured}");
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), text);
    let wrong = |words: &[&str]| String::from_utf8(of(words).stderr).unwrap();
    let error = wrong(&["trace", "wait", "absent"]);
    assert!(error.starts_with("error: "), "{error:?}");
    let error = wrong(&["--color", "always", "trace", "wait", "absent"]);
    assert!(error.starts_with("\x1b[1m\x1b[31merror:"), "{error:?}");
    if !is_installed("script") {
        return;
    }
    let shown = |words: &str, no_color: Option<&str>| {
        let mut command = at_terminal(folder.path(), words);
        command.envs(no_color.map(|value| ("NO_COLOR", value)));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(shown("trace wait run", None).contains("\x1b[31m"));
    assert!(!shown("trace wait run", Some("1")).contains("\x1b["));
    assert!(!shown("trace wait run --color never", None).contains("\x1b["));
}

/// Reads a child's output until `words` appear in it, for [`PATIENCE`] at most.
fn read_until(child: &mut Child, words: &str) -> String {
    let begin = Instant::now();
    let out = child.stdout.as_mut().unwrap();
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&text).contains(words) && begin.elapsed() < PATIENCE {
        match out.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => text.extend_from_slice(&buffer[..read]),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A search that never ends by itself.
const ENDLESS: &str = "place run --tries 4000000000";

#[test]
fn a_terminal_shows_progress_and_ctrl_c_ends_it() {
    if !is_installed("script") {
        return;
    }
    let folder = folder_with_a_run();
    // The shell names itself before belljar takes its place.
    let line = format!("echo $$ > pid; exec {BELLJAR} {ENDLESS}");
    let mut child = Command::new("script")
        .current_dir(folder.path())
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let shown = read_until(&mut child, "left");
    assert!(shown.contains(" of 4000000005 placements, "), "{shown:?}");
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    kill(Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGINT).unwrap();
    let rest = read_until(&mut child, "interrupted");
    assert!(rest.contains("interrupted"), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn pipes_see_no_progress_and_ctrl_c_says_why_it_ended() {
    let folder = folder_with_a_run();
    let words: Vec<&str> = ENDLESS.split(' ').collect();
    let child = belljar(folder.path(), &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Progress would have appeared by then; the result does not depend on it.
    thread::sleep(Duration::from_secs(4));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.ends_with("interrupted\n"), "{error}");
    assert!(
        !error.contains("placements") && !error.contains('\r'),
        "{error}"
    );
}

/// The paths below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        all.push(entry.path());
        if entry.path().is_dir() {
            all.extend(below(&entry.path()));
        }
    }
    all
}

/// Waits until `has` returns true, for [`PATIENCE`] at most.
fn wait_for(mut has: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if has() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn an_interrupted_sweep_of_replays_says_how_many_were_played() {
    let folder = folder_with_a_run();
    let values: Vec<String> = (1..=1500).map(|it| format!("\"{it} us\"")).collect();
    let vary = format!("network.latency=[{}]", values.join(","));
    let words = ["replay", "run", "--json", "--vary", &vary];
    let child = belljar(folder.path(), &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The signal may come at any phase: preparing, playing or ending.
    thread::sleep(Duration::from_millis(700));
    let sent = kill(Pid::from_raw(child.id() as i32), Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    match output.status.code() {
        Some(0) => {}
        code => {
            assert_eq!(code, Some(130), "{sent:?} {error}");
            assert!(error.contains("interrupted"), "{error}");
            let failed = error.lines().any(|line| line.starts_with("error"));
            assert!(!failed, "{error}");
        }
    }
}

#[test]
fn an_interrupted_build_of_an_image_leaves_nothing_and_no_children() {
    let folder = tempfile::tempdir().unwrap();
    // Fake build tools; one of them never ends.
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    let endless = format!(
        "#!/bin/sh\necho $$ > {}\nexec sleep 100000\n",
        folder.path().join("pid").display()
    );
    let tool = tools.join("mmdebstrap");
    fs::write(&tool, endless).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&tool, mode).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let cache = folder.path().join("cache");
    let mut child = belljar(folder.path(), &["image", "build", "--keep-lock", "trixie"])
        .env("PATH", format!("{}:{path}", tools.display()))
        .env("XDG_CACHE_HOME", &cache)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = folder.path().join("pid");
    let begun = wait_for(|| {
        let written = fs::read_to_string(&pid).is_ok_and(|text| text.ends_with('\n'));
        written || child.try_wait().is_ok_and(|ended| ended.is_some())
    });
    assert!(begun, "nothing happened");
    if !pid.exists() {
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        eprintln!("SKIPPED: images cannot be built here: {error}");
        return;
    }
    let tool = fs::read_to_string(&pid).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.contains("interrupted"), "{error}");
    let failed = error.lines().any(|line| line.starts_with("error"));
    assert!(!failed, "{error}");
    let left = below(&cache);
    let is_rest = |path: &&PathBuf| path.is_dir() && path.to_string_lossy().contains("building-");
    assert_eq!(left.iter().find(is_rest), None);
    let tool = Pid::from_raw(tool.trim().parse().unwrap());
    assert!(wait_for(|| kill(tool, None).is_err()), "{tool} runs on");
}
