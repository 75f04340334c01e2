//! `belljar bisect`: prints the first instruction at which two runs differ.
//!
//! The search is in `cluster/src/observe/bisect.rs`; this shows registers, code and memory of both sides. The exit
//! code distinguishes a difference from a failure.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use belljar_cluster::observe::bisect::{Difference, bisect as find};
use belljar_cluster::observe::watch::NodeSample;
use belljar_cluster::scenario::engine::Engine;
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

use super::check::sandbox;
use crate::command::output::{say, show};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct BisectArguments {
    /// Directory of a run with --state-hash.
    pub(crate) run_a: PathBuf,
    /// Directory of the second run.
    ///
    /// It needs the same number of nodes and the same N.
    pub(crate) run_b: PathBuf,
    /// Print only results, warnings and errors.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Disable the seccomp filter around threads that run guests.
    ///
    /// Use it only with trusted guests.
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

/// Addresses of differing memory that are listed.
const ADDRESSES: usize = 16;
/// Bytes that are compared and shown together.
const WORD: usize = 8;

/// Exit code for a difference; a failure has 1.
const DIFFERENT: u8 = 2;

pub(crate) fn bisect(arguments: &BisectArguments) -> Result<ExitCode> {
    let sandbox = sandbox(arguments.no_sandbox, Engine::Exact)?;
    let directories = [arguments.run_a.as_path(), arguments.run_b.as_path()];
    let mut tell = |news: &str| {
        if !arguments.quiet {
            note!("{news}");
        }
    };
    match find(directories, sandbox.as_ref(), &mut tell)? {
        None => {
            say("no difference: all hashes of processors and memory are equal")?;
            Ok(ExitCode::SUCCESS)
        }
        Some(difference) => {
            show(|out| print(out, &difference))?;
            Ok(ExitCode::from(DIFFERENT))
        }
    }
}

fn print(out: &mut impl Write, difference: &Difference) -> io::Result<()> {
    let node = difference.node;
    match &difference.before {
        None => writeln!(out, "node {node} differs before its first instruction")?,
        Some([before, _]) => {
            writeln!(
                out,
                "node {node} differs first after instruction {}, at {} of virtual time",
                before.instructions + 1,
                difference.time()
            )?;
            writeln!(out, "both stood at    {}", describe(before))?;
        }
    }
    for (name, after) in ["A", "B"].iter().zip(&difference.after) {
        writeln!(out, "then {name} stood at {}", describe(after))?;
    }
    let [one, two] = &difference.after;
    for (one, two) in one.processor.iter().zip(&two.processor) {
        if one != two {
            writeln!(out, "  {:<14} A {}  B {}", one.name, one.hex(), two.hex())?;
        }
    }
    print_memory(out, one, two)
}

fn print_memory(out: &mut impl Write, one: &NodeSample, two: &NodeSample) -> io::Result<()> {
    let pairs = one.memory.iter().zip(&two.memory);
    let pages = pairs.filter(|(one, two)| one != two).count();
    if pages == 0 {
        return writeln!(out, "memory is the same");
    }
    writeln!(
        out,
        "memory differs in {pages} pages, first at (physical addresses)"
    )?;
    let mut left = ADDRESSES;
    for (page, bytes) in &one.pages {
        let Some(others) = two.pages.get(page) else {
            continue;
        };
        let words = bytes.chunks(WORD).zip(others.chunks(WORD)).enumerate();
        for (index, (one, two)) in words.filter(|(_, (one, two))| one != two).take(left) {
            let address = page + (index * WORD) as u64;
            writeln!(out, "  {address:#014x} A {}  B {}", hex(one), hex(two))?;
            left -= 1;
        }
    }
    Ok(())
}

/// RIP, bytes and meaning of the next instruction.
fn describe(sample: &NodeSample) -> String {
    let mut decoder = Decoder::with_ip(
        sample.bits,
        &sample.code,
        sample.address,
        DecoderOptions::NONE,
    );
    let instruction = decoder.decode();
    if sample.code.is_empty() || instruction.is_invalid() {
        return format!("{:#x}  no instruction", sample.address);
    }
    let mut text = String::new();
    IntelFormatter::new().format(&instruction, &mut text);
    let bytes = hex(&sample.code[..instruction.len()]);
    format!("{:#x}  {bytes}  {text}", sample.address)
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}
