//! Functions of MPI found in libraries and programs, damaged files included.
use std::fs;
use std::process::Command;

use super::*;

/// A program with an MPI library linked in, and one without, compiled by the C compiler.
#[allow(clippy::print_stderr)]
fn compiled(source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("x.c"), folder.path().join("x"));
    fs::write(&from, source).unwrap();
    let made = Command::new("cc")
        .args(flags)
        .arg("-o")
        .args([&to, &from])
        .output();
    match made {
        Ok(output) if output.status.success() => Some(fs::read(to).unwrap()),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            eprintln!("SKIPPED: cc is not installed (apt install gcc)");
            None
        }
    }
}

const LIBRARY: &str = "
    int PMPI_Init(void *a, void *b) { return 0; }
    int MPI_Init(void *, void *) __attribute__((weak, alias(\"PMPI_Init\")));
    int PMPI_Send(void *a) { return 1; }
    int MPI_Send(void *a) { return PMPI_Send(a) + 1; }
    char ompi_mpi_int[8], ompi_mpi_comm_world[8];
    char *used(int i) { return i ? ompi_mpi_int : ompi_mpi_comm_world; }
    int MPI_Finalize;
";

#[test]
fn a_library_gives_its_functions_under_both_names() {
    let Some(library) = compiled(LIBRARY, &["-shared", "-fPIC", "-O1"]) else {
        return;
    };
    let mut targets = Targets::default();
    targets.add("/usr/lib/libmpi.so.40", &library[..]);
    let functions: Vec<&str> = targets
        .targets
        .iter()
        .map(|target| match target {
            Target::Call { function, .. } => FUNCTIONS[usize::from(*function)].name,
            Target::Start => "start",
            Target::Receive(_) => "receive",
            Target::ProcessEnd => "end",
            Target::Own => "own",
        })
        .collect();
    // The object called MPI_Finalize is not a function.
    assert_eq!(functions, ["MPI_Init", "MPI_Send", "MPI_Send"]);
    assert_eq!(targets.files(), ["/usr/lib/libmpi.so.40"]);
    let known = targets.library(0);
    assert_eq!(known.implementation, Implementation::OpenMpi);
    let found = |name: &str| {
        let at = OPEN_MPI_OBJECTS
            .iter()
            .position(|(known, _)| *known == name);
        known.objects[at.unwrap()]
    };
    assert!(matches!(found("ompi_mpi_int"), ObjectLocation::Slot(_)));
    assert_eq!(found("ompi_mpi_byte"), ObjectLocation::Missing);
    let places: usize = targets.pages().iter().map(|page| page.places.len()).sum();
    assert_eq!(places, 3);
}

#[test]
fn a_copy_of_a_library_is_seen_once() {
    let Some(library) = compiled(LIBRARY, &["-shared", "-fPIC", "-O1"]) else {
        return;
    };
    let mut targets = Targets::default();
    targets.add("/opt/lib/libmpi.so.40.0.0", &library[..]);
    targets.add("/opt/lib/libmpi.so.40", &library[..]);
    let places: usize = targets.pages().iter().map(|page| page.places.len()).sum();
    assert_eq!(places, 3);
}

#[test]
fn processes_begin_in_the_loader_whatever_the_c_library() {
    let source = "int start(void) { return 0; }";
    let flags = ["-shared", "-fPIC", "-nostdlib", "-Wl,-e,start"];
    let Some(loader) = compiled(source, &flags) else {
        return;
    };
    for (name, expected) in [
        ("/lib64/ld-linux-x86-64.so.2", 1),
        ("/lib/ld-musl-x86_64.so.1", 1),
        ("/usr/lib/x86_64-linux-musl/libc.so", 1),
        ("/usr/lib/libother.so", 0),
    ] {
        let mut targets = Targets::default();
        targets.add(name, &loader[..]);
        let starts = targets.targets.iter();
        let starts = starts.filter(|target| **target == Target::Start).count();
        assert_eq!(starts, expected, "{name}");
    }
}

#[test]
fn a_profiling_layer_is_no_library() {
    let source = "int PMPI_Send(void *);
        int MPI_Send(void *a) { return PMPI_Send(a); }
        int MPI_Init(void *a) { return 0; }";
    if let Some(layer) = compiled(source, &["-shared", "-fPIC"]) {
        let mut targets = Targets::default();
        targets.add("/usr/lib/liblayer.so", &layer[..]);
        assert!(targets.pages().is_empty() && targets.files().is_empty());
    }
}

#[test]
fn a_static_program_is_seen_from_its_start() {
    let source = format!("{LIBRARY} int main(void) {{ return MPI_Send(0); }}");
    if let Some(program) = compiled(&source, &["-static", "-O1"]) {
        let mut targets = Targets::default();
        targets.add("/root/program", &program[..]);
        assert_eq!(targets.targets[0], Target::Start);
        assert_eq!(targets.targets.len(), 4);
        let world = targets.library(0).objects[0];
        assert!(matches!(world, ObjectLocation::At(_)), "{world:?}");
    }
}

#[test]
fn damaged_files_add_what_is_whole_or_nothing() {
    let Some(library) = compiled(LIBRARY, &["-shared", "-fPIC"]) else {
        return;
    };
    for at in (0..library.len()).step_by(7) {
        let mut bytes = library.clone();
        bytes[at] ^= 0xff;
        Targets::default().add("/usr/lib/libmpi.so", &bytes[..]);
        Targets::default().add("/usr/lib/libmpi.so", &library[..at]);
    }
    Targets::default().add("/usr/bin/script", &b"#!/bin/sh\n"[..]);
}

#[test]
fn functions_are_found_by_name_and_what_is_alike_is_told() {
    let source = "
        __attribute__((noinline)) static int hidden(int i) { return i + 1; }
        int visible(int i) { return hidden(i) + 1; }
        static int one(void) { return 1; }
        static int other(void) { return 2; }
        static int (*choose(void))(void) { return other; }
        int chosen(void) __attribute__((ifunc(\"choose\")));
        int data = 7;
        int (*used)(void) = one;";
    let Some(library) = compiled(source, &["-shared", "-fPIC", "-O1"]) else {
        return;
    };
    let found = |name| function::functions_called(&library[..], name);
    let [hidden, visible] = ["hidden", "visible"].map(|name| found(name).unwrap());
    assert!(hidden.len() == 1 && visible.len() == 1 && hidden != visible);
    assert!(function::check_code(&library[..], hidden[0]).is_ok());
    let refused = |name| found(name).unwrap_err().to_string();
    assert!(refused("visibel").contains("but `visible`"));
    assert!(refused("data").contains("no function `data`"));
    assert!(refused("chosen").contains("several versions"));
    assert!(function::check_code(&library[..], 0x10).is_err());
    let text = function::functions_called(&b"#!/bin/sh\n"[..], "f");
    assert_eq!(text, Err(function::FunctionError::NotCode));
    for at in (0..library.len()).step_by(7) {
        let mut bytes = library.clone();
        bytes[at] ^= 0xff;
        let _ = function::functions_called(&bytes[..], "visible");
        let _ = function::functions_called(&library[..at], "visible");
    }
}

#[test]
fn own_probes_share_places_with_those_of_functions() {
    let Some(library) = compiled(LIBRARY, &["-shared", "-fPIC", "-O1"]) else {
        return;
    };
    let mut targets = Targets::default();
    targets.add("/usr/lib/libmpi.so.40", &library[..]);
    let places =
        |targets: &Targets| -> usize { targets.pages().iter().map(|page| page.places.len()).sum() };
    let before = places(&targets);
    let send = function::functions_called(&library[..], "MPI_Send").unwrap()[0];
    let used = function::functions_called(&library[..], "used").unwrap()[0];
    for own in [5, 6, 6] {
        assert!(targets.add_own(&library[..], send, own));
    }
    assert_eq!(places(&targets), before);
    assert!(targets.add_own(&library[..], used, 7));
    assert_eq!(places(&targets), before + 1);
    let all = 0..targets.targets.len() as u32;
    let own = all.filter(|place| !targets.own(*place).is_empty());
    let own: Vec<_> = own
        .map(|place| (targets.get(place).unwrap(), targets.own(place)))
        .collect();
    assert!(matches!(own[0], (Target::Call { .. }, [5, 6])));
    assert_eq!(own[1], (Target::Own, &[7][..]));
    assert!(!targets.add_own(&library[..], 0x10, 8));
}

#[test]
fn transports_are_seen_to_receive() {
    let source = "int ucp_tag_recv_nbx(void) { return 1; }
        int ucp_tag_recv_nb(void) { return 2; }
        int mca_pml_ob1_recv_req_start;
        int mca_pml_ob1_imrecv(void) { return 3; }";
    let Some(library) = compiled(source, &["-shared", "-fPIC"]) else {
        return;
    };
    let hooks = [ReceiveHook::UcxReceive, ReceiveHook::Ob1ReceiveProbed];
    let (mut all, mut receives) = (Targets::default(), Targets::default());
    all.add("/usr/lib/libucp.so.0", &library[..]);
    receives.add_receives(&library[..]);
    for targets in [all, receives] {
        assert_eq!(targets.targets, hooks.map(Target::Receive));
        assert!(targets.files().is_empty());
    }
}

#[test]
fn a_library_of_the_standard_abi_is_known_by_its_name() {
    let named = "-Wl,-soname,libmpi_abi.so.1";
    let plain = "int PMPI_Init(void *a, void *b) { return 0; }";
    let mpich = format!("{plain} int MPIR_Err_create_code(void) {{ return 0; }}");
    let open_mpi = format!(
        "{plain} extern int ompi_mpi_initialize(void); int x(void) {{ return ompi_mpi_initialize(); }}"
    );
    for (source, flags, expected) in [
        (
            plain,
            &[named][..],
            Implementation::StandardAbi(MpiLibrary::Unknown),
        ),
        (
            &mpich,
            &[named],
            Implementation::StandardAbi(MpiLibrary::Mpich),
        ),
        (
            &open_mpi,
            &[named],
            Implementation::StandardAbi(MpiLibrary::OpenMpi),
        ),
        (&mpich, &["-Wl,-soname,libmpi.so.12"], Implementation::Mpich),
        (&mpich, &[], Implementation::Mpich),
    ] {
        let flags = [&["-shared", "-fPIC"], flags].concat();
        let Some(library) = compiled(source, &flags) else {
            return;
        };
        let mut targets = Targets::default();
        targets.add("/opt/lib/libmpi_abi.so", &library[..]);
        assert_eq!(targets.library(0).implementation, expected, "{source}");
        assert!(targets.library(0).objects.is_empty());
    }
}
