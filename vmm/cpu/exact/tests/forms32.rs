//! 32-bit code compared with the host's processor: random encodings, natively in compatibility mode
//! and in the engine in protected mode, on random registers, flags and memory.
#![allow(missing_docs, unsafe_code, clippy::print_stderr)]

use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use belljar_sim::{Random, Seed};
use iced_x86::code_asm::*;
use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic as M, OpKind,
    Register,
};
use std::collections::BTreeSet;
use std::ptr;

const WINDOW_BYTES: usize = 256;
/// The window of random data, on both sides of a page boundary.
const WINDOW: u32 = DATA as u32 + 0x2000 - WINDOW_BYTES as u32 / 2;
const MAPPED: usize = 0x1_0000;
/// Code and state of the native side, below 4 GiB.
const TEXT: u32 = 0x1200_0000;
const STATE: u32 = 0x1100_0000;
const ARITHMETIC: u32 = 0x8d5;
/// Selectors of user code under Linux: 32-bit code, 64-bit code, data.
const CODE_32: u16 = 0x23;
const CODE_64: u16 = 0x33;
const DATA_32: u32 = 0x2b;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct State {
    gpr: [u32; 8],
    flags: u32,
}

const GPR: [AsmRegister32; 8] = [eax, ecx, edx, ebx, esp, ebp, esi, edi];

/// The host's processor in compatibility mode.
struct Native;

