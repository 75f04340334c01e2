//! An opened checkpoint.
//!
//! Files of a checkpoint are untrusted: they are checked as they are read, and no file of the run directory changes before all
//! checks. `CheckpointChoice` finds the newest intact one; the coordinator resumes from it.

use std::path::{Path, PathBuf};

use belljar_cpu::{GuestRam, PAGE_SIZE};
use belljar_files::open_input;
use belljar_sim::Time;
use belljar_sim::figures::decimal;
use belljar_vmm::{Identity, Node, Packs, Snapshot, first_difference};

use super::record::{CheckpointRecord, NodeRecord, RunRecord};
use super::{CheckpointChoice, CheckpointError, FOLDER, PACK, RECORD, base_name, read_input};
use crate::observe::control::INPUT_FILE;
use crate::plan::Plan;
use crate::plan::nodes::parts::DiskHashes;
use crate::plan::nodes::template;
use crate::results::capture::CaptureState;
use crate::results::link_log::LinkLogState;
use crate::results::run_directory::{RunDirectory, RunDirectoryError};
use crate::scenario::Polls;

/// An intact checkpoint, except for its pages, which are checked as they are read, and for the run's own files.
#[derive(Debug)]
pub struct IntactCheckpoint {
    pub(crate) run: RunRecord,
    record: CheckpointRecord,
    /// The snapshots of clones, by kind.
    pub(crate) bases: Vec<Snapshot>,
    packs: Packs,
}

impl IntactCheckpoint {
    /// The newest checkpoint of the run in `directory` that can be opened.
    ///
    /// # Errors
    /// [`CheckpointError::None`] if there is none, and [`CheckpointError::Unusable`] if all are damaged.
    pub fn newest(directory: &Path) -> Result<Self, CheckpointError> {
        CheckpointChoice::among(directory)?.next()
    }

