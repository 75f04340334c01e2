//! What keeps a guest that broke out of its processor inside its own run.
//!
//! Threads that run guest code, and with them everything that reads what guests
//! wrote, get a seccomp filter: memory without new code, files that are open already,
//! waiting, signals. Everything else fails with `EPERM`. The other threads of the
//! process, which share its memory, lose the calls with which a process leaves itself:
//! starting programs, making connections, reaching into other processes. No thread can
//! take its filter off again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The filter makes no sense; a defect.
    #[error("the seccomp filter cannot be compiled: {0}; please report it")]
    Compile(#[from] seccompiler::BackendError),
    /// The kernel refuses the filter.
    #[error(
        "this host refuses a seccomp filter: {0}; see belljar doctor, or run with --no-sandbox if you trust the guest"
    )]
    Install(#[from] seccompiler::Error),
    /// The filter is there and does nothing.
    #[error(
        "a seccomp filter is installed but {0} went through; run with --no-sandbox if you trust the guest"
    )]
    Open(&'static str),
}

/// Calls that threads with guests make, whatever their arguments.
const ALLOWED: &[c_long] = &[
    // Memory; mmap and mprotect have conditions.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Files that are open.
    libc::SYS_close,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    // Waiting, and the clock of the progress line.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_futex,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_restart_syscall,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    // Signals, by which guests' exceptions come.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // A thread's beginning and end, and a panic's.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
];

/// What stops a guest of KVM's in time.
const TIMERS: &[c_long] = &[
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_settime,
];
/// The part of an ioctl's number that names it: type and number, without size.
const IOCTL_NUMBER: u64 = 0xffff;

/// Calls that no thread makes once guests run.
const FORBIDDEN_TO_ALL: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_connect,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fork,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_listen,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_migrate_pages,
    libc::SYS_modify_ldt,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vfork,
    libc::SYS_vhangup,
];

/// From this number on stand the calls of the x32 ABI: the same ones under other numbers, and some that
/// have a number in it alone. No thread makes any.
const X32: u32 = 0x4000_0000;

/// Offset of a call's number in what a filter is given (`struct seccomp_data`).
const NUMBER: u32 = 0;

/// The filters, compiled.
#[derive(Clone, Debug)]
pub struct Sandbox {
    guest: BpfProgram,
    process: BpfProgram,
    closed: Arc<AtomicBool>,
}

impl Sandbox {
    /// Compiles the filters and sees, in a thread that ends with it, that they hold.
    ///
    /// # Errors
    /// See [`SandboxError`].
    pub fn new() -> Result<Self, SandboxError> {
        let sandbox = Self {
            guest: guest_filter(false)?.try_into()?,
            process: without_x32(process_filter(None)?)?,
            closed: Arc::default(),
        };
        sandbox.probe()?;
        Ok(sandbox)
    }

    /// As it is, but lets threads with guests run them by KVM, on vCPUs that are there.
    ///
    /// # Errors
    /// [`SandboxError::Compile`].
    pub fn with_kvm(mut self) -> Result<Self, SandboxError> {
        self.guest = guest_filter(true)?.try_into()?;
        Ok(self)
    }

    /// As it is, but lets threads without guests take connections on `listener`, which
    /// listens already.
    ///
    /// # Errors
    /// [`SandboxError::Compile`].
    pub fn listening(mut self, listener: BorrowedFd<'_>) -> Result<Self, SandboxError> {
        self.process = without_x32(process_filter(Some(listener.as_raw_fd()))?)?;
        Ok(self)
    }

    /// Puts the calling thread, for good, under the filter for threads with guests.
    ///
    /// # Errors
    /// [`SandboxError::Install`].
    pub fn enter(&self) -> Result<(), SandboxError> {
        Ok(seccompiler::apply_filter(&self.guest)?)
    }

