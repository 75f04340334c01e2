//! Confines a guest that breaks out of its processor to its own run.
//!
//! Threads that run guest code, and all code that reads guests' data, get a seccomp filter. It allows
//! memory without new code, open files, waiting, and signals. All other calls fail with `EPERM`. The other
//! threads of the process share its memory. They lose the calls by which a process acts outside itself:
//! starting programs, making connections, and accessing other processes. If the host's kernel has
//! Landlock, they also lose every file that is not open yet and not in their [`Reach`](sandbox::Reach). No
//! thread can remove its filter or its domain.

/// The host's system calls that threads may use, as seccomp filters.
mod calls;
/// The files that a process can still open while guests run.
mod reach;
/// A Landlock domain for all threads of this process.
mod threads;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use landlock::{PathFdError, RulesetError};
use seccompiler::BpfProgram;

use calls::{guest_filter, process_filter, without_x32};
pub use reach::Reach;

/// Errors of the sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The filter is invalid; a defect.
    #[error("the seccomp filter cannot be compiled: {0}; please report it")]
    Compile(#[from] seccompiler::BackendError),
    /// The kernel refuses the filter.
    #[error(
        "this host refuses a seccomp filter: {0}; see belljar doctor, or run with --no-sandbox if you trust the guest"
    )]
    Install(#[from] seccompiler::Error),
    /// The filter is installed but ineffective.
    #[error(
        "a seccomp filter is installed but {0} went through; run with --no-sandbox if you trust the guest"
    )]
    Open(&'static str),
    /// A path to keep accessible does not exist.
    #[error("cannot open {path}, which the run needs: {source}")]
    Reach {
        /// The file or folder.
        path: PathBuf,
        /// The host's reason.
        source: PathFdError,
    },
    /// The kernel refuses a ruleset of Landlock.
    #[error(
        "this host refuses a Landlock ruleset: {0}; run with --no-sandbox if you trust the guest"
    )]
    Ruleset(#[from] RulesetError),
    /// A thread cannot enter the Landlock domain.
    #[error(
        "a thread cannot be confined by Landlock: {0}; run with --no-sandbox if you trust the guest"
    )]
    Domain(io::Error),
    /// A thread does not handle a signal.
    #[error(
        "thread {0} of this process does not handle a signal; try again, or run with --no-sandbox"
    )]
    Silent(i32),
}

/// The compiled filters, and the files that stay accessible.
#[derive(Clone, Debug)]
pub struct Sandbox {
    guest: BpfProgram,
    process: BpfProgram,
    reach: Option<Reach>,
    closed: Arc<AtomicBool>,
}

impl Sandbox {
    /// Compiles the filters, and tests them in a temporary thread.
    ///
    /// # Errors
    /// See [`SandboxError`].
    pub fn new() -> Result<Self, SandboxError> {
        let sandbox = Self {
            guest: guest_filter(false)?.try_into()?,
            process: without_x32(process_filter(None, false)?)?,
            reach: None,
            closed: Arc::default(),
        };
        sandbox.probe()?;
        Ok(sandbox)
    }

    /// The same sandbox, but threads with guests may run them by KVM, on existing vCPUs.
    ///
    /// # Errors
    /// [`SandboxError::Compile`].
    pub fn with_kvm(mut self) -> Result<Self, SandboxError> {
        self.guest = guest_filter(true)?.try_into()?;
        Ok(self)
    }

    /// The same sandbox, but threads without guests may accept connections on `listener`, which already
    /// listens.
    ///
    /// # Errors
    /// [`SandboxError::Compile`].
    pub fn listening(mut self, listener: BorrowedFd<'_>) -> Result<Self, SandboxError> {
        self.process = without_x32(process_filter(Some(listener.as_raw_fd()), false)?)?;
        Ok(self)
    }

    /// The same sandbox, but threads without guests may make further runs.
    ///
    /// # Errors
    /// [`SandboxError::Compile`].
    pub fn repeating(mut self) -> Result<Self, SandboxError> {
        self.process = without_x32(process_filter(None, true)?)?;
        Ok(self)
    }

    /// The same sandbox, but the process can open no files except those in `reach`.
    #[must_use]
    pub fn reaching(mut self, reach: Reach) -> Self {
        self.reach = Some(reach);
        self
    }

    /// True if this host's kernel has Landlock. Without it, threads without guests can open all files of
    /// the user.
    ///
    /// # Errors
    /// [`SandboxError::Ruleset`].
    pub fn knows_reach() -> Result<bool, SandboxError> {
        Ok(reach::is_known()?)
    }