    /// Opens a checkpoint; returns the fault in words if it is damaged.
    pub(super) fn open(folder: &Path, number: u32) -> Result<Self, String> {
        let record = CheckpointRecord::read(&folder.join(format!("{number}.{RECORD}")))?;
        let run = record.run().map_err(|error| error.to_string())?;
        if run.number != number {
            return Err(format!("it is number {}", run.number));
        }
        let bases = 0..run.bases as usize;
        let bases = bases.map(|kind| Snapshot::open(&folder.join(base_name(kind))));
        let bases: Result<Vec<_>, _> = bases.collect();
        let bases = bases.map_err(|error| error.to_string())?;
        let mut packs = Packs::default();
        for &(pack, pages) in &run.packs {
            let path = folder.join(format!("{pack}.{PACK}"));
            let whole = open_input(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
            let (length, file) = whole.map_err(|error| format!("{}: {error}", path.display()))?;
            if length < pages.saturating_mul(PAGE_SIZE) {
                return Err(format!("{} is shorter than it was", path.display()));
            }
            packs.add(pack, file);
        }
        Ok(Self {
            run,
            record,
            bases,
            packs,
        })
    }

    /// Checks the lengths of the run's growing files, the checksums of trace, probes and profiles, and the recorded input. Returns the fault in words. No file is changed.
    pub(crate) fn look(&self, directory: &RunDirectory) -> Result<(), String> {
        let words = |error: RunDirectoryError| error.to_string();
        for node in 0..self.record.nodes() {
            let record = self.record.node(node).map_err(|error| error.to_string())?;
            for (name, length) in record.runner.files(node as u32) {
                directory.holds(&name, length).map_err(words)?;
                if name.ends_with(PROFILE_END) {
                    let file = directory.open_file(&name).map_err(words)?;
                    let path = directory.path().join(&name);
                    belljar_profile::verify_start(file, &path, length)
                        .map_err(|error| error.to_string())?;
                }
            }
        }
        let captures = self.run.captures.iter().map(CaptureState::file);
        let links = self.run.links.iter().map(LinkLogState::file);
        for (name, length) in captures.chain(links) {
            directory.holds(&name, length).map_err(words)?;
        }
        let trace = self.run.recorder.look(directory);
        trace.map_err(|error| error.to_string())?;
        let input = read_input(&directory.path().join(INPUT_FILE), self.run.input);
        input
            .map(drop)
            .map_err(|error| format!("{INPUT_FILE}: {error}"))
    }

    /// Reads all pages of all nodes; returns the fault in words if they are damaged.
    pub(super) fn verify_pages(&self) -> Result<(), String> {
        for node in 0..self.record.nodes() {
            let record = self.record.node(node).map_err(|error| error.to_string())?;
            let verified = record.pages.verify(&self.packs);
            verified.map_err(|error| format!("node {node}: {error}"))?;
        }
        Ok(())
    }

    /// Its files by name in the run directory `directory`.
    pub fn files(&self, directory: &Path) -> Vec<(String, PathBuf)> {
        let packs = self
            .run
            .packs
            .iter()
            .map(|(pack, _)| format!("{pack}.{PACK}"));
        let bases = (0..self.bases.len()).map(base_name);
        let record = format!("{}.{RECORD}", self.run.number);
        let names = packs.chain(bases).chain([record]);
        let placed = names.map(|name| format!("{FOLDER}/{name}"));
        placed
            .map(|name| (name.clone(), directory.join(name)))
            .collect()
    }

    /// Its number, in words.
    pub fn describe(&self) -> String {
        let (number, now) = (self.run.number, self.run.now.as_secs_f64());
        format!(
            "checkpoint {number} at {} s of virtual time",
            decimal(now, 6)
        )
    }

    /// Checks that its identity is `wanted`.
    ///
    /// # Errors
    /// [`CheckpointError::Other`], with the first difference.
    pub(crate) fn check(&self, wanted: &Identity) -> Result<(), CheckpointError> {
        let other = |[name, found, wanted]: [String; 3]| CheckpointError::Other {
            name,
            found,
            wanted,
        };
        let made = begun_before(&self.run.identity, Time::ZERO);
        let without = &begun_before(wanted, Time::ZERO);
        if let Some(difference) = first_difference(&made, without, &[]) {
            return Err(other(difference));
        }
        // It has one part for each node that it claims.
        let nodes = vec![(NODES.to_owned(), self.record.nodes().to_string())];
        let said = wanted.iter().filter(|(name, _)| name == NODES).cloned();
        match first_difference(&nodes, &said.collect(), &[]) {
            None => Ok(()),
            Some(difference) => Err(other(difference)),
        }
    }

    /// Checks that its delays that begin before `reach` are those of `wanted`: no node has run to later ones, which may differ.
    ///
    /// # Errors
    /// [`CheckpointError::Other`], with the first difference.
    pub(crate) fn check_delays(
        &self,
        wanted: &Identity,
        reach: Time,
    ) -> Result<(), CheckpointError> {
        let [made, wanted] = [&self.run.identity, wanted].map(|all| begun_before(all, reach));
        match first_difference(&made, &wanted, &[]) {
            None => Ok(()),
            Some([name, found, wanted]) => Err(CheckpointError::Other {
                name,
                found,
                wanted,
            }),
        }
    }

    /// RAM of `bytes` bytes with the content of node `index`, of kind number `kind`, from the part `node`.
    pub(crate) fn ram(
        &self,
        index: u32,
        kind: usize,
        node: &NodeRecord<'_>,
        bytes: u64,
    ) -> Result<GuestRam, CheckpointError> {
        let ram = match self.bases.get(kind) {
            Some(base) => base.ram()?,
            None => Node::blank_ram(bytes)?,
        };
        let put = node.pages.restore(&ram, &self.packs);
        put.map_err(|source| CheckpointError::Pages {
            node: index,
            source,
        })?;
        Ok(ram)
    }

    /// The part of a node.
    pub(crate) fn node(&self, node: u32) -> Result<NodeRecord<'static>, CheckpointError> {
        Ok(self.record.node(node as usize)?)
    }
}

/// Suffix of profiles, whose records have checksums.
const PROFILE_END: &str = ".bjp";

const NODES: &str = "number of nodes";

/// Start of the names of delays; their starts in picoseconds follow.
const DELAY: &str = "delay at ";

/// The identity without delays that begin at `reach` or later: a run may continue with others.
fn begun_before(identity: &Identity, reach: Time) -> Identity {
    let begun = |name: &String| {
        let at = name
            .strip_prefix(DELAY)
            .and_then(|rest| rest.split_once(' '));
        at.is_none_or(|(at, _)| at.parse().is_ok_and(|at: u64| at < reach.as_ps()))
    };
    let own = identity.iter().filter(|(name, _)| begun(name));
    own.cloned().collect()
}

