//! `--format ti`: a folder for `smpirun -replay`.
//!
//! It has a file for each rank and the list of these. If the run's scenario exists, it also has the run's network as a platform,
//! and the host of each rank. Called by `export`.

use std::io::Write;
use std::path::Path;

use anyhow::{Result, bail};
use belljar_archive::TraceReader;
use belljar_cluster::plan::Plan;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Scenario, of_run_directory};
use belljar_fabric::Topology;
use belljar_files::read_input_text;
use belljar_formats::Messages;
use belljar_formats::ti::{Amounts, Layout, write_hosts, write_platform, write_rank};

use super::{ExportArguments, file, folder, say_left_out};
use crate::command::output::show;
use crate::command::predicting::replay::job::{AS_RUN, program_of};

/// The list of the ranks' files.
const RANKS: &str = "ranks";
/// The network.
const PLATFORM: &str = "platform.xml";
/// The host of each rank.
const HOSTS: &str = "hosts";

pub(super) fn write(arguments: &ExportArguments, trace: &Path, out: &Path) -> Result<()> {
    let each = arguments.flops_per_cycle;
    if !(each.is_finite() && each > 0.0) {
        bail!("--flops-per-cycle must be a number above 0");
    }
    let program = program_of(trace, AS_RUN)?;
    let messages = Messages::new(&program, !arguments.messages);
    let unfinished = folder(out)?;
    let named = out;
    let out = unfinished.path();
    let clock = TraceReader::open(trace)?.header().frequency(0);
    let flops_per_second = clock.as_hz() as f64 * each;
    let name = |rank: u32| format!("rank-{rank}.txt");
    for rank in 0..messages.ranks() {
        file(&out.join(name(rank)), |file| {
            write_rank(&messages, rank, Amounts { flops_per_second }, file)
        })?;
    }
    file(&out.join(RANKS), |file| {
        (0..messages.ranks()).try_for_each(|rank| writeln!(file, "{}", name(rank)))
    })?;
    say_left_out(messages.left_out());
    let Some(topology) = network_of(trace, &arguments.set)? else {
        unfinished.finish()?;
        note!(
            "note: no {SCENARIO_FILE} next to the trace: write a platform and a hostfile yourself"
        );
        return Ok(());
    };
    let hosts: Vec<u32> = program.processes.iter().map(|it| it.node).collect();
    let layout = Layout {
        topology: &topology,
        flops_per_second,
        hosts: &hosts,
    };
    file(&out.join(PLATFORM), |file| write_platform(&layout, file))?;
    file(&out.join(HOSTS), |file| write_hosts(&layout, file))?;
    unfinished.finish()?;
    let (folder, ranks) = (named.display(), messages.ranks());
    show(|to| {
        writeln!(
            to,
            "cd {folder} && smpirun -np {ranks} -platform {PLATFORM} -hostfile {HOSTS} -replay {RANKS}"
        )
    })
}

/// The network of the traced run with the changes of `set`, if its scenario exists.
fn network_of(trace: &Path, set: &[String]) -> Result<Option<Topology>> {
    let path = trace.with_file_name(SCENARIO_FILE);
    let Ok(text) = read_input_text(&path) else {
        return Ok(None);
    };
    let scenario = Scenario::parse(&path, &of_run_directory(text), set)?;
    Ok(Some(Plan::network_of(&scenario, &path)?.0))
}
