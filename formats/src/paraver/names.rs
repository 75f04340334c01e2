//! Names of the values of records, and of rows.
//!
//! Types of events and states follow Extrae's traces, so that existing views work; values are the functions' numbers. Used once all calls are known.

use std::collections::BTreeMap;
use std::io::{self, Write};

use belljar_mpi::{CallKind, Object, meaning_of};

use super::ObjectNumbers;
use crate::records::collective::named;
use crate::records::places::Places;

/// Types of events: messages, collective operations, others, windows.
const MESSAGES: u64 = 50_000_001;
const COLLECTIVE: u64 = 50_000_002;
const OTHERS: u64 = 50_000_003;
const WINDOWS: u64 = 50_000_004;

/// Returns the type of the events of a function.
pub(super) fn group(function: &str) -> u64 {
    let Some(meaning) = meaning_of(function) else {
        return OTHERS;
    };
    match meaning.kind {
        CallKind::Collective(operation) if named(&operation) => COLLECTIVE,
        CallKind::Access(_)
        | CallKind::Epoch(_)
        | CallKind::Make(Object::Window)
        | CallKind::Free(Object::Window)
        | CallKind::Ask(Object::Window)
        | CallKind::Set(Object::Window) => WINDOWS,
        CallKind::Send(_)
        | CallKind::Receive
        | CallKind::SendReceive
        | CallKind::SendPartitioned
        | CallKind::ReceivePartitioned
        | CallKind::ReceiveMatched
        | CallKind::Probe
        | CallKind::ProbeMatched
        | CallKind::Complete(_)
        | CallKind::Start => MESSAGES,
        _ => OTHERS,
    }
}

/// Writes the names of values of states and events.
pub(super) fn values(
    functions: &BTreeMap<u16, &'static str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(
        out,
        "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\n\n\
         DEFAULT_SEMANTIC\n\nTHREAD_FUNC         State As Is\n\n\
         STATES\n0    Idle\n1    Running\n3    Waiting a message\n4    Blocking Send\n5    Synchronization\n\
         6    Test/Probe\n8    Wait/WaitAll\n10   Immediate Send\n11   Immediate Receive\n\
         13   Group Communication\n15   Others\n"
    )?;
    for (kind, name) in [
        (MESSAGES, "MPI Point-to-point"),
        (COLLECTIVE, "MPI Collective Comm"),
        (OTHERS, "MPI Other"),
        (WINDOWS, "MPI One-sided"),
    ] {
        write!(
            out,
            "\nEVENT_TYPE\n9    {kind}    {name}\nVALUES\n0    Outside MPI\n"
        )?;
        for (number, function) in functions {
            if group(function) == kind {
                writeln!(out, "{}    {function}", u32::from(*number) + 1)?;
            }
        }
    }
    Ok(())
}

/// Writes the names of nodes, tasks and threads.
pub(super) fn rows(rows: &ObjectNumbers, places: &Places, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "LEVEL NODE SIZE {}", rows.first_vcpu.len())?;
    for node in 0..rows.first_vcpu.len() {
        writeln!(out, "node{node}")?;
    }
    writeln!(out, "\nLEVEL TASK SIZE {}", rows.tasks.len())?;
    for (member, _) in places.processes() {
        writeln!(out, "job {} rank {}", member.job, member.rank)?;
    }
    let threads: u64 = rows.threads.iter().sum();
    writeln!(out, "\nLEVEL THREAD SIZE {threads}")?;
    for ((application, task), threads) in rows.tasks.iter().zip(&rows.threads) {
        for thread in 1..=*threads {
            writeln!(out, "THREAD {application}.{task}.{thread}")?;
        }
    }
    Ok(())
}
