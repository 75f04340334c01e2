//! Static analysis of addresses in a straight run of guest instructions: accesses through the same
//! register values, and their distances.

use std::collections::BTreeMap;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::guest::analyse::InstructionClass;
use crate::guest::terms::Terms;

/// Largest distance of a value from its symbol, before it gets a new symbol: the sum of several
/// distances must fit a displacement of 32 bits.
const FARTHEST: u64 = 1 << 24;

const RSP: usize = 4;
const RBP: usize = 5;

/// A register's value: a numbered unknown, and a known distance from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// The unknown's number.
    pub symbol: u32,
    /// Distance from it.
    pub offset: i64,
}

/// The sixteen general registers at a point of the run.
pub(crate) type Registers = [Value; 16];

/// The common part of accesses with a known distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Symbol of the base register.
    pub base: Option<u32>,
    /// Symbol of the index register, and its factor.
    pub index: Option<(u32, u8)>,
    /// FS, GS or none.
    pub segment: Register,
    /// For constant addresses, the page.
    pub page: Option<u64>,
}

impl Key {
    /// True if the address only depends on registers.
    pub(crate) fn is_free(self) -> bool {
        self.page.is_none() && self.segment == Register::None
    }

    /// True if programs can rely on the address being accessible: the stack, the thread's block,
    /// static data. Only such addresses are checked before a branch that may not lead to the
    /// access.
    pub(crate) fn is_steady(self, rsp: u32) -> bool {
        self.page.is_some()
            || (self.index.is_none() && (self.base == Some(rsp) || self.base.is_none()))
    }
}

/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolicAccess {
    /// Its key, equal for accesses at known distances.
    pub key: Key,
    /// Distance from the sum of the key's symbols, or the constant address.
    pub offset: i64,
    /// Number of bytes.
    pub size: u16,
    /// True if it writes.
    pub write: bool,
}

/// The symbol of the number zero: values relative to it are constants.
pub(crate) const ZERO: u32 = 16;

/// The analysis: the registers before each instruction, and its access.
#[derive(Debug, Default)]
pub struct Symbols {
    /// The registers before each instruction.
    pub before: Vec<Registers>,
    /// The registers after the last one.
    pub after: Vec<Value>,
    /// The access of each instruction.
    pub places: Vec<Option<SymbolicAccess>>,
    /// The symbols that RSP is based on somewhere in the run.
    pub stack: Vec<u32>,
    /// The terms of symbols that are sums of initial register values.
    terms: BTreeMap<u32, Terms>,
}

impl Symbols {
    /// The initial register values whose sum is `symbol`.
    pub(crate) fn terms_of(&self, symbol: u32) -> Option<Terms> {
        terms_of(&self.terms, symbol)
    }
}

fn terms_of(sums: &BTreeMap<u32, Terms>, symbol: u32) -> Option<Terms> {
    if symbol < ZERO {
        return Some(Terms::register(symbol as u8));
    }
    sums.get(&symbol).cloned()
}

struct SymbolWalk {
    now: Registers,
    next: u32,
    /// The symbols that are sums of two others.
    sums: BTreeMap<(u32, u32), u32>,
    terms: BTreeMap<u32, Terms>,
    info: InstructionInfoFactory,
}

/// Analyses the registers of `run`, whose instructions are executed in sequence.
pub fn analyse<'a>(run: impl Iterator<Item = (&'a Instruction, InstructionClass)>) -> Symbols {
    let mut walk = SymbolWalk {
        now: std::array::from_fn(|number| Value {
            symbol: number as u32,
            offset: 0,
        }),
        next: ZERO,
        sums: BTreeMap::new(),
        terms: BTreeMap::new(),
        info: InstructionInfoFactory::new(),
    };
    let mut symbols = Symbols::default();
    for (instruction, class) in run {
        symbols.before.push(walk.now);
        symbols.places.push(walk.place(instruction, class));
        symbols.stack.push(walk.now[RSP].symbol);
        walk.step(instruction, class);
    }
    symbols.after = walk.now.to_vec();
    symbols.terms = walk.terms;
    symbols
}

fn number(register: Register) -> Option<usize> {
    register.is_gpr64().then(|| register.number())
}

