//! SimGrid's time-independent traces, as `smpirun -replay` reads them.
//!
//! Each rank has a file with an action on each line, and a list names these files in the order of ranks. Alternatively, all ranks' actions are in one file, which a
//! list may name. Actions are those of SimGrid 3.32 and 4.1, which support one communicator. Work becomes time between calls, and calls take no time. Used by
//! `import`.

/// Conversion of actions to calls.
mod actions;
/// The speed of hosts.
mod platform;
/// The open state of a rank.
mod rank;
/// Words of a line.
mod words;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use belljar_files::open_input;
use belljar_sim::Frequency;

use self::rank::{Pace, RankReader, Surplus};
use crate::builder::calls::Functions;
use crate::builder::layout::{self, Layout};
use crate::builder::spool::Spool;
use crate::builder::{ImportError, Imported, Rates, failed};
use crate::format::Format;

/// The list of ranks' files in a folder written by Belljar.
pub(crate) const LIST: &str = "ranks";
/// The lowest and highest clock of the trace, in hertz.
const LOWEST_CLOCK: f64 = 1e9;
const HIGHEST_CLOCK: f64 = 1e12;
/// Floating-point operations per second when nothing else is known.
const DEFAULT_SPEED: f64 = 1e9;
/// Most bytes of a line, of a list, and of a file with all ranks.
const LONGEST_LINE: u64 = 1 << 20;
const LONGEST_LIST: u64 = 64 << 20;
const LONGEST_WHOLE: u64 = 1 << 30;
/// The error for a longer file.
const TOO_LONG: &str = "it is longer than what is read of a file with all ranks; give each rank a file of its own, and a list of these";
/// Most ranks.
const MOST_RANKS: usize = 1 << 20;

/// True if a line is an action.
pub(crate) fn is_action(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let rank = words.next().and_then(words::rank);
    let action = words.next().map(str::to_ascii_lowercase);
    rank.is_some() && action.is_some_and(|action| actions::is_known(&action))
}

/// The source of actions.
enum Ranks {
    /// A file for each rank.
    Files(Vec<PathBuf>),
    /// The lines of each rank, with their numbers, from one file.
    Lines(PathBuf, Vec<Vec<(u64, String)>>),
}

/// Imports the trace at `path`: a list, a file with all ranks, or a folder with a list.
pub(crate) fn import(
    path: &Path,
    rates: Rates,
    out: &Path,
    name: &str,
) -> Result<Imported, ImportError> {
    let list = path.is_dir().then(|| path.join(LIST));
    let sources = ranks(list.as_deref().unwrap_or(path))?;
    let count = match &sources {
        Ranks::Files(files) => files.len(),
        Ranks::Lines(_, lines) => lines.len(),
    } as u32;
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut spool = Spool::new(folder.unwrap_or(Path::new(".")))?;
    let functions = Functions::new();
    let layout = Layout::new(count);
    let (speed, source) = speed(list.as_deref().unwrap_or(path), rates);
    let clock = clock(speed);
    let mut surplus = Surplus::default();
    for rank in 0..count {
        spool.begin_thread();
        let place = layout::place(rank, count);
        layout.opening(&functions, place, 0, |event| spool.push(event))?;
        let pace = Pace::new(clock, speed);
        let mut rank = RankReader::new(place, count, pace, &functions, &mut spool);
        match &sources {
            Ranks::Files(files) => read_file(&files[place.rank as usize], &mut rank)?,
            Ranks::Lines(path, lines) => {
                let mut lines = lines[place.rank as usize].iter();
                lines.try_for_each(|(number, line)| rank.line((path, *number), line))?;
            }
        }
        surplus.merge(rank.finish()?);
    }
    let notes = notes(speed, &source)
        .into_iter()
        .chain(surplus.note())
        .collect();
    let nodes = layout::nodes(count);
    crate::builder::write::write(spool, out, name, Format::Ti, notes, nodes, clock)
}

/// The speed of processors in floating-point operations per second, and its source.
fn speed(list: &Path, rates: Rates) -> (f64, String) {
    if let Some(speed) = rates.flops_per_second {
        return (speed, "as requested".to_owned());
    }
    let folder = list.parent().unwrap_or(Path::new("."));
    let file = folder.join(platform::PLATFORM);
    match platform::speed(folder) {
        Ok(Some(speed)) => (speed, format!("the speed of hosts in {}", file.display())),
        Ok(None) => (DEFAULT_SPEED, "by default".to_owned()),
        Err(error) => {
            let source = format!("by default, as {} is of no use: {error}", file.display());
            (DEFAULT_SPEED, source)
        }
    }
}

/// The clock of the trace: a tick for each operation, or several where processors are slow.
fn clock(speed: f64) -> Frequency {
    let ticks = (LOWEST_CLOCK / speed).ceil().max(1.0);
    let hz = (speed * ticks).clamp(LOWEST_CLOCK, HIGHEST_CLOCK).round() as u64;
    Frequency::from_hz(hz).unwrap_or_else(|| unreachable!("it is not zero"))
}

