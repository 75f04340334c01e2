//! The preloaded library as a linker and as a program on this host see it.
#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use belljar_abi::FUNCTIONS;
use belljar_guest_lib::PRELOAD;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, SymbolIndex};

/// Dynamic symbols by name: type and whether they are defined here.
fn dynamic_symbols() -> BTreeMap<String, (u8, bool)> {
    // A copy on the heap is aligned, which the parser asks for.
    let library: &[u8] = Vec::leak(PRELOAD.to_vec());
    let header = FileHeader64::<Endianness>::parse(library).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, library).unwrap();
    let symbols = sections.symbols(endian, library, elf::SHT_DYNSYM).unwrap();
    (1..symbols.len())
        .map(|index| {
            let symbol = symbols.symbol(SymbolIndex(index)).unwrap();
            let name = symbols.symbol_name(endian, symbol).unwrap();
            let name = String::from_utf8_lossy(name).into_owned();
            (name, (symbol.st_type(), !symbol.is_undefined(endian)))
        })
        .collect()
}

#[test]
fn every_function_is_an_indirect_one_and_nothing_else_is_needed() {
    let mut symbols = dynamic_symbols();
    for function in FUNCTIONS {
        let found = symbols.remove(function.name);
        assert_eq!(found, Some((elf::STT_GNU_IFUNC, true)), "{}", function.name);
        assert!(symbols.remove(&format!("P{}", function.name)).is_some());
    }
    for (object, _) in belljar_abi::OPEN_MPI_OBJECTS {
        assert!(symbols.remove(*object).is_some(), "{object}");
    }
    assert!(symbols.is_empty(), "unexpected symbols: {symbols:?}");
}

const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("size %d sum %d\n", size, sum);
    MPI_Finalize();
    return 0;
}
"#;

/// On a machine without Belljar the library does nothing and harms nothing.
#[test]
fn a_real_program_runs_unharmed_without_belljar() {
    if Command::new("mpicc.mpich").arg("-v").output().is_err() {
        eprintln!("SKIPPED: mpicc.mpich is not installed (apt install mpich libmpich-dev)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program, library) = (
        folder.path().join("p.c"),
        folder.path().join("p"),
        folder.path().join("libbelljar.so"),
    );
    fs::write(&source, PROGRAM).unwrap();
    fs::write(&library, PRELOAD).unwrap();
    let compiled = Command::new("mpicc.mpich")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status()
        .unwrap();
    assert!(compiled.success());
    let output = Command::new("mpiexec.hydra")
        .args(["-n", "3", "-genv", "LD_PRELOAD"])
        .arg(&library)
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "size 3 sum 3\n");
}