impl SymbolWalk {
    fn fresh(&mut self) -> Value {
        self.next += 1;
        Value {
            symbol: self.next,
            offset: 0,
        }
    }

    fn place(&self, instruction: &Instruction, class: InstructionClass) -> Option<SymbolicAccess> {
        let rsp = self.now[RSP];
        match class {
            InstructionClass::Memory { size, write } => self.operand(instruction, size, write),
            InstructionClass::Push if instruction.op0_kind() != OpKind::Memory => {
                Some(on_register(rsp, -8, true))
            }
            InstructionClass::Call | InstructionClass::CallIndirect => {
                Some(on_register(rsp, -8, true))
            }
            InstructionClass::Pop | InstructionClass::Ret => Some(on_register(rsp, 0, false)),
            InstructionClass::Leave => Some(on_register(self.now[RBP], 0, false)),
            InstructionClass::JumpIndirect if instruction.op0_kind() == OpKind::Memory => {
                self.operand(instruction, 8, false)
            }
            _ => None,
        }
    }

    fn operand(&self, instruction: &Instruction, size: u16, write: bool) -> Option<SymbolicAccess> {
        let segment = match instruction.memory_segment() {
            segment @ (Register::FS | Register::GS) => segment,
            _ => Register::None,
        };
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        if instruction.is_ip_rel_memory_operand() && base == Register::EIP {
            return None;
        }
        let displacement = instruction.memory_displacement64();
        if instruction.is_ip_rel_memory_operand()
            || (base == Register::None && index == Register::None)
        {
            let page = (segment == Register::None).then_some(displacement >> 12);
            let last = displacement.wrapping_add(u64::from(size) - 1) >> 12;
            let key = Key {
                base: None,
                index: None,
                segment,
                page,
            };
            let fits = page.is_none_or(|page| page == last);
            return fits.then_some(SymbolicAccess {
                key,
                offset: displacement as i64,
                size,
                write,
            });
        }
        let mut offset = displacement as i64;
        if segment != Register::None || offset.unsigned_abs() > FARTHEST << 6 {
            return None;
        }
        let mut key = Key {
            base: None,
            index: None,
            segment,
            page: None,
        };
        if base != Register::None {
            let value = self.now[number(base)?];
            key.base = Some(value.symbol);
            offset = offset.wrapping_add(value.offset);
        }
        if index != Register::None {
            let value = self.now[number(index)?];
            let scale = instruction.memory_index_scale() as u8;
            let folds = value.symbol == ZERO && key.base.is_some_and(|base| base != ZERO);
            key.index = (!folds).then_some((value.symbol, scale));
            offset = offset.wrapping_add(value.offset.wrapping_mul(i64::from(scale)));
        }
        Some(SymbolicAccess {
            key,
            offset,
            size,
            write,
        })
    }

    fn step(&mut self, instruction: &Instruction, class: InstructionClass) {
        match class {
            InstructionClass::Push
            | InstructionClass::PushFlags
            | InstructionClass::Call
            | InstructionClass::CallIndirect => {
                self.now[RSP].offset -= 8;
            }
            InstructionClass::Pop => {
                self.now[RSP].offset += 8;
                let target = instruction.op0_register().number();
                self.now[target] = self.fresh();
            }
            InstructionClass::Ret => {
                let extra = if instruction.op_count() == 1 {
                    i64::from(instruction.immediate16())
                } else {
                    0
                };
                self.now[RSP].offset += 8 + extra;
            }
            InstructionClass::Leave => {
                self.now[RSP] = self.now[RBP];
                self.now[RSP].offset += 8;
                self.now[RBP] = self.fresh();
            }
            InstructionClass::Nop
            | InstructionClass::Jump
            | InstructionClass::JumpIndirect
            | InstructionClass::ClearInterrupts
            | InstructionClass::SetInterrupts => {}
            _ => self.compute(instruction),
        }
        // An offset far away from its symbol is useless, and must not overflow.
        for number in 0..16 {
            if self.now[number].offset.unsigned_abs() > FARTHEST {
                self.now[number] = self.fresh();
            }
        }
    }

