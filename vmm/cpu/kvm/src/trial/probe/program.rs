//! The trial guest's program: operations that kernels use and simple demonstrations do not.
//!
//! It writes each step's number to `STEP_PORT` and errors to `WRONG_PORT`, and only needs the host
//! to emulate a node's devices. `probe` assembles it and handles its exits.

use belljar_abi::{FACT_ADDRESS, FACT_LEAF, MAGIC_ADDRESS};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::trial::bare::{
    CODE, DATA, GDT, IDT, KERNEL_CODE, KERNEL_DATA, STACK, TASK, TASK_SELECTOR, USER_STACK,
};

/// The port to which the program writes each step's number.
pub(super) const STEP_PORT: u16 = 0x80;
/// The port to which it writes when a step fails.
pub(super) const WRONG_PORT: u16 = 0x81;
/// The value written after the last step.
pub(super) const DONE: u32 = 0xff;
/// The external interrupt that ends the halt.
pub(super) const VECTOR: u8 = 0x40;
/// A register of the local APIC, read and written as device memory.
pub(super) const DEVICE: u64 = 0xfee0_0020;
/// Its value.
pub(super) const DEVICE_VALUE: u32 = 0x5a17_0042;
/// A register of the local APIC by number.
pub(super) const APIC_MSR: u32 = 0x802;
/// Its value.
pub(super) const APIC_VALUE: u32 = 7;
/// A register that does not exist.
pub(super) const NO_MSR: u32 = 0x0bad_0000;
/// The value of R11 at a traced call, including timed ones.
pub(super) const CALL: u64 = 5;
/// Number of timed traced calls.
pub(super) const CALLS: u32 = 64;

const END_OF_INTERRUPT: u32 = 0x80b;
const EFER: u32 = 0xc000_0080;
const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const SFMASK: u32 = 0xc000_0084;
const GS_BASE: u32 = 0xc000_0101;
/// The selectors that SYSCALL and SYSRET start from.
const SELECTORS: u32 = 0x0010_0008;
/// Interrupts on, ports open to user code.
const USER_FLAGS: i32 = 0x3202;

/// Addresses of the program's counters of exceptions and interrupts.
const EXCEPTIONS: u64 = DATA;
const INTERRUPTS: u64 = DATA + 8;
/// Addresses of the pointers to descriptor tables.
const GDTR: u64 = DATA + 0x100;
const IDTR: u64 = DATA + 0x110;

/// The program, other contents of memory, and the continuation of a traced call.
pub(super) struct ProbeProgram {
    pub code: Vec<u8>,
    pub data: Vec<(u64, Vec<u8>)>,
    pub behind_call: u64,
}

struct Labels {
    wrong: CodeLabel,
    behind_call: CodeLabel,
    trap: CodeLabel,
    invalid: CodeLabel,
    protection: CodeLabel,
    interrupt: CodeLabel,
    system_call: CodeLabel,
    user: CodeLabel,
}

/// Assembles it.
pub(super) fn assemble() -> Result<ProbeProgram, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut labels = Labels {
        wrong: a.create_label(),
        behind_call: a.create_label(),
        trap: a.create_label(),
        invalid: a.create_label(),
        protection: a.create_label(),
        interrupt: a.create_label(),
        system_call: a.create_label(),
        user: a.create_label(),
    };
    tables(&mut a)?;
    control(&mut a, &labels)?;
    exceptions(&mut a, &labels)?;
    devices(&mut a, &labels)?;
    halt(&mut a, &labels)?;
    user(&mut a, &mut labels)?;
    handlers(&mut a, &mut labels)?;
    let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let assembled = a.assemble_options(CODE, options)?;
    let place = |label: &CodeLabel| assembled.label_ip(label);
    let gates = [
        (3, place(&labels.trap)?),
        (6, place(&labels.invalid)?),
        (13, place(&labels.protection)?),
        (VECTOR, place(&labels.interrupt)?),
        (0x80, place(&labels.trap)?),
    ];
    let mut data = vec![(GDTR, pointer(55, GDT)), (IDTR, pointer(0xfff, IDT))];
    data.extend(gates.map(|(vector, at)| (IDT + 16 * u64::from(vector), gate(at))));
    Ok(ProbeProgram {
        behind_call: place(&labels.behind_call)?,
        code: assembled.inner.code_buffer,
        data,
    })
}

