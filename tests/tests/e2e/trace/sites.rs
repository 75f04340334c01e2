//! Call sites of a program with known lines.

use std::collections::BTreeMap;
use std::process::Command;

use belljar_tests::{Dir, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Calls from two lines of one function, through one function, and from an inlined one.
const NESTED: &str = r#"#include <mpi.h>
static int value;
__attribute__((noinline)) static void exchange(int rank)
{
    MPI_Sendrecv_replace(&value, 1, MPI_INT, 1 - rank, 7, 1 - rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    value++;
}
static inline __attribute__((always_inline)) void meet(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}
__attribute__((noinline)) static void work(int rank)
{
    for (int i = 0; i < 5; i++)
        exchange(rank); /* often */
    meet();
    exchange(rank); /* once */
    value++;
}
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    work(rank); /* here */
    MPI_Finalize();
    return value == 0;
}
"#;

/// The number of the line of `source` that has `text`.
fn line(source: &str, text: &str) -> u64 {
    let at = source.lines().position(|line| line.contains(text));
    1 + at.expect("a line") as u64
}

fn scenario(trace: &str) -> Scenario {
    Scenario::new(2, "mpiexec.hydra -n 2 ./nested")
        .working("files = { nested = \"nested\" }")
        .with(&format!("[trace]\n{trace}\n"))
}

/// The output of `belljar trace sites --json`.
fn sites(dir: &Dir, out: &str, more: &[&str]) -> Value {
    let arguments = [&["trace", "sites", "--json", out], more].concat();
    let (told, error, code) = dir.call(&arguments);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    serde_json::from_str(&told).expect("JSON")
}

/// Number of calls by call site: function and line of each frame, with inlined ones marked, from the call
/// outward.
fn places(sites: &Value) -> BTreeMap<String, u64> {
    let sites = sites["sites"].as_array().expect("sites");
    let place = |site: &Value| {
        let mut words = site["function"].as_str().expect("a name").to_owned();
        for frame in site["frames"].as_array().expect("frames") {
            let places = frame["places"].as_array().expect("places");
            for place in places {
                let line = place["line"].as_u64().unwrap_or(0);
                words += &format!(" < {}:{line}", place["function"].as_str().unwrap_or("?"));
            }
        }
        (words, site["calls"].as_u64().expect("a number"))
    };
    sites.iter().map(place).collect()
}

/// The expected calls in `work`, of all ranks.
fn expected() -> BTreeMap<String, u64> {
    let [exchange, meet, often, inlined, once, here] = [
        "MPI_Sendrecv_replace",
        "MPI_Barrier",
        "often",
        "    meet()",
        "once",
        "here",
    ]
    .map(|text| line(NESTED, text));
    let calls = [
        (
            format!("MPI_Sendrecv_replace < exchange:{exchange} < work:{often} < main:{here}"),
            10,
        ),
        (
            format!("MPI_Sendrecv_replace < exchange:{exchange} < work:{once} < main:{here}"),
            2,
        ),
        (
            format!("MPI_Barrier < meet:{meet} < work:{inlined} < main:{here} < ?:0"),
            2,
        ),
    ];
    calls.into()
}

/// The places of the calls in `work` alone.
fn in_work(sites: &Value) -> BTreeMap<String, u64> {
    let mut places = places(sites);
    places.retain(|place, _| place.contains(" < work:"));
    places
}

/// A folder with the program.
fn nested(flags: &[&str]) -> Option<Dir> {
    let dir = Dir::new()?;
    compiled(&dir, "mpicc.mpich", "nested", NESTED, flags).then_some(dir)
}

#[test]
fn calls_are_told_by_function_and_line() {
    let Some(dir) = nested(&["-O2", "-g", "-fomit-frame-pointer"]) else {
        return;
    };
    let _ = dir.run(&scenario("frames = 3"), "out", &[]).success();
    let told = sites(&dir, "out", &[]);
    assert_eq!(in_work(&told), expected(), "{told:#}");
    // By the innermost frame alone both lines of work() are one site.
    let told = sites(&dir, "out", &["--frames", "1", "--rank", "1"]);
    let exchange = line(NESTED, "MPI_Sendrecv_replace");
    let place = format!("MPI_Sendrecv_replace < exchange:{exchange}");
    assert_eq!(places(&told).get(&place), Some(&6), "{told:#}");
    let (text, error, code) = dir.call(&["trace", "sites", "out", "--transitions"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(text.contains("exchange (nested.c:5)\n"), "{text}");
    assert!(text.contains("meet (nested.c:10), inlined\n"), "{text}");
    assert!(text.contains("\nTransitions: "), "{text}");
    let (lines, _, code) = dir.call(&["trace", "dump", "out", "--sites", "--rank", "1"]);
    assert_eq!(code, Some(0));
    let exchange = "[at exchange (nested.c:5) < ";
    assert!(lines.lines().any(|line| line.contains(exchange)), "{lines}");
    let (lines, _, _) = dir.call(&["trace", "dump", "out", "--sites", "--json"]);
    let first: Value = serde_json::from_str(lines.lines().next().expect("a call")).expect("JSON");
    assert!(
        first["site"][0]["places"][0]["function"].is_string(),
        "{first}"
    );
    let (rows, _, code) = dir.call(&["trace", "sites", "out", "--csv"]);
    assert_eq!(code, Some(0));
    assert!(rows.starts_with("site,function,place,calls,"), "{rows}");
    assert_eq!(rows.lines().count(), 1 + 6, "{rows}");
}

#[test]
fn frames_change_no_call_and_no_cycle() {
    let Some(dir) = nested(&["-O2", "-g"]) else {
        return;
    };
    let run = |out: &str, frames: u8, threads: &str| {
        let scenario = scenario(&format!("frames = {frames}"));
        let run = dir.run(&scenario, out, &["--threads", threads]).success();
        let (dump, _, code) = dir.call(&["trace", "dump", out]);
        assert_eq!(code, Some(0));
        (run, dump)
    };
    let (plain, calls) = run("plain", 0, "2");
    let (framed, same_calls) = run("framed", 3, "1");
    let (again, _) = run("again", 3, "2");
    assert!(calls == same_calls);
    plain.assert_same_but(&framed, &["trace.bjt", "scenario.toml", "plan.txt"]);
    framed.assert_same(&again);
    let (_, error, code) = dir.call(&["trace", "sites", "plain"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("--set trace.frames=3"), "{error}");
    // Other analyses give the same results for both.
    for command in ["stat", "loops", "graph"] {
        let [one, other] = ["plain", "framed"].map(|out| dir.call(&["trace", command, out]));
        assert_eq!(one, other, "{command}");
    }
    // These print call sites, too, if there are any.
    for command in ["wait", "path"] {
        let told = |out| {
            let (told, error, code) = dir.call(&["trace", command, "--json", out]);
            assert_eq!(code, Some(0), "{error}");
            let mut told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
            let object = told.as_object_mut().expect("an object");
            // Root causes have frames, too.
            object.remove("delays");
            let sites = object.remove("sites");
            (told, sites.expect("sites"))
        };
        let [(one, none), (other, some)] = ["plain", "framed"].map(told);
        assert_eq!(one, other, "{command}");
        let count = |sites: &serde_json::Value| sites.as_array().map_or(0, Vec::len);
        assert!(count(&none) == 0 && count(&some) > 0, "{command}: {some:#}");
    }
}

#[test]
fn the_preloaded_library_stands_in_no_frame() {
    let Some(dir) = nested(&["-O2", "-g"]) else {
        return;
    };
    let scenario = scenario("library = true\nframes = 3");
    let _ = dir.run(&scenario, "out", &[]).success();
    let told = sites(&dir, "out", &[]);
    assert_eq!(in_work(&told), expected(), "{told:#}");
}

#[test]
fn debug_information_may_stand_in_another_file() {
    let Some(dir) = nested(&["-O2", "-g"]) else {
        return;
    };
    let script = "objcopy --only-keep-debug nested nested.debug && strip nested && \
                  objcopy --add-gnu-debuglink=nested.debug nested";
    let made = Command::new("sh")
        .current_dir(dir.path(""))
        .args(["-c", script])
        .status();
    assert!(made.expect("a shell").success());
    let both = "files = { nested = \"nested\", \"nested.debug\" = \"nested.debug\" }";
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 ./nested")
        .working(both)
        .with("[trace]\nframes = 3\n");
    let _ = dir.run(&scenario, "out", &[]).success();
    let told = sites(&dir, "out", &[]);
    assert_eq!(in_work(&told), expected(), "{told:#}");
}

const FORTRAN: &str = "program first
  use mpi
  implicit none
  integer :: code
  call MPI_Init(code)
  call meet(3)
  call MPI_Finalize(code)
contains
  subroutine meet(times)
    integer, intent(in) :: times
    integer :: i, code
    do i = 1, times
      call MPI_Barrier(MPI_COMM_WORLD, code)
    end do
  end subroutine
end program
";

#[test]
fn a_fortran_call_is_of_the_line_in_the_program() {
    for (mpi, launcher) in [("mpich", "mpiexec.hydra -n 2"), ("openmpi", "mpirun -np 2")] {
        let Some(dir) = Dir::new() else { return };
        dir.write("first.f90", FORTRAN);
        let compiler = format!("mpif90.{mpi}");
        let arguments = ["-O1", "-g", "-fno-inline", "-o", "first", "first.f90"];
        let made = Command::new(&compiler)
            .current_dir(dir.path(""))
            .args(arguments)
            .output();
        let Ok(made) = made else {
            eprintln!("SKIPPED: {compiler} is not installed (apt install gfortran)");
            return;
        };
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            eprintln!("SKIPPED: {compiler} does not work (apt install gfortran): {said}");
            return;
        }
        let scenario = Scenario::new(2, &format!("{launcher} ./first"))
            .on("bookworm-bindings")
            .working("files = { first = \"first\" }")
            .with("[trace]\nframes = 2\n");
        let _ = dir.run(&scenario, "out", &[]).success();
        let told = sites(&dir, "out", &["--frames", "1", "--function", "MPI_Barrier"]);
        let frame = &told["sites"][0]["frames"][0]["places"][0];
        assert_eq!(frame["line"], line(FORTRAN, "MPI_Barrier"), "{told:#}");
        let function = frame["function"].as_str().expect("a name");
        assert!(function.contains("meet"), "{told:#}");
        assert_eq!(told["sites"][0]["calls"], 6, "{told:#}");
    }
}
