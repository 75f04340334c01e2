//! Errors that the MPI library reported: results of calls, and messages with which it aborted the job.
//!
//! MPICH writes `Abort(CODE) on node N (rank R ...): Fatal error in FUNCTION`, with the class of the error in the code's lowest
//! seven bits. Open MPI writes the function, the process and the class in lines of their own. Called for each event that failed,
//! and at the end with the workload's standard error.

use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::ProcessKey;
use belljar_mpi::CallKind;
use belljar_trace::{Event, MpiLibrary};

use super::finding::{FindingKind, Findings};

/// Names of error classes in MPICH's numbering, without `MPI_ERR_`.
const MPICH_CLASSES: [&str; 20] = [
    "SUCCESS",
    "BUFFER",
    "COUNT",
    "TYPE",
    "TAG",
    "COMM",
    "RANK",
    "ROOT",
    "GROUP",
    "OP",
    "TOPOLOGY",
    "DIMS",
    "ARG",
    "UNKNOWN",
    "TRUNCATE",
    "OTHER",
    "INTERN",
    "IN_STATUS",
    "PENDING",
    "REQUEST",
];
/// The same of Open MPI's.
const OPEN_MPI_CLASSES: [&str; 20] = [
    "SUCCESS",
    "BUFFER",
    "COUNT",
    "TYPE",
    "TAG",
    "COMM",
    "RANK",
    "REQUEST",
    "ROOT",
    "GROUP",
    "OP",
    "TOPOLOGY",
    "DIMS",
    "ARG",
    "UNKNOWN",
    "TRUNCATE",
    "OTHER",
    "INTERN",
    "IN_STATUS",
    "PENDING",
];
/// Classes of MPICH beyond the table: windows and their synchronisation.
const MPICH_WINDOWS: [(i64, &str); 6] = [
    (45, "WIN"),
    (46, "BASE"),
    (47, "LOCKTYPE"),
    (49, "RMA_CONFLICT"),
    (50, "RMA_SYNC"),
    (51, "SIZE"),
];
/// The bits of a code of MPICH with its class.
const MPICH_CLASS: i64 = 0x7f;
/// Limit on reports that are read.
const MOST_REPORTS: usize = 1000;

/// A report of an MPI library that aborted its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AbortReport {
    pub(super) rank: Option<u32>,
    pub(super) function: String,
    /// The class without `MPI_ERR_`; empty if unknown.
    pub(super) class: String,
    pub(super) text: String,
}

/// The kind of finding that an error class is.
fn kind_of(class: &str) -> FindingKind {
    match class {
        "BUFFER" | "BASE" => FindingKind::InvalidBuffer,
        "COUNT" => FindingKind::InvalidCount,
        "TYPE" => FindingKind::InvalidDatatype,
        "TAG" => FindingKind::InvalidTag,
        "COMM" => FindingKind::InvalidCommunicator,
        "RANK" => FindingKind::InvalidRank,
        "ROOT" => FindingKind::InvalidRoot,
        "OP" => FindingKind::InvalidOperator,
        "TRUNCATE" => FindingKind::Truncation,
        "RMA_SYNC" => FindingKind::MissingEpoch,
        "RMA_CONFLICT" => FindingKind::WindowConflict,
        _ => FindingKind::LibraryError,
    }
}

fn class_of(library: MpiLibrary, code: i64) -> Option<&'static str> {
    let (classes, class) = match library {
        MpiLibrary::Mpich => (&MPICH_CLASSES, code & MPICH_CLASS),
        MpiLibrary::OpenMpi => (&OPEN_MPI_CLASSES, code),
        MpiLibrary::Unknown => return None,
    };
    let further = MPICH_WINDOWS
        .iter()
        .filter(|_| library == MpiLibrary::Mpich);
    let mut further = further
        .filter(|(number, _)| *number == class)
        .map(|(_, name)| *name);
    let name = usize::try_from(class)
        .ok()
        .and_then(|class| classes.get(class).copied());
    name.or_else(|| further.next())
}

/// Adds the error that a call returned. Errors of files and of queries are results that programs expect.
pub(super) fn returned(call: &Rc<Event>, findings: &mut Findings) {
    let expected = matches!(
        call.meaning().kind,
        CallKind::FileAccess
            | CallKind::Ask(_)
            | CallKind::Local
            | CallKind::Make(belljar_mpi::Object::File)
    );
    if !call.failed() || expected {
        return;
    }
    let code = call.result.unwrap_or(0);
    let Some(class) = class_of(call.implementation.library(), code) else {
        let text = format!("{} returned the error code {code}", call.name());
        findings.add(FindingKind::LibraryError, &[call], text);
        return;
    };
    // Errors of single operations are in their statuses.
    if matches!(class, "IN_STATUS" | "PENDING") {
        return;
    }
    let kind = kind_of(class);
    if !findings.has(kind, call.rank, call.name()) {
        let text = format!("{} returned MPI_ERR_{class}", call.name());
        findings.add(kind, &[call], text);
    }
}

