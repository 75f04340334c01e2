//! Guests that try to break out, or only to stop the clock: each behaves as on a processor, and
//! harms only itself.

use belljar_cpu::{Exit, InstructionSet, Registers, ShutdownCause, Vcpu};
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{CODE, DATA, Guest, STACK, assemble, is_pooled};
use iced_x86::code_asm::*;

/// With more than 2^16 instructions, a guest's own clock would have stopped it.
const LONG: u64 = 200_000;
/// The second mapping of the page at `CODE`.
const ALIAS: u64 = 0x1000_0000;

fn gpr(guest: &Guest, number: usize) -> u64 {
    guest.vcpu.registers().gpr[number]
}

/// Checks that a guest that never ends stops after exactly the granted number of instructions.
fn runs_out(guest: &mut Guest) {
    assert_eq!(guest.run(LONG), Exit::Deadline);
    assert_eq!(guest.vcpu.retired(), LONG);
}

/// A table that refers to itself appears as memory, as kernels use it; a whole ring of tables also
/// has a translation.
#[test]
fn tables_that_lead_to_themselves() {
    const RING: u64 = 0x20_0000;
    const FOURTH: u64 = 1 << 39;
    let code = assemble(|a| {
        // Entry 1 of the top table refers to RING, whose entries all refer to RING.
        a.mov(rax, (RING | 7) as i64)?;
        a.mov(rdi, 0x1008u64)?;
        a.mov(qword_ptr(rdi), rax)?;
        a.mov(rdi, RING)?;
        a.mov(ecx, 512)?;
        a.rep().stosq()?;
        a.mov(rbx, FOURTH)?;
        a.mov(rdx, qword_ptr(rbx + 0x10))?;
        a.mov(rsi, (RING | 0x67) as i64)?;
        a.mov(qword_ptr(rbx + 0x18), rsi)?;
        a.hlt()
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), None);
    // Read through the ring: the table itself, whose used entries are marked.
    assert_eq!(gpr(&guest, 2) & !0x60, RING | 7);
    assert_eq!(guest.read(RING + 0x18, 8), (RING | 0x67).to_le_bytes());
}

/// Tables outside RAM are empty: the fault's handler cannot be found either.
#[test]
fn tables_outside_of_memory_shut_the_processor_down() {
    let code = assemble(|a| {
        a.mov(rax, 0x7f_ffff_f000u64)?;
        a.mov(cr3, rax)?;
        a.nop()
    });
    let mut guest = Guest::new(&code);
    let exit = guest.run(LONG);
    let cause = ShutdownCause::TripleFault {
        vector: 14,
        rip: CODE + 13,
    };
    assert_eq!(exit, Exit::Shutdown(cause));
    assert_eq!(guest.run(LONG), exit, "it stays down");
}

/// Hot code that is then written through another mapping of its page.
#[test]
fn code_written_from_another_mapping_runs_as_written() {
    let code = assemble(|a| {
        let (mut again, mut patched) = (a.create_label(), a.create_label());
        a.xor(ebx, ebx)?;
        a.lea(rdi, ptr(patched))?;
        a.add(rdi, (ALIAS - CODE) as i32)?;
        a.set_label(&mut again)?;
        a.mov(ecx, 5000)?;
        a.set_label(&mut patched)?;
        a.mov(eax, 1)?;
        a.add(rbx, rax)?;
        a.dec(ecx)?;
        a.jnz(patched)?;
        a.inc(byte_ptr(rdi + 1))?;
        a.cmp(byte_ptr(rdi + 1), 5)?;
        a.jb(again)?;
        a.hlt()
    });
    let mut guest = Guest::new(&code);
    guest.map(ALIAS, CODE, 1);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(gpr(&guest, 3), 5000 * (1 + 2 + 3 + 4));
    assert!(guest.vcpu.statistics().promoted > 0, "no code became hot");
}

