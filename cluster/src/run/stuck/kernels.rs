//! Processes and waits of the nodes, from their kernels' data.
//!
//! The layout of a kernel's data is read from the kernel's file when it is first needed, because most runs do not need it. Used by the
//! watch for stuck ranks.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use belljar_linux::{Kernel, Layout, PhysicalMemory, Process, Space, Thread};
use belljar_trace::LostProcess;
use belljar_tracer::{ActiveProcess, BadAddress, GuestMemory, object_name};
use belljar_vmm::{KernelImage, Node};

use super::linked;
use crate::plan::Plan;

/// CR4's bit for page tables of five levels.
const FIVE_LEVELS: u64 = 1 << 12;
/// The address bits of the base of page tables.
const TABLES: u64 = 0x000f_ffff_ffff_f000;

/// A second in picoseconds.
const SECOND_PS: u64 = 1_000_000_000_000;
/// Programs of Open MPI's launcher. Its main thread ends jobs, and waits without a timeout unless it is about to.
const LAUNCHERS: [&str; 5] = ["orterun", "orted", "prterun", "prte", "prted"];
/// Offsets at which versions of glibc have a thread's first function in `struct pthread`, to which FS points.
const START_ROUTINE: [u64; 3] = [0x630, 0x638, 0x640];
/// Libraries of Open MPI with such threads.
const LIBRARIES: [&str; 4] = ["libopen-pal.", "libopen-rte.", "libpmix.", "libprrte."];

/// Threads besides those in MPI calls, each with its node, its number and its count of runs.
pub(crate) type WaitingThreads = Vec<(u32, u32, u64)>;

/// A kernel's file, and the layout of its data once it was needed.
enum KernelFile {
    Unread(PathBuf, File),
    Read(Option<Box<Layout>>),
}

/// The kernels of a run's nodes.
pub(crate) struct Kernels {
    /// By image.
    files: Vec<KernelFile>,
    /// The image of each node.
    images: Vec<usize>,
    /// The run's limit, in seconds.
    life: u64,
}

/// A node's RAM.
struct NodeMemory<'n>(&'n Node);

impl PhysicalMemory for NodeMemory<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let bytes = self.0.read_physical(address, into.len());
        bytes.map(|bytes| into.copy_from_slice(&bytes)).is_some()
    }
}

/// A process's memory.
struct ProcessMemory<'n>(Space<'n>);

impl GuestMemory for ProcessMemory<'_> {
    fn read(&self, linear: u64, into: &mut [u8]) -> Result<(), BadAddress> {
        let count = self.0.read_some(linear, into);
        (count == into.len())
            .then_some(())
            .ok_or(BadAddress(linear))
    }

    fn write(&mut self, linear: u64, _: &[u8]) -> Result<(), BadAddress> {
        Err(BadAddress(linear))
    }
}

/// The processes of a node.
#[derive(Debug, Default)]
pub(crate) struct NodeWaits {
    /// Threads besides those in MPI calls; `None` if one may act by itself.
    pub(crate) threads: Option<WaitingThreads>,
    /// MPI processes that have ended.
    pub(crate) lost: Vec<LostProcess>,
}

impl Kernels {
    /// Opens the kernels of the images of `plan`.
    pub(super) fn open(plan: &Plan) -> io::Result<Self> {
        let files = plan.images.iter().map(|it| {
            let path = it.image.kernel.clone();
            let file = File::open(&path)?;
            Ok(KernelFile::Unread(path, file))
        });
        Ok(Self {
            files: files.collect::<io::Result<_>>()?,
            life: plan.limit.as_ps().div_ceil(SECOND_PS),
            images: (0..plan.nodes)
                .map(|node| plan.kind_of(node).image)
                .collect(),
        })
    }

    fn layout(&mut self, node: u32) -> Option<&Layout> {
        let image = *self.images.get(node as usize)?;
        let file = self.files.get_mut(image)?;
        if let KernelFile::Unread(path, contents) = file {
            let mut bytes = Vec::new();
            let read = contents.read_to_end(&mut bytes).ok();
            let kernel = read.and_then(|_| KernelImage::from_bytes(path, &bytes).ok());
            let layout = kernel.and_then(|kernel| Layout::of(kernel.contents()).ok());
            *file = KernelFile::Read(layout.map(Box::new));
        }
        match file {
            KernelFile::Read(layout) => layout.as_deref(),
            KernelFile::Unread(..) => None,
        }
    }

