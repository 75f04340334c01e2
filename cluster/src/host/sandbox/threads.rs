//! A Landlock domain for all threads of this process.
//!
//! Before Linux 7.0 the kernel puts one thread into a domain, and no other. Threads that are there
//! already, those of links to other hosts and of the control socket among them, so are each
//! sent a signal whose handler enters the domain. Threads that begin later inherit it.

#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigSet};
use nix::unistd::gettid;

use super::SandboxError;

/// The ruleset that the handler enters.
static RULESET: AtomicI32 = AtomicI32::new(-1);
/// How many times the handler came to its end.
static ANSWERS: AtomicU32 = AtomicU32::new(0);
/// The error number of a handler that failed; 0 if none did.
static FAILURE: AtomicI32 = AtomicI32::new(0);
/// One at a time.
static TURN: Mutex<()> = Mutex::new(());

/// How many times, and how long between, one looks whether a thread has answered: a minute.
const LOOKS: u32 = 60_000;
const NAP: Duration = Duration::from_millis(1);

/// Puts every thread of this process into the domain of `ruleset`.
///
/// # Errors
/// When the kernel refuses, or a thread does not answer its signal.
pub(super) fn restrict_all(ruleset: BorrowedFd<'_>) -> Result<(), SandboxError> {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    RULESET.store(ruleset.as_raw_fd(), Ordering::SeqCst);
    FAILURE.store(0, Ordering::SeqCst);
    handle().map_err(SandboxError::Domain)?;
    // The caller comes last: from then on it cannot look who is there any more.
    let caller = gettid().as_raw();
    let mut restricted = BTreeSet::from([caller]);
    loop {
        let all = threads().map_err(SandboxError::Domain)?;
        let others: Vec<i32> = all.difference(&restricted).copied().collect();
        if others.is_empty() {
            return restrict(caller);
        }
        // One that begins meanwhile is either the child of a thread that is in, or seen next time.
        for thread in others {
            restrict(thread)?;
            restricted.insert(thread);
        }
    }
}

/// Has one thread enter the domain, unless it is gone.
fn restrict(thread: i32) -> Result<(), SandboxError> {
    let before = ANSWERS.load(Ordering::SeqCst);
    // SAFETY: a call without pointers; the signal has a handler.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process::id(), thread, signal()) };
    if sent != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::ESRCH) => Ok(()),
            _ => Err(SandboxError::Domain(error)),
        };
    }
    for _ in 0..LOOKS {
        if ANSWERS.load(Ordering::SeqCst) != before {
            return match FAILURE.load(Ordering::SeqCst) {
                0 => Ok(()),
                number => Err(SandboxError::Domain(io::Error::from_raw_os_error(number))),
            };
        }
        if !is_there(thread) {
            return Ok(());
        }
        thread::sleep(NAP);
    }
    Err(SandboxError::Silent(thread))
}

/// The threads of this process.
fn threads() -> io::Result<BTreeSet<i32>> {
    let mut threads = BTreeSet::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let name = entry?.file_name();
        threads.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(threads)
}

fn is_there(thread: i32) -> bool {
    // SAFETY: a call without pointers; signal 0 is none.
    unsafe { libc::syscall(libc::SYS_tgkill, process::id(), thread, 0) == 0 }
}

/// The signal by which a thread is told; KVM's vCPUs have the one before it.
fn signal() -> i32 {
    libc::SIGRTMIN() + 2
}

/// Has the signal handled.
fn handle() -> io::Result<()> {
    // SAFETY: all zeroes is a valid value of it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = enter as extern "C" fn(i32) as usize;
    // On the stack that the thread has for signals, if any: its own may be a guest's.
    action.sa_flags = (SaFlags::SA_RESTART | SaFlags::SA_ONSTACK).bits();
    action.sa_mask = *SigSet::all().as_ref();
    // SAFETY: the handler only makes system calls and uses atomics, which a handler may.
    match unsafe { libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn enter(_: i32) {
    // SAFETY: the place of the thread's error number, which lives as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; whoever was interrupted finds it as it was.
    let before = unsafe { *errno };
    if let Err(number) = enter_domain(errno) {
        FAILURE.store(number, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *errno = before };
    ANSWERS.fetch_add(1, Ordering::SeqCst);
}

fn enter_domain(errno: *const i32) -> Result<(), i32> {
    let ruleset = RULESET.load(Ordering::SeqCst);
    // SAFETY: calls without pointers. What they take from the thread is what is wanted.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) != 0
    };
    if !refused {
        return Ok(());
    }
    // SAFETY: the thread's error number, as the caller has it.
    Err(unsafe { *errno })
}
