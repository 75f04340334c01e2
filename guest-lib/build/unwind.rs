//! The return path of traced calls under a host that replaces return addresses, and the unwind rules
//! from there to the caller.
//!
//! Used by `build.rs`, which adds it to the library's assembly.

use belljar_abi as abi;

/// The return path of traced calls, with unwind rules for their callers. The return address is looked
/// up by the stack pointer, which is 8 below this frame's canonical frame address. That address is
/// unique to the frame, since unwinders identify frames by it. Unwinders use the byte before a return
/// address, so the frame begins one byte earlier.
pub(crate) fn returned() -> String {
    let escape = |bytes: &[u8]| {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:#x}")).collect();
        format!(".cfi_escape {}\n", bytes.join(","))
    };
    let expression = return_address();
    let length = u8::try_from(expression.len()).expect("fits one byte of LEB128");
    assert!(length < 0x80, "fits one byte of LEB128");
    // DW_CFA_val_expression for the return address (16) and for RSP (7): CFA, 8, minus.
    let of_return = [&[0x16, 16, length], expression.as_slice()].concat();
    let of_stack = [0x16, 7, 2, 0x38, 0x1c];
    format!(
        ".balign 16\n.type belljar_returned, @function\n.cfi_startproc\n{}{}belljar_frame: nop\n\
         belljar_returned: jmp *belljar_gate(%rip)\n.cfi_endproc\n\
         .section .rodata\n.balign 8\nbelljar_gate: .quad {:#x}\n.text\n",
        escape(&of_return),
        escape(&of_stack),
        abi::RETURN_ADDRESS
    )
}

/// The return address as a DWARF expression (DWARF 5, section 2.5) on the frame's canonical frame
/// address: the entry of the table of replaced return addresses for the stack pointer, or zero, which
/// ends unwinding.
fn return_address() -> Vec<u8> {
    const DEREF: u8 = 0x06;
    const CONST1U: u8 = 0x08;
    const CONST8U: u8 = 0x0e;
    const DUP: u8 = 0x12;
    const OVER: u8 = 0x14;
    const PICK: u8 = 0x15;
    const AND: u8 = 0x1a;
    const MINUS: u8 = 0x1c;
    const PLUS: u8 = 0x22;
    const PLUS_UCONST: u8 = 0x23;
    const SHL: u8 = 0x24;
    const SHR: u8 = 0x25;
    const XOR: u8 = 0x27;
    const BRA: u8 = 0x28;
    const EQ: u8 = 0x29;
    const SKIP: u8 = 0x2f;
    const LIT0: u8 = 0x30;
    const LIT8: u8 = 0x38;
    let [within, between] = abi::PENDING_SHIFTS.map(|shift| shift as u8);
    let buckets = (1 << abi::PENDING_BUCKET_BITS) - 1;
    let shift = abi::PENDING_BUCKET_SHIFT as u8;
    let table = (abi::STUB_BASE + abi::PENDING_OFFSET).to_le_bytes();
    let last = (1 << abi::PENDING_BUCKET_SHIFT) - 1;
    // The stack pointer, and the address of its bucket's first pair. One extra word is below, because
    // libgcc's `DW_OP_pick` refuses the lowest one.
    let mut code = vec![DUP, LIT8, MINUS, DUP, CONST1U, within, SHR];
    code.extend([OVER, CONST1U, between, SHR, XOR, CONST1U, buckets, AND]);
    code.extend([CONST1U, shift, SHL, CONST8U]);
    code.extend(table);
    code.push(PLUS);
    // Compare this pair. Branch offsets are relative to the following operation.
    let found = [PLUS_UCONST, 8, DEREF];
    let give_up = [LIT0, SKIP, found.len() as u8, 0];
    let again = [DUP, DEREF, PICK, 2, EQ];
    let next = [PLUS_UCONST, 16, DUP, CONST1U, last, AND];
    code.extend(again);
    let to_found = next.len() + 3 + give_up.len();
    code.extend([BRA, to_found as u8, 0]);
    code.extend(next);
    let back = -((again.len() + 3 + next.len() + 3) as i16);
    let [low, high] = back.to_le_bytes();
    code.extend([BRA, low, high]);
    code.extend(give_up);
    code.extend(found);
    code
}
