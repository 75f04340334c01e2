//! The preloaded library, as linkers and programs on this host see it.
#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use belljar_guest_lib::PRELOAD;
use belljar_mpi::FUNCTIONS;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, SymbolIndex};

/// Dynamic symbols by name: type and whether they are defined here.
fn dynamic_symbols() -> BTreeMap<String, (u8, bool)> {
    // A copy on the heap is aligned, as the parser requires.
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
fn every_function_is_an_indirect_one_and_little_else_is_needed() {
    let mut symbols = dynamic_symbols();
    for function in FUNCTIONS {
        for name in [function.name.to_owned(), format!("P{}", function.name)] {
            let found = symbols.remove(&name);
            assert_eq!(found, Some((elf::STT_GNU_IFUNC, true)), "{name}");
        }
    }
    for needed in ["dl_iterate_phdr", "environ"] {
        assert_eq!(symbols.remove(needed), Some((elf::STT_NOTYPE, false)));
    }
    assert!(symbols.is_empty(), "unexpected symbols: {symbols:?}");
}

/// Code that runs before relocation cannot use relocated addresses, and processes without MPI pay for
/// each relocation.
#[test]
fn nothing_is_relocated_but_the_addresses_of_what_is_needed() {
    let library: &[u8] = Vec::leak(PRELOAD.to_vec());
    let header = FileHeader64::<Endianness>::parse(library).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, library).unwrap();
    let mut relocations = 0;
    for section in sections.iter() {
        if let Some((found, _)) = section.rela(endian, library).unwrap() {
            relocations += found.len();
        }
    }
    assert_eq!(relocations, 2);
}

const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
static int early = 7;
__attribute__((constructor)) static void begin(void) { MPI_Initialized(&early); }
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("size %d sum %d early %d\n", size, sum, early);
    MPI_Finalize();
    return 0;
}
"#;

/// Opens a library at run time, with the scope of its first argument, and runs its `main`.
const OPENER: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **arguments) {
    int visible = arguments[1][0] == 'g' ? RTLD_GLOBAL : RTLD_LOCAL;
    void *plugin = dlopen(arguments[2], RTLD_LAZY | visible);
    if (plugin == NULL) { puts(dlerror()); return 1; }
    int (*run)(int, char **) = (int (*)(int, char **))dlsym(plugin, "main");
    return run(1, arguments);
}
"#;

/// Counts reductions.
const LAYER: &str = r#"
#include <mpi.h>
#include <stdio.h>
int MPI_Allreduce(const void *a, void *b, int n, MPI_Datatype t, MPI_Op op, MPI_Comm comm) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    if (rank == 0) { printf("layer: "); fflush(stdout); }
    return PMPI_Allreduce(a, b, n, t, op, comm);
}
"#;

/// Defines a function of MPI's profiling interface itself.
const OWN: &str = r#"
#include <stdio.h>
int MPI_Wait(int *request, int *status) __attribute__((weak));
int PMPI_Wait(int *request, int *status) { *status = *request; return 0; }
int main(void) {
    int request = 5, status = 0;
    MPI_Wait(&request, &status);
    printf("waited for %d\n", status);
    return 0;
}
"#;

struct Programs {
    folder: tempfile::TempDir,
    mpi: &'static str,
}

impl Programs {
    fn build(mpi: &'static str) -> Option<Self> {
        let compiler = format!("mpicc.{mpi}");
        if Command::new(&compiler).arg("-v").output().is_err() {
            eprintln!("SKIPPED: {compiler} is not installed (apt install lib{mpi}-dev)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let programs = Self { folder, mpi };
        fs::write(programs.path("libbelljar.so"), PRELOAD).unwrap();
        let shared: &[&str] = &["-shared", "-fPIC"];
        programs.compile(&compiler, PROGRAM, "linked", &[]);
        programs.compile(&compiler, PROGRAM, "plugin.so", shared);
        programs.compile(&compiler, LAYER, "layer.so", shared);
        programs.compile("cc", OPENER, "opener", &[]);
        Some(programs)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, compiler: &str, text: &str, name: &str, flags: &[&str]) {
        let source = self.path(&format!("{name}.c"));
        fs::write(&source, text).unwrap();
        let mut command = Command::new(compiler);
        command.args(flags).arg("-o").arg(self.path(name));
        assert!(command.arg(&source).status().unwrap().success(), "{name}");
    }

    /// Output of three ranks with these libraries preloaded.
    fn run(&self, preloaded: &[&str], program: &[&str]) -> String {
        let libraries = preloaded.iter().map(|name| self.path(name));
        let libraries: Vec<_> = libraries.map(|path| path.display().to_string()).collect();
        let libraries = libraries.join(" ");
        let mut command = match self.mpi {
            "mpich" => {
                let mut command = Command::new("mpiexec.hydra");
                command.args(["-n", "3", "-genv", "LD_PRELOAD", &libraries]);
                command
            }
            _ => {
                let mut command = Command::new("mpirun.openmpi");
                command.args(["--allow-run-as-root", "--oversubscribe", "-np", "3"]);
                command.args(["-x", &format!("LD_PRELOAD={libraries}")]);
                command
            }
        };
        let output = command.current_dir(&self.folder).args(program).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{program:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Without Belljar, the library has no effect.
fn unharmed(mpi: &'static str) {
    let Some(programs) = Programs::build(mpi) else {
        return;
    };
    let expected = "size 3 sum 3 early 0\n";
    let ours = "libbelljar.so";
    assert_eq!(programs.run(&[ours], &["./linked"]), expected);
    for visible in ["global", "local"] {
        let program = ["./opener", visible, "./plugin.so"];
        assert_eq!(programs.run(&[ours], &program), expected, "{visible}");
    }
    // A layer after the library is called as well as one before it.
    for preloaded in [[ours, "layer.so"], ["layer.so", ours]] {
        let said = programs.run(&preloaded, &["./linked"]);
        assert_eq!(said, format!("layer: {expected}"), "{preloaded:?}");
    }
}

#[test]
fn programs_of_mpich_run_unharmed_without_belljar() {
    unharmed("mpich");
}

#[test]
fn programs_of_open_mpi_run_unharmed_without_belljar() {
    unharmed("openmpi");
}

#[test]
fn a_program_may_have_mpi_in_itself() {
    let folder = tempfile::tempdir().unwrap();
    let programs = Programs { folder, mpi: "" };
    fs::write(programs.path("libbelljar.so"), PRELOAD).unwrap();
    programs.compile("cc", OWN, "own", &["-rdynamic"]);
    let mut command = Command::new(programs.path("own"));
    command.env("LD_PRELOAD", programs.path("libbelljar.so"));
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "waited for 5\n");
}
