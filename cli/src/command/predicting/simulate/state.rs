//! The state of a combination that is being simulated, kept in a file.
//!
//! It is written periodically by the host's clock, and when a simulation is interrupted; `--resume` continues from it. A file is
//! whole or absent, as it is written under another name first. It is untrusted: its version, its digest and its checksum are
//! checked before any use. Each module checks its own part of the state. Called by `simulate`.
// The host's clock decides when states are written, not their contents.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use belljar_fabric::{Settings, Topology};
use belljar_files::{Folder, OutputFile};
use belljar_program::Program;
use belljar_replay::ContentionState;
use belljar_sim::{check, decode, encode};
use belljar_simulate::{Job, JobTraffic, MixState};
use serde::{Deserialize, Serialize};
use twox_hash::{XxHash3_64, XxHash3_128};

use super::messages::AllPlayed;

/// A combination's state, in its folder.
const STATE_FILE: &str = "state";
/// First bytes of the file; the last one is the version.
const MAGIC: [u8; 8] = *b"BELLMIX\x05";
/// Bytes before the state: the magic, the digest, the state's checksum.
const HEADER: usize = 8 + 16 + 8;
/// Largest file, in bytes; no larger state could be read.
const MOST_BYTES: u64 = 1 << 30;

/// A combination's state; the default is its beginning.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct CombinationState {
    /// Jobs, queue, hosts and loads.
    pub(super) mix: Option<MixState>,
    /// At the level of messages, the state of running jobs.
    pub(super) jobs: Option<ContentionState>,
}

/// Digest of all that defines a simulation besides its state. Two different simulations have different digests.
///
/// # Errors
/// If encoding fails.
pub(super) fn digest(
    mix: &str,
    values: &[(String, String)],
    topology: &Topology,
    settings: &Settings,
    jobs: &[Job],
    played: &AllPlayed,
) -> Result<u128> {
    let mut hasher = XxHash3_128::new();
    hasher.write(&encode(&(mix, values))?);
    // The network may be a file, which the mix only names.
    fmt::write(
        &mut Hashed(&mut hasher),
        format_args!("{topology:?} {settings:?}"),
    )?;
    // Jobs of a kind share their traffic.
    let mut known: BTreeMap<*const JobTraffic, usize> = BTreeMap::new();
    for job in jobs {
        let next = known.len();
        let number = *known.entry(&raw const *job.traffic).or_insert(next);
        let sent = (number == next).then_some(&*job.traffic);
        let needs = (job.ranks, job.duration, job.estimate, job.priority);
        let run = (job.run, number, sent);
        hasher.write(&encode(&(&*job.name, job.arrival, needs, run))?);
    }
    for (number, of) in played {
        hasher.write(&encode(&(number, &of.calibration, of.costs, &of.clocks))?);
        write_program(&mut hasher, &of.program)?;
    }
    Ok(hasher.finish_128())
}

/// Hashes text without storing it: a network is large.
struct Hashed<'h>(&'h mut XxHash3_128);

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Hashes a thread at a time: a program is large.
fn write_program(hasher: &mut XxHash3_128, program: &Program) -> Result<()> {
    let tables = (&program.processes, &program.channels, &program.parts);
    hasher.write(&encode(&(tables, &program.partitioned))?);
    for thread in &program.threads {
        hasher.write(&encode(thread)?);
    }
    let mut known: BTreeMap<*const u32, usize> = BTreeMap::new();
    for own in &program.collectives {
        // Operations on a communicator share its members.
        let next = known.len();
        let number = *known.entry(own.members.as_ptr()).or_insert(next);
        let members = (number == next).then_some(&own.members[..]);
        hasher.write(&encode(&(own.communicator, &own.direct, number, members))?);
    }
    Ok(())
}

/// Keeps a combination's state.
pub(super) struct Keeper<'f> {
    folder: &'f Folder,
    digest: u128,
    every: Duration,
    last: Instant,
}

impl<'f> Keeper<'f> {
    /// Saves states in a combination's folder, at this interval.
    pub(super) fn new(folder: &'f Folder, digest: u128, every: Duration) -> Self {
        Self {
            folder,
            digest,
            every,
            last: Instant::now(),
        }
    }

    /// True if the next state is due.
    pub(super) fn is_due(&self) -> bool {
        self.last.elapsed() >= self.every
    }

    /// Saves a state and replaces the previous one.
    ///
    /// # Errors
    /// If it is too large, or cannot be written.
    pub(super) fn keep(&mut self, state: &CombinationState) -> Result<()> {
        self.write(state)
            .context("cannot keep the state of a combination")?;
        // Counts the interval from the end of the write, so that a large state leaves time for the simulation.
        self.last = Instant::now();
        Ok(())
    }

    fn write(&self, state: &CombinationState) -> Result<()> {
        let bytes = encode(state)?;
        check::<CombinationState>(&bytes)?;
        let mut file = OutputFile::create_in(self.folder, STATE_FILE)?;
        file.write_all(&MAGIC)?;
        file.write_all(&self.digest.to_le_bytes())?;
        file.write_all(&XxHash3_64::oneshot(&bytes).to_le_bytes())?;
        file.write_all(&bytes)?;
        Ok(file.finish()?)
    }

