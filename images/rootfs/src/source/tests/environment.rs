//! Scripts that set an Apptainer image's variables.

use std::collections::BTreeMap;

use super::super::environment::Environment;

fn read(scripts: &[&str]) -> (BTreeMap<String, String>, Vec<String>) {
    let mut environment = Environment::new();
    for script in scripts {
        environment.read("90-environment.sh", script);
    }
    environment.finish()
}

fn expected(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(pair).collect()
}

#[test]
fn exports_are_read_with_quotes_and_variables() {
    let script = concat!(
        "#!/bin/sh\n# Custom environment shell code should follow\n\n",
        "    export MPI_DIR=/opt/mpi LEVEL=\"two words\"\n",
        "export PATH=\"$MPI_DIR/bin:$PATH\" # first\n",
        "export LD_LIBRARY_PATH=${MPI_DIR}/lib:$LD_LIBRARY_PATH\n",
        "VERSION=5; export VERSION\nLOCAL=x\nNEXT=$LOCAL'$y'\\ z\nexport NEXT\n",
        "export RULES='allow a\nallow b'\n",
        "export A=\"${A:-\"one \\\"two\\\" \\$3\"}\" B=${LEVEL+set} C=${NONE:-${VERSION}}\n",
        "export LONG=a\\\nb\nexport EMPTY=\nexport GONE=1\nunset GONE\nset -e\n",
    );
    let (variables, warnings) = read(&[script]);
    assert_eq!(warnings, Vec::<String>::new());
    let path = "/opt/mpi/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let pairs = [
        ("A", "one \"two\" $3"),
        ("B", "set"),
        ("C", "5"),
        ("EMPTY", ""),
        ("LD_LIBRARY_PATH", "/opt/mpi/lib:"),
        ("LEVEL", "two words"),
        ("LONG", "ab"),
        ("MPI_DIR", "/opt/mpi"),
        ("NEXT", "x$y z"),
        ("PATH", path),
        ("RULES", "allow a\nallow b"),
        ("VERSION", "5"),
    ];
    assert_eq!(variables, expected(&pairs));
}

#[test]
fn later_scripts_see_variables_of_earlier_ones() {
    let first = "export PATH=\"/opt/a:/bin\"\nexport MODE=\"${MODE:-\"fast\"}\"\n";
    let second = "export PATH=/opt/b:$PATH MODE=slow\n";
    let (variables, warnings) = read(&[first, second]);
    assert_eq!(
        variables,
        expected(&[("MODE", "slow"), ("PATH", "/opt/b:/opt/a:/bin")])
    );
    assert!(warnings.is_empty());
}

#[test]
fn what_is_not_understood_is_named_and_changes_nothing() {
    for (line, named) in [
        ("export X=$(nproc)", "line 1, `export X=$(nproc)`"),
        ("export X=`id`", "line 1, `export X=`id``"),
        ("[ -d /x ] && export X=1", "`[ -d /x ] && export X=1`"),
        (". /opt/setup.sh", "`. /opt/setup.sh`"),
        ("X=1 run", "`X=1 run`"),
        ("export X=${Y%%.*}", "`export X=${Y%%.*}`"),
        ("export X=~/bin", "`export X=~/bin`"),
        ("export X=$1", "`export X=$1`"),
        ("export 1X=2", "`export 1X=2`"),
        ("export X='open", "`export X='open`"),
        ("cat <<END\nexport X=1\nEND", "all after it are left out"),
        (
            "if true; then\nexport X=1\nelse\nexport X=2\nfi",
            "it and what it encloses",
        ),
        ("f() {\nexport X=1\n}", "`f() {`"),
        ("case a in\na) export X=1;;\nesac", "`case a in`"),
    ] {
        let (variables, warnings) = read(&[&format!("{line}\n")]);
        assert_eq!(variables, BTreeMap::new(), "{line}");
        assert!(
            warnings.iter().any(|warning| warning.contains(named)),
            "{line}: {warnings:?}"
        );
    }
    let text = "if a; then\n  for b in c; do export X=1; done\nfi\nexport AFTER=1\n";
    assert_eq!(read(&[text]).0, expected(&[("AFTER", "1")]));
}

#[test]
fn hostile_scripts_end_soon() {
    let doubling = format!(
        "export A=xxxxxxxx\n{}",
        "export A=$A$A$A$A\n".repeat(40_000)
    );
    let (variables, warnings) = read(&[&doubling]);
    assert!(variables["A"].len() <= 128 << 10);
    assert!(!warnings.is_empty() && warnings.len() <= 21);
    let nested = format!("export A={}", "${B:-".repeat(10_000));
    assert!(read(&[&nested]).0.is_empty());
    for text in [
        "$",
        "${",
        "export A=${",
        "\\",
        "'",
        "\"",
        "export A=\"$",
        "${}",
        ";;;",
        "export A=${:-x}",
    ] {
        read(&[text]);
    }
}
