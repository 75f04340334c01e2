//! A report in Chromium, compared with the trace; skipped with a message if there is no Chromium.
#![allow(clippy::print_stderr)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_analysis::generated::Stencil;
use belljar_analysis::{FrameNames, diff, time_words};
use belljar_archive::{Contents, TraceWriter};
use belljar_mpi::FUNCTIONS;
use belljar_report::{
    ChangedKey, Detail, Matrices, Report, ReportError, RunData, RunOutput, Summary, SummaryNode,
    TraceAnalyses,
};
use belljar_trace::{Event, TraceSummary};

const STENCIL: Stencil = Stencil {
    width: 3,
    height: 2,
    steps: 30,
    rounds: 2,
    report: 10,
};

/// A guest's attempt to make a page execute something.
const HOSTILE: &str = "</script><script>document.title = 'taken over'</script><img src=x onerror=\"document.title = 'taken over'\">";

fn trace(folder: &Path, stencil: Stencil) -> PathBuf {
    changed(folder, stencil, |event| event)
}

/// Writes the same with each call changed by `change`.
fn changed(folder: &Path, stencil: Stencil, change: impl Fn(Event) -> Event) -> PathBuf {
    let path = folder.join("trace.bjt");
    let contents = Contents {
        accounted: false,
        frames: 0,
    };
    let file = File::create(&path).unwrap();
    let mut writer = TraceWriter::over(file, &path, &stencil.header(), contents).unwrap();
    stencil
        .events()
        .map(change)
        .for_each(|event| writer.push(event).unwrap());
    writer.finish(&TraceSummary::default()).unwrap();
    path
}

fn read(path: &Path) -> Result<(TraceAnalyses, Matrices), ReportError> {
    let unnamed = FrameNames::new(|_, _| Vec::new());
    TraceAnalyses::read(path, None, unnamed, Detail::default())
}

fn run(path: &Path) -> RunData {
    let (traced, matrices) = read(path).unwrap();
    RunData {
        name: HOSTILE.to_owned(),
        facts: vec![("workload".to_owned(), HOSTILE.to_owned())],
        matrices,
        traced: Some(traced),
        outputs: vec![RunOutput {
            name: "stdout".to_owned(),
            text: HOSTILE.to_owned(),
            left_out: 0,
        }],
        ..RunData::default()
    }
}

/// Most times that a page is opened.
const OPENED: usize = 20;

/// Returns the page in Chromium after its script has run; `None` without Chromium.
fn shown(folder: &Path, report: &Report) -> Option<String> {
    shown_with(folder, report, "")
}

/// Returns the same once the page contains `words`. Chromium ends after virtual time, which does not pass for its threads that unpack data: if those are
/// late, the page is opened again.
fn shown_with(folder: &Path, report: &Report, words: &str) -> Option<String> {
    let path = folder.join("report.html");
    report.write(&mut File::create(&path).unwrap()).unwrap();
    let profile = format!("--user-data-dir={}", folder.join("chromium").display());
    let page = format!("file://{}", path.display());
    let arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=20000",
        "--dump-dom",
        &profile,
        &page,
    ];
    let mut page = String::new();
    for _ in 0..OPENED {
        let Ok(output) = Command::new("chromium").args(arguments).output() else {
            eprintln!(
                "SKIPPED: no report was shown, as there is no chromium; apt install chromium"
            );
            return None;
        };
        page = String::from_utf8_lossy(&output.stdout).into_owned();
        page = page.replace("&nbsp;", " ").replace('\u{a0}', " ");
        if page.contains("data-failed=") || (page.contains("data-ready=") && page.contains(words)) {
            break;
        }
    }
    assert!(page.contains("data-ready="), "{}", said(&page));
    assert!(page.contains(words), "{words}");
    Some(page)
}