    /// The processes of node number `number`, of which `active` use MPI. Without the layout of its kernel's data, any thread may act.
    pub(crate) fn waits(
        &mut self,
        number: u32,
        node: &Node,
        active: &[ActiveProcess],
    ) -> NodeWaits {
        let life = self.life;
        let Some(layout) = self.layout(number) else {
            return NodeWaits::default();
        };
        let memory = NodeMemory(node);
        let five = node.system().cr4 & FIVE_LEVELS != 0;
        let kernel = Kernel::new(layout, &memory, five);
        let processes = kernel.processes();
        let own = |process: &Process| {
            let tables = process.tables & TABLES;
            active.iter().find(|it| it.tables == tables)
        };
        let lives = |of: &ActiveProcess| {
            let mut all = processes.iter();
            let process = all.find(|process| process.tables & TABLES == of.tables);
            // Another process may have the page tables of one that has ended.
            process.is_some_and(|it| of.end.is_none() || is_same(&kernel, it, of))
        };
        let lost = active.iter().filter(|of| !lives(of));
        let lost = lost.map(|of| LostProcess {
            node: number,
            process: of.process,
            status: of.end,
        });
        let lost: Vec<LostProcess> = lost.collect();
        let mut threads = Vec::new();
        let is_still = !processes.is_empty()
            && processes.iter().all(|process| {
                let waiting = waiting_threads(&kernel, process, own(process), life);
                let is_still = waiting.is_some();
                let waiting = waiting.into_iter().flatten();
                threads.extend(waiting.map(|(thread, count)| (number, thread, count)));
                is_still
            });
        NodeWaits {
            threads: is_still.then_some(threads),
            lost,
        }
    }
}

/// True if a process has a thread that has called MPI in `of`.
fn is_same(kernel: &Kernel<'_>, process: &Process, of: &ActiveProcess) -> bool {
    let pointers = process.threads.iter();
    let mut pointers = pointers.filter_map(|thread| kernel.thread_pointer(thread));
    pointers.any(|pointer| of.threads.contains(&pointer))
}

/// True for a process of Open MPI's launcher.
fn is_launcher(kernel: &Kernel<'_>, process: &Process) -> bool {
    let program = kernel.program(process).unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    LAUNCHERS.contains(&name)
}

/// True for a thread that Open MPI's own libraries started for events of its launcher, or the image's own library for
/// `MPI_Finalize`. It calls none of the program's functions, and moves messages that arrive.
fn is_of_library(kernel: &Kernel<'_>, process: &Process, thread: &Thread) -> bool {
    let space = kernel.space_of(process);
    let Some(base) = kernel.thread_pointer(thread) else {
        return false;
    };
    let words = START_ROUTINE.iter();
    let words = words.filter_map(|offset| space.word(base.wrapping_add(*offset)));
    let words: Vec<u64> = words.collect();
    let mut of_image = words.iter();
    if of_image.any(|word| linked::is_of_image(kernel, process, *word)) {
        return true;
    }
    let words = words.into_iter();
    let mut objects = words.filter_map(|word| object_name(word, &ProcessMemory(space)));
    objects
        .next()
        .is_some_and(|name| LIBRARIES.iter().any(|library| name.starts_with(library)))
}

/// Numbers and counts of runs of the threads of a process that are not inside calls; `None` if one may act by itself. `own` are its
/// calls if it uses MPI. Open MPI sleeps for short times in `MPI_Finalize`; the analysis leaves out programs whose functions are called
/// there.
fn waiting_threads(
    kernel: &Kernel<'_>,
    process: &Process,
    own: Option<&ActiveProcess>,
    life: u64,
) -> Option<Vec<(u32, u64)>> {
    let inside = own.map_or(&[][..], |own| &own.inside);
    let ends = own.is_some_and(|own| own.ends);
    let is_inside = |thread: &Thread| {
        let pointer = kernel.thread_pointer(thread);
        pointer.is_some_and(|pointer| inside.contains(&pointer))
    };
    let mut callers = process.threads.iter().filter(|thread| is_inside(thread));
    let is_timed = |it: &Thread| !ends && kernel.sleeps_for_a_time(it);
    if !kernel.is_without_timers(process) || callers.any(is_timed) {
        return None;
    }
    let has_library_threads = !inside.is_empty() || is_launcher(kernel, process);
    let is_of_library =
        |thread: &Thread| has_library_threads && is_of_library(kernel, process, thread);
    let others = process.threads.iter();
    let others = others.filter(|it| !is_inside(it) && !is_of_library(it));
    let others = others.map(|thread| {
        let sleeps = kernel.sleeps_endlessly(process, thread, life);
        let count = kernel.switches(thread).filter(|_| sleeps)?;
        Some((thread.tid, count))
    });
    others.collect()
}
