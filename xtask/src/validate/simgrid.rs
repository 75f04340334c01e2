//! SimGrid's replay of a trace, for comparing SimGrid with runs as Belljar's replay is.
//!
//! The trace is exported as a time-independent one, with the other network as its platform. For the calibrated replay, collective
//! operations are the messages of the traced library, as SimGrid 3.32 fails with its own selection of MPICH's algorithms. Time is
//! from the beginning to the end of the simulation, plus the traced time of `MPI_Init` and `MPI_Finalize`, which a
//! time-independent trace lacks. Called by `validate`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::compare::{APART, json, output};

/// Bytes of data in a frame.
const FRAME: f64 = 1448.0;
/// The share of data in a frame: 1448 of 1538 bytes on the wire.
const DATA: f64 = 1448.0 / 1538.0;

/// The time of the run in `from` with these keys, in picoseconds, by SimGrid with its defaults and calibrated; `None` if SimGrid
/// fails.
///
/// # Errors
/// If a command fails.
pub(super) fn totals(belljar: &str, from: &Path, keys: &[&str]) -> Result<[Option<f64>; 2]> {
    let directory = from.to_string_lossy();
    let traced = json(
        belljar,
        &["replay", &directory, "--json", "--model", "loggops"],
    )?;
    let apart = apart(&traced);
    let mut totals = [None; 2];
    let ways = [
        (&[][..], Vec::new()),
        (&["--messages"], calibrated(&traced)),
    ];
    for (total, (more, settings)) in totals.iter_mut().zip(ways) {
        let exported = export(belljar, from, keys, more)?;
        *total = simulated(&exported, &settings)?.map(|time| time + apart);
        fs::remove_dir_all(&exported)?;
    }
    Ok(totals)
}

/// Exports the trace as a time-independent one, with the network of these keys.
fn export(belljar: &str, from: &Path, keys: &[&str], more: &[&str]) -> Result<PathBuf> {
    let exported = from.with_extension("ti");
    if exported.exists() {
        fs::remove_dir_all(&exported)?;
    }
    let [from, out] = [from, &exported].map(|path| path.to_string_lossy().into_owned());
    let mut words = vec!["trace", "export", &from, "--format", "ti", "--out", &out];
    words.extend(more);
    for key in keys {
        words.extend(["--set", key]);
    }
    output(belljar, &words)?;
    Ok(exported)
}

/// The mean time of a process in `MPI_Init` and `MPI_Finalize`.
fn apart(traced: &Value) -> f64 {
    let functions = traced["functions"].as_array().into_iter().flatten();
    let apart = functions.filter(|of| APART.contains(&of["function"].as_str().unwrap_or("")));
    apart
        .map(|of| of["traced_ps"].as_f64().unwrap_or(0.0) / of["calls"].as_f64().unwrap_or(1.0))
        .sum()
}

/// SimGrid's settings with the hosts' costs of replay.
fn calibrated(traced: &Value) -> Vec<String> {
    let costs = &traced["costs"];
    let hz = traced["clocks_hz"][0].as_f64().unwrap_or(f64::NAN);
    let seconds = |cycles: &Value| cycles.as_f64().unwrap_or(f64::NAN) / hz;
    let (send, receive) = (&costs["send"], &costs["receive"]);
    let first = seconds(&send["first"]);
    let byte = seconds(&send["frame"]) / FRAME;
    let [one, several] = ["first", "several"].map(|part| seconds(&receive[part]));
    let taken_in = seconds(&costs["take_in"]) / FRAME;
    // MPICH's value at 10 Gb/s, if the replay takes it from the link.
    let rendezvous = costs["rendezvous"].as_u64().unwrap_or(19_522);
    vec![
        format!("smpi/os:0:{first:e}:{byte:e}"),
        format!("smpi/ois:0:{first:e}:{byte:e}"),
        format!(
            "smpi/or:0:{one:e}:0;{FRAME}:{:e}:{taken_in:e}",
            one + several
        ),
        format!("smpi/bw-factor:0:{DATA}"),
        "smpi/lat-factor:0:1".to_owned(),
        format!("smpi/send-is-detached-thresh:{rendezvous}"),
        format!("smpi/async-small-thresh:{rendezvous}"),
    ]
}

/// SimGrid's time for the exported trace, in picoseconds.
fn simulated(exported: &Path, settings: &[String]) -> Result<Option<f64>> {
    let hosts = fs::read_to_string(exported.join("hosts"))?;
    let ranks = hosts.lines().count().to_string();
    let mut command = Command::new("smpirun");
    command.current_dir(exported);
    command.args(["-np", &ranks, "-platform", "platform.xml"]);
    command.args(["-hostfile", "hosts", "-replay", "ranks"]);
    command.args(settings.iter().map(|setting| format!("--cfg={setting}")));
    let run = command
        .output()
        .context("smpirun cannot be run; Debian's libsimgrid-dev has it")?;
    let said = [run.stdout, run.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    let said = said.concat();
    let time = said.split("Simulation time ").nth(1);
    let time = time.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    let time = time.filter(|_| run.status.success());
    if time.is_none() {
        eprintln!("smpirun on {}: {said}", exported.display());
    }
    Ok(time.map(|seconds| seconds * 1e12))
}
