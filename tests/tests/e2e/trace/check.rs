//! Errors of MPI use in real runs are named with both sides and their lines.

use belljar_tests::Dir;
use serde_json::{Value, json};

use crate::mpirun::compiled;

/// The example of docs/howto-check-mpi.md.
const MISUSED: &str = include_str!("misused.c");

/// The ranks and the lines of a finding's calls.
fn sides(finding: &Value) -> Vec<(u64, u64)> {
    let calls = finding["calls"].as_array().expect("a list");
    let side = |call: &Value| {
        let line = &call["site"][0]["places"][0]["line"];
        (
            call["rank"].as_u64().expect("a rank"),
            line.as_u64().expect("a line"),
        )
    };
    calls.iter().map(side).collect()
}

#[test]
fn errors_of_mpi_use_are_named_with_both_sides() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "misused", MISUSED, &["-g"]) {
        return;
    }
    let words = ["check-mpi", "--json", "--out", "out", "-np", "2"];
    let (json, error, code) = dir.call(&[&words[..], &["--limit", "10s", "./misused"]].concat());
    assert_eq!(code, Some(1), "{error}");
    let check: Value = serde_json::from_str(&json).expect("this is JSON");
    let findings = check["findings"].as_array().expect("a list");
    let kinds: Vec<&Value> = findings.iter().map(|finding| &finding["kind"]).collect();
    let expected = ["datatype-mismatch", "buffer-conflict", "communicator-leak"];
    assert_eq!(json!(kinds), json!(expected), "{json}");
    assert_eq!(sides(&findings[0]), [(0, 14), (1, 17)]);
    assert_eq!(sides(&findings[1]), [(1, 17), (1, 18)]);
    assert_eq!(
        (&findings[2]["severity"], &findings[2]["count"]),
        (&json!("warning"), &json!(2))
    );

    let (text, error, code) = dir.call(&["trace", "check", "out"]);
    assert_eq!(code, Some(1), "{error}");
    let sentence = "error [datatype-mismatch]: a message of MPI_FLOAT is received as MPI_INT\n";
    assert!(text.starts_with(sentence), "{text}");
    assert!(text.contains("    main (misused.c:14)\n"), "{text}");
    assert!(
        text.contains("2 errors, 1 warning and 0 notes in 13 calls of 2 ranks"),
        "{text}"
    );
    assert!(
        !text.contains("not checked: accesses of the program"),
        "{text}"
    );
}

/// Accesses of the program to buffers of operations in progress.
const TOUCHED: &str = include_str!("touched.c");

/// Kinds of findings, each with the ranks and the lines of its calls.
type Found = Vec<(String, Vec<(u64, u64)>)>;

/// The kinds of findings, with the lines of their calls.
fn found(json: &str) -> Found {
    let check: Value = serde_json::from_str(json).expect("this is JSON");
    let findings = check["findings"].as_array().expect("a list").clone();
    let one = |finding: &Value| {
        let kind = finding["kind"].as_str().expect("a kind").to_owned();
        (kind, sides(finding))
    };
    let mut all: Vec<_> = findings.iter().map(one).collect();
    all.sort();
    all
}

/// Loads and stores of buffers are found with the lines of the operation and of the instruction. The same calls with
/// accesses to neighbours are correct, and the run is the same with watched buffers and without, to the picosecond.
#[test]
fn accesses_to_buffers_of_operations_are_found() {
    let Some(dir) = Dir::new() else { return };
    // Windows of Open MPI 4 need ranks of one node.
    for (compiler, per_node) in [("mpicc.mpich", "1"), ("mpicc.openmpi", "2")] {
        if !compiled(&dir, compiler, "touched", TOUCHED, &["-g"]) {
            continue;
        }
        let words = [
            "check-mpi",
            "--json",
            "-np",
            "2",
            "-ppn",
            per_node,
            "--limit",
            "10s",
        ];
        let (json, error, code) = dir.call(&[&words[..], &["./touched"]].concat());
        assert_eq!(code, Some(1), "{error}");
        let buffer = |sides: &[(u64, u64)]| ("buffer-conflict".to_owned(), sides.to_vec());
        let expected = [
            buffer(&[(0, 17), (0, 20)]),
            buffer(&[(0, 33), (0, 31), (0, 35)]),
            buffer(&[(0, 45), (0, 48)]),
            buffer(&[(1, 24), (1, 26)]),
            ("window-conflict".to_owned(), vec![(0, 45), (1, 51)]),
        ];
        assert_eq!(found(&json), expected, "{compiler}: {json}");
        let (json, error, code) = dir.call(&[&words[..], &["./touched", "neighbours"]].concat());
        assert_eq!(
            (code, found(&json)),
            (Some(0), Vec::new()),
            "{compiler}: {error}"
        );

        let summary = |name: &str, buffers: &str| {
            let run = [
                "mpirun", "-np", "2", "-ppn", per_node, "--limit", "10s", "--out", name,
            ];
            let run = [
                &run[..],
                &["--set", "trace.frames=4", "--set", buffers, "./touched"],
            ];
            let (_, error, code) = dir.call(&run.concat());
            assert_eq!(code, Some(0), "{error}");
            let read = |file: &str| std::fs::read(dir.path(name).join(file)).expect(file);
            (read("trace.bjt"), read("stdout"), read("console/node0.log"))
        };
        let plain = format!("plain-{compiler}");
        let watched = format!("watched-{compiler}");
        let same =
            summary(&plain, "trace.buffers=false") == summary(&watched, "trace.buffers=true");
        assert!(same, "{compiler}: the run differs with watched buffers");
    }
}

