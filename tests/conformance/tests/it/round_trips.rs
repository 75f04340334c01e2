//! Random jobs exported, imported, and exported again: from the second export on, exports are equal.
//!
//! The first export may lose properties that the format lacks; later ones lose nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use belljar_archive::TraceReader;
use belljar_collectives::Tables;
use belljar_conformance::{Kinds, check};
use belljar_formats::goal::{write_goal, write_goal_binary};
use belljar_formats::ti::{Amounts, write_rank};
use belljar_formats::{Format, Messages, Rates, Source, import, otf2};
use belljar_program::{Algorithms, Program, extract};

const SEEDS: u64 = 60;
const RATE: f64 = 1e9;

/// A format that is written to a path and read from it.
trait Carrier {
    /// Its format.
    const FORMAT: Format;
    /// Writes the trace at `trace` into `folder`; the path to import.
    fn write(trace: &Path, folder: &Path) -> PathBuf;
    /// The files at the path, with numbers that formats choose in the order of their first use.
    fn content(path: &Path) -> BTreeMap<String, Vec<u8>>;
}

fn program(trace: &Path) -> Program {
    let tables = Tables::open_mpi();
    let (program, _) = extract(trace, Algorithms::By(&tables)).expect("a trace");
    program
}

/// Words of lines with each tag replaced by its number among those of its sender and receiver, in the order of sends.
fn canonical(text: &str) -> Vec<u8> {
    let mut rank = String::new();
    let mut numbers: BTreeMap<(String, String), BTreeMap<String, usize>> = BTreeMap::new();
    let mut lines: Vec<Vec<String>> = Vec::new();
    let message = |rank: &str, words: &[String]| -> Option<(String, String, usize)> {
        let (direction, peer, tag) = match words {
            [_, sends, _, _, peer, tag, _] if tag == "tag" => (sends, peer, 6),
            [_, sends, peer, _, _] => (sends, peer, 3),
            _ => return None,
        };
        let other = peer.clone();
        match direction.as_str() {
            "send" | "isend" => Some((rank.to_owned(), other, tag)),
            "recv" | "irecv" => Some((other, rank.to_owned(), tag)),
            "wait" => Some((words[2].clone(), words[3].clone(), 4)),
            _ => None,
        }
    };
    for line in text.lines() {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match words.as_slice() {
            [word, number, _] if word == "rank" => rank = number.clone(),
            [number, ..] if number.parse::<u32>().is_ok() => rank = number.clone(),
            _ => {}
        }
        if let Some((from, to, at)) = message(&rank, &words)
            && words[1].ends_with("send")
        {
            let own = numbers.entry((from, to)).or_default();
            let next = own.len();
            own.entry(words[at].clone()).or_insert(next);
        }
        lines.push(words);
    }
    let mut out = String::new();
    let mut rank = String::new();
    for mut words in lines {
        match words.as_slice() {
            [word, number, _] if word == "rank" => rank = number.clone(),
            [number, ..] if number.parse::<u32>().is_ok() => rank = number.clone(),
            _ => {}
        }
        if let Some((from, to, at)) = message(&rank, &words) {
            let number = numbers.get(&(from, to)).and_then(|own| own.get(&words[at]));
            words[at] = number.map_or_else(|| "?".to_owned(), usize::to_string);
        }
        out += &words.join(" ");
        out.push('\n');
    }
    out.into_bytes()
}

struct Goal;
struct GoalBinary;
struct Otf2;
struct Ti;

impl Carrier for Goal {
    const FORMAT: Format = Format::Goal;

    fn write(trace: &Path, folder: &Path) -> PathBuf {
        let program = program(trace);
        let path = folder.join("a.goal");
        let mut text = Vec::new();
        write_goal(&Messages::new(&program, false), &mut text).expect("it is written");
        fs::write(&path, text).expect("it is written");
        path
    }

    fn content(path: &Path) -> BTreeMap<String, Vec<u8>> {
        let text = fs::read_to_string(path).expect("a text");
        [(String::new(), canonical(&text))].into()
    }
}

impl Carrier for GoalBinary {
    const FORMAT: Format = Format::Goal;

    fn write(trace: &Path, folder: &Path) -> PathBuf {
        let program = program(trace);
        let path = folder.join("a.bin");
        let mut file = fs::File::create(&path).expect("a file");
        write_goal_binary(&Messages::new(&program, false), &mut file).expect("it is written");
        path
    }

