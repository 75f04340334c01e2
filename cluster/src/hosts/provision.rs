//! Sends other hosts the files for their nodes.
//!
//! A file is sent only to hosts without its content, and accepted only if its hash is right. Host 0 calls
//! [`hand_out`](provision::hand_out) and every other host [`take_in`](provision::take_in), both before any node runs.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use belljar_files::open_input;
use belljar_peers::{Incoming, Mesh, TooLong};
use belljar_sim::CodecError;

use super::exchange::HEAD;
use super::message::{
    FileOffer, HostMessage, HostTask, INFINIBAND, INITRD, KERNEL, NFS, ROOT, numbered,
    snapshot_name,
};
use super::partition::Partition;
use super::store::{self, ArrivingFile, PIECE, Store, StoreError};
use crate::plan::Plan;

/// Time limit of one wait, between checks for a stop.
const LISTENING: Duration = Duration::from_millis(50);
/// Sleep while other hosts receive too slowly.
const NAP: Duration = Duration::from_millis(5);

/// Errors of providing files.
#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    /// A file cannot be sent or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A message cannot be encoded or decoded.
    #[error("a message between hosts: {0}")]
    Codec(#[from] CodecError),
    /// A message is too long.
    #[error(transparent)]
    TooLong(#[from] TooLong),
    /// A host is lost, or reports an error.
    #[error("host {host}: {why}")]
    Host {
        /// Its name.
        host: String,
        /// The reason.
        why: String,
    },
    /// The user stopped it.
    #[error("interrupted")]
    Cancelled,
}

/// Messages that arrived before they were expected.
pub(crate) type Early = Vec<(u32, HostMessage)>;

/// The inputs of all hosts.
pub struct Given {
    /// The scenario's text; the files that it names are next to it.
    pub scenario: String,
    /// Files next to the scenario, by name.
    pub inputs: BTreeMap<String, PathBuf>,
    /// The snapshots for clones, one for each kind of nodes.
    pub snapshots: Vec<PathBuf>,
    /// The files of the checkpoint that the run is resumed from, by their names in the run's
    /// folder.
    pub checkpoint: Vec<(String, PathBuf)>,
    /// True if threads that run guests are confined.
    pub sandboxed: bool,
    /// Threads on each host; by default one for each processor.
    pub threads: Option<usize>,
}

/// The task of other hosts in the run of `plan`.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn task(
    plan: &Plan,
    given: Given,
    partition: Partition,
) -> Result<HostTask, ProvisionError> {
    let images = plan.all_images().enumerate();
    let of_images = images.flat_map(|(number, image)| {
        let of_image = [
            (KERNEL, &*image.kernel),
            (INITRD, &*image.initrd),
            (ROOT, &*image.root),
        ];
        let nfs = image.nfs.as_deref().filter(|_| plan.shared_folder);
        let of_image = of_image.into_iter().chain(nfs.map(|path| (NFS, path)));
        let drivers = image
            .infiniband
            .as_deref()
            .filter(|_| plan.infiniband.is_some());
        let of_image = of_image.chain(drivers.map(|path| (INFINIBAND, path)));
        of_image.map(move |(name, path)| (numbered(name, number), path.to_owned()))
    });
    let snapshots = given.snapshots.into_iter().enumerate();
    let snapshots = snapshots.map(|(kind, path)| (snapshot_name(kind), path));
    let files = of_images.chain(snapshots).chain(given.checkpoint);
    let offer = |(name, path): (String, PathBuf)| Ok((name, store::offer(&path)?));
    let images = plan.all_images();
    let manifests = images.map(|image| serde_json::to_string(&image.manifest));
    let manifests = manifests.collect::<Result<Vec<_>, _>>();
    Ok(HostTask {
        scenario: given.scenario,
        inputs: given
            .inputs
            .into_iter()
            .map(offer)
            .collect::<Result<_, StoreError>>()?,
        manifests: manifests.map_err(|error| CodecError::Encode(error.to_string()))?,
        files: files.map(offer).collect::<Result<_, StoreError>>()?,
        partition,
        sandboxed: given.sandboxed,
        threads: given.threads,
    })
}

