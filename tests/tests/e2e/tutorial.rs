//! Follows `docs/tutorial.md` as a reader would: writes its files, runs its commands, and compares the output with the page.
//! Figures may differ by 5 %: virtual times are exact, but compilers and packages of images differ by host and by day. The block in
//! `README.md` is compared in the same way with a run of the demo's scenario.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use belljar_tests::{Dir, root};

use crate::containers;

/// A piece of the page.
enum Step {
    /// A file to write.
    File { name: String, text: String },
    /// A command, and its shown output.
    Command { line: String, shown: Vec<String> },
}

/// The steps of the section with this heading, in order.
fn steps(page: &str, heading: &str) -> Vec<Step> {
    let section = page.split("\n## ").find(|part| part.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("there is no section {heading}"));
    let mut steps = Vec::new();
    let mut before = "";
    for (number, piece) in section.split("```").enumerate() {
        if number % 2 == 0 {
            before = piece;
            continue;
        }
        let (kind, text) = piece.split_once('\n').expect("a block has lines");
        if kind == "console" {
            steps.extend(commands(text));
        } else {
            let name = before.rsplit("Write this as `").next();
            let name = name
                .and_then(|rest| rest.split('`').next())
                .unwrap_or_default();
            steps.push(Step::File {
                name: name.to_owned(),
                text: text.to_owned(),
            });
        }
    }
    steps
}

fn commands(text: &str) -> Vec<Step> {
    let mut commands = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(line), _) => commands.push(Step::Command {
                line: line.to_owned(),
                shown: Vec::new(),
            }),
            (None, Some(Step::Command { shown, .. })) => shown.push(line.to_owned()),
            _ => panic!("{line} comes before any command"),
        }
    }
    commands
}

/// The largest difference between a figure of the page and the run's figure, as a share.
const TOLERANCE: f64 = 0.05;

/// The same for shares, in hundredths.
const TOLERANCE_OF_SHARES: f64 = 1.0;

/// The numbers in a line, with true for shares. A change in hundredths (`+6.5 %`) is read as the ratio of the new figure to the
/// former one (106.5): each of both may differ by [`TOLERANCE`].
fn numbers(line: &str) -> Vec<(f64, bool)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_share = words.get(at + 1).is_some_and(|next| next.starts_with('%'));
        if is_share && word.starts_with(['+', '-']) {
            found.extend(word.parse().ok().map(|change: f64| (100.0 + change, false)));
            continue;
        }
        let parts = word.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let values = parts.filter_map(|part| part.trim_matches('.').parse().ok());
        found.extend(values.map(|value: f64| (value, is_share)));
    }
    found
}

/// True if a line has the words of the other, and similar figures.
fn is_near(one: &str, other: &str) -> bool {
    let near = |((a, is_share), (b, _)): (&(f64, bool), &(f64, bool))| {
        let least = if *is_share { TOLERANCE_OF_SHARES } else { 0.0 };
        (a - b).abs() <= (TOLERANCE * a.max(*b)).max(least)
    };
    let (own, others) = (numbers(one), numbers(other));
    without_digits(one) == without_digits(other)
        && own.len() == others.len()
        && own.iter().zip(&others).all(near)
}

/// Joins the groups of three digits of large numbers, which single blanks separate.
fn with_joined_groups(line: &str) -> String {
    let letters: Vec<char> = line.chars().collect();
    let is_digit = |at: usize| letters.get(at).is_some_and(char::is_ascii_digit);
    let is_group = |at: usize| {
        let ends = !is_digit(at + 4) && letters.get(at + 4) != Some(&'.');
        at > 0 && is_digit(at - 1) && (at + 1..at + 4).all(is_digit) && ends
    };
    let kept = (0..letters.len()).filter(|&at| letters[at] != ' ' || !is_group(at));
    kept.map(|at| letters[at]).collect()
}

/// A line with each number replaced by `#`, and each run of blanks by one.
fn without_digits(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        let mut plain = String::new();
        for letter in word.chars() {
            match letter.is_ascii_digit() || letter == '.' && plain.ends_with('#') {
                true if plain.ends_with('#') => {}
                true => plain.push('#'),
                false => plain.push(letter),
            }
        }
        words.push(plain);
    }
    words.join(" ")
}

/// Asserts that `said` contains the lines `shown` in order, with others only at `...`.
fn assert_shown(line: &str, shown: &[String], said: &str) {
    let mut said_lines = said.lines().peekable();
    let mut may_skip = false;
    for wanted in shown {
        if wanted == "..." {
            may_skip = true;
            continue;
        }
        let found = match may_skip {
            true => said_lines.any(|one| is_near(one, wanted)),
            false => said_lines.next().is_some_and(|one| is_near(one, wanted)),
        };
        assert!(
            found,
            "after {line}\n`{wanted}` is not where it is shown in\n{said}"
        );
        may_skip = false;
    }
    let rest = said_lines.next();
    assert!(
        may_skip || rest.is_none(),
        "after {line}\nthere is more: {rest:?}"
    );
}

/// Performs the section's steps, if all of `needed` are installed.
fn follow(heading: &str, needed: &[&str], image: &str) {
    let Some(dir) = Dir::new() else { return };
    follow_in(&dir, heading, needed, image);
}

