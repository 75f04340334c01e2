//! Introduces a process to the host at its first MPI call. A child of `fork` is introduced at its first call
//! of a function that its parent had not called.
//!
//! Each process is introduced once. Called by the library's search for a function.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{
    ABI_MPICH, ABI_OPEN_MPI, ABI_UNKNOWN, FACT_ADDRESS, FACT_ENVIRONMENT, FACT_LEAF, FACT_LIBRARY,
    FACT_OBJECTS, FACT_PROCESS, INIT, MPICH, MPICH_MARK, OBJECT_COUNT, OPEN_MPI, RANK_VARIABLES,
    search, system_call,
};

const GETPID: u64 = 39;

/// The process that was introduced.
static INTRODUCED: AtomicU64 = AtomicU64::new(0);

/// Addresses of Open MPI's predefined objects, zero elsewhere.
static mut OBJECTS: [u64; OBJECT_COUNT] = [0; OBJECT_COUNT];

unsafe extern "C" {
    /// The address of the C library's `environ`, if it has one.
    static belljar_environment: *const *const *const u8;
}

/// Introduces this process, unless it was introduced before.
pub(crate) fn introduce() {
    // SAFETY: it takes no arguments and changes nothing.
    let process = unsafe { system_call(GETPID, [0; 6]) };
    if INTRODUCED.swap(process, Ordering::AcqRel) == process {
        return;
    }
    let objects = (&raw mut OBJECTS).cast::<u64>();
    search::objects(objects);
    // SAFETY: the first word exists; only the thread that introduces its process writes it.
    let open_mpi = unsafe { *objects } != 0;
    let library = search::function(INIT).profiling;
    let implementation = implementation(library.is_standard, open_mpi);
    let environment = environment();
    // SAFETY: facts change nothing; the environment is the C library's array.
    unsafe {
        let rank = rank(environment);
        tell(FACT_PROCESS, rank, implementation);
        if !environment.is_null() {
            tell(FACT_ENVIRONMENT, environment as u64, 0);
        }
        if implementation == OPEN_MPI {
            tell(FACT_OBJECTS, objects as u64, OBJECT_COUNT as u64);
        }
        let [start, end] = library.code;
        tell(FACT_LIBRARY, start, end);
    }
}

/// Returns the implementation's number, by the name of its library and by the presence of Open MPI's objects.
fn implementation(is_standard: bool, open_mpi: bool) -> u64 {
    if !is_standard {
        return if open_mpi { OPEN_MPI } else { MPICH };
    }
    match (search::is_defined(MPICH_MARK), open_mpi) {
        (true, false) => ABI_MPICH,
        (false, true) => ABI_OPEN_MPI,
        _ => ABI_UNKNOWN,
    }
}

fn environment() -> *const *const u8 {
    // SAFETY: the C library's variable, if it has one.
    unsafe {
        if belljar_environment.is_null() {
            core::ptr::null()
        } else {
            *belljar_environment
        }
    }
}

/// Reports a fact to the host, at the address where every engine traps facts.
unsafe fn tell(fact: u64, first: u64, second: u64) {
    // SAFETY: under Belljar the stubs are mapped; this one changes the registers named.
    unsafe {
        asm!(
            "xchg rbx, {fact}",
            "call {stub}",
            "mov rbx, {fact}",
            stub = in(reg) FACT_ADDRESS,
            fact = inout(reg) fact => _,
            inout("eax") FACT_LEAF => _,
            in("rdi") first,
            in("rsi") second,
            out("rcx") _,
            out("rdx") _,
            out("r11") _,
        );
    }
}

/// The rank that the launcher assigned to this process; all ones if unknown.
unsafe fn rank(environment: *const *const u8) -> u64 {
    if environment.is_null() {
        return u64::MAX;
    }
    // SAFETY: the array ends with a null pointer.
    unsafe {
        for name in RANK_VARIABLES {
            let mut entry = environment;
            while !(*entry).is_null() {
                if let Some(value) = value_of(*entry, name) {
                    return value;
                }
                entry = entry.add(1);
            }
        }
    }
    u64::MAX
}

/// The number after `NAME=` in an environment entry.
unsafe fn value_of(entry: *const u8, name: &[u8]) -> Option<u64> {
    // SAFETY: entries end with a zero byte, which occurs in no name and no number.
    unsafe {
        let mut at = entry;
        for byte in name {
            if *at != *byte {
                return None;
            }
            at = at.add(1);
        }
        if *at != b'=' {
            return None;
        }
        at = at.add(1);
        let mut value = 0u64;
        while (*at).is_ascii_digit() {
            value = value.wrapping_mul(10).wrapping_add((*at - b'0') as u64);
            at = at.add(1);
        }
        Some(value)
    }
}