/// Returns the page's reason for a failure.
fn said(page: &str) -> &str {
    page.split("data-failed=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or("no word of why")
}

/// Returns the rows of a table by its caption, each with its cells' texts.
fn rows(page: &str, caption: &str) -> Vec<Vec<String>> {
    let (_, table) = page
        .split_once(&format!("<caption>{caption}</caption>"))
        .unwrap_or_else(|| panic!("no table {caption}"));
    let (_, body) = table.split_once("<tbody>").unwrap();
    let (body, _) = body.split_once("</tbody>").unwrap();
    let rows = body.split("<tr>").skip(1);
    let cells = rows.map(|row| row.split("<td").skip(1).map(text).collect());
    cells.collect()
}

/// Returns a cell's text, without nested elements.
fn text(cell: &str) -> String {
    let (_, inner) = cell.split_once('>').unwrap();
    let (text, _) = inner.split_once('<').unwrap();
    text.replace("&nbsp;", " ").replace('\u{a0}', " ")
}

/// Formats a number with its digits in groups.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let places = digits.chars().enumerate();
    let with_gaps = places.flat_map(|(at, digit)| {
        let gap = (at > 0 && (digits.len() - at).is_multiple_of(3)).then_some(' ');
        gap.into_iter().chain([digit])
    });
    with_gaps.collect()
}

#[test]
fn a_report_shows_what_the_trace_has() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(&trace(folder.path(), STENCIL));
    let traced = run.traced.as_ref().unwrap();
    let (statistics, waiting) = (traced.statistics.clone(), traced.waiting.clone());
    let matrix = run.matrices[0].1.clone();
    let report = Report {
        run,
        ..Report::default()
    };
    // The whole run has few enough calls to be drawn one by one, with all messages that have both sides.
    let drawn = format!("Single calls, {} messages", grouped(waiting.messages));
    let Some(page) = shown_with(folder.path(), &report, &drawn) else {
        return;
    };
    let functions = rows(&page, "Functions");
    assert_eq!(functions.len(), statistics.functions.len());
    for (row, function) in functions.iter().zip(&statistics.functions) {
        // The page rounds like the command.
        assert_eq!(
            row[..3],
            [
                function.function.to_owned(),
                grouped(function.calls),
                time_words(function.total_ps)
            ]
        );
    }
    let pairs = rows(&page, "Pairs with most bytes, call");
    assert_eq!(pairs.len(), matrix.pairs.len());
    for row in &pairs {
        let pair = matrix
            .pairs
            .iter()
            .find(|pair| [pair.from.to_string(), pair.to.unwrap().to_string()] == row[..2]);
        assert_eq!(row[2], grouped(pair.expect("a pair of the trace").messages));
    }
    let causes = rows(&page, "By cause");
    let kinds: Vec<_> = waiting.kinds.iter().filter(|kind| kind.calls > 0).collect();
    assert!(!kinds.is_empty() && causes.len() == kinds.len());
    for (row, kind) in causes.iter().zip(kinds) {
        assert_eq!([&row[0], &row[2]], [kind.kind.name(), &grouped(kind.calls)]);
    }
}

#[test]
fn ranks_are_told_with_the_groups_of_their_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = run(&trace(folder.path(), STENCIL));
    let node = |node| SummaryNode {
        node,
        group: Some(format!("of {node} {HOSTILE}")),
        infiniband: None,
    };
    run.summary = Some(Summary {
        nodes: (0..STENCIL.ranks()).map(node).collect(),
        ..Summary::default()
    });
    let ranks = run.traced.as_ref().unwrap().statistics.ranks.clone();
    let report = Report {
        run,
        ..Report::default()
    };
    let Some(page) = shown(folder.path(), &report) else {
        return;
    };
    let rows = rows(&page, "By rank");
    assert!(rows.len() > 1);
    for row in &rows {
        let rank = ranks.iter().find(|rank| rank.rank.to_string() == row[0]);
        let group = format!("of {} ", rank.expect("a rank of the trace").node);
        assert!(row[2].starts_with(&group), "{row:?}");
    }
}

#[test]
fn what_a_guest_wrote_is_text() {
    let folder = tempfile::tempdir().unwrap();
    let report = Report {
        run: run(&trace(folder.path(), STENCIL)),
        ..Report::default()
    };
    let Some(page) = shown(folder.path(), &report) else {
        return;
    };
    assert!(!page.contains("<title>taken over"));
    assert!(!page.contains("<img"), "an element of the guest's");
    let shown = HOSTILE.replace('<', "&lt;").replace('>', "&gt;");
    let (_, outputs) = page.split_once("<section id=\"outputs\"").unwrap();
    assert!(outputs.contains(&format!(">{shown}</pre>")));
}