    fn compute(&mut self, instruction: &Instruction) {
        if let Some((target, value)) = self.copied(instruction) {
            self.now[target] = value;
            return;
        }
        let mut written = [false; 16];
        for used in self.info.info(instruction).used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            let full = used.register().full_register();
            if writes && full.is_gpr64() {
                written[full.number()] = true;
            }
        }
        for (number, _) in written.iter().enumerate().filter(|(_, written)| **written) {
            self.now[number] = self.fresh();
        }
    }

    /// The sum of two values.
    fn sum(&mut self, a: Value, b: Value) -> Option<Value> {
        let offset = a.offset.checked_add(b.offset)?;
        let symbol = match (a.symbol, b.symbol) {
            (ZERO, symbol) | (symbol, ZERO) => symbol,
            (a, b) => match self.sums.get(&(a.min(b), a.max(b))) {
                Some(&known) => known,
                None => self.new_sum(a, b),
            },
        };
        Some(Value { symbol, offset })
    }

    fn new_sum(&mut self, a: u32, b: u32) -> u32 {
        let symbol = self.fresh().symbol;
        self.sums.insert((a.min(b), a.max(b)), symbol);
        let terms = [a, b].map(|part| terms_of(&self.terms, part));
        if let [Some(terms), Some(others)] = terms
            && let Some(terms) = terms.and(&others, 1)
        {
            self.terms.insert(symbol, terms);
        }
        symbol
    }

    /// The register that the instruction sets to a constant, and the constant.
    fn constant(&self, instruction: &Instruction) -> Option<(usize, Value)> {
        let target = instruction.op0_register();
        if !(target.is_gpr32() || target.is_gpr64()) || instruction.op_count() != 2 {
            return None;
        }
        let offset = match instruction.mnemonic() {
            Mnemonic::Xor | Mnemonic::Sub
                if instruction.op1_kind() == OpKind::Register
                    && instruction.op1_register() == target =>
            {
                0
            }
            Mnemonic::Mov if target.is_gpr32() && instruction.op1_kind() == OpKind::Immediate32 => {
                i64::from(instruction.immediate32())
            }
            Mnemonic::Mov if is_immediate(instruction) => instruction.immediate(1) as i64,
            _ => return None,
        };
        let symbol = ZERO;
        Some((target.full_register().number(), Value { symbol, offset }))
    }

    /// The register that the instruction sets to a known value, and the value.
    fn copied(&mut self, instruction: &Instruction) -> Option<(usize, Value)> {
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
            return None;
        }
        if let Some(constant) = self.constant(instruction) {
            return Some(constant);
        }
        let target = number(instruction.op0_register())?;
        let now = self.now;
        let shifted = |register: usize, by: i64| {
            let Value { symbol, offset } = now[register];
            let offset = offset.checked_add(by)?;
            Some((target, Value { symbol, offset }))
        };
        match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
                shifted(number(instruction.op1_register())?, 0)
            }
            Mnemonic::Lea
                if instruction.memory_index() == Register::None
                    && !instruction.is_ip_rel_memory_operand() =>
            {
                let base = number(instruction.memory_base())?;
                shifted(base, instruction.memory_displacement64() as i64)
            }
            Mnemonic::Add if instruction.op1_kind() == OpKind::Register => {
                let other = number(instruction.op1_register())?;
                Some((target, self.sum(now[target], now[other])?))
            }
            Mnemonic::Add if is_immediate(instruction) => {
                shifted(target, instruction.immediate(1) as i64)
            }
            Mnemonic::Sub if is_immediate(instruction) => {
                shifted(target, (instruction.immediate(1) as i64).checked_neg()?)
            }
            Mnemonic::Inc => shifted(target, 1),
            Mnemonic::Dec => shifted(target, -1),
            _ => None,
        }
    }
}

fn is_immediate(instruction: &Instruction) -> bool {
    matches!(
        instruction.op1_kind(),
        OpKind::Immediate8to64 | OpKind::Immediate32to64
    )
}

fn on_register(value: Value, offset: i64, write: bool) -> SymbolicAccess {
    SymbolicAccess {
        key: Key {
            base: Some(value.symbol),
            index: None,
            segment: Register::None,
            page: None,
        },
        offset: value.offset + offset,
        size: 8,
        write,
    }
}