fn pointer(limit: u16, base: u64) -> Vec<u8> {
    let mut bytes = limit.to_le_bytes().to_vec();
    bytes.extend(base.to_le_bytes());
    bytes
}

/// An interrupt gate that user code may use.
fn gate(at: u64) -> Vec<u8> {
    const PRESENT_USER_INTERRUPT: u64 = 0xee00;
    let low = at & 0xffff
        | u64::from(KERNEL_CODE) << 16
        | PRESENT_USER_INTERRUPT << 32
        | (at >> 16 & 0xffff) << 48;
    let mut bytes = low.to_le_bytes().to_vec();
    bytes.extend((at >> 32).to_le_bytes());
    bytes
}

fn step(a: &mut CodeAssembler, number: u32) -> Result<(), IcedError> {
    a.mov(eax, number)?;
    a.out(i32::from(STEP_PORT), al)
}

fn write_msr(a: &mut CodeAssembler, index: u32, low: u32, high: u32) -> Result<(), IcedError> {
    a.mov(ecx, index)?;
    a.mov(eax, low)?;
    a.mov(edx, high)?;
    a.wrmsr()
}

fn expect(a: &mut CodeAssembler, count: (u64, i32), labels: &Labels) -> Result<(), IcedError> {
    a.cmp(qword_ptr(count.0), count.1)?;
    a.jne(labels.wrong)
}

/// Steps 0 and 1.
fn tables(a: &mut CodeAssembler) -> Result<(), IcedError> {
    step(a, 0)?;
    step(a, 1)?;
    a.lgdt(ptr(GDTR))?;
    a.lidt(ptr(IDTR))?;
    let mut behind = a.create_label();
    a.push(i32::from(KERNEL_CODE))?;
    a.lea(rax, ptr(behind))?;
    a.push(rax)?;
    // RETFQ, which the assembler does not support.
    a.db(&[0x48, 0xcb])?;
    a.set_label(&mut behind)?;
    a.mov(eax, u32::from(KERNEL_DATA))?;
    a.mov(ds, ax)?;
    a.mov(es, ax)?;
    a.mov(ss, ax)?;
    a.mov(fs, ax)?;
    // Mark the task available again; loading it marks it busy.
    a.mov(byte_ptr(GDT + u64::from(TASK_SELECTOR) + 5), 0x89)?;
    a.mov(ax, i32::from(TASK_SELECTOR))?;
    a.ltr(ax)?;
    a.mov(rax, qword_ptr(TASK + 4))?;
    a.mov(rsp, STACK)
}

/// Step 2.
fn control(a: &mut CodeAssembler, labels: &Labels) -> Result<(), IcedError> {
    const PAGE_GLOBAL: i32 = 1 << 7;
    const TASK_SWITCHED: i32 = 1 << 3;
    const SYSCALL: i32 = 1;
    step(a, 2)?;
    a.mov(rax, cr3)?;
    a.mov(cr3, rax)?;
    a.mov(rax, cr4)?;
    a.xor(rax, PAGE_GLOBAL)?;
    a.mov(cr4, rax)?;
    a.mov(rax, cr0)?;
    a.or(rax, TASK_SWITCHED)?;
    a.mov(cr0, rax)?;
    a.clts()?;
    a.invlpg(byte_ptr(DATA))?;
    a.mov(ecx, EFER)?;
    a.rdmsr()?;
    a.or(eax, SYSCALL)?;
    a.wrmsr()?;
    write_msr(a, STAR, 0, SELECTORS)?;
    a.lea(rax, ptr(labels.system_call))?;
    a.mov(ecx, LSTAR)?;
    a.xor(edx, edx)?;
    a.wrmsr()?;
    write_msr(a, SFMASK, 0x200, 0)?;
    write_msr(a, GS_BASE, DATA as u32, 0)?;
    a.swapgs()?;
    a.swapgs()?;
    a.mov(ecx, GS_BASE)?;
    a.rdmsr()?;
    a.cmp(eax, DATA as i32)?;
    a.jne(labels.wrong)
}

