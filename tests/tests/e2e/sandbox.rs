//! Threads that run guests have no other rights.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use belljar_tests::{Dir, Scenario, interrupt};

/// The number of seccomp filters of each thread of a process.
fn filters(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("the process is there");
    let statuses =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    statuses
        .map(|status| {
            let lines = status.lines();
            let count = lines.filter_map(|line| line.strip_prefix("Seccomp_filters:"));
            count
                .filter_map(|count| count.trim().parse::<u32>().ok())
                .sum()
        })
        .collect()
}

/// The filters of a run's threads as soon as any two threads have two, or after ten seconds.
fn filters_of_a_run(more: &[&str]) -> Option<Vec<u32>> {
    let dir = Dir::new()?;
    let scenario = Scenario::new(2, "while :; do :; done");
    let mut child = dir.start_with(&scenario, "run", more);
    let mut seen = Vec::new();
    for _ in 0..100 {
        thread::sleep(Duration::from_millis(100));
        seen = filters(child.id());
        if seen.iter().filter(|&&count| count == 2).count() >= 2 {
            break;
        }
    }
    interrupt(&child);
    child.wait().expect("belljar ends");
    Some(seen)
}

#[test]
fn threads_with_guests_are_under_both_filters_and_all_others_under_one() {
    let Some(seen) = filters_of_a_run(&["--threads", "2"]) else {
        return;
    };
    let under = |filters| seen.iter().filter(|&&count| count == filters).count();
    assert_eq!((under(0), under(2)), (0, 2), "{seen:?}");
}

#[test]
fn without_the_sandbox_there_is_no_filter() {
    let Some(seen) = filters_of_a_run(&["--no-sandbox"]) else {
        return;
    };
    assert!(seen.iter().all(|&count| count == 0), "{seen:?}");
}

#[test]
fn the_doctor_tries_the_filter() {
    let Some(dir) = Dir::new() else { return };
    let (findings, _, _) = dir.call(&["doctor"]);
    assert!(findings.contains("ok  sandbox"), "{findings}");
}

/// Preloaded into `belljar`: a thread that tries to open a file, as a compromised one would.
const INTRUDER: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *intrude(void *unused) {
    int log = open(getenv("INTRUDER_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600), fd;
    while ((fd = open("/etc/passwd", O_RDONLY)) >= 0) {
        close(fd);
        usleep(10000);
    }
    dprintf(log, "%d\n", errno);
    return unused;
}
__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    if (getenv("INTRUDER_LOG")) pthread_create(&thread, NULL, intrude, NULL);
}
"#;

#[test]
fn no_thread_opens_other_files_once_guests_run() {
    let Some(dir) = Dir::new() else { return };
    let (findings, _, _) = dir.call(&["doctor"]);
    if findings.contains("this kernel has no Landlock") {
        eprintln!("SKIPPED: this kernel has no Landlock");
        return;
    }
    let library = dir.path("intruder.so");
    dir.write("intruder.c", INTRUDER);
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-pthread", "-o"])
        .args([&library, &dir.path("intruder.c")])
        .status();
    if let Err(error) = compiled {
        eprintln!("SKIPPED: the intruder is a library, and cc: {error}");
        return;
    }
    let log = dir.path("log");
    dir.write("s.toml", &Scenario::new(2, "while :; do :; done").text());
    let mut run = dir
        .command(&["run", "s.toml", "--quiet", "--out", "out"])
        .env("LD_PRELOAD", &library)
        .env("INTRUDER_LOG", &log)
        .spawn()
        .expect("belljar starts");
    let mut refused = String::new();
    for _ in 0..600 {
        thread::sleep(Duration::from_millis(100));
        refused = fs::read_to_string(&log).unwrap_or_default();
        if refused.ends_with('\n') || run.try_wait().is_ok_and(|ended| ended.is_some()) {
            break;
        }
    }
    interrupt(&run);
    run.wait().expect("belljar ends");
    assert_eq!(refused.trim(), libc::EACCES.to_string());
}