/// The identity of nodes: all of it for the first kind, and the differences for others.
fn identity_of_kinds(plan: &Plan) -> Identity {
    let (first, others) = plan.kinds().split_at(1);
    let each = first.iter().map(|kind| template::identity(plan, kind));
    let mut all: Identity = each.flatten().collect();
    let first = all.clone();
    for (kind, number) in others.iter().zip(2..) {
        let own = template::identity(plan, kind).into_iter();
        let own = own.filter(|item| !first.contains(item));
        all.extend(own.map(|(name, value)| (format!("{name} of group {number}"), value)));
        let nodes = format!("from {}, {}", kind.first, kind.count);
        all.push((format!("nodes of group {number}"), nodes));
    }
    all
}

/// The identity of a checkpoint of a run of `plan`, whose disks have the hashes `disks`.
pub(crate) fn identity(plan: &Plan, disks: DiskHashes) -> Identity {
    let mut identity = identity_of_kinds(plan);
    let more = [
        (NODES, plan.nodes.to_string()),
        ("seed", plan.seed.to_string()),
        ("workload", format!("{:016x}", disks.run)),
        ("tracing", plan.trace.enabled.to_string()),
    ];
    identity.extend(more.map(|(name, value)| (name.to_owned(), value)));
    if plan.trace.polls == Polls::Folded {
        identity.push(("polls".to_owned(), "folded".to_owned()));
    }
    if let Some(collect) = plan.trace.collect {
        identity.push(("collect".to_owned(), collect.to_string()));
    }
    if let Some(noise) = plan.describe_noise() {
        identity.push(("noise".to_owned(), noise));
    }
    let delays = plan.delays.all.iter();
    identity.extend(delays.map(|delay| {
        let (at, words) = (delay.at.as_ps(), &delay.words);
        (format!("{DELAY}{at} ps: {words}"), "given".to_owned())
    }));
    if let Some(profile) = plan.profile {
        let (every, frames) = (profile.every, profile.frames);
        identity.push(("profile".to_owned(), format!("{every}, {frames} frames")));
    }
    if !plan.probes.is_empty() {
        // A file of probes begins with their descriptions.
        let probes = plan.probes.iter().map(|own| &own.probe.name);
        let names = probes.map(String::as_str).collect::<Vec<_>>().join(", ");
        let hash = twox_hash::XxHash3_64::oneshot(format!("{:?}", plan.probes).as_bytes());
        identity.push(("probes".to_owned(), format!("{names} ({hash:016x})")));
    }
    for own in &plan.background {
        let (hash, hosts) = (own.hash, &own.hosts);
        let how = format!("{:?}, {:?}, {}", own.start, own.times, own.scale);
        let value = format!("{hash:016x} on {hosts:?}, {how}");
        identity.push((format!("background {}", own.name), value));
    }
    if let Some(slurm) = &plan.slurm {
        identity.push(("slurm".to_owned(), slurm.image.manifest.root.sha256.clone()));
    }
    if let Some(hash) = disks.large_files {
        identity.push(("large files".to_owned(), format!("{hash:032x}")));
    }
    identity
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(starts: &[u64]) -> Identity {
        let delays = starts
            .iter()
            .map(|at| (format!("{DELAY}{at} ps: a hold"), "given".to_owned()));
        [("seed".to_owned(), "1".to_owned())]
            .into_iter()
            .chain(delays)
            .collect()
    }

    #[test]
    fn delays_that_begin_before_a_checkpoint_are_compared_and_later_ones_are_not() {
        let reach = Time::from_ps(1000);
        let difference = |made: &[u64], wanted: &[u64]| {
            let [made, wanted] = [made, wanted].map(|all| begun_before(&delays(all), reach));
            first_difference(&made, &wanted, &[]).map(|[name, ..]| name)
        };
        assert_eq!(difference(&[], &[]), None);
        assert_eq!(difference(&[], &[1000, 5000]), None);
        assert_eq!(difference(&[500, 3000], &[500, 2000]), None);
        let begun = Some("delay at 999 ps: a hold".to_owned());
        assert_eq!(difference(&[], &[999]), begun);
        assert_eq!(difference(&[999], &[]), begun);
        assert_eq!(difference(&[999], &[999]), None);
    }
}
