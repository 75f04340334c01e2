//! No instruction is undefined by accident: every code of the highest level that is valid in 64-bit
//! mode runs, raises an exception other than #UD, or is listed.
#![allow(clippy::print_stderr)]

use belljar_exact_testing::{bare, machine};
use std::collections::BTreeSet;

use belljar_cpu::{Exit, Feature, InstructionSet, Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use belljar_exact_testing::encoding::{Dice, is_offered, make};
use belljar_exact_testing::host::host_set;
use belljar_sim::{Random, Seed};
use iced_x86::{Code, CpuidFeature, Decoder, Mnemonic as M};

/// Intentionally undefined.
fn is_undefined(code: Code) -> bool {
    matches!(code.mnemonic(), M::Ud0 | M::Ud1 | M::Ud2)
}

/// iced's names for bytes of obsolete processors, or for no instruction.
fn is_no_instruction(code: Code) -> bool {
    let op_code = code.op_code();
    !op_code.is_instruction()
        || !op_code.mode64()
        || op_code.fwait()
        || matches!(code.mnemonic(), M::Zero_bytes | M::INVALID)
        || op_code.decoder_option() != 0
}

/// Near branches of 16 bits, which only AMD's processors have in 64-bit mode.
fn is_amds_own(code: Code) -> bool {
    let name = format!("{code:?}");
    name.contains("rel16") || name.contains("rel8_16")
}

/// True if a guest with `set` has `code`, including system instructions.
fn has(code: Code, set: &InstructionSet) -> bool {
    use CpuidFeature as F;
    is_offered(code, set)
        || code.cpuid_features().iter().all(|feature| {
            matches!(
                feature,
                F::CPUID
                    | F::MSR
                    | F::SYSCALL
                    | F::SEP
                    | F::TSC
                    | F::RDTSCP
                    | F::RDRAND
                    | F::RDSEED
                    | F::RDPMC
                    | F::INTEL486
                    | F::X64
            )
        })
}

/// Encodings that the random ones omit: branches, segment, control and debug registers.
fn by_hand() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for condition in 0..16 {
        all.push(vec![0x70 | condition, 0]);
        all.push(vec![0x0f, 0x80 | condition, 0, 0, 0, 0]);
    }
    for count in 0xe0..=0xe3 {
        all.push(vec![count, 0]);
        all.push(vec![0x67, count, 0]);
    }
    all.extend([
        vec![0xeb, 0],
        vec![0xe9, 0, 0, 0, 0],
        vec![0xe8, 0, 0, 0, 0],
    ]);
    for segment in [0xa0, 0xa1, 0xa8, 0xa9] {
        all.push(vec![0x0f, segment]);
        all.push(vec![0x66, 0x0f, segment]);
    }
    for prefix in [&[0x66u8][..], &[], &[0x48]] {
        for opcode in [0x8c, 0x8e] {
            all.push([prefix, &[opcode, 0xd8]].concat());
        }
    }
    for opcode in 0x20..=0x23 {
        all.push(vec![0x0f, opcode, 0xc0]);
    }
    all
}

#[test]
fn every_code_is_carried_out_or_listed() {
    let set = host_set();
    let mut dice = Dice(Random::new(Seed(1), "coverage", 0));
    let mut undefined = BTreeSet::new();
    let mut unmade = BTreeSet::new();
    let mut tried = 0;
    let mut known = BTreeSet::new();
    for bytes in by_hand() {
        let code = Decoder::new(64, &bytes, 0).decode().code();
        known.insert(code);
        if raises_undefined(&set, &bytes) {
            undefined.insert(format!("{code:?}"));
        }
    }
    for code in Code::values() {
        if is_no_instruction(code) || is_amds_own(code) || !has(code, &set) || known.contains(&code)
        {
            continue;
        }
        tried += 1;
        // One good encoding is enough: random registers may make others undefined, such as gathers
        // with overlapping registers.
        let mut made = 0;
        let mut good = false;
        for _ in 0..24 {
            for memory in [false, true] {
                if let Some((_, bytes)) = make(&mut dice, code, memory) {
                    made += 1;
                    good |= !raises_undefined(&set, &bytes);
                }
            }
            if good {
                break;
            }
        }
        if made == 0 {
            unmade.insert(format!("{code:?}"));
        } else if good == is_undefined(code) {
            undefined.insert(format!("{code:?}"));
        }
    }
    eprintln!("{tried} codes, and {} by hand", known.len());
    assert!(unmade.is_empty(), "not made: {unmade:?}");
    assert!(
        undefined.is_empty(),
        "undefined, and not meant to be: {undefined:#?}"
    );
    let least = if set.has(Feature::Avx512f) {
        3000
    } else if set.has(Feature::Avx2) {
        1900
    } else {
        1000
    };
    assert!(tried > least, "only {tried} codes");
}

/// Runs one instruction at privilege level 0, with all registers pointing into memory, in a new
/// guest, because some instructions change everything.
fn raises_undefined(set: &InstructionSet, bytes: &[u8]) -> bool {
    let mut guest = Guest::with_set(set);
    guest.map_page(machine::ARENA, DATA | 7);
    guest.write(CODE, &[bytes, &[0xf4]].concat());
    guest.vcpu.set_registers(&Registers {
        gpr: [machine::ARENA + 2048; 16],
        rip: CODE,
        rflags: 2,
    });
    let exit = guest.run(2);
    // After the HLT of the exception's handler.
    let rip = guest.vcpu.registers().rip;
    exit == Exit::Halt && rip == bare::HANDLERS + 6 * 16 + 1
}
