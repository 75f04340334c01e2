//! The template: the node that all nodes of a run are cloned from.
//!
//! It boots once, until only its identity is missing, and is saved as a snapshot. A snapshot is used only if its
//! identity fits the plan, and one process at a time makes it. Called to prepare a run, and by `belljar
//! snapshot`.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;

use belljar_images::CacheError;
use belljar_sim::{Span, Time};
use belljar_vmm::{Identity, Node, NodeError, NodeStop, Snapshot, SnapshotError};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSegment, ReadCache};
use twox_hash::{XxHash3_64, XxHash3_128};

use crate::host::sandbox::{Sandbox, SandboxError};
use crate::plan::Plan;
use crate::plan::images::ImagePlan;
use crate::plan::kinds::NodeKind;
use crate::plan::nodes::parts::{PartsError, SharedParts};
use crate::scenario::Results;
use crate::scenario::engine::Engine;

/// Message of init when only the identity is missing.
const WORD: &[u8] = b"snapshot\n";
/// Virtual time limit for that message.
const PATIENCE: Span = Span::from_ms(120_000);
/// The same under engine kvm, where virtual time also passes while a host's own hypervisor runs other guests.
const PATIENCE_ON_KVM: Span = Span::from_ms(600_000);
/// Virtual time for the kernel's deferred work.
const SETTLING: Span = Span::from_ms(1_000);
/// Virtual time between checks for the message.
const STEP: Span = Span::from_ms(10);
/// Maximum number of kept snapshots; the newest ones stay.
const KEPT: usize = 24;
/// The end of the console that an error shows, in bytes.
const LAST_WORDS: usize = 1_000;