/// Sends all other hosts `task` and the files that they request.
///
/// # Errors
/// If one of them is lost, or reports an error.
pub(crate) fn hand_out(
    mesh: &Mesh,
    task: &HostTask,
    cancelled: &AtomicBool,
) -> Result<Early, ProvisionError> {
    let mut early = Early::new();
    let mut silent: Vec<u32> = mesh.peers().collect();
    let bytes = HostMessage::Task(Box::new(task.clone())).encode()?;
    for &peer in &silent {
        mesh.send(peer, bytes.clone())?;
    }
    while !silent.is_empty() {
        let (peer, message) = hear(mesh, &task.partition, cancelled)?;
        match message {
            HostMessage::Want(files) => {
                for file in files {
                    let offer = task.offers().nth(file as usize);
                    offer.map_or(Ok(()), |offer| send(mesh, peer, file, offer, cancelled))?;
                }
                silent.retain(|other| *other != peer);
            }
            other => early.push((peer, other)),
        }
    }
    Ok(early)
}

fn send(
    mesh: &Mesh,
    peer: u32,
    number: u32,
    offer: &FileOffer,
    cancelled: &AtomicBool,
) -> Result<(), ProvisionError> {
    let path = Path::new(&offer.path);
    let failed = |source| StoreError::Io {
        action: "send",
        path: path.to_owned(),
        source,
    };
    let mut file = open_input(path).map_err(failed)?;
    loop {
        let mut piece = Vec::with_capacity(PIECE);
        let part = file.by_ref().take(PIECE as u64).read_to_end(&mut piece);
        part.map_err(failed)?;
        let is_end = piece.is_empty();
        mesh.send(peer, HostMessage::Piece(number, piece).encode()?)?;
        if is_end {
            return Ok(());
        }
        while mesh.is_congested() {
            if cancelled.load(Ordering::Relaxed) {
                return Err(ProvisionError::Cancelled);
            }
            thread::sleep(NAP);
        }
    }
}

/// Waits for this host's task, and for its missing files. Returns the paths of all files, in the order of [`HostTask::offers`].
///
/// # Errors
/// If host 0 is lost, or a file cannot be kept.
pub(crate) fn take_in(
    mesh: &Mesh,
    cancelled: &AtomicBool,
) -> Result<(HostTask, Vec<PathBuf>, Early), ProvisionError> {
    let nobody = Partition::new(Vec::new(), Vec::new());
    let mut early = Early::new();
    let task = loop {
        match hear(mesh, &nobody, cancelled)? {
            (HEAD, HostMessage::Task(task)) if task.partition.is_sound() => break task,
            (peer, other) => early.push((peer, other)),
        }
    };
    let store = Store::open()?;
    let offers: Vec<&FileOffer> = task.offers().collect();
    let mut places: Vec<Option<PathBuf>> = offers.iter().map(|one| store.find(one)).collect();
    let missing = (0..).zip(&places).filter(|(_, place)| place.is_none());
    let missing: Vec<u32> = missing.map(|(number, _)| number).collect();
    mesh.send(HEAD, HostMessage::Want(missing.clone()).encode()?)?;
    for number in missing {
        let mut arrival = store.receive(offers[number as usize])?;
        while let Some(piece) = next_piece(mesh, &task, number, &mut early, cancelled)? {
            ArrivingFile::take(&mut arrival, &piece)?;
        }
        places[number as usize] = Some(arrival.finish()?);
    }
    let places: Vec<PathBuf> = places.into_iter().flatten().collect();
    store.prune(&places);
    Ok((*task, places, early))
}

/// The next piece of a file; `None` at its end.
fn next_piece(
    mesh: &Mesh,
    task: &HostTask,
    number: u32,
    early: &mut Early,
    cancelled: &AtomicBool,
) -> Result<Option<Vec<u8>>, ProvisionError> {
    loop {
        match hear(mesh, &task.partition, cancelled)? {
            (HEAD, HostMessage::Piece(of, piece)) if of == number => {
                return Ok(Some(piece).filter(|piece| !piece.is_empty()));
            }
            (peer, other) => early.push((peer, other)),
        }
    }
}

fn hear(
    mesh: &Mesh,
    partition: &Partition,
    cancelled: &AtomicBool,
) -> Result<(u32, HostMessage), ProvisionError> {
    loop {
        if cancelled.load(Ordering::Relaxed) {
            return Err(ProvisionError::Cancelled);
        }
        let lost = |peer, why: String| {
            let name = partition.names().get(peer as usize);
            let host = name.map_or_else(|| format!("number {peer}"), Clone::clone);
            Err(ProvisionError::Host { host, why })
        };
        match mesh.receive(LISTENING) {
            Some((peer, Incoming::Message(bytes))) => match HostMessage::decode(&bytes)? {
                HostMessage::Failed(why) => return lost(peer, why),
                HostMessage::Stop => return Err(ProvisionError::Cancelled),
                message => return Ok((peer, message)),
            },
            Some((peer, Incoming::Lost(why))) => return lost(peer, why.to_string()),
            None => {}
        }
    }
}
