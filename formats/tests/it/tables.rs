//! Tables: CSV compared with the trace, and Parquet, by Arrow's own reader, compared with CSV.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use belljar_archive::TraceReader;
use belljar_formats::Source;
use belljar_formats::tables::{self, Encoding, ExportTable};

/// Prints the tables of a folder as CSV does, with missing values empty.
const READ: &str = r#"
import csv, sys
import pyarrow.parquet as parquet
table = parquet.read_table(sys.argv[1])
out = csv.writer(sys.stdout, lineterminator='\n')
out.writerow(table.column_names)
print([str(field.type) for field in table.schema], file=sys.stderr)
for row in zip(*(column.to_pylist() for column in table.columns)):
    out.writerow(['' if cell is None else cell for cell in row])
"#;

fn written(trace: &Path, folder: &Path, encoding: Encoding) -> PathBuf {
    let out = folder.join(format!("{encoding:?}"));
    std::fs::create_dir(&out).expect("a folder");
    let mut source = Source::open(trace).expect("a trace");
    tables::write(&mut source, trace, &out, encoding).expect("they are written");
    out
}

/// Returns the rows of a table, by the names of its columns.
fn rows(folder: &Path, table: ExportTable) -> Vec<BTreeMap<String, String>> {
    let path = folder.join(format!("{}.csv", table.name()));
    let mut reader = csv::Reader::from_path(path).expect("a table");
    let rows = reader.deserialize();
    rows.map(|row| row.expect("a row")).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> u64 {
    row[column].parse().expect("a number")
}

#[test]
fn tables_have_the_calls_and_both_sides_of_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::stencil(folder.path(), 30);
    let out = written(&trace, folder.path(), Encoding::Csv);
    let calls = rows(&out, ExportTable::Calls);
    let mut read = 0;
    for (event, row) in TraceReader::open(&trace).expect("a trace").zip(&calls) {
        assert_eq!(row["function"], event.name());
        assert_eq!(number(row, "rank"), u64::from(event.rank));
        assert_eq!(number(row, "entry_cycles"), event.entry);
        assert_eq!(number(row, "exit_ps"), event.exit.expect("an exit") * 1000);
        read += 1;
    }
    assert_eq!(read, calls.len());
    let messages = rows(&out, ExportTable::Messages);
    let mut sides: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for row in &messages {
        let ends = (number(row, "rank"), number(row, "peer_rank"));
        let of = sides.entry(number(row, "message")).or_default();
        of.push((row["side"].clone(), ends, number(row, "bytes")));
        assert_eq!(calls[number(row, "call") as usize]["rank"], row["rank"]);
    }
    assert_eq!(sides.len(), 30 * 14);
    for both in sides.values_mut() {
        both.sort();
        let [(receive, (to, from), _), (send, ends, bytes)] = &both[..] else {
            panic!("a message has two sides: {both:?}");
        };
        assert_eq!((receive.as_str(), send.as_str()), ("receive", "send"));
        assert_eq!((ends, *bytes), (&(*from, *to), 8192));
    }
    assert_eq!(rows(&out, ExportTable::Collectives).len(), 6 * (30 + 8));
    assert_eq!(rows(&out, ExportTable::Communicators).len(), 6);
}

#[test]
fn what_is_not_known_is_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = crate::program::small(folder.path());
    let out = written(&trace, folder.path(), Encoding::Csv);
    let calls = rows(&out, ExportTable::Calls);
    let last = calls.last().expect("a call");
    assert_eq!((last["exit_ps"].as_str(), last["site"].as_str()), ("", ""));
    let messages = rows(&out, ExportTable::Messages);
    // A receive without a status has no row, and later messages on its channel have no number.
    let told: Vec<_> = messages
        .iter()
        .map(|row| (&row["side"][..], &row["tag"][..]))
        .collect();
    assert_eq!(told, [("send", "5"), ("send", "6"), ("receive", "5")]);
    let frames = rows(&out, ExportTable::Sites);
    let frames: Vec<_> = frames
        .iter()
        .map(|it| (&it["file"][..], &it["build_id"][..]))
        .collect();
    assert_eq!(frames, [("/opt/small", "ab01"), ("", "")]);
    let accesses = rows(&out, ExportTable::Accesses);
    let [put] = &accesses[..] else {
        panic!("one access: {accesses:?}");
    };
    assert_eq!(
        (&put["access"][..], number(put, "sent_bytes")),
        ("put", 1000)
    );
}

#[test]
fn parquet_has_the_same_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    // More calls than a group of rows.
    let trace = crate::program::stencil(folder.path(), 3000);
    let values = written(&trace, folder.path(), Encoding::Csv);
    let columns = written(&trace, folder.path(), Encoding::Parquet);
    for table in ExportTable::ALL {
        let path = columns.join(format!("{}.parquet", table.name()));
        let Some(ended) = crate::python::read("pyarrow.parquet", READ, &path) else {
            return;
        };
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{told}");
        assert!(told.contains("uint64"), "{told}");
        let expected = std::fs::read(values.join(format!("{}.csv", table.name())));
        assert!(
            ended.stdout == expected.expect("a table"),
            "{}",
            table.name()
        );
    }
}
