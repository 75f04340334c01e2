//! Compiled programs, and damaged ones. Without gcc the tests are skipped with a message.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::elf::{EM_386, EM_AARCH64, EM_X86_64};

use crate::check::{Workload, check};
use crate::large_files::LargeFiles;
use crate::library::{Closure, LibraryLocation, Object, bring};
use crate::{Binary, GuestRoot, HostLoader, Mpi, ProgramError};

/// A folder of programs that gcc compiled; `None` without gcc.
struct Made(tempfile::TempDir);

impl Made {
    fn new() -> Option<Self> {
        let works = Command::new("gcc").arg("--version").output();
        if !works.is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: gcc is not installed (apt install gcc libc6-dev)");
            return None;
        }
        Some(Self(tempfile::tempdir().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles `source` into `name`.
    fn gcc(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.path("source.c");
        fs::write(&file, source).unwrap();
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let status = Command::new("gcc")
            .current_dir(self.0.path())
            .arg("-o")
            .args([&path, &file])
            .args(flags)
            .status();
        assert!(status.unwrap().success(), "{name}");
        path
    }

    /// Compiles a library `name` with the function `function`.
    fn library(&self, name: &str, function: &str) -> PathBuf {
        let soname = format!("-Wl,-soname,{}", name.rsplit('/').next().unwrap());
        let source = format!("int {function}(void) {{ return 1; }}");
        self.gcc(name, &source, &["-shared", "-fPIC", &soname])
    }

    fn binary(&self, name: &str) -> Binary {
        Binary::read(&fs::read(self.path(name)).unwrap()[..]).unwrap()
    }
}

/// Returns a tree with a shell, this host's libc and loader, and MPICH's library and launcher.
fn root(made: &Made) -> GuestRoot {
    let mut root = GuestRoot::default();
    let host = HostLoader::of_host();
    for name in ["libc.so.6", "ld-linux-x86-64.so.2"] {
        let (path, _) = host.system(name).expect("gcc makes programs for glibc");
        root.add(
            &format!("/lib/x86_64-linux-gnu/{name}"),
            &fs::read(path).unwrap(),
        );
    }
    root.link(
        "/lib64/ld-linux-x86-64.so.2",
        "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    );
    let mpich = made.library("image/libmpich.so.12", "MPI_Init");
    root.add(
        "/usr/lib/x86_64-linux-gnu/libmpich.so.12",
        &fs::read(mpich).unwrap(),
    );
    root.add("/usr/bin/mpiexec.hydra", b"");
    root.add("/bin/busybox", b"");
    root.link("/bin/sh", "/bin/busybox");
    root
}

/// Checks `files` with a command that calls the first one.
fn said(
    root: &GuestRoot,
    environment: &[(&str, &str)],
    files: &[(&str, Vec<u8>)],
) -> Result<Vec<String>, ProgramError> {
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let own = |(name, bytes): &(&str, Vec<u8>)| ((*name).to_owned(), bytes.clone());
    let environment: BTreeMap<_, _> = environment.iter().map(text).collect();
    let command = format!("mpiexec.hydra -n 2 ./{} x", files[0].0);
    let files: BTreeMap<_, _> = files.iter().map(own).collect();
    let workload = Workload {
        command: &command,
        environment: &environment,
        files: &files,
        large_files: &LargeFiles::default(),
        image: "small",
    };
    lines(root, workload)
}

/// Returns a line for each program, or the error of the first program that cannot run.
fn lines(root: &GuestRoot, workload: Workload<'_>) -> Result<Vec<String>, ProgramError> {
    let checked = check(root, workload)?.into_iter();
    let lines = checked.filter_map(|(_, checked)| checked.transpose());
    lines.collect()
}

const MAIN: &str = "int f(void); int main(void) { return f(); }";

#[test]
fn a_binary_says_what_it_needs() {
    let Some(made) = Made::new() else { return };
    made.library("lib/libf.so.1", "f");
    let flags = [
        "lib/libf.so.1",
        "-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib:/x",
    ];
    made.gcc("old", MAIN, &flags);
    made.gcc(
        "new",
        MAIN,
        &["lib/libf.so.1", "-Wl,--enable-new-dtags,-rpath,/y"],
    );
    made.gcc("static", "int main(void) { return 0; }", &["-static"]);
    let old = made.binary("old");
    assert_eq!(old.needed, ["libf.so.1", "libc.so.6"]);
    assert_eq!(old.rpath, ["$ORIGIN/lib", "/x"]);
    assert!(old.is_for_nodes() && old.is_loadable && old.runpath.is_empty());
    assert!(old.interpreter.as_ref().unwrap().contains("ld-linux"));
    assert!(old.needs_versions["libc.so.6"].contains("GLIBC_2.2.5"));
    assert_eq!(made.binary("new").runpath, ["/y"]);
    assert!(made.binary("static").is_static_program());
    let library = made.binary("lib/libf.so.1");
    assert_eq!(library.name.as_deref(), Some("libf.so.1"));
    assert_eq!(library.interpreter, None);
    damage(&fs::read(made.path("old")).unwrap());
}

/// Reading ends for every changed byte and every length of a file.
fn damage(whole: &[u8]) {
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 0xff;
        let _ = Binary::read(&bytes[..]);
        let _ = Binary::read(&whole[..at]);
    }
}

#[test]
fn other_files_are_no_binaries() {
    for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &[0; 64]] {
        assert_eq!(Binary::read(bytes), None);
    }
}

/// Returns a 64-bit ELF header for `machine`.
fn header(machine: u16) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[6] = 1;
    bytes[16] = 2;
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes
}