/// Adds the errors with which the library aborted. `last` has the last call of each process.
pub(super) fn aborted(
    reports: &[AbortReport],
    last: &BTreeMap<ProcessKey, Rc<Event>>,
    findings: &mut Findings,
) {
    for report in reports {
        let is_it = |call: &&Rc<Event>| {
            let is_rank = report.rank.is_none_or(|rank| rank == call.rank);
            is_rank && call.exit.is_none() && call.name() == report.function
        };
        let call = last.values().find(is_it);
        let kind = kind_of(&report.class);
        let rank = report.rank.or(call.map(|call| call.rank));
        if rank.is_some_and(|rank| findings.has(kind, rank, &report.function)) {
            continue;
        }
        let class = match report.class.as_str() {
            "" => String::new(),
            class => format!(" with MPI_ERR_{class}"),
        };
        let text = format!(
            "the MPI library aborted the job in {}{class}: {}",
            report.function, report.text
        );
        let calls: Vec<&Rc<Event>> = call.into_iter().collect();
        findings.add_as(kind, super::Severity::Error, &calls, text);
    }
}

/// Reads the reports of MPI libraries in a workload's standard error.
pub(super) fn reports(text: &str) -> Vec<AbortReport> {
    let mut all = Vec::new();
    let mut open_mpi = AbortReport::default();
    for line in text.lines() {
        if all.len() >= MOST_REPORTS {
            break;
        }
        if let Some(report) = of_mpich(line) {
            all.push(report);
        } else if let Some((_, function)) = line.split_once("*** An error occurred in ") {
            open_mpi = AbortReport {
                function: function.trim().to_owned(),
                ..AbortReport::default()
            };
        } else if let Some((_, process)) = line.split_once("*** reported by process [") {
            let rank = process.split([',', ']']).nth(1);
            open_mpi.rank = rank.and_then(|rank| rank.trim().parse().ok());
        } else if let Some((_, class)) = line.split_once("*** MPI_ERR_") {
            let (class, text) = class.split_once(':').unwrap_or((class, ""));
            open_mpi.class = class.trim().to_owned();
            open_mpi.text = text.trim().to_owned();
            if !open_mpi.function.is_empty() {
                all.push(std::mem::take(&mut open_mpi));
            }
        }
    }
    all
}

fn of_mpich(line: &str) -> Option<AbortReport> {
    let (_, line) = line.split_once("Abort(")?;
    let (code, line) = line.split_once(')')?;
    let (_, rank) = line.split_once("(rank ")?;
    let (rank, _) = rank.split_once(' ')?;
    let (_, line) = line.split_once("Fatal error in ")?;
    let (function, text) = line.split_once(':')?;
    // Names of internal functions, and of the profiling interface, have a prefix.
    let (_, function) = function.split_once('_')?;
    let class = class_of(MpiLibrary::Mpich, code.parse().ok()?).unwrap_or("");
    Some(AbortReport {
        rank: rank.parse().ok(),
        function: format!("MPI_{}", function.trim()),
        class: class.to_owned(),
        text: text.trim().trim_end_matches(", error stack:").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_reports_are_read() {
        let text = "Abort(672261) on node 0 (rank 3 in comm 0): Fatal error in internal_Scatter: Invalid communicator, error stack:\n\
                    internal_Scatter(141): MPI_Scatter(...) failed\n\
                    [node0:123] *** An error occurred in MPI_Send\n\
                    [node0:123] *** reported by process [1568931841,1]\n\
                    [node0:123] *** on communicator MPI_COMM_WORLD\n\
                    [node0:123] *** MPI_ERR_TYPE: invalid datatype\n";
        let report = |rank, function: &str, class: &str, text: &str| AbortReport {
            rank: Some(rank),
            function: function.to_owned(),
            class: class.to_owned(),
            text: text.to_owned(),
        };
        let expected = [
            report(3, "MPI_Scatter", "COMM", "Invalid communicator"),
            report(1, "MPI_Send", "TYPE", "invalid datatype"),
        ];
        assert_eq!(reports(text), expected);
        assert_eq!(reports("Abort(x) on node\nAbort(5"), []);
    }
}
