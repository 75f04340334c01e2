//! The preloaded library: for each MPI function a stub that the host sees, whoever calls it.
//!
//! Every function of MPI's and its profiling interface is an indirect one here, an *operation* (see
//! `belljar-abi`). The first of them that a dynamic linker resolves has the stub range mapped,
//! before any constructor runs; where Belljar is not, all of them lead to the real functions. What a
//! function leads to is looked for when it is first called, so it does not matter when and how MPI
//! was loaded. A process is introduced to the host then. Programs that name no MPI function run
//! nothing of this. Before this library is relocated only `pick` and what it calls may run,
//! which therefore use no address that a linker would have to fill in.

#![no_std]
#![no_builtins]
#![crate_type = "cdylib"]

/// Introduces a process to the host when it first calls MPI.
mod process;
/// Looks for symbols in what is loaded, in the order of loading.
mod search;

use core::arch::x86_64::__cpuid;
use core::arch::{asm, global_asm};
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, Ordering};

// Constants of the ABI, as `build.rs` writes them.
include!("constants.rs");

// For each operation: its resolver, its way to the real function where Belljar is not, and its
// way into `resolve`.
global_asm!(
    include_str!("functions.s"),
    pick = sym pick,
    resolve = sym resolve,
    options(att_syntax)
);

