//! Memory that continues in another page of RAM, which hot code accesses repeatedly: the pages are
//! mapped adjacently, which only affects speed.

use belljar_cpu::{Exit, PAGE_SIZE, Vcpu};
use belljar_exact_testing::bare::{DATA, Guest, RAM_BYTES, assemble, is_pooled};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

/// Linear address of pages in reverse order in RAM.
const REVERSED: u64 = 0x2000_0000;
const PAGES: u64 = 4;
/// The seam in the middle of them.
const SEAM: u64 = REVERSED + PAGES / 2 * PAGE_SIZE;

fn guest(code: &[u8]) -> Guest {
    let mut guest = Guest::new(code);
    for page in 0..PAGES {
        let physical = DATA + (PAGES - 1 - page) * PAGE_SIZE;
        guest.map_page(REVERSED + page * PAGE_SIZE, physical | 7);
    }
    guest
}

/// The visible results of a guest that ran to its end.
#[derive(PartialEq, Eq)]
struct Seen {
    gpr: [u64; 16],
    retired: u64,
    memory: Vec<u8>,
}

/// Runs `code` to its end, `step` instructions at a time: the results, and the number of seams
/// whose pages were mapped adjacently.
fn run(code: &[u8], step: u64) -> (Seen, u64) {
    let mut guest = guest(code);
    while guest.run(step) == Exit::Deadline {}
    let seen = Seen {
        gpr: guest.vcpu.registers().gpr,
        retired: guest.vcpu.retired(),
        memory: guest.read(0, RAM_BYTES),
    };
    (seen, guest.vcpu.statistics().seams)
}

/// A recursive function, with its stack across the seam.
fn recursion(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let [mut outer, mut function, mut leaf] = [(); 3].map(|()| a.create_label());
    a.mov(rsp, SEAM + 0x128)?;
    a.mov(ebp, 9000)?;
    a.set_label(&mut outer)?;
    a.mov(edi, 12)?;
    a.call(function)?;
    a.sub(ebp, 1)?;
    a.jnz(outer)?;
    a.hlt()?;
    a.set_label(&mut function)?;
    a.push(rbx)?;
    a.push(rsi)?;
    a.push(rdi)?;
    a.lea(rbx, ptr(rax + rdi * 8))?;
    a.add(rsi, rbx)?;
    a.sub(edi, 1)?;
    a.jz(leaf)?;
    a.call(function)?;
    a.set_label(&mut leaf)?;
    a.pop(rdi)?;
    a.add(rax, qword_ptr(rsp))?;
    a.pop(rsi)?;
    a.pop(rbx)?;
    a.add(rax, rdi)?;
    a.ret()
}

#[test]
fn a_stack_across_a_seam_holds_the_same_mended_or_not() {
    let code = assemble(recursion);
    let (whole, mended) = run(&code, 1 << 40);
    assert!(mended > 0 || is_pooled());
    for step in [1, 211] {
        assert!(whole == run(&code, step).0, "{step} at once");
    }
}

/// A loop over rows: the moving operand, the number of rows, the first row's address, and the
/// distance between rows.
struct Rows {
    moves: Moves,
    count: u32,
    first: u64,
    pitch: u32,
}

#[derive(Clone, Copy, Debug)]
enum Moves {
    Pointer,
    Pitch,
    Index,
}

impl Rows {
    fn emit(&self, a: &mut CodeAssembler) -> Result<(), IcedError> {
        let [mut outer, mut inner] = [(); 2].map(|()| a.create_label());
        a.mov(rax, 0x1234_5678_9abc_def1u64)?;
        a.mov(r8d, 40)?;
        a.set_label(&mut outer)?;
        a.mov(rsi, self.first)?;
        a.mov(r11d, self.pitch)?;
        a.mov(ebx, 0)?;
        a.mov(r9d, 170)?;
        a.set_label(&mut inner)?;
        a.mov(rdx, rsi)?;
        for row in 0..self.count {
            let at = match self.moves {
                Moves::Index => rdx + rbx * 8,
                _ => rdx + 0,
            };
            a.add(rax, qword_ptr(at))?;
            a.mov(qword_ptr(at + 8), rax)?;
            a.rol(rax, 7 + row as i32)?;
            a.add(rdx, r11)?;
        }
        match self.moves {
            Moves::Pointer => a.add(rsi, 8)?,
            Moves::Pitch => a.add(r11, 8)?,
            Moves::Index => a.add(rbx, 1)?,
        }
        a.sub(r9d, 1)?;
        a.jnz(inner)?;
        a.sub(r8d, 1)?;
        a.jnz(outer)?;
        a.hlt()
    }
}

/// Addresses that are sums, in pages in reverse order: a confused address would be in the wrong
/// page.
#[test]
fn rows_that_are_sums_are_found_in_their_pages() {
    for moves in [Moves::Pointer, Moves::Pitch, Moves::Index] {
        for (count, first, pitch) in [
            (3, REVERSED + 8, PAGE_SIZE as u32),
            (3, SEAM - 700, 64),
            (2, SEAM - 700, 128),
        ] {
            let rows = Rows {
                moves,
                count,
                first,
                pitch,
            };
            let code = assemble(|a| rows.emit(a));
            let whole = run(&code, 1 << 40).0;
            for step in [1, 1009] {
                let same = whole == run(&code, step).0;
                assert!(same, "{step} at once: {moves:?}, {pitch} bytes apart");
            }
        }
    }
}

/// Code on a page with a second mapping, written by the hot loop before it.
#[test]
fn code_on_a_mended_page_is_seen_to_change() {
    let code = assemble(|a| {
        let [mut start, mut outer, mut inner] = [(); 3].map(|()| a.create_label());
        a.jmp(start)?;
        recursion(a)?;
        a.set_label(&mut start)?;
        a.mov(rsp, SEAM + 0x128)?;
        a.mov(r8d, 60)?;
        a.set_label(&mut outer)?;
        a.mov(ecx, 3000)?;
        a.mov(rsi, SEAM - 0x800)?;
        a.set_label(&mut inner)?;
        a.mov(qword_ptr(SEAM - 16), rcx)?;
        a.mov(rbx, SEAM - 8)?;
        a.mov(rdx, qword_ptr(rbx - 8))?;
        a.mov(rdi, qword_ptr(rbx + 16))?;
        a.add(rdi, rdx)?;
        a.mov(qword_ptr(rbx + 16), rdi)?;
        a.sub(ecx, 1)?;
        a.jnz(inner)?;
        // MOV EAX, R8D as an immediate; RET.
        a.mov(byte_ptr(rsi), 0xb8)?;
        a.mov(dword_ptr(rsi + 1), r8d)?;
        a.mov(byte_ptr(rsi + 5), 0xc3)?;
        a.call(rsi)?;
        a.add(r9, rax)?;
        a.sub(r8d, 1)?;
        a.jnz(outer)?;
        a.hlt()
    });
    let (whole, mended) = run(&code, 1 << 40);
    assert!(mended > 0 || is_pooled());
    assert_eq!(whole.gpr[9], (1..=60).sum::<u64>());
    assert!(whole == run(&code, 997).0);
}
