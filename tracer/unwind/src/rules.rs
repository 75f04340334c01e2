//! Unwinding of a frame: the rules by which the caller's registers are found, and their evaluation.
//!
//! Registers are numbered as in instructions; DWARF numbers them differently (System V ABI for x86-64, figure 3.36),
//! which only this module handles. Created from unwind tables by `code`, evaluated by `walk`.

use gimli::{
    CfaRule, Encoding, EndianSlice, Evaluation, EvaluationResult, Format, LittleEndian, Location,
    Register, RegisterRule, UnwindExpression, UnwindSection, UnwindTableRow, Value,
};

/// A process's memory, by linear address.
pub trait Memory {
    /// Fills `into` with the bytes at `address`; returns true if all of them are mapped.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;

    /// Returns the word at `address`, if it is mapped.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let there = self.read(address, &mut bytes);
        there.then_some(u64::from_le_bytes(bytes))
    }
}

/// RBP's number in instructions.
pub(crate) const RBP: usize = 5;
/// RSP's number in instructions.
pub(crate) const RSP: usize = 4;

/// The column of the return address.
const RETURN_ADDRESS: u16 = 16;

/// The numbers of registers 0 to 7 in instructions, by those of DWARF; the others are equal.
const BY_DWARF: [usize; 8] = [0, 2, 1, 3, 6, 7, RBP, RSP];

/// Most operations of an expression that are evaluated.
const MOST_OPERATIONS: u32 = 1 << 10;

/// Longest expression that is kept, in bytes.
const LONGEST_EXPRESSION: usize = 1 << 10;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Registers of a frame, by their numbers in instructions.
pub(crate) type Registers = [u64; 16];

/// The base of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleBase {
    /// A register and an offset.
    Register(usize, i64),
    Expression(Box<[u8]>),
}

/// The location of a register's value in the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Rule {
    /// The same register.
    #[default]
    Same,
    /// No location.
    Undefined,
    /// In memory, at this offset from the frame's address.
    At(i64),
    /// The frame's address plus this offset.
    Is(i64),
    Register(usize),
    /// In memory, at the address of the expression.
    AtExpression(Box<[u8]>),
    Expression(Box<[u8]>),
}

/// The unwind rules at one address of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The canonical frame address: the caller's stack pointer before the call.
    frame: RuleBase,
    registers: [Rule; 16],
    return_address: Rule,
    /// True for a signal's frame, which returns to an interrupted instruction.
    pub(crate) is_signal: bool,
}

impl Rules {
    /// Returns the rules of a table's row; `None` if they are invalid for this processor.
    pub(crate) fn of<'a, S: UnwindSection<Slice<'a>>>(
        row: &UnwindTableRow<usize>,
        section: &S,
        is_signal: bool,
    ) -> Option<Self> {
        let expression = |expression: &UnwindExpression<usize>| -> Option<Box<[u8]>> {
            let bytes = expression.get(section).ok()?.0;
            let bytes: &[u8] = bytes.slice();
            (bytes.len() <= LONGEST_EXPRESSION).then(|| bytes.into())
        };
        let frame = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                RuleBase::Register(number(*register)?, *offset)
            }
            CfaRule::Expression(it) => RuleBase::Expression(expression(it)?),
        };
        let mut rules = Self {
            frame,
            registers: Default::default(),
            return_address: Rule::Undefined,
            is_signal,
        };
        for (register, rule) in row.registers() {
            let rule = match rule {
                RegisterRule::Undefined => Rule::Undefined,
                RegisterRule::SameValue => Rule::Same,
                RegisterRule::Offset(offset) => Rule::At(*offset),
                RegisterRule::ValOffset(offset) => Rule::Is(*offset),
                RegisterRule::Register(other) => Rule::Register(number(*other)?),
                RegisterRule::Expression(it) => Rule::AtExpression(expression(it)?),
                RegisterRule::ValExpression(it) => Rule::Expression(expression(it)?),
                _ => return None,
            };
            match (number(*register), register.0) {
                (Some(number), _) => rules.registers[number] = rule,
                (None, RETURN_ADDRESS) => rules.return_address = rule,
                // Other registers of the processor are not needed.
                (None, _) => {}
            }
        }
        Some(rules)
    }

    /// Returns the caller's registers and return address; `None` if they are unknown, and for the first frame of a
    /// thread.
    pub(crate) fn leave(
        &self,
        registers: &Registers,
        memory: &dyn Memory,
    ) -> Option<(Registers, u64)> {
        let frame = match &self.frame {
            RuleBase::Register(number, offset) => registers[*number].wrapping_add_signed(*offset),
            RuleBase::Expression(code) => evaluate(code, None, registers, memory)?,
        };
        let value = |rule: &Rule, same: u64| match rule {
            Rule::Same => Some(same),
            Rule::Undefined => None,
            Rule::At(offset) => memory.word(frame.wrapping_add_signed(*offset)),
            Rule::Is(offset) => Some(frame.wrapping_add_signed(*offset)),
            Rule::Register(number) => Some(registers[*number]),
            Rule::AtExpression(code) => {
                memory.word(evaluate(code, Some(frame), registers, memory)?)
            }
            Rule::Expression(code) => evaluate(code, Some(frame), registers, memory),
        };
        let return_address = value(&self.return_address, 0)?;
        let mut caller = *registers;
        for (number, rule) in self.registers.iter().enumerate() {
            let same = if number == RSP {
                frame
            } else {
                registers[number]
            };
            // Any value will do for an unknown register: rules that need it find nothing there.
            caller[number] = value(rule, same).unwrap_or(0);
        }
        Some((caller, return_address))
    }
}

fn number(register: Register) -> Option<usize> {
    match register.0 {
        small @ 0..8 => Some(BY_DWARF[usize::from(small)]),
        other @ 8..RETURN_ADDRESS => Some(other.into()),
        _ => None,
    }
}

/// Evaluates an expression with `start` on its stack.
fn evaluate(
    code: &[u8],
    start: Option<u64>,
    registers: &Registers,
    memory: &dyn Memory,
) -> Option<u64> {
    let encoding = Encoding {
        format: Format::Dwarf32,
        version: 4,
        address_size: 8,
    };
    let mut evaluation = Evaluation::new(EndianSlice::new(code, LittleEndian), encoding);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(start) = start {
        evaluation.set_initial_value(start);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = Value::Generic(registers[number(register)?]);
                evaluation.resume_with_register(value).ok()?
            }
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let mut bytes = [0; 8];
                let into = bytes.get_mut(..usize::from(size))?;
                if !memory.read(address, into) {
                    return None;
                }
                let value = Value::Generic(u64::from_le_bytes(bytes));
                evaluation.resume_with_memory(value).ok()?
            }
            _ => return None,
        };
    }
    let pieces = evaluation.result();
    match pieces.first()?.location {
        Location::Address { address } => Some(address),
        Location::Value { value } => value.to_u64(u64::MAX).ok(),
        _ => None,
    }
}
