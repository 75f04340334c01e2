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
        text.contains("not checked: buffers of the program"),
        "{text}"
    );
}