#[test]
fn programs_for_other_machines_are_refused() {
    let mut root = GuestRoot::default();
    root.add("/bin/sh", b"");
    let error = said(&root, &[], &[("a.out", header(EM_AARCH64))]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`a.out` is a program for aarch64, and nodes are x86-64: compile it for x86-64"
    );
    let mut short = header(EM_X86_64);
    short[4] = 1;
    let error = said(&root, &[], &[("a.out", short)]).unwrap_err();
    assert!(error.to_string().contains("x32"), "{error}");
    // The kernel runs all 32-bit programs.
    let mut narrow = header(EM_386);
    narrow[4] = 1;
    assert_eq!(said(&root, &[], &[("a.out", narrow)]), Ok(Vec::new()));
    // Files outside the command may have any content.
    let data = [
        ("run.sh", b"#!/bin/sh\n".to_vec()),
        ("a.out", header(EM_AARCH64)),
    ];
    assert_eq!(said(&root, &[], &data), Ok(Vec::new()));
    assert_eq!(
        said(&GuestRoot::default(), &[], &data),
        Err(ProgramError::NoShell("small".to_owned()))
    );
}

#[test]
fn scripts_need_their_interpreters() {
    let mut root = GuestRoot::default();
    root.add("/bin/sh", b"");
    root.add("/usr/bin/env", b"");
    for (script, absent) in [
        ("#!/bin/zsh -f\n", "run by /bin/zsh,"),
        ("#!/usr/bin/env python3\n", "run by python3,"),
    ] {
        let error = said(&root, &[], &[("x", script.into())]).unwrap_err();
        assert!(error.to_string().contains(absent), "{error}");
    }
    for script in ["#!/bin/sh\n", "#!/usr/bin/env sh\n", "echo\n"] {
        assert_eq!(said(&root, &[], &[("x", script.into())]), Ok(Vec::new()));
    }
}