/// Errors of snapshots.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Parts of the nodes are not usable.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// The node cannot run.
    #[error("the node to be cloned: {0}")]
    Node(#[from] NodeError),
    /// The file is not usable.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The node did not send the message.
    #[error(
        "the node to be cloned did not write `snapshot` to its control console: {how}; boot every node with --boot-each, or check images/guest/init; the end of its console:\n{console}"
    )]
    NoWord {
        /// Its state instead.
        how: String,
        /// The end of its console.
        console: String,
    },
    /// The folder for snapshots cannot be found.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The folder cannot be used.
    #[error(
        "cannot use {path} for snapshots: {source}; check its permissions or set XDG_CACHE_HOME to another folder"
    )]
    Folder {
        /// A file or folder in it.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The thread that boots it cannot be confined.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

/// The identity of a snapshot for nodes of `plan` of this `kind`.
pub fn identity(plan: &Plan, kind: &NodeKind) -> Identity {
    let ImagePlan { image, append, .. } = plan.image_of_kind(kind);
    let manifest = &image.manifest;
    let mut identity = vec![
        ("belljar", env!("CARGO_PKG_VERSION").to_owned()),
        ("build", build()),
        ("engine", plan.engine.name().to_owned()),
        ("image", manifest.key.clone()),
        ("kernel", manifest.kernel_release.clone()),
        // A rebuilt image may have newer packages.
        ("kernel file", manifest.kernel.sha256.clone()),
        ("initramfs", manifest.initrd.sha256.clone()),
        ("root file system", manifest.root.sha256.clone()),
        ("command line", append.clone()),
        ("memory", kind.memory.to_string()),
        ("clock", format!("{} Hz", kind.clock.as_hz())),
        ("processor", kind.instruction_set.to_string()),
        ("number of vCPUs", kind.vcpus.to_string()),
        (
            "cycles per instruction",
            format!("{}/{}", kind.ratio.cycles, kind.ratio.instructions),
        ),
        ("time model", format!("{:?}", kind.timing)),
    ];
    if kind.vcpus > 1 {
        identity.push(("slice", plan.slice.to_string()));
    }
    if plan.results == Results::Host {
        identity.push(("results", "of the host's processor".to_owned()));
    }
    if plan.has_disk_of_files() {
        identity.push(("disk of large files", "there".to_owned()));
    }
    if let Some(cards) = &plan.infiniband {
        let (generation, lanes) = cards.card(0).link;
        let link = format!("PCI Express {generation}.0 x{lanes}");
        identity.push(("InfiniBand card", link));
    }
    if let Some(slurm) = &plan.slurm {
        identity.push(("disk of Slurm", slurm.image.manifest.root.sha256.clone()));
    }
    identity
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The hash of this program, as another build may boot differently.
pub(crate) fn build() -> String {
    static BUILD: OnceLock<String> = OnceLock::new();
    let hash = || {
        let program = std::env::current_exe().and_then(File::open);
        let hash = program.and_then(|file| program_hash(&file));
        hash.map_or_else(|_| "unknown".to_owned(), |hash| format!("{hash:016x}"))
    };
    BUILD.get_or_init(hash).clone()
}

/// The hash of the parts of an ELF program that are loaded. Its symbols and debugging information are
/// several times as large.
fn program_hash(program: &File) -> io::Result<u64> {
    let cache = ReadCache::new(program);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).map_err(io::Error::other)?;
    let mut hash = XxHash3_64::new();
    let mut buffer = vec![0; 1 << 20];
    for segment in elf.segments() {
        let (start, length) = segment.file_range();
        for at in (start..start + length).step_by(buffer.len()) {
            let piece = buffer.len().min((start + length - at) as usize);
            program.read_exact_at(&mut buffer[..piece], at)?;
            hash.write(&buffer[..piece]);
        }
    }
    Ok(hash.finish())
}

/// The path of the snapshot for nodes of `plan` of this `kind`.
///
/// # Errors
/// If the environment names no folder.
pub fn path_of(plan: &Plan, kind: &NodeKind) -> Result<PathBuf, TemplateError> {
    let mut hash = XxHash3_128::new();
    for (name, value) in identity(plan, kind) {
        hash.write(format!("{name}\0{value}\0").as_bytes());
    }
    let name = format!("{:032x}.snapshot", hash.finish_128());
    Ok(belljar_images::user_folder("snapshots")?.join(name))
}

/// The snapshots for `plan`, one for each kind of nodes: the given ones, or the kept ones, which are made if they
/// are missing.
///
/// # Errors
/// See [`TemplateError`].
pub(crate) fn find_all(
    plan: &Plan,
    parts: &SharedParts,
    sandbox: Option<&Sandbox>,
) -> Result<Vec<Snapshot>, TemplateError> {
    let kinds = 0..plan.kinds().len();
    kinds.map(|kind| find(plan, kind, parts, sandbox)).collect()
}

fn find(
    plan: &Plan,
    number: usize,
    parts: &SharedParts,
    sandbox: Option<&Sandbox>,
) -> Result<Snapshot, TemplateError> {
    let kind = &plan.kinds()[number];
    if let Some(path) = plan.snapshots.get(number) {
        let snapshot = Snapshot::open(path)?;
        // A node booted under one engine can continue under another.
        snapshot.check_but(&identity(plan, kind), &["engine"])?;
        return Ok(snapshot);
    }
    let path = path_of(plan, kind)?;
    let _lock = lock(&path)?;
    if path.exists() {
        match usable(plan, kind, &path) {
            Ok(snapshot) => return Ok(snapshot),
            // Runs with clones of it keep their mappings.
            Err(why) => tracing::warn!("{why}; booting a node for a new snapshot"),
        }
    }
    make(plan, number, parts, sandbox, &path)?;
    prune(&path);
    Ok(usable(plan, kind, &path)?)
}

/// The snapshot at `path` for `plan`, if its content is intact.
fn usable(plan: &Plan, kind: &NodeKind, path: &Path) -> Result<Snapshot, SnapshotError> {
    let snapshot = Snapshot::open(path)?;
    snapshot.check(&identity(plan, kind))?;
    Ok(snapshot)
}

/// The paths of the snapshots for `plan`, one for each kind of nodes; missing ones are made. Empty if every node
/// boots.
///
/// # Errors
/// See [`TemplateError`].
pub fn files(plan: &Plan, sandbox: Option<&Sandbox>) -> Result<Vec<PathBuf>, TemplateError> {
    if plan.boot_each {
        return Ok(Vec::new());
    }
    find_all(plan, &SharedParts::of_template(plan)?, sandbox)?;
    if !plan.snapshots.is_empty() {
        return Ok(plan.snapshots.clone());
    }
    let kinds = plan.kinds().iter();
    kinds.map(|kind| path_of(plan, kind)).collect()
}

/// Boots the template for clones of `plan` of kind number `kind`, and writes its snapshot to `path`.
///
/// # Errors
/// See [`TemplateError`].
pub fn write(
    plan: &Plan,
    kind: usize,
    sandbox: Option<&Sandbox>,
    path: &Path,
) -> Result<(), TemplateError> {
    make(plan, kind, &SharedParts::of_template(plan)?, sandbox, path)
}

fn make(
    plan: &Plan,
    number: usize,
    parts: &SharedParts,
    sandbox: Option<&Sandbox>,
    path: &Path,
) -> Result<(), TemplateError> {
    tracing::info!("booting a node for the snapshot {}", path.display());
    let kind = &plan.kinds()[number];
    let node = parts.template(plan, number)?;
    // In a separate thread, whose filter ends with it.
    let booted = thread::scope(|scope| {
        let boot = scope.spawn(|| {
            sandbox.map_or(Ok(()), Sandbox::enter)?;
            boot(plan, kind, node)
        });
        boot.join()
    });
    let (mut node, log) = booted.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    node.write_snapshot(path, &identity(plan, kind), &log)?;
    Ok(())
}

/// Deletes the oldest snapshots next to `path`, except a number of the newest. Runs with clones continue, as
/// mapped memory outlives the file.
fn prune(path: &Path) {
    let age = |entry: &fs::DirEntry| entry.metadata().and_then(|data| data.modified()).ok();
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    let mut snapshots: Vec<_> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().extension() == path.extension())
        .filter_map(|entry| Some((age(&entry)?, entry.path())))
        .collect();
    snapshots.sort();
    for (_, old) in snapshots.iter().rev().skip(KEPT) {
        // Another process may have deleted it.
        let _ = fs::remove_file(old);
        let _ = fs::remove_file(old.with_extension("lock"));
    }
}

