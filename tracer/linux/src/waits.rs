//! Threads that nothing but another thread can wake.
//!
//! A thread sleeps without end if it is in a system call without a timeout, and its process has no timer. A timeout that is longer than
//! the guest's life is none. The system call and its arguments are in the registers that the kernel saved. The list of system calls is a selection: every other one counts as one that
//! may end by itself. Used by runs that detect jobs in which no rank can proceed.

use crate::layout::WaitOffsets;
use crate::tasks::{Kernel, Process, Thread};
use crate::threads::UserRegisters;

/// `TASK_INTERRUPTIBLE` and `TASK_UNINTERRUPTIBLE`.
const ASLEEP: u32 = 3;
/// Most open files of a process that are examined; a process with more may have timers.
const MOST_FILES: u32 = 1 << 12;
/// `RLIMIT_CPU` and `RLIMIT_RTTIME`: the kernel signals a process that has used its time.
const TIME_LIMITS: [u64; 2] = [0, 15];
/// Registers by their positions in [`UserRegisters::general`].
const RDX: usize = 2;
const RSI: usize = 6;
const RDI: usize = 7;
const R8: usize = 8;
const R10: usize = 10;
/// The part of a futex's operation without flags, and the operations that wait.
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAITS: [u64; 2] = [0, 9];
/// `MAX_SCHEDULE_TIMEOUT`.
const FOREVER: u64 = i64::MAX as u64;

/// The longest wait of libevent, in milliseconds, which it uses without timers and for timers that are later.
const LIBEVENT: u64 = 35 * 60 * 1000;

/// The bound of a system call's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// None.
    Endless,
    /// Milliseconds.
    Milliseconds(u64),
    /// The `timespec` or `timeval` at this address, whose first word is seconds.
    Seconds(u64),
    /// The one of a file, which may be a socket with a timeout for receiving.
    File(u64),
    /// Unknown.
    Unknown,
}

/// The bound of the wait in the system call with these registers at its entry, as x86-64 numbers system calls.
fn wait_of(registers: &UserRegisters) -> Wait {
    let argument = |register: usize| registers.general[register];
    // A null pointer is no timeout.
    let time = |pointer: u64| match pointer {
        0 => Wait::Endless,
        _ => Wait::Seconds(pointer),
    };
    match registers.system_call {
        // read, accept, recvfrom, recvmsg, accept4.
        0 | 43 | 45 | 47 | 288 => Wait::File(argument(RDI)),
        // pause, wait4, rt_sigsuspend, waitid.
        34 | 61 | 130 | 247 => Wait::Endless,
        // poll; epoll_wait and epoll_pwait.
        7 => milliseconds(argument(RDX)),
        232 | 281 => milliseconds(argument(R10)),
        // select, pselect6; ppoll, rt_sigtimedwait; epoll_pwait2; nanosleep.
        23 | 270 => time(argument(R8)),
        271 | 128 => time(argument(RDX)),
        441 => time(argument(R10)),
        35 => time(argument(RDI)),
        // clock_nanosleep until a time from now.
        230 if argument(RSI) == 0 => time(argument(RDX)),
        202 if FUTEX_WAITS.contains(&(argument(RSI) & FUTEX_COMMAND)) => match argument(R10) {
            0 => Wait::Endless,
            _ => Wait::Unknown,
        },
        _ => Wait::Unknown,
    }
}

/// The timeout in an `int`; a negative one is none.
fn milliseconds(word: u64) -> Wait {
    let count = u64::try_from((word as u32).cast_signed());
    count.map_or(Wait::Endless, Wait::Milliseconds)
}

