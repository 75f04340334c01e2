//! Watched memory of processes.
//!
//! The engine finds accesses by the physical address of the process's page. So stores count that the kernel makes for the process, that
//! other processes make to shared memory, and that devices make; the debugger's output names them. Called by the session's target and
//! movements.

use belljar_cluster::observe::timeline::{NodeWatchpoint, WatchedAccess};
use belljar_cpu::{WatchKind, Watchpoint};
use belljar_gdb::{Cause, Stop, ThreadId, WatchedAccesses, WatchedRange};

use crate::processes::NodeProcess;
use crate::session::Session;

impl Session {
    /// Passes the debugger's watchpoints on to the nodes.
    pub(crate) fn place_watchpoints(&mut self) {
        let placed = self.watched.iter().filter_map(|range| {
            let &(node, space) = self.spaces.get(&range.pid)?;
            let kind = match range.accesses {
                WatchedAccesses::Stores => WatchKind::Write,
                WatchedAccesses::Loads => WatchKind::Read,
                WatchedAccesses::All => WatchKind::Access,
            };
            let watchpoint = Watchpoint {
                space,
                linear: range.address,
                bytes: range.length,
                kind,
            };
            Some(NodeWatchpoint { node, watchpoint })
        });
        let placed = placed.collect();
        self.timeline.set_watchpoints(placed);
    }

    /// The present values of watched ranges, for comparison after a step.
    pub(crate) fn watched_values(&mut self) -> Vec<(WatchedRange, Option<Vec<u8>>)> {
        if self.watched.is_empty() {
            return Vec::new();
        }
        let processes = self.processes();
        let ranges = self.watched.clone().into_iter();
        let values = ranges.map(|range| {
            let mut own = processes.iter().filter(|it| it.number() == range.pid);
            let value = own.next().and_then(|it| {
                self.with_kernel(it.node, |kernel, _| {
                    let space = kernel.space_of(&it.process);
                    space.read(range.address, range.length as usize)
                })
            });
            (range, value)
        });
        values.collect()
    }

    /// The stop of `thread` if a step has changed one of these values.
    pub(crate) fn changed_since(
        &mut self,
        before: &[(WatchedRange, Option<Vec<u8>>)],
        thread: ThreadId,
    ) -> Option<Stop> {
        if before.is_empty() {
            return None;
        }
        let now = self.watched_values();
        let both = before.iter().zip(&now);
        let mut changed = both.filter(|(before, now)| {
            before.0.accesses != WatchedAccesses::Loads && before.1.is_some() && before.1 != now.1
        });
        let ((range, _), _) = changed.next()?;
        self.shown = Some(thread);
        Some(Stop {
            thread,
            cause: Cause::Accessed(range.address, range.accesses),
        })
    }

    /// The stop at an access to watched memory of the node that has stopped.
    pub(crate) fn stop_at_access(&mut self, address: u64, access: WatchedAccess) -> Stop {
        let node = self.timeline.position().node;
        let range = self.range_at(node, address);
        let owner = range.map(|range| range.pid);
        let processes = self.processes();
        let owner = processes
            .iter()
            .find(|process| Some(process.number()) == owner);
        let running = self.running(node);
        let own = running.filter(|thread| {
            access.device.is_none() && owner.is_none_or(|it| it.number() == thread.pid)
        });
        self.say_who_accessed(node, access, owner, own);
        let first = owner.and_then(|process| {
            let thread = process.process.threads.first()?;
            Some(process.thread(thread))
        });
        let thread = own
            .or(first)
            .or(running)
            .unwrap_or_else(|| self.current_thread());
        self.shown = Some(thread);
        let kind = match (range.map(|range| range.accesses), access.write) {
            (Some(kind), _) => kind,
            (None, true) => WatchedAccesses::Stores,
            (None, false) => WatchedAccesses::Loads,
        };
        Stop {
            thread,
            cause: Cause::Accessed(address, kind),
        }
    }

    /// The range of a process of `node` that begins at `address`.
    fn range_at(&self, node: u32, address: u64) -> Option<WatchedRange> {
        let mut ranges = self.watched.iter().filter(|range| {
            let owner = self.spaces.get(&range.pid);
            range.address == address && owner.is_some_and(|(own, _)| *own == node)
        });
        ranges.next().copied()
    }

    /// Names the origin of an access that is not user code of `own`, a thread of the memory's owner.
    fn say_who_accessed(
        &mut self,
        node: u32,
        access: WatchedAccess,
        owner: Option<&NodeProcess>,
        own: Option<ThreadId>,
    ) {
        let verb = if access.write { "wrote" } else { "read" };
        let whose = match owner.and_then(|process| process.rank) {
            Some(rank) => format!("watched memory of rank {rank}"),
            None => "watched memory".to_owned(),
        };
        let said = match (access.device, self.kernel_place(node), own) {
            (Some(time), ..) => format!("a device of node {node} {verb} {whose} at {time}"),
            (None, Some(function), _) => {
                format!("the kernel of node {node} {verb} {whose} in {function}")
            }
            (None, None, Some(_)) => return,
            (None, None, None) => format!("another process of node {node} {verb} {whose}"),
        };
        let said = format!("belljar: {said}\n");
        self.output.extend(said.bytes());
    }

    /// The function of the kernel that a node executes; `None` in user code.
    fn kernel_place(&self, node: u32) -> Option<String> {
        let runner = self.timeline.runner(node);
        let system = runner.node().system();
        if system.segments[1].selector & 3 != 0 {
            return None;
        }
        let rip = runner.node().registers().rip;
        let symbols = self.kernels[self.image_of(node)].as_ref();
        let function = symbols.and_then(|symbols| symbols.function(rip));
        Some(function.map_or_else(|| format!("{rip:#x}"), str::to_owned))
    }
}