    /// The saved state, if there is one.
    ///
    /// # Errors
    /// If the file is not a state of this simulation; the error says what to do.
    pub(super) fn kept(&self) -> Result<Option<CombinationState>> {
        let file = match self.folder.open_file(STATE_FILE) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.with_context(|| self.refused())?,
        };
        let mut bytes = Vec::new();
        file.take(MOST_BYTES)
            .read_to_end(&mut bytes)
            .with_context(|| self.refused())?;
        self.state(&bytes).map(Some).with_context(|| self.refused())
    }

    /// The error for a state that this simulation cannot continue from.
    pub(super) fn refused(&self) -> String {
        format!(
            "cannot continue from {}; remove the file to begin this combination again",
            self.folder.path().join(STATE_FILE).display()
        )
    }

    fn state(&self, bytes: &[u8]) -> Result<CombinationState> {
        let header = bytes.split_first_chunk::<HEADER>();
        let Some((header, state)) = header.filter(|(header, _)| header[..7] == MAGIC[..7]) else {
            bail!("it is not a state of a simulation");
        };
        if header[7] != MAGIC[7] {
            bail!(
                "it is of version {}, and this program reads version {}",
                header[7],
                MAGIC[7]
            );
        }
        if header[8..24] != self.digest.to_le_bytes() {
            bail!(
                "it is of another simulation: the mix, its network, its jobs or their traced runs have changed"
            );
        }
        if header[24..] != XxHash3_64::oneshot(state).to_le_bytes() {
            bail!("it is damaged: its checksum is wrong");
        }
        Ok(decode(state)?)
    }
}

/// Removes the saved state of a combination after its end.
///
/// # Errors
/// If it cannot be removed.
pub(super) fn forget(folder: &Folder) -> Result<()> {
    let removed = folder.remove(STATE_FILE);
    removed.with_context(|| {
        let path = folder.path().join(STATE_FILE);
        format!("cannot remove {}", path.display())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use std::sync::Arc;

    use belljar_fabric::{LinkSpec, SwitchSpec};
    use belljar_sim::Span;

    use super::*;

    fn job(rate: u64) -> Job {
        let flow = belljar_simulate::RankFlow {
            from: 0,
            to: 1,
            rate,
        };
        Job {
            name: Arc::from("job"),
            arrival: 5,
            ranks: 2,
            duration: 7,
            estimate: 7,
            priority: 0,
            traffic: Arc::new(JobTraffic { flows: vec![flow] }),
            run: None,
        }
    }

    #[test]
    fn what_differs_in_anything_has_another_digest() {
        let star = |nanoseconds| {
            let link = LinkSpec {
                bandwidth: 1_000_000_000,
                latency: Span::from_ns(nanoseconds),
            };
            let switch = SwitchSpec {
                latency: Span::from_ns(1),
                queue_bytes: 1 << 20,
            };
            Topology::star(4, link, switch).unwrap()
        };
        let on = |topology: &Topology, mix: &str, jobs: &[Job]| {
            let values = [("hosts".to_owned(), "4".to_owned())];
            let settings = Settings::default();
            digest(mix, &values, topology, &settings, jobs, &AllPlayed::new()).unwrap()
        };
        let of = |mix: &str, jobs: &[Job]| on(&star(1), mix, jobs);
        let same = of("mix", &[job(9), job(9)]);
        assert_eq!(same, of("mix", &[job(9), job(9)]));
        assert_ne!(same, of("max", &[job(9), job(9)]));
        assert_ne!(same, of("mix", &[job(9)]));
        // Changes the digest, as a changed network file does.
        assert_ne!(same, on(&star(2), "mix", &[job(9), job(9)]));
        // Changes the digest, as a re-recorded run does.
        assert_ne!(same, of("mix", &[job(9), job(8)]));
        let mut later = [job(9), job(9)];
        later[1].arrival = 6;
        assert_ne!(same, of("mix", &later));
    }

    #[test]
    fn states_come_back_where_they_are_of_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let own = Folder::open(folder.path()).unwrap();
        let mut keeper = Keeper::new(&own, 77, Duration::ZERO);
        assert!(keeper.kept().unwrap().is_none());
        assert!(keeper.is_due());
        keeper.keep(&CombinationState::default()).unwrap();
        assert!(keeper.kept().unwrap().is_some());
        let told = |keeper: &Keeper<'_>| format!("{:#}", keeper.kept().unwrap_err());
        let other = Keeper::new(&own, 78, Duration::MAX);
        assert!(!other.is_due());
        let error = told(&other);
        assert!(error.contains("another simulation") && error.contains("remove the file"));
        let path = folder.path().join(STATE_FILE);
        let sound = fs::read(&path).unwrap();
        for (at, what) in [(0, "not a state"), (7, "of version"), (HEADER, "damaged")] {
            let mut bytes = sound.clone();
            bytes[at] ^= 4;
            fs::write(&path, bytes).unwrap();
            assert!(told(&keeper).contains(what), "{}", told(&keeper));
        }
        fs::write(&path, &sound[..HEADER - 1]).unwrap();
        assert!(told(&keeper).contains("not a state"));
        forget(&own).unwrap();
        assert!(keeper.kept().unwrap().is_none());
        forget(&own).unwrap();
    }
}