    /// The schedule as text.
    fn content(path: &Path) -> BTreeMap<String, Vec<u8>> {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = imported::<Self>(path, folder.path());
        Goal::content(&Goal::write(&trace, folder.path()))
    }
}

impl Carrier for Otf2 {
    const FORMAT: Format = Format::Otf2;

    fn write(trace: &Path, folder: &Path) -> PathBuf {
        let mut source = Source::open(trace).expect("a trace");
        let out = folder.join("archive");
        otf2::write(&mut source, &out).expect("it is written");
        out.join("traces.otf2")
    }

    fn content(path: &Path) -> BTreeMap<String, Vec<u8>> {
        let folder = path.with_extension("");
        let events = fs::read_dir(folder).expect("a folder").map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (name.into_owned(), fs::read(&path).expect("a file"))
        });
        let definitions = fs::read(path.with_extension("def")).expect("a file");
        events
            .chain([("definitions".to_owned(), definitions)])
            .collect()
    }
}

impl Carrier for Ti {
    const FORMAT: Format = Format::Ti;

    fn write(trace: &Path, folder: &Path) -> PathBuf {
        let program = program(trace);
        let messages = Messages::new(&program, true);
        let clock = TraceReader::open(trace).expect("a trace");
        let flops_per_second = clock.header().frequency(0).as_hz() as f64;
        let folder = folder.join("ti");
        fs::create_dir(&folder).expect("a folder");
        let mut list = String::new();
        for rank in 0..messages.ranks() {
            let name = format!("{rank}.txt");
            let mut file = fs::File::create(folder.join(&name)).expect("a file");
            let amounts = Amounts { flops_per_second };
            write_rank(&messages, rank, amounts, &mut file).expect("it is written");
            list += &format!("{name}\n");
        }
        fs::write(folder.join("ranks"), list).expect("it is written");
        folder
    }

    fn content(path: &Path) -> BTreeMap<String, Vec<u8>> {
        let list = fs::read_to_string(path.join("ranks")).expect("a list");
        let files = list.lines().map(|name| {
            let text = fs::read_to_string(path.join(name)).expect("a file");
            format!("{text}\n")
        });
        let all: String = files.collect();
        [(String::new(), canonical(&all))].into()
    }
}

fn imported<C: Carrier>(path: &Path, folder: &Path) -> PathBuf {
    let out = folder.join("trace.bjt");
    let rates = Rates {
        flops_per_second: Some(RATE),
    };
    let imported = import(path, Some(C::FORMAT), rates, &out, "imported");
    imported.expect("what was exported is imported");
    out
}

/// Exports the trace, imports that and exports it again, and so once more: whether the last two exports are the same.
fn comes_back<C: Carrier>(trace: &Path) -> Option<String> {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let [first, second, third] = folders.each_ref().map(tempfile::TempDir::path);
    let path = C::write(trace, first);
    let again = C::write(&imported::<C>(&path, first), second);
    let last = C::write(&imported::<C>(&again, second), third);
    let (before, after) = (C::content(&again), C::content(&last));
    let differs = before.keys().chain(after.keys());
    let mut differs = differs.filter(|name| before.get(*name) != after.get(*name));
    let name = differs.next()?;
    let of = |content: &BTreeMap<String, Vec<u8>>| {
        let bytes = content.get(name).map_or(&[][..], Vec::as_slice);
        String::from_utf8_lossy(bytes).into_owned()
    };
    let (before, after) = (of(&before), of(&after));
    let mut lines = before.lines().zip(after.lines());
    let line = lines.find(|(before, after)| before != after);
    Some(format!("{name}: {line:?}"))
}

fn all_come_back<C: Carrier>(kinds: &Kinds) {
    let folder = tempfile::tempdir().expect("a folder");
    for seed in 0..SEEDS {
        check(seed, kinds, folder.path()).expect("the trace can be read");
        let trace = folder.path().join(format!("{seed}.bjt"));
        let difference = comes_back::<C>(&trace);
        assert_eq!(difference, None, "seed {seed}");
    }
}

#[test]
fn goal_schedules_come_back() {
    all_come_back::<Goal>(&Kinds::ALL);
}

#[test]
fn binary_goal_schedules_come_back() {
    all_come_back::<GoalBinary>(&Kinds::ALL);
}

#[test]
fn traces_of_simgrid_come_back() {
    all_come_back::<Ti>(&Kinds::ALL);
}

#[test]
fn archives_come_back() {
    all_come_back::<Otf2>(&Kinds::ALL);
}