unsafe extern "C" {
    /// Addresses of the real functions where Belljar is not, zero for those not looked for yet.
    static mut belljar_next: [u64; OPERATIONS];
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

const PAGE: u64 = 4096;
const MMAP: u64 = 9;
const MPROTECT: u64 = 10;
const READ_WRITE: u64 = 3;
const READ_EXECUTE: u64 = 5;
/// `MAP_PRIVATE`, `MAP_ANONYMOUS`, `MAP_FIXED_NOREPLACE` and `MAP_POPULATE`.
const MAP_HERE: u64 = 0x10_8022;

const UNKNOWN: u32 = 0;
const FINDING_OUT: u32 = 1;
const UNDER_BELLJAR: u32 = 2;
const ELSEWHERE: u32 = 3;

/// Where this process runs.
static PLACE: AtomicU32 = AtomicU32::new(UNKNOWN);

/// Answers a dynamic linker what `operation` is bound to: its stub under Belljar, and `forward`
/// elsewhere. `resolvers` is the way into `resolve` of operation 0, `returned` where traced calls
/// return to.
extern "C" fn pick(operation: u64, forward: u64, resolvers: u64, returned: u64) -> u64 {
    if place(resolvers, returned) == UNDER_BELLJAR {
        stub(operation)
    } else {
        forward
    }
}

fn stub(operation: u64) -> u64 {
    FIRST_STUB + operation * STUB_SIZE
}

/// Where this process runs; whoever asks first finds out, and makes the stubs.
fn place(resolvers: u64, returned: u64) -> u32 {
    loop {
        let known =
            PLACE.compare_exchange(UNKNOWN, FINDING_OUT, Ordering::Acquire, Ordering::Acquire);
        match known {
            Ok(_) => {
                // SAFETY: only the one thread that comes here writes the range.
                let place = unsafe { find_out(resolvers, returned) };
                PLACE.store(place, Ordering::Release);
                return place;
            }
            Err(FINDING_OUT) => spin_loop(),
            Err(place) => return place,
        }
    }
}

unsafe fn find_out(resolvers: u64, returned: u64) -> u32 {
    let found = __cpuid(DETECT_LEAF);
    if [found.ebx, found.ecx, found.edx] != SIGNATURE {
        return ELSEWHERE;
    }
    // SAFETY: only what nobody has mapped is mapped, and nothing else written.
    unsafe {
        let arguments = [STUB_BASE, STUB_LENGTH, READ_WRITE, MAP_HERE, u64::MAX, 0];
        if system_call(MMAP, arguments) != STUB_BASE {
            return ELSEWHERE;
        }
        let int3 = found.eax & DETECT_INT3 != 0;
        write_stubs(if int3 { MAGIC_INT3 } else { MAGIC_CPUID }, resolvers);
        word(RETURN_OFFSET).write(returned);
        word(RESOLVERS_OFFSET).write(resolvers);
        // The tables after the stubs stay as they are, to be written.
        let arguments = [STUB_BASE, TABLE_OFFSET, READ_EXECUTE, 0, 0, 0];
        system_call(MPROTECT, arguments);
    }
    UNDER_BELLJAR
}

/// Fills the range: the magic instructions, the return stub, a stub for each operation, and the
/// table, which leads into `resolve` yet.
unsafe fn write_stubs([first, second]: [u8; 2], resolvers: u64) {
    // SAFETY: the range is mapped and writable.
    unsafe {
        // The magic instruction; jmp r11
        put(STUB_BASE, &[first, second, 0x41, 0xff, 0xe3]);
        // The magic instruction; ret
        put(FACT_ADDRESS, &[first, second, 0xc3]);
        write_stub(RETURN_ADDRESS, OP_RETURN);
        let mut operation = 0;
        while operation < OPERATIONS as u64 {
            write_stub(stub(operation), operation as u32);
            word(TABLE_OFFSET + 8 * operation).write((resolvers + operation * RESOLVER_SIZE) | UNRESOLVED);
            operation += 1;
        }
    }
}

/// The word at `offset` in the range.
fn word(offset: u64) -> *mut u64 {
    (STUB_BASE + offset) as *mut u64
}

/// Makes the table of replaced return addresses this process's own, as the host writes to no page
/// that is shared with a process that this one was forked from.
fn own_pending() {
    let mut offset = PENDING_OFFSET;
    while offset < PENDING_OFFSET + PENDING_LENGTH {
        // SAFETY: the range is mapped; a write that leaves all bits as they are, in one
        // step, takes nothing from what the host writes.
        unsafe { asm!("lock or qword ptr [{}], 0", in(reg) word(offset)) };
        offset += PAGE;
    }
}

/// `mov r11d, operation; jmp magic`.
unsafe fn write_stub(at: u64, operation: u32) {
    // SAFETY: the caller has the range mapped.
    unsafe {
        let jump = at + STUB_JUMP;
        let distance = STUB_BASE.wrapping_sub(jump + 5) as u32;
        put(at, &[0x41, 0xbb]);
        put(at + 2, &operation.to_le_bytes());
        put(jump, &[0xe9]);
        put(jump + 1, &distance.to_le_bytes());
    }
}

unsafe fn put(at: u64, bytes: &[u8]) {
    let mut place = at as *mut u8;
    for byte in bytes {
        // SAFETY: the caller has the range mapped.
        unsafe {
            place.write(*byte);
            place = place.add(1);
        }
    }
}

unsafe fn system_call(number: u64, arguments: [u64; 6]) -> u64 {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result;
    // SAFETY: what the call does is the caller's affair; a system call changes these registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    result
}

/// Looks for what `operation`, which is called, leads to, and answers where the call continues:
/// there, or under Belljar at the stub again, where the host now finds it.
extern "C" fn resolve(operation: u64) -> u64 {
    let function = search::function(operation as usize % FUNCTION_COUNT);
    let wanted = if operation < FUNCTION_COUNT as u64 {
        &function.named
    } else {
        &function.profiling
    };
    let target = wanted.address;
    if PLACE.load(Ordering::Acquire) != UNDER_BELLJAR {
        // SAFETY: an aligned word, which whoever else looked for it gives the same value.
        unsafe {
            (&raw mut belljar_next)
                .cast::<u64>()
                .add(operation as usize)
                .write(target)
        };
        return target;
    }
    // What another layer provides will call the profiling interface, and is seen there.
    let apart = operation < FUNCTION_COUNT as u64 && function.is_layered();
    process::introduce();
    let entry = word(TABLE_OFFSET + 8 * operation);
    // SAFETY: the table is mapped; again, all that write there write the same.
    unsafe { entry.write(target | if apart { PASSED_BY } else { 0 }) };
    own_pending();
    stub(operation)
}
