//! Operands, accesses and values of single instructions.

use iced_x86::{Decoder, InstructionInfoFactory};

use super::*;

fn ops(bytes: &[u8]) -> Vec<MicroOp> {
    let all: Vec<Instruction> = Decoder::with_ip(64, bytes, 0x1000, 0).into_iter().collect();
    let before = [None].into_iter().chain(all.iter().map(Some));
    let mut info = InstructionInfoFactory::new();
    let each = all.iter().zip(before);
    each.map(|(one, before)| MicroOp::new(one, before, &mut info))
        .collect()
}

fn op(bytes: &[u8]) -> MicroOp {
    ops(bytes)[0]
}

const RAX: RegisterSet = 1;
const RCX: RegisterSet = 2;
const RBX: RegisterSet = 8;
const FLAG: RegisterSet = 1 << FLAGS;

#[test]
fn operands_and_addresses_are_separate() {
    // add rax, [rbx + rcx * 8 + 16]
    let add = op(&[0x48, 0x03, 0x44, 0xcb, 0x10]);
    assert_eq!(
        (add.sources, add.addresses, add.targets),
        (RAX, RBX | RCX, RAX | FLAG)
    );
    let place = Place {
        base: Some(3),
        index: Some((1, 8)),
        displacement: 16,
    };
    assert_eq!(
        (add.load, add.store, add.executes),
        (Some(place), None, true)
    );
    // add [rbx], rbx: an address and an operand.
    let add = op(&[0x48, 0x01, 0x1b]);
    assert_eq!((add.sources, add.addresses), (RBX, RBX));
    assert!(add.load.is_some() && add.load == add.store);
    // mov [rbx], rax
    let store = op(&[0x48, 0x89, 0x03]);
    assert!(!store.executes && !store.eliminated && store.load.is_none());
    assert_eq!(
        (store.sources, store.addresses, store.targets),
        (RAX, RBX, 0)
    );
}

#[test]
fn writes_of_parts_of_registers_read_the_rest() {
    // mov al, cl; mov eax, ecx
    assert_eq!(op(&[0x88, 0xc8]).sources, RAX | RCX);
    assert_eq!(op(&[0x89, 0xc8]).sources, RCX);
    // cmovz rax, rcx reads its target.
    assert_eq!(op(&[0x48, 0x0f, 0x44, 0xc1]).sources, RAX | RCX | FLAG);
}

#[test]
fn renaming_executes_moves_and_zero_idioms() {
    // mov rax, rcx; xor eax, eax; pxor xmm0, xmm0; movaps xmm0, xmm1
    for bytes in [
        &[0x48, 0x89, 0xc8][..],
        &[0x31, 0xc0],
        &[0x66, 0x0f, 0xef, 0xc0],
        &[0x0f, 0x28, 0xc1],
    ] {
        let op = op(bytes);
        assert!(op.eliminated && !op.executes, "{bytes:x?}");
    }
    assert_eq!(op(&[0x31, 0xc0]).sources, 0);
    // mov eax, 5 and movzx eax, cl are executed.
    assert!(op(&[0xb8, 5, 0, 0, 0]).executes);
    assert!(op(&[0x0f, 0xb6, 0xc1]).executes);
}

#[test]
fn the_stack_pointer_is_no_dependency_of_pushes() {
    // push rax
    let push = op(&[0x50]);
    assert_eq!(
        (push.sources, push.addresses, push.targets, push.stack),
        (RAX, 0, 0, -8)
    );
    assert_eq!(push.store.unwrap().displacement, -8);
    // ret
    let ret = op(&[0xc3]);
    assert_eq!((ret.flow, ret.stack, ret.targets), (Flow::Return, 8, 0));
    assert!(ret.load.is_some());
    // call
    let call = op(&[0xe8, 0, 0, 0, 0]);
    assert_eq!((call.flow, call.stack), (Flow::Call, -8));
    assert!(call.store.is_some());
}

#[test]
fn a_comparison_and_a_jump_are_one() {
    // cmp rax, rcx; jz; jz
    let ops = ops(&[0x48, 0x39, 0xc8, 0x74, 0, 0x74, 0]);
    assert_eq!(
        [ops[0].fused, ops[1].fused, ops[2].fused],
        [false, true, false]
    );
    assert_eq!(ops[1].flow, Flow::Conditional);
}

#[test]
fn values_of_registers_are_sums() {
    let value = |bytes: &[u8]| op(bytes).value;
    let sum = |target, from, offset| {
        Some(Value {
            target,
            from,
            offset,
        })
    };
    // add rcx, -8; sub rcx, 8; lea rax, [rbx + 4]; inc rbx; mov rax, rcx; mov eax, 7; xor eax, eax
    assert_eq!(value(&[0x48, 0x83, 0xc1, 0xf8]), sum(1, Some(1), -8));
    assert_eq!(value(&[0x48, 0x83, 0xe9, 0x08]), sum(1, Some(1), -8));
    assert_eq!(value(&[0x48, 0x8d, 0x43, 0x04]), sum(0, Some(3), 4));
    assert_eq!(value(&[0x48, 0xff, 0xc3]), sum(3, Some(3), 1));
    assert_eq!(value(&[0x48, 0x89, 0xc8]), sum(0, Some(1), 0));
    assert_eq!(value(&[0xb8, 7, 0, 0, 0]), sum(0, None, 7));
    assert_eq!(value(&[0x31, 0xc0]), sum(0, None, 0));
    // imul and a load are unknown.
    assert_eq!(value(&[0x48, 0x0f, 0xaf, 0xc1]), None);
    assert_eq!(value(&[0x48, 0x8b, 0x03]), None);
    // mov rax, [rip + 0x10] has a constant address.
    let load = op(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0]).load.unwrap();
    assert_eq!(
        load,
        Place {
            base: None,
            index: None,
            displacement: 0x1017
        }
    );
}

#[test]
fn locked_and_wide_operations_have_classes_of_their_own() {
    assert_eq!(op(&[0xf0, 0x48, 0x01, 0x0b]).class, UopClass::Atomic);
    assert_eq!(op(&[0x48, 0x87, 0x0b]).class, UopClass::Atomic);
    assert_eq!(op(&[0x48, 0x87, 0xd8]).class, UopClass::Alu);
    // imul rcx with one operand; movq xmm0, rax; movq rax, xmm0
    assert_eq!(op(&[0x48, 0xf7, 0xe9]).class, UopClass::MultiplyWide);
    assert_eq!(
        op(&[0x66, 0x48, 0x0f, 0x6e, 0xc0]).class,
        UopClass::ToVector
    );
    assert_eq!(
        op(&[0x66, 0x48, 0x0f, 0x7e, 0xc0]).class,
        UopClass::FromVector
    );
    // lea rax, [rbx + rcx * 4]; lea rax, [rbx + rcx]
    assert_eq!(op(&[0x48, 0x8d, 0x04, 0x8b]).class, UopClass::Lea);
    assert_eq!(op(&[0x48, 0x8d, 0x04, 0x0b]).class, UopClass::Alu);
}
