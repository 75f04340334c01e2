//! The host's system calls that threads may use, as seccomp filters. Threads with guests have a list of
//! allowed calls, all others a list of denied calls; a refused call fails with `EPERM`. `sandbox`
//! compiles and installs them.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::process;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// Calls of threads with guests, with any arguments.
const ALLOWED: &[c_long] = &[
    // Memory; mmap and mprotect have conditions.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Open files.
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
    // Signals, which deliver guests' exceptions.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // The start and end of a thread, and of a panic.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
];

/// Timers that stop a guest under KVM in time.
const TIMERS: &[c_long] = &[
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_settime,
];
/// The part of an ioctl's number that names it: type and number, without size.
const IOCTL_NUMBER: u64 = 0xffff;

/// Calls that no thread needs while guests run.
pub(super) const FORBIDDEN_TO_ALL: &[c_long] = &[
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

/// The first number of the x32 ABI: the same calls under other numbers, and some that only x32 has. No
/// thread uses it.
pub(super) const X32: u32 = 0x4000_0000;

/// Offset of a call's number in a filter's input (`struct seccomp_data`).
const NUMBER: u32 = 0;

/// The calls allowed to threads with guests; with `kvm`, also those of KVM.
pub(super) fn guest_filter(kvm: bool) -> Result<SeccompFilter, BackendError> {
    let allowed = ALLOWED.iter().chain(if kvm { TIMERS } else { &[] });
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        allowed.map(|&call| (call, Vec::new())).collect();
    // No new code can appear while guests run.
    let executable = libc::PROT_EXEC as u64;
    let no_code = argument(2, SeccompCmpOp::MaskedEq(executable), 0)?;
    rules.insert(libc::SYS_mmap, vec![no_code.clone()]);
    rules.insert(libc::SYS_mprotect, vec![no_code]);
    // The size of the terminal for the progress line, and the check for a terminal.
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

/// The call that makes memory for code caches and guests.
const NEW_MEMORY: c_long = libc::SYS_memfd_create;

/// The calls denied to all threads, except accepting connections on `listener`, and with `more_runs`
/// making memory of further runs.
pub(super) fn process_filter(
    listener: Option<RawFd>,
    more_runs: bool,
) -> Result<SeccompFilter, BackendError> {
    let calls = FORBIDDEN_TO_ALL.iter();
    let calls = calls.filter(|&&call| !(more_runs && call == NEW_MEMORY));
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        calls.map(|&call| (call, Vec::new())).collect();
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

/// A filter's program, preceded by one that refuses all calls from [`X32`] on, as filters by
/// `seccompiler` match single numbers only.
pub(super) fn without_x32(filter: SeccompFilter) -> Result<BpfProgram, BackendError> {
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

fn argument(index: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    let condition = SeccompCondition::new(index, SeccompCmpArgLen::Dword, comparison, value)?;
    SeccompRule::new(vec![condition])
}
