//! The tables against the headers of both implementations: every function, every datatype.

use std::collections::BTreeSet;
use std::path::Path;

use belljar_abi::OPEN_MPI_OBJECTS;
use belljar_mpi::{Base, FUNCTIONS, Function};
use belljar_trace::datatypes::{PREDEFINED, by_mpich_handle, by_open_mpi_symbol};

use crate::decode::action::Action;

const MPICH: &str = "/usr/include/x86_64-linux-gnu/mpich/mpi.h";
const MPICH_FUNCTIONS: &str = "/usr/include/x86_64-linux-gnu/mpich/mpi_proto.h";
const OPEN_MPI: &str = "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h";

/// Returns a header's text; prints a message if it is missing.
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn header(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(Path::new(path)).ok();
    if text.is_none() {
        eprintln!("SKIPPED: {path} is absent; install libmpich-dev and libopenmpi-dev");
    }
    text
}

/// Returns the names of functions of the C binding that a header declares.
fn functions(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(" MPI_") {
        let result = text[..at].split_whitespace().next_back();
        let is_result = matches!(result, Some("int" | "double" | "MPI_Aint" | "MPI_Fint"));
        let word = &text[at + 1..];
        let length = word.find(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
        let (word, rest) = word.split_at(length.unwrap_or(word.len()));
        let second = word
            .chars()
            .nth(5)
            .is_some_and(|it| it.is_ascii_lowercase());
        if is_result && second && rest.starts_with('(') {
            found.insert(word);
        }
    }
    found
}

#[test]
fn every_function_of_the_headers_is_in_the_table() {
    for path in [MPICH_FUNCTIONS, OPEN_MPI] {
        let Some(text) = header(path) else {
            continue;
        };
        let found = functions(&text);
        assert!(found.len() > 350, "{path}: {}", found.len());
        for name in found {
            assert!(belljar_mpi::number(name).is_some(), "{path}: {name}");
        }
    }
}

#[test]
fn every_datatype_of_mpich_has_its_name_and_size() {
    let Some(text) = header(MPICH) else {
        return;
    };
    let mut seen = 0;
    for line in text.lines() {
        let Some((name, handle)) = line
            .strip_prefix("#define ")
            .and_then(|line| line.split_once("((MPI_Datatype)0x"))
        else {
            continue;
        };
        let (name, handle) = (name.trim(), handle.trim_end_matches(')'));
        let handle = u64::from_str_radix(handle, 16).unwrap();
        if name == "MPI_DATATYPE_NULL" {
            continue;
        }
        let row = by_mpich_handle(handle).map(|index| PREDEFINED[usize::from(index)]);
        let known = row.unwrap_or_else(|| panic!("{name} is missing"));
        let other = ["MPI_LONG_LONG_INT"];
        assert!(known.name == name || other.contains(&name), "{name}");
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

#[test]
fn every_datatype_of_open_mpi_is_told_to_the_host() {
    let Some(text) = header(OPEN_MPI) else {
        return;
    };
    let mut seen = 0;
    for line in text.lines() {
        let Some((name, symbol)) = line.split_once("OMPI_PREDEFINED_GLOBAL(MPI_Datatype, ") else {
            continue;
        };
        let symbol = symbol.trim_end_matches(')');
        if symbol == "ompi_mpi_datatype_null" || symbol.contains("unavailable") {
            continue;
        }
        assert!(by_open_mpi_symbol(symbol).is_some(), "{name}: {symbol}");
        let told = OPEN_MPI_OBJECTS.iter().any(|(object, _)| *object == symbol);
        assert!(told, "{name}: {symbol}");
        seen += 1;
    }
    assert!(seen > 60, "{seen}");
}

fn has(function: &Function, names: &[&str]) -> bool {
    let mut parameters = function.parameters.iter();
    parameters.any(|parameter| names.contains(&parameter.name))
}

#[test]
fn what_the_decoder_asks_of_a_message_its_function_has() {
    for (number, function) in (0u16..).zip(FUNCTIONS) {
        let Action::Message {
            sends, receives, ..
        } = Action::of(number)
        else {
            continue;
        };
        let name = function.name;
        assert!(has(function, &["comm"]), "{name}");
        for (side, peer, [count, datatype, tag]) in [
            (sends, "dest", ["sendcount", "sendtype", "sendtag"]),
            (receives, "source", ["recvcount", "recvtype", "recvtag"]),
        ] {
            assert_eq!(has(function, &[peer]), side, "{name}: {peer}");
            let shared = [(count, "count"), (datatype, "datatype"), (tag, "tag")];
            for (own, shared) in shared.into_iter().filter(|_| side) {
                assert!(has(function, &[own, shared]), "{name}: {own}");
            }
        }
    }
}

#[test]
fn no_function_with_a_peer_or_a_root_is_overlooked() {
    // These query the objects instead of moving data.
    let asks = [
        "MPI_Comm_spawn",
        "MPI_Comm_spawn_multiple",
        "MPI_Comm_accept",
        "MPI_Comm_connect",
    ];
    for (number, function) in (0u16..).zip(FUNCTIONS) {
        let buffer = |it: &&belljar_mpi::Parameter| it.base == Base::Datatype && it.pointer == 0;
        let moves = has(function, &["dest", "source", "root"])
            && function.parameters.iter().any(|it| buffer(&it));
        if moves && !asks.contains(&function.name) {
            assert_ne!(Action::of(number), Action::Plain, "{}", function.name);
        }
    }
}
