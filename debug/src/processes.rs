//! Processes and threads of all nodes, with numbers that are unique in the cluster.
//!
//! The lists are read from the nodes' kernels for each request, so they are those of the present position. Called by
//! the session's target and movements.

use belljar_cluster::observe::timeline::{BreakFilter, Breakpoint};
use belljar_gdb::ThreadId;
use belljar_linux::{Kernel, PhysicalMemory, Process, Thread};
use belljar_vmm::Node;

use crate::place::name_of;
use crate::session::Session;

/// The distance of the numbers of processes of neighbouring nodes. Linux has at most 4,194,304 processes.
pub(crate) const APART: u64 = 10_000_000;
/// CR4's bit for page tables of five levels.
const FIVE_LEVELS: u64 = 1 << 12;
/// Variables by which launchers pass a process its rank, and the job's size.
const RANKS: [&str; 4] = [
    "PMI_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
];
const SIZES: [&str; 3] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"];

/// A node's RAM.
pub(crate) struct NodeMemory<'n>(pub(crate) &'n Node);

impl PhysicalMemory for NodeMemory<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let bytes = self.0.read_physical(address, into.len());
        bytes.map(|bytes| into.copy_from_slice(&bytes)).is_some()
    }
}

/// A process of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodeProcess {
    pub(crate) node: u32,
    pub(crate) rank: Option<u32>,
    pub(crate) process: Process,
}

impl NodeProcess {
    /// Its number in the debugger.
    pub(crate) fn number(&self) -> u64 {
        u64::from(self.node) * APART + u64::from(self.process.pid)
    }

    /// The number of one of its threads in the debugger.
    pub(crate) fn thread(&self, thread: &Thread) -> ThreadId {
        ThreadId {
            pid: self.number(),
            tid: u64::from(self.node) * APART + u64::from(thread.tid),
        }
    }
}

impl Session {
    /// Calls `work` with the kernel of `node`.
    pub(crate) fn with_kernel<T>(
        &self,
        node: u32,
        work: impl FnOnce(&Kernel<'_>, &Node) -> T,
    ) -> T {
        let runner = self.timeline.runner(node);
        let node_ref = runner.node();
        let memory = NodeMemory(node_ref);
        let five = node_ref.system().cr4 & FIVE_LEVELS != 0;
        let layout = &self.layouts[self.image_of(node)];
        work(&Kernel::new(layout, &memory, five), node_ref)
    }

    /// Processes of ranks, by rank.
    pub(crate) fn rank_processes(&self) -> Vec<NodeProcess> {
        let mut ranks: Vec<_> = self.all_processes();
        ranks.retain(|process| process.rank.is_some());
        ranks.sort_by_key(|process| (process.rank, process.node, process.process.pid));
        ranks
    }

    /// The processes that the debugger sees: ranks; all processes if there are none, or if all are to be shown.
    pub(crate) fn processes(&mut self) -> Vec<NodeProcess> {
        let ranks = self.rank_processes();
        let shown = match ranks.is_empty() || self.shows_all {
            true => self.all_processes(),
            false => ranks,
        };
        for process in &shown {
            let place = (process.node, process.process.tables);
            self.spaces.insert(process.number(), place);
        }
        shown
    }

    fn all_processes(&self) -> Vec<NodeProcess> {
        let nodes = 0..self.timeline.plan().nodes;
        let processes = nodes.flat_map(|node| {
            self.with_kernel(node, |kernel, _| {
                let processes = kernel.processes().into_iter();
                let processes = processes.map(|process| NodeProcess {
                    node,
                    rank: variable(kernel, &process, &RANKS),
                    process,
                });
                processes.collect::<Vec<_>>()
            })
        });
        processes.collect()
    }

    /// The number of ranks that a rank's launcher started; `None` before the first rank.
    pub(crate) fn job_size(&self) -> Option<u64> {
        let ranks = self.rank_processes();
        let sizes = ranks.iter().filter_map(|rank| {
            self.with_kernel(rank.node, |kernel, _| {
                variable(kernel, &rank.process, &SIZES).map(u64::from)
            })
        });
        sizes.max()
    }

    /// A process and one of its threads by their numbers.
    pub(crate) fn find(&mut self, id: ThreadId) -> Option<(NodeProcess, Thread)> {
        let processes = self.processes();
        processes.into_iter().find_map(|process| {
            let threads = process.process.threads.iter();
            let mut threads = threads.filter(|thread| process.thread(thread) == id);
            let thread = threads.next()?.clone();
            Some((process, thread))
        })
    }

    /// The thread that runs on a node, if it is one that the debugger sees.
    pub(crate) fn running(&mut self, node: u32) -> Option<ThreadId> {
        let task = self.with_kernel(node, |kernel, node| kernel.current(node.current_vcpu()))?;
        let processes = self.processes();
        let mut processes = processes.iter().filter(|process| process.node == node);
        processes.find_map(|process| {
            let mut threads = process.process.threads.iter();
            let thread = threads.find(|thread| thread.task == task)?;
            Some(process.thread(thread))
        })
    }

    /// Breakpoints where the kernels end the processes that the debugger has seen.
    pub(crate) fn exits(&self) -> Vec<Breakpoint> {
        self.kernel_breakpoints("do_exit")
    }

    /// Breakpoints at a function of the kernels, for the processes that the debugger has seen.
    pub(crate) fn kernel_breakpoints(&self, function: &str) -> Vec<Breakpoint> {
        let all = self.spaces.values().filter_map(|&(node, tables)| {
            let layout = &self.layouts[self.image_of(node)];
            Some(Breakpoint {
                node,
                address: layout.function(function)?,
                filter: BreakFilter {
                    space: Some(tables),
                    thread: None,
                },
            })
        });
        all.collect()
    }

    /// A thread in words: rank, node, name, and the MPI call that it is in.
    pub(crate) fn describe_thread(&mut self, id: ThreadId) -> String {
        if let Some(kernel) = self.kernel_thread(id) {
            return format!("kernel of node {}, processor {}", kernel.node, kernel.vcpu);
        }
        let Some((process, thread)) = self.find(id) else {
            return "gone".to_owned();
        };
        let mut text = match process.rank {
            Some(rank) => format!("rank {rank}, node {}, {}", process.node, thread.name),
            None => format!("node {}, {}", process.node, thread.name),
        };
        let mut calls = self.open_calls().into_iter();
        let own = |call: &belljar_trace::Event| {
            Some(call.rank) == process.rank && call.node == process.node && call.depth == 0
        };
        if let Some(call) = calls.rfind(own) {
            text.push_str(&format!(", in {}", name_of(call.function)));
        }
        text
    }
}

/// The number in the first of these variables that the environment of `process` has.
fn variable(kernel: &Kernel<'_>, process: &Process, names: &[&str]) -> Option<u32> {
    let environment = kernel.environment(process);
    let value = |name: &&str| {
        let variables = environment.iter().filter_map(|text| text.split_once('='));
        let mut own = variables.filter(|(variable, _)| variable == name);
        own.next().and_then(|(_, value)| value.parse().ok())
    };
    names.iter().find_map(value)
}