    /// Takes from all threads of the process, for good, what none needs beside guests;
    /// once is enough.
    ///
    /// # Errors
    /// [`SandboxError::Install`].
    pub fn close_process(&self) -> Result<(), SandboxError> {
        if !self.closed.swap(true, Ordering::Relaxed) {
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

fn guest_filter(kvm: bool) -> Result<SeccompFilter, seccompiler::BackendError> {
    let allowed = ALLOWED.iter().chain(if kvm { TIMERS } else { &[] });
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        allowed.map(|&call| (call, Vec::new())).collect();
    // Nothing becomes code that was not before guests ran.
    let executable = libc::PROT_EXEC as u64;
    let no_code = argument(2, SeccompCmpOp::MaskedEq(executable), 0)?;
    rules.insert(libc::SYS_mmap, vec![no_code.clone()]);
    rules.insert(libc::SYS_mprotect, vec![no_code]);
    // The size of the terminal, for the progress line; whether there is one.
    let questions = [libc::TIOCGWINSZ, libc::TCGETS];
    let questions = questions.map(|question| argument(1, SeccompCmpOp::Eq, question));
    let mut ioctls: Vec<SeccompRule> = questions.into_iter().collect::<Result<_, _>>()?;
    if kvm {
        for call in belljar_kvm::RUNNING_IOCTLS {
            let number = SeccompCmpOp::MaskedEq(IOCTL_NUMBER);
            ioctls.push(argument(1, number, call.into())?);
        }
    }
    rules.insert(libc::SYS_ioctl, ioctls);
    let itself = argument(0, SeccompCmpOp::Eq, u64::from(process::id()))?;
    rules.insert(libc::SYS_tgkill, vec![itself]);
    SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        TargetArch::x86_64,
    )
}

fn process_filter(listener: Option<RawFd>) -> Result<SeccompFilter, seccompiler::BackendError> {
    let rules = FORBIDDEN_TO_ALL.iter().map(|&call| (call, Vec::new()));
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = rules.collect();
    if let Some(listener) = listener {
        let another = argument(0, SeccompCmpOp::Ne, listener as u64)?;
        rules.insert(libc::SYS_accept4, vec![another]);
    }
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        TargetArch::x86_64,
    )
}

/// A filter's program, after one that refuses all calls from [`X32`] on: filters by
/// `seccompiler` know single numbers only.
fn without_x32(filter: SeccompFilter) -> Result<BpfProgram, seccompiler::BackendError> {
    let instruction = |code, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, NUMBER),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, refused),
    ];
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

fn argument(
    index: u8,
    comparison: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, comparison, value)?;
    SeccompRule::new(vec![condition])
}

#[cfg(test)]
mod tests {
    use super::*;
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
            // Memory is there, more than any allocator keeps at hand.
            assert_eq!(
                vec![1_u8; 64 << 20]
                    .iter()
                    .map(|&one| one as usize)
                    .sum::<usize>(),
                64 << 20
            );
        });
        // The filter is the thread's alone.
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
            // SAFETY: a fresh anonymous mapping, which nothing else refers to.
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

    /// What threads without guests lose, by the numbers of both ABIs.
    #[test]
    #[allow(unsafe_code)]
    fn no_thread_makes_calls_that_lead_out_of_the_process() {
        let sandbox = Sandbox::new().unwrap();
        in_thread(|| {
            seccompiler::apply_filter(&sandbox.process).unwrap();
            // Of the x32 ABI alone: execve, ptrace, process_vm_readv and _writev, execveat.
            let own = [520, 521, 539, 540, 545].map(|number| number | c_long::from(X32));
            let same =
                [libc::SYS_socket, libc::SYS_getpid].map(|number| number | c_long::from(X32));
            for number in FORBIDDEN_TO_ALL.iter().chain(&own).chain(&same) {
                // SAFETY: the filter refuses the call before the kernel looks at arguments.
                let refused = unsafe { libc::syscall(*number, -1, 0, 0, 0, 0, 0) };
                assert_eq!(refused, -1, "call {number:#x}");
                assert!(is_refusal(&io::Error::last_os_error()), "call {number:#x}");
            }
            assert!(File::open("/dev/null").is_ok());
        });
    }
}
