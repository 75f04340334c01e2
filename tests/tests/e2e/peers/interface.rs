//! A program of the standard ABI next to the same program of MPICH's own interface: both traces are equal.
//!
//! Both libraries are of one build of MPICH, the wheel on PyPI, which a run brings. Part of the group `peers`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

/// Calls MPI in many ways.
const PROGRAM: &str = include_str!("interface.c");

/// The wheel's version of MPICH.
const VERSION: &str = "5.0.2";

/// Libraries of glibc that the wheel's libraries need and the image lacks: they are empty since glibc 2.34.
const EMPTY: [&str; 3] = ["libdl.so.2", "libpthread.so.0", "librt.so.1"];

/// The programs: their names, the libraries, and the headers.
const PROGRAMS: [(&str, &str, &str); 2] = [
    ("native", "libmpi.so.12", "mpi.h"),
    ("standard", "libmpi_abi.so.1", "mpi_abi.h"),
];

/// Runs a tool in the test's folder; `None`, with a message, if it fails.
fn tool(dir: &Dir, command: &mut Command) -> Option<String> {
    let output = command.current_dir(dir.path("")).output();
    if let Ok(output) = &output
        && output.status.success()
    {
        return Some(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    eprintln!("SKIPPED: {command:?} fails (apt install gcc python3-pip): {output:?}");
    None
}

/// Fetches the wheel from the registry by its ordinary client, and unpacks it: returns the folder with its libraries and
/// headers.
fn wheel(dir: &Dir) -> Option<PathBuf> {
    let mut fetch = Command::new("pip");
    fetch.args(["download", "--quiet", "--no-deps", "--only-binary", ":all:"]);
    tool(dir, fetch.arg(format!("mpich=={VERSION}")))?;
    let files = fs::read_dir(dir.path("")).expect("the folder is there");
    let mut names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let name = names.find(|name| name.ends_with(".whl"))?;
    let mut unpack = Command::new("python3");
    tool(dir, unpack.args(["-m", "zipfile", "-e", &name, "wheel"]))?;
    Some(dir.path(&format!("wheel/mpich-{VERSION}.data/data")))
}

/// Copies the needed files of the wheel and of this host's glibc into the folder `lib`.
fn libraries(dir: &Dir, wheel: &Path) -> Option<()> {
    let own = dir.path("lib/mpich");
    fs::create_dir_all(&own).expect("the temporary folder is writable");
    let copy = |from: &Path, to: &Path| {
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    };
    for (_, library, _) in PROGRAMS {
        let to = dir.path(&format!("lib/{library}"));
        copy(&wheel.join("lib").join(library), &to);
    }
    for file in fs::read_dir(wheel.join("lib/mpich")).expect("the wheel has it") {
        let path = file.expect("a file").path();
        if path.is_file() {
            copy(&path, &own.join(path.file_name().expect("a name")));
        }
    }
    for name in EMPTY {
        let mut ask = Command::new("cc");
        let found = tool(dir, ask.arg(format!("-print-file-name={name}")))?;
        copy(Path::new(&found), &dir.path(&format!("lib/{name}")));
    }
    Some(())
}

/// Compiles the program against each library, in folders of headers that have no other `mpi.h`.
fn programs(dir: &Dir, wheel: &Path) -> Option<()> {
    dir.write("interface.c", PROGRAM);
    for (name, library, header) in PROGRAMS {
        let include = dir.path(&format!("include-{name}"));
        fs::create_dir_all(&include).expect("the temporary folder is writable");
        for (file, to) in [(header, "mpi.h"), ("mpi_proto.h", "mpi_proto.h")] {
            fs::copy(wheel.join("include").join(file), include.join(to)).expect("a header");
        }
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-o", name, "interface.c"]);
        compile.arg(format!("-Iinclude-{name}"));
        compile.arg(format!("lib/{library}"));
        compile.args(["-Wl,-rpath,$ORIGIN/lib", "-Wl,-rpath-link,lib/mpich"]);
        tool(dir, &mut compile)?;
    }
    Some(())
}

/// A folder with both programs and their libraries.
fn prepared() -> Option<Dir> {
    let dir = Dir::new()?;
    let wheel = wheel(&dir)?;
    libraries(&dir, &wheel)?;
    programs(&dir, &wheel)?;
    Some(dir)
}

fn scenario(name: &str, nodes: u32, more: &str) -> Scenario {
    Scenario::new(nodes, &format!("mpiexec.hydra -n 4 ./{name}"))
        .working(&format!("files = {{ {name} = \"{name}\", lib = \"lib\" }}"))
        .working(&format!("ranks-per-node = {}", 4 / nodes))
        .with(more)
}

/// A call without its times and the numbers of its interface: arguments, results and error codes.
fn plain(line: &str) -> (u64, Value) {
    let mut event: Value = serde_json::from_str(line).expect("JSON");
    let fields = event.as_object_mut().expect("an object");
    for time in ["entry", "exit", "entry_ps", "duration_ps", "vcpu", "made"] {
        fields.remove(time);
    }
    let failed = fields.remove("result").is_some_and(|result| result != 0);
    fields.insert("failed".to_owned(), failed.into());
    let named = [
        "comm", "datatype", "dest", "op", "recvtag", "root", "source", "tag",
    ];
    if let Some(arguments) = fields.get_mut("arguments").and_then(Value::as_object_mut) {
        arguments.retain(|name, word| {
            let pointer = word.as_str().is_some_and(|word| word.starts_with("0x"));
            named.contains(&name.as_str()) && !pointer
        });
    }
    let completed = fields.get_mut("completed").and_then(Value::as_array_mut);
    for one in completed.into_iter().flatten() {
        if one["ending"].is_object() {
            one["ending"] = "Error".into();
        }
    }
    (event["rank"].as_u64().expect("a rank"), event)
}

/// The calls of each rank, in order.
fn calls(dir: &Dir, out: &str) -> Vec<(u64, Value)> {
    let (dump, error, code) = dir.call(&["trace", "dump", "--json", out]);
    assert_eq!(code, Some(0), "{error}");
    let mut calls: Vec<(u64, Value)> = dump.lines().map(plain).collect();
    calls.sort_by_key(|(rank, _)| *rank);
    calls
}

/// Runs both programs and asserts equal traces.
fn agree(dir: &Dir, nodes: u32, more: &str, out: &str) {
    let [native, standard] = PROGRAMS.map(|(name, _, _)| {
        let out = format!("{name}-{out}");
        let run = dir.run(&scenario(name, nodes, more), &out, &[]).success();
        assert!(run.console(0).contains("WELL"), "{}", run.console(0));
        calls(dir, &out)
    });
    assert!(native.len() > 300, "{}", native.len());
    for (native, standard) in native.iter().zip(&standard) {
        assert_eq!(native, standard, "{out}");
    }
    assert_eq!(native.len(), standard.len());
    let observed = standard
        .iter()
        .filter(|(_, call)| call["status"]["observed"] == true);
    assert!(observed.count() > 5, "{out}");
}

/// Messages, totals and waiting of both programs.
fn read_alike(dir: &Dir, out: &str) {
    let read = |name: &str, words: &[&str]| {
        let run = format!("{name}-{out}");
        let (text, error, code) = dir.call(&[words, &[&run]].concat());
        assert_eq!(code, Some(0), "{words:?}: {error}");
        text
    };
    // The last column is a rate, which depends on the run's length.
    let matrix = |name: &str| {
        let text = read(name, &["trace", "matrix", "--csv"]);
        let rows = text.lines().filter_map(|row| row.rsplit_once(','));
        let rows: Vec<String> = rows.map(|(row, _)| row.to_owned()).collect();
        assert!(rows.len() > 10, "{text}");
        rows
    };
    assert_eq!(matrix("native"), matrix("standard"));
    let totals = |name: &str| {
        let stat: Value = serde_json::from_str(&read(name, &["trace", "stat", "--json"]))
            .expect("statistics are JSON");
        let functions = stat["functions"].as_array().expect("a list").clone();
        let mut rows: Vec<[String; 4]> = functions
            .iter()
            .map(|row| ["function", "calls", "sent", "received"].map(|key| row[key].to_string()))
            .collect();
        rows.sort();
        rows
    };
    assert_eq!(totals("native"), totals("standard"));
    for words in [&["trace", "wait"][..], &["replay"]] {
        assert!(!read("standard", words).is_empty());
    }
}

#[test]
fn programs_of_the_standard_abi_are_traced_as_those_of_mpich() {
    let Some(dir) = prepared() else { return };
    agree(&dir, 4, "[trace]\nlibrary = true", "library");
    // By probes, over the network and over shared memory.
    agree(&dir, 2, "", "shared");
    read_alike(&dir, "shared");
    // A program cannot cancel a receive that it waits for in one call, independent of the transport.
    for (_, call) in calls(&dir, "standard-shared") {
        let status = &call["status"];
        assert!(
            status["cancelled"] != true || status["observed"] != true,
            "{call}"
        );
    }
}
