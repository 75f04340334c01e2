//! The unwinders of the C library and of the C++ runtime find the callers of traced calls with
//! replaced return addresses, by the library's unwind information.
#![allow(clippy::print_stderr)]

use std::fs;
use std::process::Command;

use belljar_abi::{PENDING_OFFSET, RETURN_ADDRESS, STUB_BASE, STUB_LENGTH};
use belljar_guest_lib::PRELOAD;
use object::{Object, ObjectSymbol};

/// The library's return path of traced calls.
fn returned() -> u64 {
    let library = object::File::parse(PRELOAD).unwrap();
    let symbol = library
        .symbols()
        .find(|symbol| symbol.name() == Ok("belljar_returned"));
    symbol.expect("the library keeps its symbols").address()
}

#[test]
fn callers_of_traced_calls_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("libbelljar.so"), PRELOAD).unwrap();
    fs::write(path("unwind.cc"), include_str!("unwind.cc")).unwrap();
    let constants = [
        ("STUB_BASE", STUB_BASE),
        ("STUB_LENGTH", STUB_LENGTH),
        ("RETURN_ADDRESS", RETURN_ADDRESS),
        ("PENDING_OFFSET", PENDING_OFFSET),
    ];
    let defined = constants.map(|(name, value)| format!("-D{name}={value:#x}ull"));
    let mut compiler = Command::new("c++");
    compiler.args(["-O1", "-fno-omit-frame-pointer", "-rdynamic", "-pthread"]);
    compiler
        .args(defined)
        .arg("-o")
        .args([path("unwind"), path("unwind.cc")]);
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            eprintln!("SKIPPED: there is no C++ compiler (apt install g++): {error}");
            return;
        }
    }
    let output = Command::new(path("unwind"))
        .arg(path("libbelljar.so"))
        .arg(format!("{:#x}", returned()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let seen = "caller 1, main 1\ncaller's destroyed\n";
    let left = "caller's destroyed\ncaught\n";
    let expected = format!("{seen}{seen}{left}{seen}{left}caller's destroyed\njoined\n");
    assert_eq!(said, expected, "{output:?}");
}