    /// Applies the filter for threads with guests to the calling thread, for good.
    ///
    /// # Errors
    /// [`SandboxError::Install`].
    pub fn enter(&self) -> Result<(), SandboxError> {
        Ok(seccompiler::apply_filter(&self.guest)?)
    }

    /// Restricts all threads of the process for good to the needs of a running simulation; one call
    /// suffices.
    ///
    /// # Errors
    /// See [`SandboxError`].
    pub fn close_process(&self) -> Result<(), SandboxError> {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.reach.as_ref().map_or(Ok(()), Reach::close)?;
            seccompiler::apply_filter_all_threads(&self.process)?;
        }
        Ok(())
    }

    fn probe(&self) -> Result<(), SandboxError> {
        thread::scope(|scope| {
            let probe = scope.spawn(|| {
                self.enter()?;
                match File::open("/dev/null") {
                    Err(error) if is_refusal(&error) => Ok(()),
                    _ => Err(SandboxError::Open("opening a file")),
                }
            });
            probe.join().unwrap_or(Err(SandboxError::Open("a panic")))
        })
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}

#[cfg(test)]
mod tests {
    use super::calls::{FORBIDDEN_TO_ALL, X32};
    use super::*;
    use libc::c_long;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::process::Command;

    fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(work).join()).unwrap()
    }

    #[test]
    fn a_thread_with_guests_keeps_its_files_and_gets_no_others() {
        let sandbox = Sandbox::new().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        in_thread(|| {
            sandbox.enter().unwrap();
            file.write_all(b"kept").unwrap();
            file.sync_all().unwrap();
            assert!(is_refusal(&File::open("/dev/null").unwrap_err()));
            assert!(is_refusal(&File::create("/tmp/new").unwrap_err()));
            assert!(is_refusal(&TcpListener::bind("127.0.0.1:0").unwrap_err()));
            assert!(is_refusal(&Command::new("/bin/true").spawn().unwrap_err()));
            assert!(thread::Builder::new().spawn(|| ()).is_err());
            // Memory can be allocated, also more than allocators keep in reserve.
            assert_eq!(
                vec![1_u8; 64 << 20]
                    .iter()
                    .map(|&one| one as usize)
                    .sum::<usize>(),
                64 << 20
            );
        });
        // The filter applies to this thread only.
        let mut byte = [1];
        File::open("/dev/zero")
            .unwrap()
            .read_exact(&mut byte)
            .unwrap();
        assert_eq!(byte, [0]);
    }

    #[test]
    #[allow(unsafe_code)]
    fn nothing_becomes_code() {
        let sandbox = Sandbox::new().unwrap();
        let map = |protection| {
            // SAFETY: a fresh anonymous mapping without other references.
            let at = unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0)
            };
            (at != libc::MAP_FAILED).then_some(at)
        };
        in_thread(|| {
            sandbox.enter().unwrap();
            assert!(map(libc::PROT_READ | libc::PROT_EXEC).is_none());
            let page = map(libc::PROT_READ | libc::PROT_WRITE).unwrap();
            // SAFETY: the page made above.
            let refused = unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_EXEC) };
            assert_eq!(refused, -1);
            assert!(is_refusal(&io::Error::last_os_error()));
        });
    }

    /// Calls denied to threads without guests, by the numbers of both ABIs.
    #[test]
    #[allow(unsafe_code)]
    fn no_thread_makes_calls_that_lead_out_of_the_process() {
        let sandbox = Sandbox::new().unwrap();
        in_thread(|| {
            seccompiler::apply_filter(&sandbox.process).unwrap();
            // Only in the x32 ABI: execve, ptrace, process_vm_readv and _writev, execveat.
            let own = [520, 521, 539, 540, 545].map(|number| number | c_long::from(X32));
            let same =
                [libc::SYS_socket, libc::SYS_getpid].map(|number| number | c_long::from(X32));
            for number in FORBIDDEN_TO_ALL.iter().chain(&own).chain(&same) {
                // SAFETY: the filter refuses the call before the kernel uses its arguments.
                let refused = unsafe { libc::syscall(*number, -1, 0, 0, 0, 0, 0) };
                assert_eq!(refused, -1, "call {number:#x}");
                assert!(is_refusal(&io::Error::last_os_error()), "call {number:#x}");
            }
            assert!(File::open("/dev/null").is_ok());
        });
    }
}