#[test]
fn two_runs_stand_side_by_side() {
    let [folder, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let longer = Stencil {
        steps: 40,
        ..STENCIL
    };
    let paths = [trace(folder.path(), STENCIL), trace(other.path(), longer)];
    let names = [(); 2].map(|()| FrameNames::new(|_, _| Vec::new()));
    let (diff, _) = diff(&paths[0], &paths[1], false, names).unwrap();
    let report = Report {
        run: run(&paths[0]),
        other: Some(run(&paths[1])),
        diff: Some(diff.clone()),
        changed: vec![ChangedKey {
            key: "network.latency".to_owned(),
            a: None,
            b: Some(HOSTILE.to_owned()),
        }],
    };
    let Some(page) = shown(folder.path(), &report) else {
        return;
    };
    let changed = rows(&page, "Keys and options that differ");
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0][..2], ["network.latency", "not set"]);
    let functions = rows(&page, "Functions");
    assert_eq!(functions.len(), diff.functions.len());
    for row in &functions {
        let own = diff.functions.iter().find(|own| own.function == row[0]);
        let calls = own.expect("a function of both").calls;
        assert_eq!(row[1..3], [grouped(calls.a), grouped(calls.b)]);
    }
    let causes = rows(&page, "By cause");
    assert!(!causes.is_empty());
    for row in &causes {
        let kinds = diff.waiting.iter();
        let own = kinds.clone().find(|own| own.kind.name() == row[0]);
        let calls = own.expect("a cause of both").calls;
        assert_eq!(row[2..4], [grouped(calls.a), grouped(calls.b)]);
    }
    // Ten steps more, in the loop that both have.
    assert!(page.contains("Loop of 30 iterations") && page.contains("; in b 40 iterations"));
    for section in [
        "Messages by size",
        "Ranks on the path",
        "The longest waits of b",
        "Phases of ",
    ] {
        assert!(page.contains(&format!("<caption>{section}")), "{section}");
    }
    assert!(page.contains("by call, difference"));
    assert_eq!(page.matches("class=\"timeline\"").count(), 2);
}

#[test]
fn of_many_ranks_one_of_each_class_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    // A rank spends nearly all its time in rounds, and each fourth one calls another function.
    let stencil = Stencil {
        width: 12,
        height: 8,
        steps: 6,
        rounds: 40,
        report: 10,
    };
    let other = FUNCTIONS.iter().position(|it| it.name == "MPI_Alltoall");
    let path = changed(folder.path(), stencil, |mut event| {
        if event.rank % 4 == 3 && event.name() == "MPI_Allreduce" {
            event.function = other.unwrap() as u16;
        }
        event
    });
    let report = Report {
        run: run(&path),
        ..Report::default()
    };
    let Some(page) = shown(folder.path(), &report) else {
        return;
    };
    let buttons: Vec<&str> = page
        .split("class=\"rank-class\" title=\"")
        .skip(1)
        .collect();
    assert_eq!(buttons.len(), 2, "{buttons:?}");
    let titles = buttons.iter().map(|rest| rest.split('"').next().unwrap());
    for (title, (count, first)) in titles.zip([
        (72, "rank 0 to rank 2, rank 4 to rank 6, "),
        (24, "rank 3, rank 7, "),
    ]) {
        assert!(title.starts_with(first), "{title}");
        let said = format!(" and {} alike<", count - 1);
        assert!(page.contains(&said), "{said}");
    }
    assert!(page.contains("2 of 96 ranks, which stand for others"));
}

#[test]
fn a_run_without_a_trace_has_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let report = Report {
        run: RunData {
            name: "untraced".to_owned(),
            ..RunData::default()
        },
        ..Report::default()
    };
    let Some(page) = shown(folder.path(), &report) else {
        return;
    };
    assert!(page.contains("trace.enabled = true"));
    assert!(page.contains("profile.every"));
}

#[test]
fn a_file_that_is_no_trace_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), STENCIL);
    std::fs::write(&path, b"BelljarT and then something else").unwrap();
    assert!(read(&path).is_err());
}
