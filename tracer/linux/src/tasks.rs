//! Processes and threads in a kernel's lists.
//!
//! The list of processes begins at `init_task`; a process's threads are in its `signal_struct`. A node may be
//! stopped in the middle of a change of a list, so that lists are followed up to their limit and never
//! trusted to be closed.

use std::collections::BTreeSet;

use crate::layout::Layout;
use crate::paging::{ADDRESS, PhysicalMemory, Space};

/// Base of the kernel's text mapping (`__START_KERNEL_map`), at which a kernel without randomization has
/// physical address zero.
const TEXT_MAP: u64 = 0xffff_ffff_8000_0000;
/// Most processes and threads that are listed.
const MOST_TASKS: usize = 1 << 16;
/// Longest name of a task.
const COMM: usize = 16;
/// Deepest path of a file, and longest name in it.
const DEEPEST: usize = 64;
const LONGEST: usize = 256;
/// Longest arguments and environment.
const MOST_TEXT: u64 = 1 << 20;
/// Bytes of the auxiliary vector.
const AUXV: usize = 8 * 2 * 24;
/// `EXIT_DEAD` and `EXIT_ZOMBIE`.
const EXITED: u32 = 0x30;

/// A kernel in the memory of a node.
#[derive(Clone, Copy)]
pub struct Kernel<'m> {
    pub(crate) layout: &'m Layout,
    pub(crate) space: Space<'m>,
    memory: &'m dyn PhysicalMemory,
    five: bool,
}

/// A thread of a process, or of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Linear address of its `task_struct`.
    pub task: u64,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
}

/// A process with memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Physical address of its page tables.
    pub tables: u64,
    /// Linear address of its `mm_struct`.
    pub(crate) memory: u64,
    /// Its threads, the first one first.
    pub threads: Vec<Thread>,
}

impl<'m> Kernel<'m> {
    /// The kernel of a node with this memory, whose page tables have five levels with `five`.
    pub fn new(layout: &'m Layout, memory: &'m dyn PhysicalMemory, five: bool) -> Self {
        let tables = layout.page_tables.wrapping_sub(TEXT_MAP);
        Self {
            layout,
            space: Space::new(memory, tables, five),
            memory,
            five,
        }
    }

