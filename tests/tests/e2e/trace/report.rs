//! Reports of runs, as the command writes them; the tests of the report crate check their pages.

use std::process::Command;

use belljar_tests::{Dir, Scenario};

const EVERYTHING: &str = "[trace]\nframes = 2\nmessages = true\n[profile]\nevery = \"100 us\"\n[network]\nstatistics = \"1 ms\"\n";

/// Maximum number of attempts to open a page.
const OPENED: usize = 20;

/// The page in Chromium after its script has ended; `None`, with a message, without Chromium. Chromium ends after virtual time,
/// which does not pass for its threads that unpack data: if those are late, the page is opened again.
pub(crate) fn shown(dir: &Dir, name: &str) -> Option<String> {
    let profile = format!("--user-data-dir={}", dir.path("chromium").display());
    let page = format!("file://{}", dir.path(name).display());
    let options = [
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
        let Ok(output) = Command::new("chromium").args(options).output() else {
            eprintln!(
                "SKIPPED: no report was shown, as there is no chromium; apt install chromium"
            );
            return None;
        };
        page = String::from_utf8_lossy(&output.stdout).into_owned();
        if page.contains("data-ready=") || page.contains("data-failed=") {
            break;
        }
    }
    Some(page)
}

#[test]
fn a_run_with_everything_has_every_section() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 counters 2").with(EVERYTHING);
    let run = dir.run(&scenario, "out", &["--report"]).success();
    // The report of the run itself has the names and tables of a later one, which reads recipe, image and programs.
    let (_, error, code) = dir.call(&["report", "out", "--out", "again.html"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let again = std::fs::read(dir.path("again.html")).expect("a report");
    assert!(
        run.bytes("report.html") == again,
        "the reports of one run differ"
    );
    let (said, error, code) = dir.call(&["report", "out", "out", "--out", "both.html"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert_eq!(said.trim(), "both.html");
    let Some(page) = shown(&dir, "out/report.html") else {
        return;
    };
    assert!(page.contains("data-ready="), "the page is not complete");
    // All data is there: no section explains how to record it.
    assert_eq!(page.matches("class=\"missing\"").count(), 0);
    for section in ["calls", "sites", "matrix", "links", "flames", "outputs"] {
        assert!(
            page.contains(&format!("<section id=\"{section}\"")),
            "{section}"
        );
    }
    assert!(page.contains("<summary>stdout"));
    let both = shown(&dir, "both.html").expect("Chromium is there");
    assert!(both.contains("The runs are equal, to the cycle."));
}

#[test]
fn what_is_no_run_is_named() {
    let Some(dir) = Dir::new() else { return };
    std::fs::create_dir(dir.path("empty")).expect("the temporary folder is writable");
    let (said, error, code) = dir.call(&["report", "empty"]);
    assert_eq!((said.as_str(), code), ("", Some(1)));
    assert!(
        error.contains("empty is neither a run directory nor a trace"),
        "{error}"
    );
    assert!(!dir.path("empty/report.html").exists());
}
