//! Runs machine code on the host's processor, from and to a given state. An exception ends it by a
//! signal, whose trap is part of the outcome.
#![allow(unsafe_code)]

/// Machine code that loads a state, and stores it.
mod glue;

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::machine::{self, ARENA, ARENA_PAGES, CODE_AT, END, Machine, Outcome, PAGE, Rights};

/// Address of the state.
const STATE: u64 = 0x1100_0000;
const GLUE: u64 = 0x1300_0000;
const MAPPED: usize = 0x1_0000;
const SIGNALS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];
const TRAP_FLAG: i64 = 1 << 8;
const STACK_BYTES: usize = 64 << 10;

static TRAP: AtomicU64 = AtomicU64::new(0);
static ERROR: AtomicU64 = AtomicU64::new(0);
static ADDRESS: AtomicU64 = AtomicU64::new(0);
static RIP: AtomicU64 = AtomicU64::new(0);
static LANDING: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `ucontext_t` to an SA_SIGINFO handler.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let rip = registers[libc::REG_RIP as usize] as u64;
    if !(CODE_AT..CODE_AT + 2 * PAGE).contains(&rip) {
        // A fault outside the code under test: let it end the process. SAFETY: it restores the
        // default action, and the fault then repeats.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    TRAP.store(registers[libc::REG_TRAPNO as usize] as u64, Relaxed);
    ERROR.store(registers[libc::REG_ERR as usize] as u64, Relaxed);
    ADDRESS.store(registers[libc::REG_CR2 as usize] as u64, Relaxed);
    RIP.store(rip, Relaxed);
    // Code after the landing must not be single-stepped.
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
    registers[libc::REG_RIP as usize] = LANDING.load(Relaxed) as i64;
}

/// The error code of the last page fault. For the page before the first non-canonical address, the
/// kernel always sets the present bit, although the page never exists.
fn page_error() -> u64 {
    const GUARD: u64 = (1 << 47) - PAGE;
    let known = u64::from(ADDRESS.load(Relaxed) < GUARD);
    ERROR.load(Relaxed) & !(1 - known)
}

fn catch_signals() {
    let stack = Box::leak(vec![0u8; STACK_BYTES].into_boxed_slice());
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: STACK_BYTES,
    };
    // SAFETY: the stack is leaked, so it outlives every handler.
    unsafe { assert_eq!(libc::sigaltstack(&stack, ptr::null_mut()), 0) };
    // Once: the engine replaces these handlers later, and passes on faults that are not its own.
    static HANDLERS: Once = Once::new();
    // SAFETY: the handler has the signature that SA_SIGINFO requires.
    HANDLERS.call_once(|| unsafe {
        for signal in SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            assert_eq!(libc::sigaction(signal, &action, ptr::null_mut()), 0);
        }
    });
}

/// Maps fresh memory at an address that this process does not use.
fn map(at: u64, bytes: usize, protection: i32) {
    // SAFETY: MAP_FIXED_NOREPLACE does not replace other mappings.
    let mapped = unsafe {
        libc::mmap(
            at as *mut libc::c_void,
            bytes,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(mapped as u64, at, "cannot map the test's memory");
}

/// The host's processor. There is one instance at a time.
pub struct Native {
    enter: u64,
}

impl Drop for Native {
    fn drop(&mut self) {
        let arena = ARENA_PAGES.len() * PAGE as usize;
        let mappings = [STATE, CODE_AT, GLUE].map(|at| (at, MAPPED));
        for (at, bytes) in mappings.into_iter().chain([(ARENA, arena)]) {
            // SAFETY: it unmaps mappings of `new`; no reference to them exists.
            unsafe { libc::munmap(at as *mut libc::c_void, bytes) };
        }
    }
}

impl Native {
    #[allow(clippy::new_without_default)] // it maps memory at fixed places
    pub fn new() -> Self {
        catch_signals();
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        for at in [STATE, CODE_AT, GLUE] {
            map(at, MAPPED, all);
        }
        for (number, rights) in ARENA_PAGES.into_iter().enumerate() {
            let at = ARENA + number as u64 * PAGE;
            map(at, PAGE as usize, libc::PROT_READ | libc::PROT_WRITE);
            if rights == Rights::Read {
                let content = machine::constant_page();
                // SAFETY: the page was just mapped for writing.
                unsafe { ptr::copy_nonoverlapping(content.as_ptr(), at as *mut u8, content.len()) };
            }
            let protection = match rights {
                Rights::None => libc::PROT_NONE,
                Rights::Read => libc::PROT_READ,
                Rights::Write => libc::PROT_READ | libc::PROT_WRITE,
            };
            // SAFETY: changes the page that was just mapped.
            let done =
                unsafe { libc::mprotect(at as *mut libc::c_void, PAGE as usize, protection) };
            assert_eq!(done, 0);
        }
        let (text, landing) = glue::build(GLUE, STATE);
        // SAFETY: the mapping has room for it.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), GLUE as *mut u8, text.len()) };
        LANDING.store(landing, Relaxed);
        Self { enter: GLUE }
    }

    /// Loads `code` for [`run`](Self::run).
    pub fn load(&mut self, code: &[u8]) {
        let mut text = code.to_vec();
        let back = CODE_AT + text.len() as u64 + 5;
        let away = LANDING.load(Relaxed).wrapping_sub(back) as i32;
        text.push(0xe9);
        text.extend_from_slice(&away.to_le_bytes());
        // SAFETY: the mapping has room for all code under test.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), CODE_AT as *mut u8, text.len()) };
        RIP.store(CODE_AT + code.len() as u64, Relaxed);
    }

    /// Runs the loaded code, whose length is `length`.
    pub fn run(&mut self, machine: &Machine, length: usize) -> Outcome {
        TRAP.store(u64::from(END), Relaxed);
        RIP.store(CODE_AT + length as u64, Relaxed);
        let mut after = machine.clone();
        // SAFETY: all addresses lie in this test's own mappings; the glue keeps to
        // the C ABI.
        unsafe {
            ptr::copy_nonoverlapping(&machine.registers, STATE as *mut machine::Registers, 1);
            for (place, bytes) in machine.windows() {
                ptr::copy_nonoverlapping(bytes.as_ptr(), place as *mut u8, bytes.len());
            }
            let function: extern "sysv64" fn() = std::mem::transmute(self.enter as *const ());
            function();
            ptr::copy_nonoverlapping(STATE as *const machine::Registers, &mut after.registers, 1);
            for (place, bytes) in after.windows_mut() {
                ptr::copy_nonoverlapping(place as *const u8, bytes.as_mut_ptr(), bytes.len());
            }
        }
        after.registers.clean();
        let vector = TRAP.load(Relaxed) as u8;
        Outcome {
            vector,
            rip: RIP.load(Relaxed),
            error: (vector == 14).then(page_error),
            address: (vector == 14).then(|| ADDRESS.load(Relaxed)),
            machine: after,
        }
    }
}
