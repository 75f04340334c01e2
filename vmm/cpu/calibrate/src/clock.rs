//! Cycles of a run of code, by a chain of additions beside it.
//!
//! An addition that depends on the one before takes one cycle on every x86-64 processor, so a chain of them is a
//! clock in the processor's own cycles. A result is the second lowest of several repeats: disturbances only add time.
//! `measure`, `caches` and `self_test` call it.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, r12, r13, r14, r15, rax, rbp, rbx, rdi, rsi};

use crate::CalibrateError;
use crate::code::{Buffer, Function, Pages, thread_nanoseconds};
use crate::loops::ones;

/// Emits instructions.
pub(crate) type Emit<'a> = &'a dyn Fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// Additions in a round of the clock, and its rounds.
const ADDITIONS: u64 = 50;
const ROUNDS: u64 = 4_000;
/// Runs of the clock beside each repeat; the fastest one counts.
const CLOCKS: usize = 3;
/// Repeats of a measurement.
const REPEATS: usize = 11;
/// The address at which loops are assembled for the model; they do not depend on it.
pub(crate) const ORIGIN: u64 = 0x40_0000;

/// Assembles a function that runs `setup`, and then `body` in each round.
///
/// RBP is the buffer, RBX is 1, and R15 counts rounds. The body may use all other registers but RSP, and has at most
/// 2 GiB.
pub(crate) fn function(
    name: &str,
    setup: Emit<'_>,
    body: Emit<'_>,
) -> Result<Vec<u8>, CalibrateError> {
    let assemble = || {
        let mut a = CodeAssembler::new(64)?;
        for register in [rbx, rbp, r12, r13, r14, r15] {
            a.push(register)?;
        }
        a.mov(rbp, rdi)?;
        a.mov(r15, rsi)?;
        a.mov(rbx, 1u64)?;
        ones(&mut a)?;
        setup(&mut a)?;
        let mut head = a.create_label();
        a.set_label(&mut head)?;
        body(&mut a)?;
        a.dec(r15)?;
        a.jne(head)?;
        a.fninit()?;
        for register in [r15, r14, r13, r12, rbp, rbx] {
            a.pop(register)?;
        }
        a.ret()?;
        a.assemble(ORIGIN)
    };
    assemble().map_err(|source| CalibrateError::Assemble {
        name: name.to_owned(),
        source,
    })
}

/// The clock.
#[derive(Debug)]
pub(crate) struct Clock {
    chain: Function,
    nothing: Buffer,
}

impl Clock {
    pub(crate) fn new() -> Result<Self, CalibrateError> {
        let code = function("clock", &|_| Ok(()), &|a| {
            (0..ADDITIONS).try_for_each(|_| a.add(rax, rbx))
        })?;
        Ok(Self {
            chain: Function::new(&code)?,
            nothing: Buffer::new(8, Pages::Small)?,
        })
    }

    /// The clock's rate at present, in cycles a nanosecond.
    pub(crate) fn rate(&mut self) -> f64 {
        let times = (0..CLOCKS).map(|_| self.nanoseconds_of_chain());
        let best = times.fold(f64::INFINITY, f64::min);
        (ADDITIONS * ROUNDS) as f64 / best
    }

    fn nanoseconds_of_chain(&mut self) -> f64 {
        let begin = thread_nanoseconds();
        self.chain.call(&mut self.nothing, ROUNDS);
        (thread_nanoseconds() - begin).max(1) as f64
    }

    /// Cycles of a round of `function`, after a run that is not counted.
    pub(crate) fn cycles(&mut self, function: &Function, buffer: &mut Buffer, rounds: u64) -> f64 {
        function.call(buffer, (rounds / 10).max(1));
        let mut all: Vec<f64> = (0..REPEATS)
            .map(|_| {
                let rate = self.rate();
                let begin = thread_nanoseconds();
                function.call(buffer, rounds);
                let nanoseconds = thread_nanoseconds() - begin;
                // A clock that was disturbed would take cycles away.
                let rate = rate.max(self.rate());
                nanoseconds as f64 * rate / rounds as f64
            })
            .collect();
        all.sort_by(f64::total_cmp);
        all[1]
    }
}