/// Runs the node until its init has sent the message and the kernel has settled; returns its console, too.
fn boot(plan: &Plan, kind: &NodeKind, mut node: Node) -> Result<(Node, Vec<u8>), TemplateError> {
    let (mut log, mut said) = (Vec::new(), Vec::new());
    let patience = match plan.engine {
        Engine::Exact => PATIENCE,
        Engine::Kvm => PATIENCE_ON_KVM,
    };
    while !said.ends_with(WORD) {
        let end = node.now() + STEP;
        let how = match run(&mut node, end)? {
            NodeStop::Limit if said.ends_with(b"ready\n") => {
                Some("its init finished instead".to_owned())
            }
            NodeStop::Limit if node.now() >= Time::ZERO + patience => {
                Some("it took too long".to_owned())
            }
            NodeStop::Limit => None,
            other => Some(format!("{other:?}")),
        };
        log.extend(node.take_console());
        said.extend(node.take_control());
        if let Some(how) = how {
            let console = String::from_utf8_lossy(&log[log.len().saturating_sub(LAST_WORDS)..]);
            return Err(TemplateError::NoWord {
                how,
                console: console.into_owned(),
            });
        }
    }
    let end = node.now() + SETTLING;
    let slices = if kind.vcpus > 1 {
        plan.slice.as_ps().max(1)
    } else {
        1
    };
    let end = Time::from_ps(end.as_ps().next_multiple_of(slices));
    while node.next_event().is_some_and(|next| next < end)
        && run(&mut node, end)? == NodeStop::Limit
    {}
    node.run_until(end)?;
    log.extend(node.take_console());
    node.take_frames();
    Ok((node, log))
}

/// Runs up to about `end`; calls are not traced here.
fn run(node: &mut Node, end: Time) -> Result<NodeStop, NodeError> {
    loop {
        match node.run_ahead(end, Span::MAX)? {
            NodeStop::Magic { .. } => node.pass_on_magic(),
            other => return Ok(other),
        }
    }
}

/// The lock that lets one process at a time make the snapshot.
fn lock(path: &Path) -> Result<File, TemplateError> {
    let lock = path.with_extension("lock");
    let failed = |source| TemplateError::Folder {
        path: lock.clone(),
        source,
    };
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    let file = File::create(&lock).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}
