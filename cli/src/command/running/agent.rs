//! `belljar agent`: a host's part in a run that `belljar run` on another host started.
//!
//! The agent ends when its standard input ends, at most some seconds later, even if it is waiting for
//! something: no process of a run remains on a host. Started by `cluster/src/hosts/muster.rs` through the
//! launch crate, never by users.

use std::io::{self, BufReader, Read};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use belljar_cluster::hosts::agent::Agent;
use belljar_cluster::run::coordinator::Ending;

use super::check::sandbox;
use crate::command::terminal::interrupt::Deferral;

/// Longest time that an agent takes to end after its parent has ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// `belljar agent`.
pub(crate) fn agent() -> Result<ExitCode> {
    let deferral = Deferral::begin();
    let stop = Arc::clone(deferral.flag());
    let mut input = BufReader::new(io::stdin());
    let agent = Agent::meet(&mut input, io::stdout(), &stop)?;
    end_with_input(input, stop.clone());
    let plan = agent.plan()?;
    let sandbox = sandbox(!agent.is_sandboxed(), plan.engine)?;
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    let threads = agent.threads().unwrap_or_else(processors).max(1);
    match agent.run(&plan, threads, sandbox.as_ref(), &stop)? {
        // Host 0 reported it, or was lost itself.
        Ending::HostLost { host, why } => bail!("host {host} is lost: {why}"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Ends this process when its input ends: the parent has ended, or requests the end.
fn end_with_input(mut input: BufReader<io::Stdin>, stop: Arc<AtomicBool>) {
    thread::spawn(move || {
        let mut rest = [0; 64];
        while matches!(input.read(&mut rest), Ok(1..)) {}
        stop.store(true, Ordering::Relaxed);
        // Ends the process even if the run does not stop: no process may remain on a host.
        thread::sleep(FAREWELL);
        process::exit(1);
    });
}