fn map(at: u64) {
    // SAFETY: a fresh mapping at an address that this test process does not use;
    // MAP_FIXED_NOREPLACE ensures that.
    let mapped = unsafe {
        libc::mmap(
            at as *mut libc::c_void,
            MAPPED,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(mapped as u64, at, "cannot map the test's memory");
}

fn slot(number: usize) -> u64 {
    u64::from(STATE) + number as u64 * 4
}

const FLAGS: usize = 8;
const HOST_RSP: u64 = STATE as u64 + 64;
const STACK: u32 = STATE + 0x8000;

impl Native {
    fn new() -> Self {
        for at in [DATA, u64::from(TEXT), u64::from(STATE)] {
            map(at);
        }
        Self
    }

    /// 64-bit code that switches to 32-bit code, which runs `bytes`, and 64-bit code to which it
    /// returns.
    fn load(&self, bytes: &[u8]) {
        const DOWN: u64 = TEXT as u64 + 0x100;
        let mut up = CodeAssembler::new(64).unwrap();
        for register in [rbx, rbp, r12, r13, r14, r15] {
            up.push(register).unwrap();
        }
        up.mov(qword_ptr(HOST_RSP), rsp).unwrap();
        up.mov(rsp, u64::from(STACK)).unwrap();
        up.push(i32::from(CODE_32)).unwrap();
        up.push(DOWN as i32).unwrap();
        up.db(&[0x48, 0xcb]).unwrap();
        let up = up.assemble(TEXT.into()).unwrap();
        let mut down = CodeAssembler::new(32).unwrap();
        down.mov(eax, DATA_32).unwrap();
        down.mov(ds, eax).unwrap();
        down.mov(es, eax).unwrap();
        down.push(dword_ptr(slot(FLAGS) as u32)).unwrap();
        down.popfd().unwrap();
        for (number, register) in GPR.into_iter().enumerate() {
            down.mov(register, dword_ptr(slot(number) as u32)).unwrap();
        }
        down.db(bytes).unwrap();
        for (number, register) in GPR.into_iter().enumerate() {
            down.mov(dword_ptr(slot(number) as u32), register).unwrap();
        }
        down.mov(esp, STACK).unwrap();
        down.pushfd().unwrap();
        down.pop(dword_ptr(slot(FLAGS) as u32)).unwrap();
        let mut down = down.assemble(DOWN).unwrap();
        let back = DOWN + down.len() as u64 + 7;
        down.push(0xea);
        down.extend_from_slice(&(back as u32).to_le_bytes());
        down.extend_from_slice(&CODE_64.to_le_bytes());
        let mut home = CodeAssembler::new(64).unwrap();
        home.mov(rsp, qword_ptr(HOST_RSP)).unwrap();
        home.cld().unwrap();
        for register in [r15, r14, r13, r12, rbp, rbx] {
            home.pop(register).unwrap();
        }
        home.ret().unwrap();
        down.extend(home.assemble(back).unwrap());
        // SAFETY: both pieces fit into the mapping.
        unsafe {
            ptr::copy_nonoverlapping(up.as_ptr(), TEXT as *mut u8, up.len());
            ptr::copy_nonoverlapping(down.as_ptr(), DOWN as *mut u8, down.len());
        }
    }

    fn run(&self, state: &State, memory: &[u8]) -> (State, Vec<u8>) {
        // SAFETY: all addresses lie in this test's own mappings; the code follows the C ABI and
        // returns in 64-bit mode.
        unsafe {
            ptr::copy_nonoverlapping(state, STATE as *mut State, 1);
            ptr::copy_nonoverlapping(memory.as_ptr(), WINDOW as *mut u8, memory.len());
            let function: extern "sysv64" fn() = std::mem::transmute(TEXT as usize as *const ());
            function();
            let memory = std::slice::from_raw_parts(WINDOW as *const u8, memory.len()).to_vec();
            (*(STATE as *const State), memory)
        }
    }
}

/// True if the instruction can be compared.
fn is_comparable(instruction: &Instruction) -> bool {
    use CpuidFeature as F;
    let known = instruction.cpuid_features().iter().all(|feature| {
        matches!(
            feature,
            F::INTEL8086
                | F::INTEL186
                | F::INTEL286
                | F::INTEL386
                | F::INTEL486
                | F::CMOV
                | F::CX8
                | F::POPCNT
        )
    });
    let system = (0..instruction.op_count()).any(|i| {
        instruction.op_kind(i) == OpKind::Register
            && (instruction.op_register(i).is_segment_register()
                || instruction.op_register(i).is_cr()
                || instruction.op_register(i).is_dr()
                || instruction.op_register(i).is_tr())
    });
    let excluded = matches!(
        instruction.mnemonic(),
        M::Div | M::Idiv | M::Bound | M::Enter | M::Les | M::Lds | M::Lfs | M::Lgs | M::Lss
    ) || matches!(
        instruction.mnemonic(),
        M::Popf | M::Popfd | M::Pushf | M::Pushfd | M::Std | M::Sldt | M::Str | M::Sgdt | M::Sidt
    ) || matches!(
        instruction.mnemonic(),
        M::Smsw | M::Lar | M::Lsl | M::Verr | M::Verw | M::Ud0 | M::Ud1 | M::Ud2 | M::Cpuid
    ) || (instruction.mnemonic() == M::Aam && instruction.immediate8() == 0);
    !instruction.is_invalid()
        && known
        && !system
        && !excluded
        && instruction.flow_control() == FlowControl::Next
        && !instruction.is_privileged()
        && !matches!(
            instruction.mnemonic(),
            M::Insb | M::Insw | M::Insd | M::Outsb | M::Outsw | M::Outsd | M::In | M::Out
        )
        && !matches!(
            instruction.segment_prefix(),
            Register::CS | Register::FS | Register::GS
        )
}

/// Bytes of a random instruction: random opcodes and operands, with rare prefixes.
fn random_bytes(random: &mut Random) -> [u8; 15] {
    let mut bytes = [0; 15];
    for byte in &mut bytes {
        *byte = random.next_u64() as u8;
    }
    let mut at = 0;
    for (prefix, odds) in [(0x66, 6), (0xf2, 40), (0xf3, 20), (0x0f, 4)] {
        if random.next_u64().is_multiple_of(odds) {
            bytes[at] = prefix;
            at += 1;
        }
    }
    bytes
}

/// Registers for which the instruction stays in the window; `None` if there are none.
fn inputs(random: &mut Random, instruction: &Instruction) -> Option<State> {
    let mut state = State::default();
    for register in &mut state.gpr {
        *register = match random.next_u64() % 4 {
            0 => (random.next_u64() % 256) as u32,
            1 => 0u32.wrapping_sub((random.next_u64() % 4) as u32),
            _ => random.next_u64() as u32,
        };
    }
    state.flags = random.next_u64() as u32 & ARITHMETIC | 2;
    state.gpr[4] = WINDOW + 128 + (random.next_u64() % 16) as u32;
    let string = instruction.is_string_instruction();
    let within = |random: &mut Random, size: u32| {
        WINDOW + (random.next_u64() % u64::from(WINDOW_BYTES as u32 - size)) as u32
    };
    if string {
        if instruction.op_kinds().any(|kind| {
            matches!(
                kind,
                OpKind::MemorySegSI | OpKind::MemoryESDI | OpKind::MemorySegDI
            )
        }) {
            return None;
        }
        state.gpr[1] %= 8;
        state.gpr[6] = within(random, 64);
        state.gpr[7] = within(random, 64);
        return Some(state);
    }
    match instruction.mnemonic() {
        M::Leave => state.gpr[5] = within(random, 16),
        M::Xlatb if instruction.memory_base() != Register::EBX => return None,
        M::Xlatb => {
            state.gpr[3] = WINDOW;
            return Some(state);
        }
        _ => {}
    }
    if instruction.op_kinds().any(|kind| kind == OpKind::Memory) && instruction.mnemonic() != M::Lea
    {
        place(random, instruction, &mut state)?;
    }
    Some(state)
}

/// Points the memory operand into the window.
fn place(random: &mut Random, instruction: &Instruction, state: &mut State) -> Option<()> {
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    if !base.is_gpr32() || base == Register::ESP || base == index {
        return None;
    }
    let size = instruction.memory_size().size().max(1) as u32;
    let mut target = WINDOW + 16 + (random.next_u64() % (WINDOW_BYTES as u64 - 96)) as u32;
    if matches!(instruction.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
        && instruction.op1_kind() == OpKind::Register
    {
        let number = instruction.op1_register().number();
        if number == base.number() || number == 4 || index.number() == number {
            return None;
        }
        state.gpr[number] = ((random.next_u64() % 512) as u32).wrapping_sub(256);
        target = WINDOW + 64;
    }
    assert!(size <= 64);
    let scaled = if index == Register::None {
        0
    } else {
        state.gpr[index.number()].wrapping_mul(instruction.memory_index_scale())
    };
    let disp = instruction.memory_displacement64() as u32;
    state.gpr[base.number()] = target.wrapping_sub(scaled).wrapping_sub(disp);
    Some(())
}

/// Flags that the architecture leaves undefined and that are not the host's own here, because the
/// instruction is executed in Rust.
fn undefined_flags(instruction: &Instruction) -> u32 {
    let helped = matches!(
        instruction.mnemonic(),
        M::Aaa | M::Aas | M::Aam | M::Aad | M::Daa | M::Das
    );
    let bits = matches!(instruction.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
        && instruction.op0_kind() == OpKind::Memory;
    if bits {
        return ARITHMETIC & !0x41;
    }
    if !helped {
        return 0;
    }
    use iced_x86::RflagsBits as B;
    let undefined = instruction.rflags_undefined();
    [
        (B::OF, 11),
        (B::SF, 7),
        (B::ZF, 6),
        (B::AF, 4),
        (B::CF, 0),
        (B::PF, 2),
    ]
    .into_iter()
    .filter(|(bit, _)| undefined & bit != 0)
    .fold(0, |all, (_, at)| all | 1 << at)
}

fn compare(guest: &mut Guest, native: &Native, random: &mut Random, instruction: &Instruction) {
    for _ in 0..8 {
        let Some(state) = inputs(random, instruction) else {
            return;
        };
        let memory: Vec<u8> = (0..WINDOW_BYTES).map(|_| random.next_u64() as u8).collect();
        let (expected, expected_memory) = native.run(&state, &memory);
        guest.write(WINDOW.into(), &memory);
        let mut registers = Registers {
            rip: CODE,
            rflags: state.flags.into(),
            ..Registers::default()
        };
        for (to, from) in registers.gpr.iter_mut().zip(state.gpr) {
            *to = from.into();
        }
        guest.vcpu.set_registers(&registers);
        let context = || format!("{instruction:?}\n{state:x?}");
        let exit = guest.run(1000);
        assert!(
            matches!(exit, Exit::PioWrite { .. }),
            "{exit:?}: {}",
            context()
        );
        let registers = guest.vcpu.registers();
        let gpr: [u32; 8] = std::array::from_fn(|number| registers.gpr[number] as u32);
        assert_eq!(gpr, expected.gpr, "general registers: {}", context());
        let mask = ARITHMETIC & !undefined_flags(instruction);
        assert_eq!(
            registers.rflags as u32 & mask,
            expected.flags & mask,
            "flags: {}",
            context()
        );
        let found = guest.read(WINDOW.into(), WINDOW_BYTES);
        assert_eq!(found, expected_memory, "memory: {}", context());
    }
}

#[test]
fn random_32_bit_instructions_agree_with_the_host() {
    let native = Native::new();
    let mut guest = Guest::protected_as_host();
    let mut random = Random::new(Seed(7), "forms32", 0);
    let mut seen: BTreeSet<u32> = BTreeSet::new();
    for _ in 0..60_000 {
        let bytes = random_bytes(&mut random);
        let options = DecoderOptions::NO_MPFX_0FBC | DecoderOptions::NO_MPFX_0FBD;
        let mut decoder = Decoder::with_ip(32, &bytes, CODE, options);
        let instruction = decoder.decode();
        if !is_comparable(&instruction) || inputs(&mut random, &instruction).is_none() {
            continue;
        }
        let bytes = &bytes[..instruction.len()];
        // With F3 the host's processor has LZCNT and TZCNT, which this guest lacks.
        if matches!(instruction.mnemonic(), M::Bsf | M::Bsr) && bytes.contains(&0xf3) {
            continue;
        }
        native.load(bytes);
        // OUT ends the run; a jump follows, before which no flag is dead.
        guest.write(CODE, &[bytes, &[0xe6, 0x80, 0xeb, 0xfe]].concat());
        compare(&mut guest, &native, &mut random, &instruction);
        seen.insert(instruction.code() as u32);
    }
    eprintln!("{} forms", seen.len());
    assert!(seen.len() > 330, "only {} forms came up", seen.len());
    for code in [
        Code::Aaa,
        Code::Daa,
        Code::Pushad,
        Code::Inc_r32,
        Code::Arpl_rm16_r16,
    ] {
        assert!(seen.contains(&(code as u32)), "{code:?} never came up");
    }
}
