//! The micro-operations of an instruction: class, operands, accesses, and its effect on addresses.
//!
//! An instruction is a load, an operation and a store, each optional, which are dispatched and retired together. It is
//! a function of the decoded instruction alone; `paths` converts the blocks that it interns, `schedule` executes them.

use iced_x86::{
    Instruction, InstructionInfoFactory, Mnemonic as M, OpAccess, OpKind, Register, UsedMemory,
};

use crate::class::UopClass;
use classify::class_of;
use values::value_of;

/// The class by code and features.
mod classify;
/// Effects of instructions on values that addresses depend on.
mod values;

pub use classify::{CRYPTO, SYSTEM, X87, is_far};
pub use values::Value;

/// A set of architectural registers, by [`register_bit`]'s numbering.
pub(crate) type RegisterSet = u64;

/// Number of registers with dependencies.
pub(crate) const REGISTERS: usize = 58;
/// The number of the flags.
pub(crate) const FLAGS: u32 = 48;
const FIRST_MASK: u32 = 49;
const X87_STACK: u32 = 57;
/// RSP's number.
pub(crate) const STACK: u8 = 4;

/// An address: `base + index * scale + displacement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the base register.
    pub base: Option<u8>,
    /// Number of the index register, and its scale.
    pub index: Option<(u8, u32)>,
    /// The constant term; for addresses relative to RIP, the address.
    pub displacement: i64,
}

/// The effect of an instruction on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// None.
    Next,
    /// A conditional jump.
    Conditional,
    /// A jump to a constant address.
    Jump,
    /// A call, also an indirect one.
    Call,
    /// A return.
    Return,
    /// An indirect jump.
    Indirect,
}

/// An instruction as the scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroOp {
    /// The class of its operation.
    pub class: UopClass,
    /// False if it only moves: loads, stores, and moves and zero idioms that renaming executes.
    pub executes: bool,
    /// True if a register move or a zero idiom is executed by renaming.
    pub eliminated: bool,
    /// True if it is dispatched together with the preceding instruction.
    pub fused: bool,
    /// True if vector registers are among its operands.
    pub vector: bool,
    /// Registers that the operation reads.
    pub(crate) sources: RegisterSet,
    /// Registers that its addresses read.
    pub(crate) addresses: RegisterSet,
    /// Registers that it writes.
    pub(crate) targets: RegisterSet,
    /// The address of its load.
    pub load: Option<Place>,
    /// The address of its store.
    pub store: Option<Place>,
    /// True if it accesses less than four bytes of memory.
    pub narrow: bool,
    /// The value of a general register that it writes.
    pub value: Option<Value>,
    /// Change of RSP by a push, pop, call or return.
    pub stack: i32,
    /// Its effect on the path.
    pub flow: Flow,
}

impl MicroOp {
    /// The micro-operations of `instruction`; `before` is the preceding one of its block.
    pub fn new(
        instruction: &Instruction,
        before: Option<&Instruction>,
        info: &mut InstructionInfoFactory,
    ) -> Self {
        let is_stack = is_stack(instruction);
        let class = refined(instruction);
        let info = info.info(instruction);
        let mut op = Self {
            class,
            executes: class.ports().is_some(),
            eliminated: false,
            fused: before.is_some_and(|before| fuses(before, instruction)),
            vector: false,
            sources: 0,
            addresses: 0,
            targets: 0,
            load: None,
            store: None,
            narrow: false,
            value: value_of(instruction),
            stack: if is_stack {
                instruction.stack_pointer_increment()
            } else {
                0
            },
            flow: flow_of(instruction),
        };
        for memory in info.used_memory() {
            op.add_memory(memory, instruction, is_stack);
        }
        // A register that only an address reads is no source of the operation.
        let mut explicit = 0;
        for used in info.used_registers() {
            let Some(bit) = register_bit(used.register()) else {
                continue;
            };
            if is_stack && bit == u32::from(STACK) {
                continue;
            }
            op.vector |= (16..FLAGS).contains(&bit);
            let (reads, writes) = effect(used.access(), used.register());
            explicit |= u64::from(reads) << bit;
            op.targets |= u64::from(writes) << bit;
        }
        op.sources = explicit & !(op.addresses & !operands(instruction));
        op.add_flags(instruction);
        if class == UopClass::Nop {
            (op.load, op.store) = (None, None);
        }
        op.eliminate(instruction);
        op
    }