/// The same in a folder that may have files already.
fn follow_in(dir: &Dir, heading: &str, needed: &[&str], image: &str) {
    let on_path = |name: &&str| {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {name}")])
            .output();
        found.is_ok_and(|output| output.status.success())
    };
    if let Some(absent) = needed.iter().find(|name| !on_path(name)) {
        eprintln!(
            "SKIPPED: {absent} is not installed (apt install libmpich-dev libopenmpi-dev gfortran)"
        );
        return;
    }
    let (_, error, code) = dir.call(&["image", "verify", image]);
    if code != Some(0) {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let bin = dir.path("bin");
    fs::create_dir_all(&bin).expect("a folder");
    symlink(dir.binary(), bin.join("belljar")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", bin.display());
    let page = fs::read_to_string(root().join("docs/tutorial.md")).expect("the page is there");
    for step in steps(&page, heading) {
        match step {
            Step::File { name, text } => drop(dir.write(&name, &text)),
            Step::Command { line, shown } => {
                let mut command = Command::new("sh");
                command
                    .args(["-c", &line])
                    .current_dir(dir.path(""))
                    .env("PATH", &path);
                // Messages about progress differ: a snapshot may exist already.
                let output = command.output().expect("sh starts");
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let (said, error) = (text(&output.stdout), text(&output.stderr));
                assert!(output.status.success(), "{line}\n{said}\n{error}");
                let notes = error.lines().filter(|line| line.contains(", linked to "));
                let notes: String = notes.map(|line| format!("{line}\n")).collect();
                assert_shown(&line, &shown, &(notes + &said));
            }
        }
    }
}

#[test]
fn a_program_in_c_is_run_and_asked() {
    follow("A program in C", &["mpicc.mpich"], "bookworm-mpich");
}

#[test]
fn a_program_in_fortran_runs_over_open_mpi() {
    let needed = ["mpif90.openmpi", "gfortran"];
    follow("A program in Fortran", &needed, "bookworm-openmpi");
}

/// Replaces docker, which tests lack: it saves an image that was made here.
const DOCKER: &str = "#!/bin/sh
[ \"$1 $2 $3\" = \"save solver:v7 -o\" ] && mv saved.tar \"$4\"
";

#[test]
fn a_container_runs_as_it_is() {
    let Some(dir) = Dir::new() else { return };
    let needed = ["fsck.erofs"];
    if !containers::has(needed[0], "erofs-utils") {
        return;
    }
    containers::unpack(&dir, "bookworm-mpich");
    containers::docker_archive(&dir, "saved.tar");
    fs::create_dir(dir.path("bin")).expect("a folder");
    let docker = dir.write("bin/docker", DOCKER);
    fs::set_permissions(docker, fs::Permissions::from_mode(0o755)).expect("can be run");
    follow_in(&dir, "A container", &needed, "bookworm-mpich");
}

#[test]
fn a_program_in_python_runs_where_its_image_is_built() {
    follow("A program in Python", &[], "bookworm-applications");
}

/// Lines of a run's end with figures of the host, which are compared by their words only.
const HOST_LINES: [&str; 2] = [" x real time", "speed: "];

#[test]
fn the_readme_shows_the_output_of_the_demo() {
    let Some(dir) = Dir::new() else { return };
    let (_, error, code) = dir.call(&["image", "verify", "bookworm-mpich"]);
    if code != Some(0) {
        eprintln!("SKIPPED: {error}");
        return;
    }
    let page = fs::read_to_string(root().join("README.md")).expect("the page is there");
    let block = page.split("```text\n").nth(1).expect("a block of output");
    let block = block.split("```").next().unwrap_or_default();
    let scenario = root().join("scenarios/hpl-4.toml");
    let scenario = scenario.to_str().expect("a plain path");
    let (said, error, code) = dir.call(&["run", scenario, "--report"]);
    assert_eq!(code, Some(0), "{said}\n{error}");
    let plain = |text: &str| -> Vec<String> {
        let lines =
            text.lines().map(
                |line| match HOST_LINES.iter().any(|host| line.contains(host)) {
                    true => without_digits(line).replace('#', "0"),
                    false => with_joined_groups(line),
                },
            );
        lines.collect()
    };
    let mut shown = vec!["...".to_owned()];
    let lines = plain(block).into_iter();
    shown.extend(lines.map(|line| match line.trim() {
        "..." => "...".to_owned(),
        _ => line,
    }));
    assert_shown("belljar run --report", &shown, &plain(&said).join("\n"));
}

#[test]
fn groups_of_digits_are_joined() {
    let joined = with_joined_groups("0  2 727  133.9 ms 10 852 calls, 1 234 567, 8 12.5, 3 1234");
    assert_eq!(
        joined,
        "0  2727  133.9 ms 10852 calls, 1234567, 8 12.5, 3 1234"
    );
}

#[test]
fn what_is_shown_is_held_against_what_is_said() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_shown(
        "x",
        &shown("a 1.5 us 4 %\n...\nend"),
        "a 1.55 us 5 %\nb\nc\nend\n",
    );
    let fails = |wanted: &str, said: &str| {
        let wanted = shown(wanted);
        let said = said.to_owned();
        std::panic::catch_unwind(move || assert_shown("x", &wanted, &said)).is_err()
    };
    assert!(
        fails("a 1.5 us", "a 1.7 us\n") && fails("4 %", "6 %\n") && fails("1 file", "2 file\n")
    );
    assert!(fails("a", "a\nb\n") && fails("...\nb", "a\nc\n") && fails("a 1 us", "a 1 ms\n"));
    let page = "# Page\n\n## One\nWrite this as `x.c`:\n```c\nint x;\n```\n```console\n$ cc x.c\n$ ./x\n1\n```\n\n## Two\n";
    let names: Vec<String> = steps(page, "One")
        .into_iter()
        .map(|step| match step {
            Step::File { name, .. } => name,
            Step::Command { line, shown } => format!("{line}: {}", shown.len()),
        })
        .collect();
    assert_eq!(names, ["x.c", "cc x.c: 0", "./x: 1"]);
}
