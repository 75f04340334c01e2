//! The cost class of each instruction.
//!
//! Every instruction has exactly one class, found by its code and its features; a test checks that
//! every vector instruction has one. Prices are never zero, so time passes in any guest code. The
//! emitter adds up prices per block; cycle accounting charges for instructions executed in Rust.

use iced_x86::{
    Code, CpuidFeature as C, FlowControl, Instruction, InstructionInfoFactory, Mnemonic as M,
    OpAccess, OpKind,
};

use belljar_pipeline::uops::{CRYPTO, SYSTEM, X87, is_far};

use crate::prices::cost_class::CostClass;
use crate::prices::timing::Costs;

/// The prices of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    costs: Costs,
    /// By iced's code, without the surcharge of accesses.
    own: Box<[u32]>,
}

impl Prices {
    /// The prices of a time model with these costs.
    pub fn new(costs: &Costs) -> Self {
        let own = Code::values().map(|code| costs.ticks(class_of(code)));
        Self {
            costs: costs.clone(),
            own: own.collect(),
        }
    }

    /// The price of `instruction` in ticks; never zero.
    pub(crate) fn of(&self, instruction: &Instruction, info: &mut InstructionInfoFactory) -> u32 {
        let class = class_of(instruction.code());
        let is_atomic = instruction.has_lock_prefix()
            || (instruction.mnemonic() == M::Xchg && instruction.op0_kind() == OpKind::Memory);
        if is_atomic {
            return self.costs.ticks(CostClass::Atomic);
        }
        let own = self.own[instruction.code() as usize];
        if matches!(
            class,
            CostClass::String | CostClass::System | CostClass::Atomic
        ) {
            return own;
        }
        let [load, store] =
            [CostClass::Load, CostClass::Store].map(|class| self.costs.ticks(class));
        let info = info.info(instruction);
        let added = info
            .used_memory()
            .iter()
            .map(|memory| match memory.access() {
                OpAccess::Read | OpAccess::CondRead => load,
                OpAccess::Write | OpAccess::CondWrite => store,
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => load + store,
                OpAccess::None | OpAccess::NoMemAccess => 0,
            });
        own + added.sum::<u32>()
    }

    /// The price of a string instruction beyond its own, for `units` elements or blocks of them;
    /// its own price covers `paid`.
    pub fn of_elements(&self, units: u64, paid: u64) -> u64 {
        if !self.costs.by_element() {
            return 0;
        }
        units.saturating_sub(paid) * u64::from(self.costs.ticks(CostClass::String))
    }

    /// The price of the cheapest instruction.
    pub fn cheapest(&self) -> u32 {
        self.own.iter().copied().min().unwrap_or(1).max(1)
    }

    /// The price of a class by itself.
    pub fn of_class(&self, class: CostClass) -> u32 {
        self.costs.ticks(class)
    }
}

/// The class of an instruction without LOCK.
pub(crate) fn class_of(code: Code) -> CostClass {
    let mnemonic = code.mnemonic();
    let features = code.cpuid_features();
    let has = |wanted: &[C]| features.iter().any(|feature| wanted.contains(feature));
    if let Some(class) = special(mnemonic) {
        return class;
    }
    let op_code = code.op_code();
    if code.is_string_instruction() {
        return CostClass::String;
    }
    let system = op_code.is_privileged()
        || op_code.is_input_output()
        || has(SYSTEM)
        || is_state(mnemonic)
        || is_far(code);
    if system {
        return CostClass::System;
    }
    if code.is_jcc_short_or_near() || flows(code) {
        return CostClass::Branch;
    }
    if has(CRYPTO) {
        return CostClass::Crypto;
    }
    if has(X87) {
        return CostClass::Fp;
    }
    if has(GENERAL) || features.is_empty() {
        return CostClass::Integer;
    }
    vector(mnemonic).unwrap_or(CostClass::VectorInteger)
}