    fn add_memory(&mut self, memory: &UsedMemory, instruction: &Instruction, is_stack: bool) {
        let relative = matches!(memory.base(), Register::RIP | Register::EIP);
        let number = |register| register_bit(register).filter(|&bit| bit < 16);
        let base = number(memory.base())
            .filter(|_| !relative)
            .map(|bit| bit as u8);
        let index = number(memory.index()).map(|bit| (bit as u8, memory.scale()));
        let displacement = if relative {
            instruction.memory_displacement64()
        } else {
            memory.displacement()
        };
        let place = Place {
            base,
            index,
            displacement: displacement as i64,
        };
        let implicit = is_stack && base == Some(STACK) && index.is_none();
        for register in base.into_iter().chain(index.map(|(index, _)| index)) {
            if !implicit {
                self.addresses |= 1 << register;
            }
        }
        self.narrow |= memory.memory_size().size() < 4;
        let (reads, writes) = effect(memory.access(), Register::None);
        if reads {
            self.load = Some(place);
        }
        if writes {
            self.store = Some(place);
        }
    }

    /// True if the core finds the store that its load reads before both have addresses: into a general register, of
    /// four bytes or more, and with an index only if store and load are `alike` in their base register.
    pub(crate) fn renames(&self, place: Place, alike: bool) -> bool {
        !self.vector && !self.narrow && (alike || place.index.is_none())
    }

    fn add_flags(&mut self, instruction: &Instruction) {
        if instruction.rflags_read() != 0 {
            self.sources |= 1 << FLAGS;
        }
        if instruction.rflags_modified() != 0 {
            self.targets |= 1 << FLAGS;
        }
    }

    /// Moves and zero idioms take no port.
    fn eliminate(&mut self, instruction: &Instruction) {
        let accesses = self.load.is_some() || self.store.is_some();
        if is_zero_idiom(instruction) {
            self.sources = 0;
            (self.eliminated, self.executes) = (true, false);
        } else if is_move(instruction, self.class) {
            self.eliminated = !accesses;
            self.executes = false;
        } else if is_stack(instruction) && self.flow == Flow::Next && accesses {
            self.executes = false;
        }
    }
}

/// True for instructions that use the stack implicitly, whose changes of RSP cause no dependency.
fn is_stack(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        M::Push | M::Pop | M::Call | M::Ret | M::Pushfq | M::Popfq
    )
}

/// The class, refined by operands.
fn refined(instruction: &Instruction) -> UopClass {
    let class = class_of(instruction.code());
    let memory = (0..instruction.op_count()).any(|at| instruction.op_kind(at) == OpKind::Memory);
    let vector = |register: Register| register.is_vector_register();
    match instruction.mnemonic() {
        _ if instruction.has_lock_prefix() => UopClass::Atomic,
        M::Xchg if memory => UopClass::Atomic,
        M::Imul if instruction.op_count() == 1 => UopClass::MultiplyWide,
        M::Lea => {
            let scaled = instruction.memory_index() != Register::None
                && instruction.memory_index_scale() > 1;
            let others = instruction.memory_base() != Register::None
                || instruction.memory_displacement64() != 0;
            if scaled && others {
                UopClass::Lea
            } else {
                UopClass::Alu
            }
        }
        M::Movd | M::Movq | M::Vmovd | M::Vmovq if !memory => {
            match (
                vector(instruction.op0_register()),
                vector(instruction.op1_register()),
            ) {
                (true, true) => UopClass::VectorLogic,
                (true, false) => UopClass::ToVector,
                (false, _) => UopClass::FromVector,
            }
        }
        _ => class,
    }
}

