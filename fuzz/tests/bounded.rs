//! Every target on its seeds and on mutations of them, without libFuzzer.
//!
//! `BELLJAR_EFFORT=N` tries N times as many inputs, `BELLJAR_SEED` different ones. A panic names
//! the file with the input.
#![allow(missing_docs, clippy::print_stderr)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use belljar_fuzz::{Target, mutate, target};
use belljar_sim::{Random, Seed};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs a target on an input, which is stored in a file until it is done, so that an endless run
/// can be reproduced, too.
fn attempt(target: &Target, input: &[u8]) {
    let name = format!("{}-tried", target.name);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, input).unwrap();
    let run = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    if let Err(panic) = run {
        let path = path.display();
        eprintln!("again: cargo xtask fuzz {} --input {path}", target.name);
        resume_unwind(panic);
    }
}

fn mutations(name: &str, count: u64) {
    let target = target(name).unwrap();
    let seeds = (target.seeds)();
    for seed in &seeds {
        assert!(
            seed.len() <= target.longest,
            "{name}: a seed of {} is too long",
            seed.len()
        );
        attempt(target, seed);
    }
    let start = Seed(number("BELLJAR_SEED").unwrap_or(1));
    let mut random = Random::new(start, name, 0);
    for _ in 0..count * number("BELLJAR_EFFORT").unwrap_or(1) {
        let input = mutate::mutated(&mut random, &seeds, target.longest);
        attempt(target, &input);
    }
}

#[test]
fn code() {
    mutations("code", 600);
}

#[test]
fn walk() {
    mutations("walk", 600);
}

#[test]
fn virtio() {
    mutations("virtio", 3000);
}

#[test]
fn registers() {
    mutations("registers", 10_000);
}

#[test]
fn boot() {
    mutations("boot", 1200);
}

#[test]
fn archive() {
    mutations("archive", 1000);
}

#[test]
fn analyses() {
    mutations("analyses", 300);
}

#[test]
fn exports() {
    mutations("exports", 300);
}

#[test]
fn otf2() {
    mutations("otf2", 1000);
}

#[test]
fn goal() {
    mutations("goal", 3000);
}

#[test]
fn ti() {
    mutations("ti", 3000);
}

#[test]
fn models() {
    mutations("models", 300);
}

#[test]
fn replays() {
    mutations("replays", 300);
}

#[test]
fn binary() {
    mutations("binary", 5000);
}

#[test]
fn tables() {
    mutations("tables", 2000);
}

#[test]
fn records() {
    mutations("records", 1000);
}

#[test]
fn collected() {
    mutations("collected", 2000);
}

#[test]
fn scenario() {
    mutations("scenario", 2000);
}

#[test]
fn graphml() {
    mutations("graphml", 5000);
}

#[test]
fn fabric() {
    mutations("fabric", 5000);
}

#[test]
fn lossless() {
    mutations("lossless", 5000);
}

#[test]
fn node() {
    mutations("node", 1500);
}

#[test]
fn message() {
    mutations("message", 5000);
}

#[test]
fn control() {
    mutations("control", 2000);
}

#[test]
fn recipe() {
    mutations("recipe", 2000);
}

#[test]
fn root() {
    mutations("root", 500);
}

#[test]
fn checkpoint() {
    mutations("checkpoint", 500);
}

#[test]
fn mix() {
    mutations("mix", 5000);
}

#[test]
fn contention() {
    mutations("contention", 3000);
}

#[test]
fn targets_have_names_of_their_own() {
    let mut names: Vec<&str> = belljar_fuzz::TARGETS.iter().map(|one| one.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), belljar_fuzz::TARGETS.len());
}
