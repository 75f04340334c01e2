//! The subject of a debugger: processes and threads that stop together and move along one time.
//!
//! The server calls a target for one packet at a time. All threads stand still between movements, and nothing in the
//! interface changes their registers or memory.

use std::sync::atomic::AtomicBool;

use crate::description::Registers;

/// A thread. Numbers of processes and threads are positive, and a thread's number is unique in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// Number of the process.
    pub pid: u64,
    /// Number of the thread.
    pub tid: u64,
}

/// A breakpoint of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breakpoint {
    /// Number of the process.
    pub pid: u64,
    /// Address of an instruction.
    pub address: u64,
}

/// The accesses to watched memory that stop a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchedAccesses {
    /// Stores.
    Stores,
    /// Loads.
    Loads,
    /// Both.
    All,
}

/// A watchpoint of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedRange {
    /// Number of the process.
    pub pid: u64,
    /// Address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// The accesses that count.
    pub accesses: WatchedAccesses,
}

/// A movement of all threads along the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// Forwards to a breakpoint.
    Continue,
    /// Forwards by one instruction of this thread.
    Step(ThreadId),
    /// Backwards to a breakpoint.
    ReverseContinue,
    /// Backwards by one instruction of this thread.
    ReverseStep(ThreadId),
}

/// The reason why threads stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The thread is at a breakpoint.
    Breakpoint,
    /// The thread has accessed watched memory at this address; backwards, it is about to.
    Accessed(u64, WatchedAccesses),
    /// The thread was stepped.
    Stepped,
    /// The movement ended for another reason.
    Stopped,
    /// The thread has received a signal, by its number on Linux.
    Signal(u8),
    /// The debugger interrupted the movement.
    Interrupted,
    /// The libraries of the thread's process have changed. The next movement ends at once, with the reason for this stop.
    Libraries,
    /// The time begins here.
    Start,
    /// The time ends here.
    End,
    /// A process ended: its number, and the status of its exit or the signal.
    Exited {
        /// Number of the process.
        pid: u64,
        /// Its exit code; or the number of the signal that killed it.
        status: Result<u8, u8>,
    },
}

/// The end of a movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The thread that the debugger is to show.
    pub thread: ThreadId,
    /// The reason.
    pub cause: Cause,
}

/// The subject of a debugger. Errors are texts for the user.
pub trait Target {
    /// All threads, those of a process together.
    fn threads(&mut self) -> Vec<ThreadId>;

    /// The thread that the debugger is to show at first.
    fn current(&mut self) -> ThreadId;

    /// A description of a thread for the user.
    fn describe(&mut self, thread: ThreadId) -> String;

    /// The registers of a thread; `None` if there is no such thread.
    fn registers(&mut self, thread: ThreadId) -> Option<Registers>;

    /// Reads memory of a thread's process, as many of `length` bytes as are mapped.
    fn read_memory(&mut self, thread: ThreadId, address: u64, length: usize) -> Vec<u8>;

    /// Replaces all breakpoints.
    fn set_breakpoints(&mut self, breakpoints: &[Breakpoint]);

    /// Replaces all watchpoints.
    fn set_watchpoints(&mut self, watched: &[WatchedRange]);

    /// Moves until a reason to stop, or until `stop` is set.
    ///
    /// # Errors
    /// If the target cannot move any more.
    fn resume(&mut self, movement: Movement, stop: &AtomicBool) -> Result<Stop, String>;

    /// Output of the target's programs since the last call.
    fn take_output(&mut self) -> Vec<u8>;

    /// The auxiliary vector of a process.
    fn auxiliary_vector(&mut self, pid: u64) -> Option<Vec<u8>>;

    /// The path of a process's program.
    fn program(&mut self, pid: u64) -> Option<String>;

    /// The content of a file that the target's processes see.
    fn file(&mut self, path: &str) -> Option<Vec<u8>>;

    /// Executes a command of the user's that the debugger does not know; returns its output.
    fn command(&mut self, command: &str) -> String;
}