/// Step 3.
fn exceptions(a: &mut CodeAssembler, labels: &Labels) -> Result<(), IcedError> {
    step(a, 3)?;
    a.int3()?;
    a.int(0x80)?;
    a.ud2()?;
    expect(a, (EXCEPTIONS, 3), labels)
}

/// Steps 4 and 5.
fn devices(a: &mut CodeAssembler, labels: &Labels) -> Result<(), IcedError> {
    step(a, 4)?;
    a.mov(rbx, DEVICE)?;
    a.mov(eax, dword_ptr(rbx))?;
    a.cmp(eax, DEVICE_VALUE as i32)?;
    a.jne(labels.wrong)?;
    a.movzx(ecx, byte_ptr(rbx))?;
    a.cmp(ecx, (DEVICE_VALUE & 0xff) as i32)?;
    a.jne(labels.wrong)?;
    a.or(dword_ptr(rbx), 1)?;
    a.mov(dword_ptr(rbx), 0)?;
    step(a, 5)?;
    a.mov(ecx, APIC_MSR)?;
    a.rdmsr()?;
    a.cmp(eax, APIC_VALUE as i32)?;
    a.jne(labels.wrong)?;
    write_msr(a, END_OF_INTERRUPT, 0, 0)?;
    a.mov(ecx, NO_MSR)?;
    a.rdmsr()?;
    expect(a, (EXCEPTIONS, 4), labels)
}

/// Step 6.
fn halt(a: &mut CodeAssembler, labels: &Labels) -> Result<(), IcedError> {
    step(a, 6)?;
    a.sti()?;
    a.hlt()?;
    expect(a, (INTERRUPTS, 1), labels)?;
    a.cli()
}

/// Steps 7 and 8, and the timed calls.
fn user(a: &mut CodeAssembler, labels: &mut Labels) -> Result<(), IcedError> {
    step(a, 7)?;
    a.lea(rcx, ptr(labels.user))?;
    a.mov(r11d, USER_FLAGS)?;
    a.sysretq()?;
    a.set_label(&mut labels.user)?;
    a.mov(rsp, USER_STACK)?;
    a.int(0x80)?;
    // The program's own INT3, which is not a magic instruction.
    a.int3()?;
    expect(a, (EXCEPTIONS, 6), labels)?;
    a.mov(esi, 3)?;
    a.syscall()?;
    a.cmp(esi, 4)?;
    a.jne(labels.wrong)?;
    step(a, 8)?;
    let mut again = a.create_label();
    a.mov(ebp, CALLS)?;
    a.set_label(&mut again)?;
    a.mov(eax, 0x1111)?;
    a.mov(rbx, MAGIC_ADDRESS)?;
    a.mov(r11d, CALL as i32)?;
    a.jmp(rbx)?;
    a.set_label(&mut labels.behind_call)?;
    a.cmp(eax, 0x1111)?;
    a.jne(labels.wrong)?;
    a.dec(ebp)?;
    a.jnz(again)?;
    a.mov(eax, FACT_LEAF)?;
    a.mov(rbx, FACT_ADDRESS)?;
    a.call(rbx)?;
    a.cmp(eax, FACT_LEAF as i32)?;
    a.jne(labels.wrong)?;
    step(a, DONE)?;
    a.set_label(&mut labels.wrong)?;
    a.out(i32::from(WRONG_PORT), al)?;
    a.jmp(labels.wrong)
}

/// Handlers of exceptions, of the interrupt, and of system calls.
fn handlers(a: &mut CodeAssembler, labels: &mut Labels) -> Result<(), IcedError> {
    a.set_label(&mut labels.protection)?;
    a.add(rsp, 8)?;
    a.set_label(&mut labels.invalid)?;
    // UD2 and RDMSR both have two bytes.
    a.add(qword_ptr(rsp), 2)?;
    a.set_label(&mut labels.trap)?;
    a.inc(qword_ptr(EXCEPTIONS))?;
    a.iretq()?;
    a.set_label(&mut labels.interrupt)?;
    a.inc(qword_ptr(INTERRUPTS))?;
    write_msr(a, END_OF_INTERRUPT, 0, 0)?;
    a.iretq()?;
    a.set_label(&mut labels.system_call)?;
    a.swapgs()?;
    a.inc(esi)?;
    a.swapgs()?;
    a.sysretq()
}
