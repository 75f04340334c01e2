//! Host faults in translated code: division errors, misaligned vector accesses, unmasked
//! floating-point exceptions.
//!
//! The handler only records the host program counter and the trap number, and redirects the thread
//! to the code that leaves translated code, where the fault's meaning for the guest is determined.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::OnceLock;
use std::{io, ptr};

use belljar_cpu::CpuError;
use belljar_translate::context::{Context, EXIT_SIGNAL};

const SIGNALS: [i32; 3] = [libc::SIGFPE, libc::SIGSEGV, libc::SIGILL];
const STACK_BYTES: usize = 64 << 10;
/// Linux: disarm the alternate stack while a handler runs on it, and never infer from the stack
/// pointer, here the guest's, that it is in use.
const SS_AUTODISARM: i32 = 1 << 31;

thread_local! {
    /// The context of the running vCPU, or null.
    static ACTIVE: Cell<*mut Context> = const { Cell::new(ptr::null_mut()) };
    static STACK: Cell<bool> = const { Cell::new(false) };
}

static PREVIOUS: OnceLock<Result<[libc::sigaction; 3], i32>> = OnceLock::new();

/// While it exists, host faults in this thread's translated code are recorded in a context.
pub(crate) struct Catching(());

impl Catching {
    /// Starts catching faults in `context`'s translated code, which then leaves. After the first
    /// call, the thread receives no external signals.
    ///
    /// # Errors
    /// If the host refuses the handlers or the signal stack.
    pub(crate) fn start(context: &mut Context) -> Result<Self, CpuError> {
        if !STACK.get() {
            begin_thread()?;
        }
        ACTIVE.set(context);
        Ok(Self(()))
    }
}

/// Prepares a thread before it runs translated code for the first time.
#[cold]
fn begin_thread() -> Result<(), CpuError> {
    let installed = PREVIOUS.get_or_init(install);
    if let Err(code) = installed {
        return Err(host_error("install signal handlers", *code));
    }
    use_signal_stack()?;
    leave_signals_to_others()?;
    STACK.set(true);
    Ok(())
}

impl Drop for Catching {
    fn drop(&mut self) {
        ACTIVE.set(ptr::null_mut());
    }
}

fn host_error(action: &'static str, code: i32) -> CpuError {
    CpuError::Host {
        action,
        source: io::Error::from_raw_os_error(code),
    }
}

fn use_signal_stack() -> Result<(), CpuError> {
    // The stack must exist as long as the thread can receive signals: forever.
    let stack = Box::leak(vec![0u8; STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: SS_AUTODISARM,
        ss_size: STACK_BYTES,
    };
    // SAFETY: the memory is leaked, so it outlives every handler.
    if unsafe { libc::sigaltstack(&stack, ptr::null_mut()) } != 0 {
        let code = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        return Err(host_error("set up a signal stack", code));
    }
    Ok(())
}

/// Blocks every signal except this thread's own faults: other handlers would run on the guest's
/// stack pointer. Signals to the process go to its other threads; a process that needs signals must
/// have one.
fn leave_signals_to_others() -> Result<(), CpuError> {
    const FAULTS: [i32; 5] = [
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGILL,
        libc::SIGBUS,
        libc::SIGTRAP,
    ];
    // SAFETY: `set` is initialised by sigfillset before anything reads it; all calls
    // only touch it and this thread's mask.
    let code = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        for signal in FAULTS {
            libc::sigdelset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut())
    };
    if code != 0 {
        return Err(host_error("block signals", code));
    }
    Ok(())
}

fn install() -> Result<[libc::sigaction; 3], i32> {
    // SAFETY: all-zero is a valid `sigaction`: default action, no flags, empty mask.
    let mut previous: [libc::sigaction; 3] = unsafe { std::mem::zeroed() };
    for (signal, old) in SIGNALS.into_iter().zip(&mut previous) {
        // SAFETY: as above.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: the handler has the signature that SA_SIGINFO requires, and is async-signal-safe.
        if unsafe { libc::sigaction(signal, &action, old) } != 0 {
            return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
    }
    Ok(previous)
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    allow_misalignment();
    // SAFETY: the kernel passes a valid `ucontext_t` to an SA_SIGINFO handler.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let rip = registers[libc::REG_RIP as usize] as u64;
    // SAFETY: null, or a context that outlives `Catching`. Translated code, if it was running,
    // holds no reference to it; otherwise only its ranges are read, which never change.
    match unsafe { ACTIVE.get().as_mut() } {
        Some(context) if context.is_translated(rip) => {
            context.exit_site = EXIT_SIGNAL;
            context.fault_pc = rip;
            context.fault_trap = registers[libc::REG_TRAPNO as usize] as u32;
            registers[libc::REG_RIP as usize] = context.way_out as i64;
        }
        _ => pass_on(signal, info, context),
    }
}

/// Clears RFLAGS.AC, which handlers inherit from the faulting code: compiled code makes misaligned
/// accesses.
fn allow_misalignment() {
    // SAFETY: it uses the stack as a push does, and changes no other flag.
    unsafe { std::arch::asm!("pushfq", "and dword ptr [rsp], 0xfffbffff", "popfq") };
}

/// A fault outside translated code: passes it to the previously installed handler.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let index = SIGNALS
        .iter()
        .position(|&known| known == signal)
        .unwrap_or(0);
    if let Some(Ok(previous)) = PREVIOUS.get() {
        let old = &previous[index];
        if old.sa_flags & libc::SA_SIGINFO != 0 && old.sa_sigaction > libc::SIG_IGN {
            // SAFETY: a handler installed with SA_SIGINFO has this signature.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(old.sa_sigaction) };
            handler(signal, info, context);
            return;
        }
        // SAFETY: it restores the previous handler; the faulting instruction then runs again.
        unsafe { libc::sigaction(signal, old, ptr::null_mut()) };
    }
}