#[test]
fn libraries_that_a_run_brings_are_found_and_others_missed() {
    let Some(made) = Made::new() else { return };
    let root = root(&made);
    let library = fs::read(made.library("lib/libf.so.1", "f")).unwrap();
    made.gcc("plain", MAIN, &["lib/libf.so.1"]);
    made.gcc(
        "origin",
        MAIN,
        &["lib/libf.so.1", "-Wl,-rpath,$ORIGIN/mine"],
    );
    let program = |name: &str| (name.to_owned(), fs::read(made.path(name)).unwrap());
    let (plain, origin) = (program("plain"), program("origin"));
    let error = said(&root, &[], &[("plain", plain.1.clone())]).unwrap_err();
    assert!(error.to_string().contains("libf.so.1; add them"), "{error}");
    let there = [("LD_LIBRARY_PATH", "/nowhere:/root/more")];
    let files = [
        ("plain", plain.1.clone()),
        ("more/libf.so.1", library.clone()),
    ];
    let lines = said(&root, &there, &files).unwrap();
    assert_eq!(lines, ["plain; 1 libraries of the image, brings libf.so.1"]);
    let files = [("origin", origin.1), ("mine/libf.so.1", library)];
    assert_eq!(said(&root, &[], &files).unwrap().len(), 1);
}

#[test]
fn mpi_is_that_of_the_image_and_one_alone() {
    let Some(made) = Made::new() else { return };
    let root = root(&made);
    made.library("libmpi.so.40", "f");
    made.gcc(
        "mpich",
        "int MPI_Init(); int main() { return MPI_Init(); }",
        &["image/libmpich.so.12"],
    );
    made.gcc("open", MAIN, &["libmpi.so.40"]);
    made.gcc(
        "both",
        "int f(); int MPI_Init(); int main() { return f() + MPI_Init(); }",
        &["libmpi.so.40", "image/libmpich.so.12"],
    );
    let of = |name: &'static str| said(&root, &[], &[(name, fs::read(made.path(name)).unwrap())]);
    let lines = of("mpich").unwrap();
    assert_eq!(
        lines,
        ["mpich, linked to MPICH; 2 libraries of the image, brings none"]
    );
    let error = of("open").unwrap_err().to_string();
    assert!(
        error.contains("linked to Open MPI (libmpi.so.40), and the image small has MPICH"),
        "{error}"
    );
    assert!(error.contains("mpicc.mpich"), "{error}");
    assert!(matches!(of("both"), Err(ProgramError::Mixed { .. })));
}

#[test]
fn another_libc_is_refused() {
    let Some(made) = Made::new() else { return };
    let root = root(&made);
    let flag = "-Wl,--dynamic-linker,/lib/ld-musl-x86_64.so.1";
    let path = made.gcc("x", "int main(void) { return 0; }", &[flag]);
    let error = said(&root, &[], &[("x", fs::read(path).unwrap())]).unwrap_err();
    assert!(error.to_string().contains("linked to musl"), "{error}");
}

#[test]
fn a_program_brings_what_the_image_lacks_and_no_more() {
    let Some(made) = Made::new() else { return };
    let mut root = root(&made);
    made.library("lib/libg.so.1", "g");
    let source = "int g(void); int f(void) { return g(); }";
    let flags = [
        "-shared",
        "-fPIC",
        "-Wl,-soname,libf.so.1",
        "lib/libg.so.1",
        "-Wl,-rpath,$ORIGIN",
    ];
    made.gcc("lib/libf.so.1", source, &flags);
    made.gcc(
        "x",
        MAIN,
        &[
            "lib/libf.so.1",
            "-Wl,-rpath,$ORIGIN/lib",
            "-Llib",
            "-Wl,-rpath-link,lib",
        ],
    );
    let program = Object::new("x", &made.path(""), made.binary("x"));
    let host = HostLoader::default();
    let closure = bring(&root, &host, program.clone());
    let brought: Vec<_> = closure.open.keys().map(String::as_str).collect();
    assert_eq!(brought, ["libf.so.1", "libg.so.1"]);
    assert!(closure.settled.contains("libc.so.6") && closure.missing.is_empty());
    // A library of the distribution is not added to an image that has it.
    fs::remove_file(made.path("lib/libg.so.1")).unwrap();
    let closure = bring(&root, &host, program.clone());
    assert_eq!(closure.missing["libg.so.1"], "libf.so.1");
    root.add("/usr/lib/libg.so.1", &header(EM_X86_64));
    let closure = bring(&root, &host, program);
    assert!(closure.settled.contains("libg.so.1"), "{closure:?}");
}