/// Derived datatypes of equal sizes.
const TYPED: &str = include_str!("typed.c");

/// Type signatures of derived datatypes are compared in messages and collective operations, and buffers by their blocks. Equal
/// signatures by other constructors, and columns of one array, have no findings.
#[test]
fn type_signatures_of_derived_datatypes_are_compared() {
    let Some(dir) = Dir::new() else { return };
    for compiler in ["mpicc.mpich", "mpicc.openmpi"] {
        if !compiled(&dir, compiler, "typed", TYPED, &["-g"]) {
            continue;
        }
        let words = [
            "check-mpi",
            "--json",
            "-np",
            "2",
            "--limit",
            "10s",
            "./typed",
        ];
        let (json, error, code) = dir.call(&words);
        assert_eq!(code, Some(1), "{error}");
        let datatype = |sides: &[(u64, u64)]| ("datatype-mismatch".to_owned(), sides.to_vec());
        let expected = [
            ("buffer-conflict".to_owned(), vec![(1, 38), (1, 39)]),
            datatype(&[(0, 19), (1, 21)]),
            datatype(&[(0, 30), (1, 30)]),
            datatype(&[(0, 87), (1, 87)]),
        ];
        assert_eq!(found(&json), expected, "{compiler}: {json}");
        let difference = "after 4 B of data, an integer of 4 B and a floating-point number of 4 B";
        assert!(json.contains(difference), "{compiler}: {json}");
        let (json, error, code) = dir.call(&[&words[..], &["equal"]].concat());
        let check: Value = serde_json::from_str(&json).expect("this is JSON");
        assert_eq!(
            (code, found(&json)),
            (Some(0), Vec::new()),
            "{compiler}: {error} {json}"
        );
        assert_eq!(check["unchecked"], json!([]), "{compiler}");
    }
}

/// Ends of jobs without `MPI_Finalize`.
const UNFINISHED: &str = include_str!("unfinished.c");

#[test]
fn ranks_without_finalize_and_failed_jobs_are_named() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "unfinished", UNFINISHED, &["-g"]) {
        return;
    }
    let check = |how: &str| -> (Value, Found) {
        let words = ["check-mpi", "--json", "-np", "2", "--limit", "3s"];
        let (json, error, code) = dir.call(&[&words[..], &["./unfinished", how]].concat());
        assert_eq!(code, Some(1), "{how}: {error}");
        let all: Value = serde_json::from_str(&json).expect("this is JSON");
        (all["failure"].clone(), found(&json))
    };
    let without = |rank: u64| ("no-finalize".to_owned(), vec![(rank, 11)]);
    assert_eq!(check("all"), (Value::Null, vec![without(0)]));
    let waits = json!("the job had not ended when the run did");
    assert_eq!(check("one"), (waits, vec![without(1)]));
    let (failure, found) = check("kill");
    let failure = failure.as_str().expect("a sentence").to_owned();
    assert!(
        failure.starts_with("the job ended with exit code 255; rank "),
        "{failure}"
    );
    assert!(
        failure.contains("rank 1 was ended by signal 9 (SIGKILL)"),
        "{failure}"
    );
    assert_eq!(found, []);
}
