//! Compares the constants of the standard ABI with an excerpt of its header.

use std::collections::BTreeMap;

use super::*;
use crate::datatypes::{PREDEFINED, by_standard_handle};
use crate::implementation::{Implementation, MpiLibrary, Peer, UNDEFINED};

const HEADER: &str = include_str!("../../../../guest-lib/generate/headers/mpi-5.0-abi.h");

const LIBRARIES: [MpiLibrary; 3] = [MpiLibrary::Mpich, MpiLibrary::OpenMpi, MpiLibrary::Unknown];

/// Returns the number at the end of a definition, and the type to which it is cast.
fn value(text: &str) -> Option<(&str, i64)> {
    let (kind, number) = match text.strip_prefix("((") {
        Some(cast) => cast.trim_end_matches(')').split_once(')')?,
        None => ("int", text),
    };
    let number = match number.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    Some((kind, number))
}

/// Constants of the header: their types and values by name.
fn header() -> BTreeMap<&'static str, (&'static str, i64)> {
    let lines = HEADER
        .lines()
        .filter_map(|line| line.strip_prefix("#define "));
    let all: BTreeMap<_, _> = lines
        .map(|line| {
            let (name, text) = line.split_once(' ').unwrap();
            (name, value(text).unwrap_or_else(|| panic!("{line}")))
        })
        .collect();
    assert!(all.len() > 200, "{}", all.len());
    all
}

fn each(test: impl Fn(Implementation, &dyn Fn(&str) -> i64)) {
    let header = header();
    let constant = |name: &str| header.get(name).unwrap_or_else(|| panic!("{name}")).1;
    for library in LIBRARIES {
        test(Implementation::StandardAbi(library), &constant);
    }
}

#[test]
fn ranks_and_tags_are_the_headers() {
    each(|abi, constant| {
        let rank = |name| constant(name) as i32;
        assert_eq!(abi.peer(rank("MPI_ANY_SOURCE")), Peer::Any);
        assert_eq!(abi.peer(rank("MPI_PROC_NULL")), Peer::Null);
        assert_eq!(abi.peer(rank("MPI_ROOT")), Peer::Root);
        assert_eq!(abi.peer(-2), Peer::Invalid(-2));
        assert_eq!(abi.peer(7), Peer::Rank(7));
        assert_eq!(abi.tag(rank("MPI_ANY_TAG")), None);
        assert_eq!(abi.tag(-1), Some(-1));
        assert_eq!(constant("MPI_UNDEFINED"), UNDEFINED);
    });
}

#[test]
fn addresses_are_the_headers() {
    each(|abi, constant| {
        let address = |name| constant(name).cast_unsigned();
        assert!(abi.in_place(address("MPI_IN_PLACE")));
        assert!(!abi.in_place(address("MPI_BOTTOM")));
        assert!(!abi.in_place(address("MPI_BUFFER_AUTOMATIC")));
        assert!(!abi.in_place(u64::MAX));
        assert!(abi.ignores_status(address("MPI_STATUS_IGNORE")));
        assert!(abi.ignores_status(address("MPI_STATUSES_IGNORE")));
        assert!(!abi.ignores_status(1));
    });
}

#[test]
fn modes_and_types_are_the_headers() {
    each(|abi, constant| {
        let constant = |name| constant(name) as i32;
        assert_eq!(abi.mode_no_check(), constant("MPI_MODE_NOCHECK"));
        assert_eq!(abi.lock_shared(), constant("MPI_LOCK_SHARED"));
        assert_eq!(abi.comm_type_shared(), constant("MPI_COMM_TYPE_SHARED"));
        let default = constant("MPI_DISTRIBUTE_DFLT_DARG");
        assert_eq!(i64::from(default), DISTRIBUTE_DEFAULT);
    });
}

#[test]
fn error_classes_are_the_headers() {
    each(|abi, constant| {
        // MPICH adds bits to the class: one of its codes for MPI_ERR_TRUNCATE.
        let more = match abi.library() {
            MpiLibrary::Mpich => 335_852_303 & !0x7f,
            _ => 0,
        };
        let code = |name| constant(name) | more;
        let status = code("MPI_ERR_IN_STATUS");
        assert!(abi.is_error_in_status(status));
        assert!(!abi.is_pending(status as i32) && !abi.refused_arguments(status));
        assert!(abi.is_pending(code("MPI_ERR_PENDING") as i32));
        assert!(abi.refused_arguments(code("MPI_ERR_REQUEST")));
        assert!(abi.refused_arguments(code("MPI_ERR_ARG")));
        assert!(!abi.refused_arguments(code("MPI_ERR_TRUNCATE")));
    });
}

#[test]
fn handles_are_the_headers() {
    let handles = header();
    let handle = |name: &str| handles[name].1.cast_unsigned();
    assert_eq!(handle("MPI_COMM_NULL"), COMM_NULL);
    assert_eq!(handle("MPI_COMM_WORLD"), COMM_WORLD);
    assert_eq!(handle("MPI_COMM_SELF"), COMM_SELF);
    assert_eq!(handle("MPI_NO_OP"), NO_OP);
    let of = |wanted| handles.iter().filter(move |it| it.1.0 == wanted);
    for (name, (_, value)) in of("MPI_Op") {
        assert_eq!(operation(value.cast_unsigned()), Some(*name));
    }
    assert_eq!(of("MPI_Op").count(), OPERATIONS.len());
    for (name, (_, value)) in of("MPI_Datatype") {
        let row = by_standard_handle(value.cast_unsigned());
        let known = row.map(|row| PREDEFINED[usize::from(row)].name);
        let is_null = *name == "MPI_DATATYPE_NULL";
        assert_eq!(known, (!is_null).then_some(*name));
    }
    assert!(of("MPI_Datatype").count() > 70);
    // Values above the constants are the library's pointers.
    assert!(
        handles
            .values()
            .all(|it| !it.0.starts_with("MPI_") || it.1 < 0x1000)
    );
}

#[test]
fn unknown_handles_have_no_names() {
    for handle in [0, 1, 0x20 | 1 << 32, 0x200, 0x204, u64::MAX] {
        assert_eq!(by_standard_handle(handle), None, "{handle:#x}");
    }
    assert_eq!(operation(0x21 | 1 << 32), None);
}
