//! The session as a debugger's target.
//!
//! Each request is answered for the present position; other nodes are brought to it first if the request is about
//! them. Called by the connection.

use std::sync::atomic::AtomicBool;

use belljar_cluster::observe::timeline::{BreakFilter, Breakpoint};
use belljar_gdb::{
    Breakpoint as Requested, Movement, Registers, Stop, Target, ThreadId, WatchedRange,
};

use crate::place::Place;
use crate::session::Session;

/// The commands of `monitor`.
const HELP: &str = "monitor where        the present position, and each rank's call\n\
monitor goto PLACE   the next stepi goes to PLACE: start, end, init, a time\n\
                     such as 1.5 ms, a call such as rank 3, MPI_Recv #17,\n\
                     send or receive: the other side of the message at which\n\
                     the selected rank is (send #2 of a call with several)\n\
monitor hash         hashes of the nodes' states\n\
monitor processes    numbers of the processes to which gdb can attach\n";

impl Target for Session {
    fn threads(&mut self) -> Vec<ThreadId> {
        let processes = self.processes();
        let threads = processes.iter().flat_map(|process| {
            let threads = process.process.threads.iter();
            threads.map(|thread| process.thread(thread))
        });
        let threads: Vec<ThreadId> = threads.collect();
        threads.into_iter().chain(self.kernel_threads()).collect()
    }

    fn current(&mut self) -> ThreadId {
        self.current_thread()
    }

    fn describe(&mut self, thread: ThreadId) -> String {
        self.describe_thread(thread)
    }

    fn registers(&mut self, thread: ThreadId) -> Option<Registers> {
        self.registers_of(thread)
    }

    fn read_memory(&mut self, thread: ThreadId, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        if let Some(kernel) = self.kernel_thread(thread) {
            let read = self.with_kernel_space(kernel, |space| space.read_some(address, &mut bytes));
            bytes.truncate(read.unwrap_or(0));
            return bytes;
        }
        let Some((process, _)) = self.find(thread) else {
            return Vec::new();
        };
        if self.settle_for(process.node).is_err() {
            return Vec::new();
        }
        let read = self.with_kernel(process.node, |kernel, _| {
            let space = kernel.space_of(&process.process);
            space.read_some(address, &mut bytes)
        });
        bytes.truncate(read);
        bytes
    }

    fn set_breakpoints(&mut self, breakpoints: &[Requested]) {
        let placed = breakpoints.iter().filter_map(|wanted| {
            if let Some(own) = self.kernel_breakpoint(wanted.pid, wanted.address) {
                return Some(own);
            }
            let &(node, tables) = self.spaces.get(&wanted.pid)?;
            let loader = self.loaders.get(&wanted.pid);
            if loader.is_some_and(|loader| loader.contains(wanted.address)) {
                return None;
            }
            Some(Breakpoint {
                node,
                address: wanted.address,
                filter: BreakFilter {
                    space: Some(tables),
                    thread: None,
                },
            })
        });
        self.breakpoints = placed.collect();
    }

    fn set_watchpoints(&mut self, watched: &[WatchedRange]) {
        self.watched = watched.to_vec();
        self.place_watchpoints();
    }

    fn resume(&mut self, movement: Movement, stop: &AtomicBool) -> Result<Stop, String> {
        let moved = self.execute(movement, stop);
        moved.map_err(|error| error.to_string())
    }

    fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    fn auxiliary_vector(&mut self, pid: u64) -> Option<Vec<u8>> {
        let processes = self.processes();
        let process = processes
            .into_iter()
            .find(|process| process.number() == pid)?;
        // The debugger reads the list of libraries next.
        if let Some(loader) = self.loader_of(&process) {
            self.loaders.insert(pid, loader);
        }
        self.with_kernel(process.node, |kernel, _| {
            kernel.auxiliary_vector(&process.process)
        })
    }

    fn program(&mut self, pid: u64) -> Option<String> {
        if let Some(path) = self.kernel_path(pid) {
            return Some(path);
        }
        let processes = self.processes();
        let process = processes
            .into_iter()
            .find(|process| process.number() == pid)?;
        self.with_kernel(process.node, |kernel, _| kernel.program(&process.process))
    }

    fn file(&mut self, path: &str) -> Option<Vec<u8>> {
        self.kernel_file(path).or_else(|| self.guest_file(path))
    }

    fn command(&mut self, command: &str) -> String {
        // Any node may be shown.
        if let Err(error) = self.timeline.settle() {
            return format!("{error}\n");
        }
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        match word {
            "where" => self.whereabouts(),
            "hash" => self.hashes(),
            "processes" => {
                let processes = self.processes();
                let mut numbers: Vec<u64> = processes.iter().map(|it| it.number()).collect();
                numbers.extend(self.kernel_threads().iter().map(|thread| thread.pid));
                numbers.dedup();
                numbers.iter().map(|number| format!("{number}\n")).collect()
            }
            // gdb passes the quotation marks of arguments.
            "goto" => match rest.trim().trim_matches(['"', '\'']).parse::<Place>() {
                Ok(place) => {
                    self.pending = Some(place);
                    "the next stepi goes there\n".to_owned()
                }
                Err(error) => format!("{error}\n"),
            },
            _ => HELP.to_owned(),
        }
    }
}

impl Session {
    /// The present position, and the state of each rank.
    fn whereabouts(&mut self) -> String {
        let mut text = format!("{}\n", self.position_text());
        for process in self.processes() {
            let first = process.process.threads.first();
            if let Some(thread) = first.map(|thread| process.thread(thread)) {
                text.push_str(&format!("{}\n", self.describe_thread(thread)));
            }
        }
        text
    }
}
