//! A Landlock domain for all threads of this process.
//!
//! Before Linux 7.0 the kernel puts one thread into a domain, and no other. Existing threads,
//! among them those of links to other hosts and of the control socket, are therefore each sent a
//! signal whose handler enters the domain. New threads inherit it.

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
/// Number of finished handlers.
static ANSWERS: AtomicU32 = AtomicU32::new(0);
/// The error number of a handler that failed; 0 if none did.
static FAILURE: AtomicI32 = AtomicI32::new(0);
/// Serialises calls.
static TURN: Mutex<()> = Mutex::new(());

/// Number of checks for a thread's answer, and the time between them: a minute in total.
const LOOKS: u32 = 60_000;
const NAP: Duration = Duration::from_millis(1);

/// Restricts every thread of this process to the domain of `ruleset`.
///
/// # Errors
/// If the kernel refuses, or a thread does not answer its signal.
pub(super) fn restrict_all(ruleset: BorrowedFd<'_>) -> Result<(), SandboxError> {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    RULESET.store(ruleset.as_raw_fd(), Ordering::SeqCst);
    FAILURE.store(0, Ordering::SeqCst);
    handle().map_err(SandboxError::Domain)?;
    // The caller comes last, as it cannot list the threads afterwards.
    let caller = gettid().as_raw();
    let mut restricted = BTreeSet::from([caller]);
    loop {
        let all = threads().map_err(SandboxError::Domain)?;
        let others: Vec<i32> = all.difference(&restricted).copied().collect();
        if others.is_empty() {
            return restrict(caller);
        }
        // A thread that starts meanwhile is the child of a restricted thread, or found in the next
        // pass.
        for thread in others {
            restrict(thread)?;
            restricted.insert(thread);
        }
    }
}

/// Restricts one thread, unless it has ended.
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
    // SAFETY: a call without pointers; signal 0 is not delivered.
    unsafe { libc::syscall(libc::SYS_tgkill, process::id(), thread, 0) == 0 }
}

/// The signal for entering the domain; vCPUs of KVM use the one before it.
fn signal() -> i32 {
    libc::SIGRTMIN() + 2
}

/// Installs the signal's handler.
fn handle() -> io::Result<()> {
    // SAFETY: all zeroes is a valid value of this type.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = enter as extern "C" fn(i32) as usize;
    // On the thread's signal stack, if it has one, as its normal stack may be a guest's.
    action.sa_flags = (SaFlags::SA_RESTART | SaFlags::SA_ONSTACK).bits();
    action.sa_mask = *SigSet::all().as_ref();
    // SAFETY: the handler only makes system calls and uses atomics, which is permitted in
    // handlers.
    match unsafe { libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn enter(_: i32) {
    // SAFETY: the address of the thread's error number, valid as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above; the interrupted code finds its value unchanged.
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
    // SAFETY: calls without pointers. Losing these rights is the purpose.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) != 0
    };
    if !refused {
        return Ok(());
    }
    // SAFETY: the thread's error number, from the caller.
    Err(unsafe { *errno })
}
