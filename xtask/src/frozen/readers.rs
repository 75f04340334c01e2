//! Readers, as command lines.
//!
//! Each is one or more commands of `belljar` in a scratch folder with relative paths. In their words, `RUN` is the run directory,
//! `OTHER` one for a comparison, and `LARGER` a run of the same program with more ranks, if there is one. `OUT` is a new file or
//! folder.

/// A reader of traces.
pub(super) struct FrozenReader {
    pub(super) name: &'static str,
    /// Command lines, one after another; after a failure the rest is not run.
    pub(super) commands: &'static [&'static str],
    pub(super) output: DigestedOutput,
}

/// The output of a reader in its digest, besides exit codes and standard error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DigestedOutput {
    /// Standard output.
    Text,
    /// The file or folder `OUT`.
    Files,
    /// The data of the page `OUT`.
    ReportData,
}

const fn text(name: &'static str, commands: &'static [&'static str]) -> FrozenReader {
    FrozenReader {
        name,
        commands,
        output: DigestedOutput::Text,
    }
}

const fn files(name: &'static str, commands: &'static [&'static str]) -> FrozenReader {
    FrozenReader {
        name,
        commands,
        output: DigestedOutput::Files,
    }
}

/// All readers.
pub(super) const READERS: &[FrozenReader] = &[
    text("dump", &["trace dump RUN --sites"]),
    text("dump-json", &["trace dump RUN --json"]),
    text("stat", &["trace stat RUN"]),
    text("stat-json", &["trace stat RUN --json"]),
    text("stat-counts", &["trace stat RUN --counts --json"]),
    text("wait", &["trace wait RUN"]),
    text("wait-json", &["trace wait RUN --phases --json"]),
    text("path", &["trace path RUN"]),
    text("path-json", &["trace path RUN --phases --json"]),
    text("matrix-call", &["trace matrix RUN --by call --csv"]),
    text(
        "matrix-message",
        &["trace matrix RUN --by message --library mpich.tables --csv"],
    ),
    text("matrix-seen", &["trace matrix RUN --by seen --csv"]),
    text("matrix-wire", &["trace matrix RUN --by wire --csv"]),
    text("loops", &["trace loops RUN --json"]),
    text("graph", &["trace graph RUN --json"]),
    text("sites", &["trace sites RUN --json"]),
    text("hang", &["trace hang RUN --json"]),
    text("check", &["trace check RUN --json"]),
    text("diff", &["trace diff RUN OTHER --json"]),
    text(
        "collect",
        &[
            "trace collect RUN --iterations 3 --out kept",
            "trace stat kept --json",
            "trace wait kept --json",
        ],
    ),
    text(
        "convert",
        &["trace convert RUN new.bjt", "trace dump new.bjt --json"],
    ),
    files("export-otf2", &["trace export RUN --format otf2 --out OUT"]),
    files(
        "export-perfetto",
        &["trace export RUN --format perfetto --out OUT"],
    ),
    files(
        "export-chrome",
        &["trace export RUN --format chrome --out OUT"],
    ),
    files(
        "export-paraver",
        &["trace export RUN --format paraver --out OUT"],
    ),
    files("export-csv", &["trace export RUN --format csv --out OUT"]),
    files(
        "export-parquet",
        &["trace export RUN --format parquet --out OUT"],
    ),
    files("export-goal", &["trace export RUN --format goal --out OUT"]),
    files(
        "export-goal-binary",
        &["trace export RUN --format goal-binary --out OUT"],
    ),
    files("export-ti", &["trace export RUN --format ti --out OUT"]),
    files(
        "export-ti-messages",
        &["trace export RUN --format ti --messages --out OUT"],
    ),
    text(
        "otf2-read-back",
        &[
            "trace export RUN --format otf2 --out archive",
            "trace import archive/traces.otf2 --out back",
            "trace stat back --json",
            "trace wait back --json",
        ],
    ),
    text(
        "replay-packet",
        &["replay RUN --model packet --loops --collectives mpich.tables --json"],
    ),
    text(
        "replay-flow",
        &["replay RUN --model flow --collectives mpich.tables"],
    ),
    text(
        "replay-loggops",
        &["replay RUN --model loggops --collectives openmpi"],
    ),
    text(
        "model",
        &[
            "model fit RUN LARGER --out program.model",
            "model show program.model --nodes 8",
        ],
    ),
    files(
        "ember",
        &[
            "model fit RUN LARGER --out program.model",
            "model export ember program.model --name Program --out OUT",
        ],
    ),
    FrozenReader {
        name: "report",
        commands: &["report RUN --out OUT"],
        output: DigestedOutput::ReportData,
    },
];