/// Features of instructions that compute on general registers.
const GENERAL: &[C] = &[
    C::INTEL8086,
    C::INTEL8086_ONLY,
    C::INTEL186,
    C::INTEL286,
    C::INTEL386,
    C::INTEL486,
    C::X64,
    C::CMOV,
    C::CX8,
    C::CMPXCHG16B,
    C::MOVBE,
    C::POPCNT,
    C::LZCNT,
    C::BMI1,
    C::BMI2,
    C::ADX,
    C::PAUSE,
    C::MULTIBYTENOP,
    C::CLFSH,
    C::PREFETCHW,
    C::CET_IBT,
    C::CET_SS,
];

/// Instructions whose class does not follow from their features.
fn special(mnemonic: M) -> Option<CostClass> {
    Some(match mnemonic {
        M::Mul | M::Imul | M::Mulx => CostClass::Multiply,
        M::Div | M::Idiv | M::Aam => CostClass::Divide,
        M::Crc32 => CostClass::Crypto,
        M::Mfence | M::Lfence | M::Sfence => CostClass::Atomic,
        M::Fdiv | M::Fdivp | M::Fdivr | M::Fdivrp | M::Fidiv | M::Fidivr => CostClass::FpDivide,
        M::Fsqrt | M::Fprem | M::Fprem1 => CostClass::FpDivide,
        M::Fsin | M::Fcos | M::Fsincos | M::Fptan | M::Fpatan => CostClass::Transcendental,
        M::F2xm1 | M::Fyl2x | M::Fyl2xp1 | M::Fbld | M::Fbstp => CostClass::Transcendental,
        M::Ldmxcsr | M::Stmxcsr | M::Vldmxcsr | M::Vstmxcsr => CostClass::Fp,
        M::Prefetchnta | M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 | M::Movnti => {
            CostClass::Integer
        }
        _ => return None,
    })
}

/// True for instructions that save or load state, or change segments, tables or interrupts.
fn is_state(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Fnsave
            | M::Frstor
            | M::Fnstenv
            | M::Fldenv
            | M::Int
            | M::Int1
            | M::Int3
            | M::Into
            | M::Sysenter
            | M::Sysexit
            | M::Sysexitq
            | M::Sgdt
            | M::Sidt
            | M::Sldt
            | M::Str
            | M::Smsw
            | M::Lar
            | M::Lsl
            | M::Verr
            | M::Verw
            | M::Lds
            | M::Les
            | M::Lfs
            | M::Lgs
            | M::Lss
            | M::Cli
            | M::Sti
            | M::Popf
            | M::Popfd
            | M::Popfq
            | M::Ud0
            | M::Ud1
            | M::Ud2
    )
}

fn flows(code: Code) -> bool {
    !matches!(code.flow_control(), FlowControl::Next)
}

/// The class of an instruction on vector or mask registers, by its name; `None` for a name of an
/// unknown pattern.
fn vector(mnemonic: M) -> Option<CostClass> {
    let name = format!("{mnemonic:?}").to_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    let contains = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let moves = contains(&[
        "mov",
        "shuf",
        "unpck",
        "perm",
        "blend",
        "broadcast",
        "insert",
        "extract",
        "and",
        "or",
        "gather",
        "scatter",
        "compress",
        "expand",
        "zero",
        "lddqu",
        "align",
        "dbpsad",
        "test",
        "emms",
        "conflict",
        "packs",
        "packus",
    ]);
    let scalar = contains(&["ss", "sd", "si"]) && !contains(&["ps", "pd"]);
    let divides = contains(&["div", "sqrt"]) && !name.contains("rsqrt");
    Some(match name {
        _ if divides && scalar => CostClass::FpDivide,
        _ if divides => CostClass::VectorFpDivide,
        _ if moves || name.starts_with(['p', 'k']) || name == "mpsadbw" => CostClass::VectorInteger,
        _ if scalar => CostClass::Fp,
        _ if contains(&["ps", "pd"]) => CostClass::VectorFp,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