#[test]
fn libraries_that_are_too_old_are_told_with_the_version() {
    let needing = Binary {
        needed: vec!["libc.so.6".to_owned()],
        needs_versions: [(
            "libc.so.6".to_owned(),
            ["GLIBC_2.38", "GLIBC_2.2.5", "GLIBC_2.4"]
                .map(str::to_owned)
                .into(),
        )]
        .into(),
        ..Binary::default()
    };
    let has = Binary {
        has_versions: ["GLIBC_2.2.5", "GLIBC_2.4", "GLIBC_2.36"]
            .map(str::to_owned)
            .into(),
        ..Binary::default()
    };
    let program = Object::new("x", Path::new("/"), needing);
    let closure = Closure::of(program, &mut |_, _| {
        Some(LibraryLocation::Settled(has.clone()))
    });
    let lacking = closure.lacking.first().unwrap();
    assert_eq!(lacking.version, "GLIBC_2.38");
    assert_eq!(lacking.newest, Some(vec![2, 36]));
    let error = crate::check::fits(&GuestRoot::default(), "x", &closure, "small").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`x` needs GLIBC_2.38 of libc.so.6, and the image small has an older one (glibc 2.36): compile it on an older distribution, or take a newer image"
    );
}

#[test]
fn mpi_between_a_program_and_its_library_is_seen() {
    let binary = |needed: &[&str]| Binary {
        needed: needed.iter().map(|name| (*name).to_owned()).collect(),
        ..Binary::default()
    };
    let program = Object::new("x", Path::new("/"), binary(&["libpetsc.so.3"]));
    let closure = Closure::of(program, &mut |_, name| match name {
        "libpetsc.so.3" => {
            let found = Object::new(
                name,
                Path::new("/"),
                binary(&["libmpi.so.40", "libpetsc.so.3"]),
            );
            Some(LibraryLocation::Open(
                PathBuf::from("/libpetsc.so.3"),
                found,
            ))
        }
        _ => None,
    });
    assert_eq!(closure.mpi.keys().collect::<Vec<_>>(), [&Mpi::OpenMpi]);
    assert_eq!(closure.missing["libmpi.so.40"], "libpetsc.so.3");
}

#[test]
fn a_library_by_its_path_is_told_as_such() {
    let Some(made) = Made::new() else { return };
    let root = root(&made);
    let source = "int f(void) { return 1; }";
    let library = made.gcc("libf.so", source, &["-shared", "-fPIC"]);
    // A library without DT_SONAME is needed by its path on the command line of the linker.
    made.gcc("x", MAIN, &[library.to_str().unwrap()]);
    let program = Object::new("x", &made.path(""), made.binary("x"));
    let closure = bring(&root, &HostLoader::of_host(), program);
    let error = crate::check::missing("x", &closure, "small", "this host", "").to_string();
    assert!(error.contains("libf.so (by its path,"), "{error}");
}

#[test]
fn a_command_that_finds_its_libraries_itself_is_let_be() {
    let Some(made) = Made::new() else { return };
    let root = root(&made);
    made.library("lib/libf.so.1", "f");
    let program = fs::read(made.gcc("x", MAIN, &["lib/libf.so.1"])).unwrap();
    let files = [("x".to_owned(), program)].into();
    let environment = BTreeMap::new();
    let large_files = LargeFiles::default();
    let of = |command| Workload {
        command,
        environment: &environment,
        files: &files,
        large_files: &large_files,
        image: "small",
    };
    assert!(lines(&root, of("./x")).is_err());
    assert!(lines(&root, of("LD_LIBRARY_PATH=/opt ./x")).is_ok());
    assert!(lines(&root, of("./xx")).is_ok());
}
