//! What the preloaded library does when it is loaded.
//!
//! Everything here runs before the program does, once a process. Afterwards only
//! the stubs run, of which the virtual clock takes no notice.

#![no_std]
#![crate_type = "cdylib"]

use core::arch::x86_64::__cpuid;
use core::arch::{asm, global_asm};

// Constants of the ABI, as `build.rs` writes them.
include!("constants.rs");

// For each function: its indirect-function resolver, its way to the real function
// where Belljar is not, and its places in the tables of names.
global_asm!(include_str!("functions.s"), options(att_syntax));

unsafe extern "C" {
    /// Addresses of the real functions, zero where the MPI implementation lacks one.
    static belljar_real: [u64; FUNCTION_COUNT];
    /// Addresses of Open MPI's predefined objects, zero elsewhere.
    static belljar_objects: [u64; OBJECT_COUNT];
    /// Answers `stub` under Belljar, having mapped the stub range, and `forward`
    /// elsewhere.
    fn belljar_pick(stub: u64, forward: u64) -> u64;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

const MPROTECT: i64 = 10;
const MAPPED: u64 = 1;
const NOT_HERE: u64 = 0;

/// Runs after relocation, before any constructor of the program.
///
/// # Safety
/// Called by the dynamic linker with the process's environment.
unsafe extern "C" fn start(_: i32, _: *const *const u8, environment: *const *const u8) {
    unsafe {
        if belljar_real[INIT] == 0 && belljar_real[INIT_THREAD] == 0 {
            return;
        }
        // Programs that bind lazily have resolved nothing yet.
        if belljar_pick(MAPPED, NOT_HERE) != MAPPED {
            return;
        }
        write_stubs();
        protect();
        let rank = rank(environment);
        let open_mpi = belljar_objects[0] != 0;
        let implementation = if open_mpi { OPEN_MPI } else { MPICH };
        tell(FACT_PROCESS, rank, implementation);
        tell(FACT_ENVIRONMENT, environment as u64, 0);
        if open_mpi {
            tell(FACT_OBJECTS, &raw const belljar_objects as u64, OBJECT_COUNT as u64);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: unsafe extern "C" fn(i32, *const *const u8, *const *const u8) = start;

/// Fills the range: the magic instructions, the return stub, a stub for each
/// function, and the table of real functions.
unsafe fn write_stubs() {
    unsafe {
        let [first, second] = magic();
        // The magic instruction; jmp r11
        put(STUB_BASE as *mut u8, &[first, second, 0x41, 0xff, 0xe3]);
        // The magic instruction; ret
        put(FACT_ADDRESS as *mut u8, &[first, second, 0xc3]);
        write_stub(RETURN_ADDRESS, OP_RETURN);
        let mut index = 0;
        while index < FUNCTION_COUNT {
            write_stub(FIRST_STUB + index as u64 * STUB_SIZE, index as u32);
            let slot = (STUB_BASE + TABLE_OFFSET) as *mut u64;
            slot.add(index).write(belljar_real[index]);
            index += 1;
        }
    }
}

/// The instruction at which the host looks: which one, it says where it says that it is there.
fn magic() -> [u8; 2] {
    if __cpuid(DETECT_LEAF).eax & DETECT_INT3 != 0 {
        MAGIC_INT3
    } else {
        MAGIC_CPUID
    }
}

/// `mov r11d, operation; jmp magic`.
unsafe fn write_stub(at: u64, operation: u32) {
    unsafe {
        let jump = at + STUB_JUMP;
        let distance = STUB_BASE.wrapping_sub(jump + 5) as u32;
        put(at as *mut u8, &[0x41, 0xbb]);
        put((at + 2) as *mut u8, &operation.to_le_bytes());
        put(jump as *mut u8, &[0xe9]);
        put((jump + 1) as *mut u8, &distance.to_le_bytes());
    }
}

unsafe fn put(at: *mut u8, bytes: &[u8]) {
    let mut index = 0;
    while index < bytes.len() {
        // Volatile, so that no memcpy is called for it: there is no libc.
        unsafe { at.add(index).write_volatile(bytes[index]) };
        index += 1;
    }
}

unsafe fn protect() {
    const READ_EXECUTE: u64 = 5;
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") MPROTECT => _,
            in("rdi") STUB_BASE,
            in("rsi") STUB_LENGTH,
            in("rdx") READ_EXECUTE,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
}

/// Hands the host a fact, at the address where every engine looks for facts.
unsafe fn tell(fact: u64, first: u64, second: u64) {
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

/// The rank that the launcher gave this process, all ones if none did.
unsafe fn rank(environment: *const *const u8) -> u64 {
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

/// The number behind `NAME=` in an environment entry.
unsafe fn value_of(entry: *const u8, name: &[u8]) -> Option<u64> {
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