impl Kernel<'_> {
    /// The number of times that `thread` was given a processor and lost it again. Unchanged if it has not run since.
    pub fn switches(&self, thread: &Thread) -> Option<u64> {
        let of = self.layout.wait?;
        let count = |offset: u64| self.space.word(thread.task.wrapping_add(offset));
        Some(count(of.voluntary)?.wrapping_add(count(of.involuntary)?))
    }

    /// The base of the FS segment of `thread`: its thread pointer.
    pub fn thread_pointer(&self, thread: &Thread) -> Option<u64> {
        let at = thread.task.wrapping_add(self.layout.task.fs_base);
        self.space.word(at)
    }

    /// True if only another thread, an event from outside or a timer of its process can wake `thread` within `life` seconds from the
    /// guest's start. An event loop of libevent that waits for its longest time is taken for one without timers.
    pub fn sleeps_endlessly(&self, process: &Process, thread: &Thread, life: u64) -> bool {
        if !self.is_asleep(thread) {
            return false;
        }
        match self.saved(thread).as_ref().map(wait_of) {
            Some(Wait::Endless) => true,
            Some(Wait::File(number)) => self.waits_endlessly_on(process, number).unwrap_or(false),
            Some(Wait::Milliseconds(count)) => count / 1000 >= life || count == LIBEVENT,
            Some(Wait::Seconds(at)) => {
                let seconds = self.space_of(process).word(at);
                seconds.is_some_and(|seconds| seconds >= life)
            }
            Some(Wait::Unknown) | None => false,
        }
    }

    /// True if `thread` is in a system call that only lets time pass. Libraries of MPI wait for messages in others, so the thread is in code
    /// of the program, such as a handler of a signal or of an error.
    pub fn sleeps_for_a_time(&self, thread: &Thread) -> bool {
        let registers = self.saved(thread).filter(|_| self.is_asleep(thread));
        registers.is_some_and(|it| match it.system_call {
            // nanosleep, rt_sigtimedwait, clock_nanosleep; poll, select and pselect6 without files.
            35 | 128 | 230 => true,
            7 => it.general[RSI] == 0,
            23 | 270 => it.general[RDI] == 0,
            _ => false,
        })
    }

    fn is_asleep(&self, thread: &Thread) -> bool {
        let of = self.layout.wait;
        let state = of.and_then(|of| self.space.half(thread.task.wrapping_add(of.state)));
        state.is_some_and(|state| state & ASLEEP != 0)
    }

    /// True if `process` has no interval timer, no POSIX timer, no file that is a timer, and no limit of processor time.
    pub fn is_without_timers(&self, process: &Process) -> bool {
        self.timers(process) == Some(false)
    }

    /// True if the process may have a timer; `None` if its structures cannot be read.
    fn timers(&self, process: &Process) -> Option<bool> {
        let of = self.layout.wait?;
        let task = process.threads.first()?.task;
        let signal = self
            .space
            .word(task.wrapping_add(self.layout.task.signal))?;
        let field = |offset: u64| signal.wrapping_add(offset);
        let is_armed = self.space.read(field(of.real_timer), 1)? != [0];
        // Timers of processor time: virtual and profiling, each with its expiry and its interval.
        let counted = self.space.read(field(of.cpu_timers), 32)?;
        let list = field(of.posix_timers);
        let first = self.space.word(list)?;
        let has_posix = first != 0 && first != list;
        let has_limit = TIME_LIMITS.iter().try_fold(false, |any, limit| {
            let soft = self.space.word(field(of.limits + 16 * limit))?;
            Some(any || soft != u64::MAX)
        })?;
        let is_counted = counted.iter().any(|byte| *byte != 0);
        if is_armed || has_posix || has_limit || is_counted {
            return Some(true);
        }
        let count = self.files(process)?.0;
        if count > MOST_FILES {
            return Some(true);
        }
        for number in 0..u64::from(count) {
            let file = self.file(process, number)?;
            if file != 0 && self.space.word(file.wrapping_add(of.operations))? == of.timer_files {
                return Some(true);
            }
        }
        Some(false)
    }

    /// The capacity of the table of open files, and its address.
    fn files(&self, process: &Process) -> Option<(u32, u64)> {
        let of = self.layout.wait?;
        let task = process.threads.first()?.task;
        let files = self.space.word(task.wrapping_add(of.files))?;
        let table = self.space.word(files.wrapping_add(of.file_table))?;
        let count = self.space.half(table.wrapping_add(of.file_count))?;
        Some((count, self.space.word(table.wrapping_add(of.file_array))?))
    }

    /// The address of the structure of open file `number`; 0 if it is closed.
    fn file(&self, process: &Process, number: u64) -> Option<u64> {
        let (count, array) = self.files(process)?;
        let at = array.wrapping_add(8 * number);
        (number < u64::from(count)).then(|| self.space.word(at))?
    }

    /// True unless the file is a socket with a timeout for receiving.
    fn waits_endlessly_on(&self, process: &Process, number: u64) -> Option<bool> {
        let WaitOffsets {
            operations,
            socket_files,
            private,
            socket,
            receive_timeout,
            ..
        } = self.layout.wait?;
        let file = self.file(process, number).filter(|file| *file != 0)?;
        let word = |base: u64, offset: u64| self.space.word(base.wrapping_add(offset));
        if word(file, operations)? != socket_files {
            return Some(true);
        }
        let socket = word(word(file, private)?, socket)?;
        Some(word(socket, receive_timeout)? == FOREVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(system_call: u64, arguments: [u64; 6]) -> Wait {
        let mut registers = UserRegisters {
            system_call,
            ..UserRegisters::default()
        };
        for (register, argument) in [RDI, RSI, RDX, R10, R8, 9].into_iter().zip(arguments) {
            registers.general[register] = argument;
        }
        wait_of(&registers)
    }

    #[test]
    fn calls_with_a_timeout_end_by_themselves() {
        let minus = u64::from(u32::MAX);
        assert_eq!(call(7, [1, 1, minus, 0, 0, 0]), Wait::Endless);
        assert_eq!(call(7, [1, 1, 1000, 0, 0, 0]), Wait::Milliseconds(1000));
        assert_eq!(call(232, [3, 1, 16, minus, 0, 0]), Wait::Endless);
        assert_eq!(call(232, [3, 1, 16, 0, 0, 0]), Wait::Milliseconds(0));
        assert_eq!(call(23, [4, 1, 0, 0, 0, 0]), Wait::Endless);
        assert_eq!(call(23, [4, 1, 0, 0, 0x7ff0, 0]), Wait::Seconds(0x7ff0));
        assert_eq!(call(271, [1, 1, 0, 0, 0, 0]), Wait::Endless);
        assert_eq!(call(271, [1, 1, 0x7ff0, 0, 0, 0]), Wait::Seconds(0x7ff0));
        assert_eq!(call(230, [0, 0, 0x7ff0, 0, 0, 0]), Wait::Seconds(0x7ff0));
        assert_eq!(call(230, [0, 1, 0x7ff0, 0, 0, 0]), Wait::Unknown);
        // FUTEX_WAIT_BITSET with FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME, and FUTEX_LOCK_PI.
        assert_eq!(call(202, [1, 0x189, 0, 0, 0, 0]), Wait::Endless);
        assert_eq!(call(202, [1, 0x189, 0, 0x7ff0, 0, 0]), Wait::Unknown);
        assert_eq!(call(202, [1, 6, 0, 0, 0, 0]), Wait::Unknown);
        assert_eq!(call(61, [0; 6]), Wait::Endless);
        assert_eq!(call(0, [5, 0, 0, 0, 0, 0]), Wait::File(5));
        // sched_yield, restart_syscall, and no call.
        for other in [24, 219, u64::MAX] {
            assert_eq!(call(other, [0; 6]), Wait::Unknown);
        }
    }
}