/// Moves that only load, store or rename.
fn is_move(instruction: &Instruction, class: UopClass) -> bool {
    let memory =
        (0..2).any(|at| instruction.op_count() > at && instruction.op_kind(at) == OpKind::Memory);
    let name = instruction.mnemonic();
    let plain = match name {
        M::Mov | M::Movnti | M::Movbe => true,
        M::Movaps | M::Movapd | M::Movups | M::Movupd | M::Movdqa | M::Movdqu | M::Lddqu => true,
        M::Vmovaps | M::Vmovapd | M::Vmovups | M::Vmovupd | M::Vmovdqa | M::Vmovdqu => true,
        M::Vmovdqa32 | M::Vmovdqa64 | M::Vmovdqu8 | M::Vmovdqu16 | M::Vmovdqu32 => true,
        M::Vmovdqu64 | M::Vlddqu | M::Movntdq | M::Movntps | M::Movntpd => true,
        M::Vmovntdq | M::Vmovntps | M::Vmovntpd | M::Movntdqa | M::Vmovntdqa => true,
        M::Movzx | M::Movsx | M::Movsxd => memory,
        M::Movss | M::Movsd | M::Vmovss | M::Vmovsd | M::Movd | M::Movq => memory,
        M::Vmovd | M::Vmovq | M::Movddup | M::Vmovddup => memory,
        M::Vbroadcastss | M::Vbroadcastsd | M::Vbroadcastf128 | M::Vbroadcasti128 => memory,
        M::Vpbroadcastd | M::Vpbroadcastq => memory,
        _ => false,
    };
    let immediate =
        instruction.op_count() > 1 && !memory && instruction.op_kind(1) != OpKind::Register;
    let partial =
        !memory && instruction.op0_register().is_gpr() && instruction.op0_register().size() < 4;
    let special = instruction.op_count() > 1
        && [instruction.op0_register(), instruction.op1_register()]
            .iter()
            .any(|register| register.is_segment_register() || register.is_cr() || register.is_dr());
    plain
        && !immediate
        && !partial
        && !special
        && class != UopClass::Text
        && class != UopClass::System
}

/// XOR, SUB and similar instructions of a register with itself.
fn is_zero_idiom(instruction: &Instruction) -> bool {
    let same = |a: u32, b: u32| {
        let register = |at| {
            let is = instruction.op_count() > at && instruction.op_kind(at) == OpKind::Register;
            is.then(|| instruction.op_register(at))
        };
        register(a).is_some() && register(a) == register(b)
    };
    match instruction.mnemonic() {
        M::Xor | M::Sub => same(0, 1) && instruction.op0_register().size() >= 4,
        M::Pxor | M::Xorps | M::Xorpd => same(0, 1),
        M::Vpxor | M::Vxorps | M::Vxorpd | M::Vpxord | M::Vpxorq => same(1, 2),
        _ => false,
    }
}

/// True if `jump` is dispatched together with the comparison before it.
fn fuses(before: &Instruction, jump: &Instruction) -> bool {
    let compares = matches!(
        before.mnemonic(),
        M::Cmp | M::Test | M::Add | M::Sub | M::And | M::Inc | M::Dec
    );
    jump.is_jcc_short_or_near() && compares
}

fn flow_of(instruction: &Instruction) -> Flow {
    use iced_x86::FlowControl as F;
    match instruction.flow_control() {
        F::ConditionalBranch => Flow::Conditional,
        F::UnconditionalBranch => Flow::Jump,
        F::IndirectBranch => Flow::Indirect,
        F::Return => Flow::Return,
        F::Call if instruction.mnemonic() == M::Call => Flow::Call,
        F::IndirectCall => Flow::Call,
        _ => Flow::Next,
    }
}

/// True and true if an access reads and writes. A write of a part of a register reads the rest.
fn effect(access: OpAccess, register: Register) -> (bool, bool) {
    match access {
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::CondWrite => (true, true),
        OpAccess::Write => (register.is_gpr() && register.size() < 4, true),
    }
}

/// Registers that are operands by themselves, not only in an address.
fn operands(instruction: &Instruction) -> RegisterSet {
    let kinds =
        (0..instruction.op_count()).filter(|&at| instruction.op_kind(at) == OpKind::Register);
    let bits = kinds.filter_map(|at| register_bit(instruction.op_register(at)));
    bits.fold(0, |all, bit| all | 1 << bit)
}

/// The number of a register with dependencies: general registers from 0, vectors from 16, flags, masks, the x87.
fn register_bit(register: Register) -> Option<u32> {
    if register.is_gpr() {
        return Some(register.full_register().number() as u32);
    }
    if register.is_vector_register() {
        return Some(16 + register.number() as u32);
    }
    if register.is_k() {
        return Some(FIRST_MASK + register.number() as u32);
    }
    (register.is_st() || register.is_mm()).then_some(X87_STACK)
}

#[cfg(test)]
mod tests;