fn notes(speed: f64, source: &str) -> Vec<String> {
    vec![
        "imported from a time-independent trace of SimGrid: it tells neither communicators but one and arguments of calls, nor where they were made, nor the \
         frames on the wire, nor consoles; pieces of operations are as it has them"
            .to_owned(),
        format!(
            "it has no times: work is at {speed} floating-point operations a second ({source}; --flops-per-second), and calls take none; `belljar replay DIR --out DIR2` makes a trace with times"
        ),
    ]
}

/// Returns the ranks of a list, or of a file with all of them.
fn ranks(path: &Path) -> Result<Ranks, ImportError> {
    let mut text = String::new();
    let file = open_input(path).map_err(failed(path))?;
    let length = file.metadata().map_err(failed(path))?.len();
    let mut reader = BufReader::new(file);
    let mut first = String::new();
    while first.trim().is_empty() || first.trim_start().starts_with('#') {
        first.clear();
        let mut limited = (&mut reader).take(LONGEST_LINE);
        if limited.read_line(&mut first).map_err(failed(path))? == 0 {
            return Err(wrong(path, 1, "it names no rank"));
        }
    }
    let actions = is_action(&first);
    let most = if actions { LONGEST_WHOLE } else { LONGEST_LIST };
    if length > most {
        return Err(wrong(path, 1, TOO_LONG));
    }
    let file = open_input(path).map_err(failed(path))?;
    let read = file.take(most).read_to_string(&mut text);
    read.map_err(failed(path))?;
    if actions {
        return lines(path, &text);
    }
    let files = files(path, &text)?;
    match files.as_slice() {
        // One file has the actions of all ranks.
        [file] => {
            let text = whole(file)?;
            lines(file, &text)
        }
        _ => Ok(Ranks::Files(files)),
    }
}

/// Reads the text of a file with the actions of all ranks.
fn whole(path: &Path) -> Result<String, ImportError> {
    let file = open_input(path).map_err(failed(path))?;
    if file.metadata().map_err(failed(path))?.len() > LONGEST_WHOLE {
        return Err(wrong(path, 1, TOO_LONG));
    }
    let mut text = String::new();
    let read = file.take(LONGEST_WHOLE).read_to_string(&mut text);
    read.map_err(failed(path))?;
    Ok(text)
}

/// Returns the files that a list names, relative to its folder.
fn files(path: &Path, text: &str) -> Result<Vec<PathBuf>, ImportError> {
    let names = text.lines().map(str::trim);
    let names = names.filter(|name| !name.is_empty() && !name.starts_with('#'));
    let files: Vec<PathBuf> = names.map(|name| path.with_file_name(name)).collect();
    match files.len() <= MOST_RANKS {
        true => Ok(files),
        false => Err(wrong(path, 1, "it names more than a million ranks")),
    }
}

/// Returns the lines of each rank.
fn lines(path: &Path, text: &str) -> Result<Ranks, ImportError> {
    let mut ranks: BTreeMap<u32, Vec<(u64, String)>> = BTreeMap::new();
    for (number, line) in (1u64..).zip(text.lines()) {
        let Some(word) = line.split_whitespace().next() else {
            continue;
        };
        if word.starts_with('#') {
            continue;
        }
        let rank = words::rank(word).filter(|rank| (*rank as usize) < MOST_RANKS);
        let rank = rank.ok_or_else(|| wrong(path, number, "it does not begin with a rank"))?;
        let lines = ranks.entry(rank).or_default();
        lines.push((number, line.to_owned()));
    }
    let count = ranks.last_key_value().map_or(0, |(last, _)| last + 1);
    let lines = (0..count).map(|rank| ranks.remove(&rank).unwrap_or_default());
    Ok(Ranks::Lines(path.to_owned(), lines.collect()))
}

/// Reads the file of a rank.
fn read_file(path: &Path, rank: &mut RankReader<'_>) -> Result<(), ImportError> {
    let mut file = BufReader::new(open_input(path).map_err(failed(path))?);
    let mut bytes = Vec::new();
    for number in 1u64.. {
        bytes.clear();
        let mut limited = (&mut file).take(LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut bytes);
        let read = read.map_err(failed(path))? as u64;
        if read == 0 {
            break;
        }
        if read == LONGEST_LINE && bytes.last() != Some(&b'\n') {
            return Err(wrong(
                path,
                number,
                "the line has more than a million bytes",
            ));
        }
        rank.line((path, number), &String::from_utf8_lossy(&bytes))?;
    }
    Ok(())
}

/// Creates an error for a line.
fn wrong(path: &Path, line: u64, reason: &str) -> ImportError {
    ImportError::Line {
        path: path.to_owned(),
        line,
        reason: reason.to_owned(),
    }
}