/// A hot loop of stores, with a known contiguous range around it, reaches a page from which code
/// was run meanwhile.
#[test]
fn code_in_reach_of_hot_stores_runs_as_written() {
    const FUNCTION: u64 = DATA + 0x5000;
    /// `mov eax, 1; ret; nop; nop`.
    const ONE: u64 = 0x9090_c300_0000_01b8;
    let code = assemble(|a| {
        let (mut fill, mut again) = (a.create_label(), a.create_label());
        for (to, what) in [(DATA, ONE), (FUNCTION, ONE), (FUNCTION, ONE + 0x100)] {
            a.mov(rdi, to)?;
            a.mov(rax, what)?;
            a.call(fill)?;
            a.mov(rdi, FUNCTION)?;
            if to == FUNCTION {
                a.call(rdi)?;
                a.lea(rbx, ptr(rax + rbx * 8))?;
            }
        }
        a.hlt()?;
        a.set_label(&mut fill)?;
        a.mov(ecx, 3000)?;
        // Only the loop itself stores, and is hot when that matters.
        a.jmp(again)?;
        a.set_label(&mut again)?;
        a.mov(qword_ptr(rdi), rax)?;
        a.mov(qword_ptr(rdi + 8), rax)?;
        a.sub(ecx, 1)?;
        a.jnz(again)?;
        a.ret()
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(gpr(&guest, 3), 0o12);
    assert!(guest.vcpu.statistics().promoted > 0 || is_pooled());
}

/// The very next instruction of the same block is rewritten differently in each round.
#[test]
fn the_next_instruction_may_be_written_by_this_one() {
    let code = assemble(|a| {
        let (mut again, mut next) = (a.create_label(), a.create_label());
        a.lea(rdi, ptr(next))?;
        a.mov(ecx, 100)?;
        a.set_label(&mut again)?;
        a.mov(byte_ptr(rdi + 1), cl)?;
        a.set_label(&mut next)?;
        a.mov(eax, 0)?;
        a.add(rbx, rax)?;
        a.dec(ecx)?;
        a.jnz(again)?;
        a.hlt()
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(gpr(&guest, 3), 5050);
    assert_eq!(guest.vcpu.retired(), 2 + 100 * 5 + 1);
}

/// The stack is among frequently run code, and a push overwrites the next instruction.
#[test]
fn a_stack_among_code_overwrites_it() {
    let code = assemble(|a| {
        let (mut function, mut again) = (a.create_label(), a.create_label());
        a.mov(ecx, 1000)?;
        a.set_label(&mut again)?;
        a.call(function)?;
        a.dec(ecx)?;
        a.jnz(again)?;
        a.lea(rsp, ptr(function))?;
        a.add(rsp, 8)?;
        a.mov(rax, 0xf4f4_f4f4_f4f4_f4f4u64)?;
        // Eight HLTs, onto the function after this.
        a.push(rax)?;
        a.set_label(&mut function)?;
        a.inc(rbx)?;
        a.ret()?;
        a.db(&[0x90; 8])
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(gpr(&guest, 3), 1000);
    assert_eq!(guest.vcpu.retired(), 1 + 1000 * 5 + 5);
}

/// An exception's handler that raises it again, each frame below the last, until the stack ends:
/// then the processor shuts down.
#[test]
fn a_handler_that_faults_for_ever_ends_when_its_stack_does() {
    let mut guest = Guest::new(&[0x0f, 0x0b]);
    guest.write(bare::HANDLERS + 6 * 16, &[0x0f, 0x0b]);
    // Nothing is mapped below its stack.
    guest.map_page(0x3f_e000, 0x3f_e000 | 7);
    guest.map_page(0x3f_d000, 0);
    let mut registers = guest.vcpu.registers();
    registers.gpr[Registers::RSP] = 0x3f_f000;
    guest.vcpu.set_registers(&registers);
    assert!(matches!(
        guest.run(LONG),
        Exit::Shutdown(ShutdownCause::TripleFault { .. })
    ));
}

/// The same on a stack that each exception resets: time passes.
#[test]
fn a_handler_that_faults_for_ever_does_not_stop_time() {
    let mut guest = Guest::new(&[0x0f, 0x0b]);
    guest.write(bare::HANDLERS + 6 * 16, &[0x0f, 0x0b]);
    guest.use_interrupt_stack(6, bare::HANDLERS + 6 * 16, STACK);
    runs_out(&mut guest);
}

/// Invalid descriptors of all kinds: selectors outside the table, invalid gates, a missing task
/// segment.
#[test]
fn descriptors_of_no_kind_fault_and_do_no_more() {
    for (selector, vector) in [(0x13u16, 13), (0x1f4, 13), (0x3b, 13), (0xfffb, 13)] {
        let code = assemble(|a| {
            a.mov(eax, u32::from(selector))?;
            a.mov(ds, ax)?;
            a.hlt()
        });
        let mut guest = Guest::new(&code);
        assert_eq!(guest.run_to_halt(), Some(vector), "{selector:#x}");
    }
    // lidt of nothing, then an exception.
    let code = assemble(|a| {
        a.lidt(ptr(DATA))?;
        a.ud2()
    });
    let exit = Guest::new(&code).run(LONG);
    assert!(matches!(exit, Exit::Shutdown(_)), "{exit:?}");
}

/// More code than the code memory has room for, run twice: 11,000 blocks of 64 stores, far more
/// than 32 MiB of host code.
#[test]
fn more_code_than_fits_is_translated_again() {
    const BLOCK: usize = 256;
    const FIRST: u64 = CODE + 0x1000;
    const LAST: u64 = 0x37_0000;
    let set = InstructionSet::default();
    let mut guest = Guest::with_ram(&set, bare::RAM_BYTES);
    // add qword [rdi + 1], 1, and 62 stores; a jump to the next block.
    let mut block = vec![0x48, 0x83, 0x47, 0x01, 0x01];
    for number in 0..61u8 {
        block.extend([0x48, 0x89, 0x46, number]);
    }
    block.extend([0xeb, (BLOCK - 5 - 61 * 4 - 2) as u8]);
    block.resize(BLOCK, 0xcc);
    let blocks = (LAST - FIRST) / BLOCK as u64;
    for number in 0..blocks {
        let at = FIRST + number * BLOCK as u64;
        if at == DATA - 0x1000 {
            // Over the data.
            let mut jump = vec![0xe9];
            jump.extend((0x3000u32 - 5).to_le_bytes());
            guest.write(at, &jump);
        } else if !(DATA - 0x1000..DATA + 0x2000).contains(&at) {
            guest.write(at, &block);
        }
    }
    // dec ecx; jnz to the first block; hlt, at the blocks' end; at CODE the entry.
    let mut end = vec![0xff, 0xc9, 0x0f, 0x85];
    end.extend((FIRST.wrapping_sub(LAST + 8) as u32).to_le_bytes());
    end.push(0xf4);
    guest.write(LAST, &end);
    let mut way_in = vec![0xe9];
    way_in.extend(((FIRST - CODE - 5) as u32).to_le_bytes());
    guest.write(CODE, &way_in);
    let mut registers = guest.vcpu.registers();
    registers.rip = CODE;
    registers.gpr[1] = 2;
    registers.gpr[6] = DATA + 0x100;
    registers.gpr[7] = DATA;
    guest.vcpu.set_registers(&registers);
    assert_eq!(guest.run_to_halt(), None);
    let real = blocks - 0x3000 / BLOCK as u64;
    assert_eq!(guest.read(DATA + 1, 8), (2 * real).to_le_bytes());
    let statistics = guest.vcpu.statistics();
    assert!(statistics.flushes > 0 || is_pooled(), "{statistics:?}");
}