    /// The kernel's own address space.
    pub fn space(&self) -> Space<'m> {
        self.space
    }

    /// The address space of `process`.
    pub fn space_of(&self, process: &Process) -> Space<'m> {
        Space::new(self.memory, process.tables, self.five)
    }

    /// The address space of the page tables to which `cr3` points.
    pub fn space_at(&self, cr3: u64) -> Space<'m> {
        Space::new(self.memory, cr3 & ADDRESS, self.five)
    }

    /// All processes that have memory of their own, in the order of the kernel's list; kernel threads have none.
    pub fn processes(&self) -> Vec<Process> {
        let offset = self.layout.task.tasks;
        let leaders = self.list(self.layout.init_task.wrapping_add(offset), offset);
        let processes = leaders.into_iter().filter_map(|task| self.process(task));
        processes.collect()
    }

    /// The thread that runs on processor `cpu`.
    pub fn current(&self, cpu: u32) -> Option<u64> {
        let base = self.layout.per_cpu.wrapping_add(8 * u64::from(cpu));
        let base = self.space.word(base)?;
        self.space.word(base.wrapping_add(self.layout.current))
    }

    fn process(&self, task: u64) -> Option<Process> {
        let of = &self.layout.task;
        let field = |offset: u64| self.space.word(task.wrapping_add(offset));
        let memory = field(of.mm).filter(|memory| *memory != 0)?;
        let tables = self
            .space
            .word(memory.wrapping_add(self.layout.memory.pgd))?;
        let direct = self.space.word(self.layout.direct_map)?;
        let head = field(of.signal)?.wrapping_add(self.layout.thread_head);
        let threads = self.list(head, of.thread_node);
        let mut threads: Vec<Thread> = threads.iter().filter_map(|it| self.thread(*it)).collect();
        if threads.is_empty() {
            threads.extend(self.thread(task));
        }
        Some(Process {
            pid: self.space.half(task.wrapping_add(of.tgid))?,
            tables: tables.wrapping_sub(direct),
            memory,
            threads,
        })
    }

    fn thread(&self, task: u64) -> Option<Thread> {
        let of = &self.layout.task;
        let state = self.space.half(task.wrapping_add(of.exit_state))?;
        (state & EXITED == 0).then_some(())?;
        Some(Thread {
            task,
            tid: self.space.half(task.wrapping_add(of.pid))?,
            name: self.space.text(task.wrapping_add(of.comm), COMM)?,
        })
    }

    /// The addresses of the structures in a list; `offset` is the offset of the list's node in each structure.
    fn list(&self, head: u64, offset: u64) -> Vec<u64> {
        let mut seen = BTreeSet::from([head]);
        let mut found = Vec::new();
        let mut at = head;
        while found.len() < MOST_TASKS
            && let Some(next) = self.space.word(at)
            && seen.insert(next)
        {
            found.push(next.wrapping_sub(offset));
            at = next;
        }
        found
    }

    /// The path of the program of `process`, through the mounts on its way.
    pub fn program(&self, process: &Process) -> Option<String> {
        let (of, path) = (&self.layout.memory, &self.layout.path);
        let word = |base: u64, offset: u64| self.space.word(base.wrapping_add(offset));
        let file = word(process.memory, of.exe_file)?;
        let mut mount = word(file, path.mount)?.wrapping_sub(path.mounted);
        let mut entry = word(file, path.dentry)?;
        let mut names = Vec::new();
        for _ in 0..DEEPEST {
            let parent = word(entry, path.parent)?;
            let root = word(mount, path.mounted.wrapping_add(path.mount_root))?;
            if entry == root || parent == entry {
                let outer = word(mount, path.mount_parent)?;
                if outer == mount {
                    names.reverse();
                    return Some(format!("/{}", names.join("/")));
                }
                entry = word(mount, path.mount_point)?;
                mount = outer;
                continue;
            }
            let name = word(entry, path.name)?;
            names.push(self.space.text(name, LONGEST)?);
            entry = parent;
        }
        None
    }

    /// The auxiliary vector of `process`, as the kernel passed it to the program.
    pub fn auxiliary_vector(&self, process: &Process) -> Option<Vec<u8>> {
        let at = process.memory.wrapping_add(self.layout.memory.auxv);
        let bytes = self.space.read(at, AUXV)?;
        let pairs = bytes.chunks_exact(16);
        let end = pairs.take_while(|pair| pair[..8] != [0; 8]).count();
        let mut vector = bytes[..16 * end].to_vec();
        vector.extend([0; 16]);
        Some(vector)
    }

    /// The arguments of `process`.
    pub fn arguments(&self, process: &Process) -> Vec<String> {
        let of = &self.layout.memory;
        self.texts(process, of.arg_start, of.arg_end)
    }

    /// The environment of `process` at its start.
    pub fn environment(&self, process: &Process) -> Vec<String> {
        let of = &self.layout.memory;
        self.texts(process, of.env_start, of.env_end)
    }

    /// Texts of a process between two addresses in its `mm_struct`; none if they are swapped out or invalid.
    fn texts(&self, process: &Process, start: u64, end: u64) -> Vec<String> {
        let field = |offset: u64| self.space.word(process.memory.wrapping_add(offset));
        let range = field(start).zip(field(end));
        let range = range.filter(|(start, end)| start < end && end - start <= MOST_TEXT);
        let Some((start, end)) = range else {
            return Vec::new();
        };
        let bytes = self.space_of(process).read(start, (end - start) as usize);
        let bytes = bytes.unwrap_or_default();
        let texts = bytes
            .split(|byte| *byte == 0)
            .filter(|text| !text.is_empty());
        let texts = texts.map(|text| String::from_utf8_lossy(text).into_owned());
        texts.collect()
    }
}
