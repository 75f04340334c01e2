//! Converts run directories' traces and prints figures in three groups. The first is the bytes of a call by section; the
//! second is the millions of calls written and read in a second of processor time, with and without times; the third is the
//! same for the structure reader.
//!
//! `cargo run --release -p belljar-archive --example measure -- [--calls N] RUN-DIRECTORY...`; `--calls` limits it to the
//! first N calls of each trace.
#![allow(clippy::print_stdout)] // A program of its own: it prints.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use belljar_archive::{Sizes, StructureReader, TraceReader, TraceWriter};
use belljar_trace::{Event, TRACE_FILE, TraceState};

/// Least time for which writing and reading is repeated to measure a speed.
const LONG_ENOUGH: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:24} {:>8} {:>6} {:>6}  {:>6} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}  {:>6} {:>6} {:>6} {:>6}",
        "trace",
        "calls",
        "before",
        "now",
        "struct",
        "signat",
        "operan",
        "gaps",
        "durat",
        "rest",
        "other",
        "M wr/s",
        "M rd/s",
        "M ut/s",
        "M st/s",
    );
    let mut arguments = std::env::args().skip(1);
    let mut most = usize::MAX;
    while let Some(argument) = arguments.next() {
        if argument == "--calls" {
            most = arguments.next().unwrap_or_default().parse()?;
        } else {
            measure(Path::new(&argument), most)?;
        }
    }
    Ok(())
}

fn measure(path: &Path, most: usize) -> Result<(), Box<dyn Error>> {
    let file = path.join(TRACE_FILE);
    let mut reader = TraceReader::open(&file)?;
    let (header, contents) = (reader.header().clone(), reader.contents());
    let events: Vec<Event> = reader.by_ref().take(most).collect();
    let summary = reader.summary().cloned().unwrap_or_default();
    let into = std::env::temp_dir().join(format!("measure-{}.bjt", std::process::id()));
    let write = || -> Result<Sizes, Box<dyn Error>> {
        let made = File::create(&into)?;
        let mut writer = TraceWriter::over(made, &into, &header, contents)?;
        for event in &events {
            writer.push(event.clone())?;
        }
        Ok(writer.finish(&summary)?)
    };
    let sizes = write()?;
    let mut back = TraceReader::open(&into)?;
    for (number, (told, call)) in back.by_ref().zip(&events).enumerate() {
        assert_eq!(told, *call, "{}: call {number}", path.display());
    }
    assert_eq!(*back.state(), TraceState::Complete);
    let calls = events.len().max(1);
    let written = speed(calls, || write().map(drop))?;
    let read = speed(calls, || {
        TraceReader::open(&into)?.for_each(drop);
        Ok(())
    })?;
    let untimed = speed(calls, || {
        TraceReader::open_untimed(&into)?.for_each(drop);
        Ok(())
    })?;
    let structure = speed(calls, || {
        let mut reader = StructureReader::open(&into)?;
        while reader.advance().is_some() {}
        Ok(())
    })?;
    let before = std::fs::metadata(&file)?.len();
    let each = |bytes: u64| bytes as f64 / calls as f64;
    println!(
        "{:24} {calls:8} {:6.2} {:6.2}  {:6.3} {:6.3} {:6.3} {:6.3} {:6.3} {:6.3} {:6.3}  {written:6.2} {read:6.2} {untimed:6.2} {structure:6.1}",
        path.file_name().unwrap_or_default().to_string_lossy(),
        each(before),
        each(sizes.total()),
        each(sizes.structure),
        each(sizes.signatures),
        each(sizes.operands),
        each(sizes.gaps),
        each(sizes.durations),
        each(sizes.rest),
        each(sizes.other),
    );
    std::fs::remove_file(&into)?;
    Ok(())
}

/// Processor time of this thread, which is hardly affected by other load on the machine.
fn taken() -> Result<Duration, Box<dyn Error>> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = told.split(' ').next().unwrap_or_default();
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

/// Millions of calls a second.
fn speed(
    calls: usize,
    mut work: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let start = taken()?;
    let mut times = 0;
    while taken()? - start < LONG_ENOUGH {
        work()?;
        times += 1;
    }
    Ok((times * calls) as f64 / (taken()? - start).as_secs_f64() / 1e6)
}
