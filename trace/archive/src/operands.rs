//! Words that differ from call to call: pointers, displacements, large handles.
//!
//! Each is told in the context of its thread, its call's signature and its place among the arguments, else in
//! that of thread and place, since calls of several functions have the same buffers. A `Column` of differences
//! tells them. How many calls a record of several stands for is told here, too, so that who asks for counts alone needs no times. Called by
//! the writer and the reader.

use crate::calls::signature::Signature;
use crate::coding::coder::Coder;
use crate::coding::column::{Column, Context, mix};

/// The operands of a chunk.
#[derive(Debug)]
pub(crate) struct Operands {
    column: Column,
    /// How many calls records of several stand for.
    counts: Option<Box<Column>>,
    calls: usize,
}

impl Operands {
    /// For a chunk of so many calls.
    pub(crate) fn new(calls: usize) -> Self {
        Self {
            column: Column::new(calls, true),
            counts: None,
            calls,
        }
    }

    /// Begins anew, for a chunk of so many calls.
    pub(crate) fn restart(&mut self, calls: usize) {
        self.column.restart(calls);
        self.calls = calls;
        if let Some(counts) = &mut self.counts {
            counts.restart(calls);
        }
    }

    /// The operands of a thread's next call.
    pub(crate) fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        (thread, number): (u32, u32),
        signature: &Signature,
        operands: &[u64],
        mut told: impl FnMut(u64),
    ) {
        let mut before = 0;
        for (at, slot) in signature.slots.iter().enumerate() {
            let own = u64::from(thread) << 32 | u64::from(number);
            let context = Context {
                fine: mix(own, (*slot).into()),
                coarse: mix(thread.into(), (*slot).into()),
                before,
            };
            let operand = operands.get(at).copied().unwrap_or(0);
            before = self.column.code(coder, context, operand);
            told(before);
        }
    }
    /// How many calls the record stands for that was just told of. Most chunks have none, and no column for them.
    pub(crate) fn code_count<C: Coder>(
        &mut self,
        coder: &mut C,
        number: u32,
        signature: &Signature,
        count: u64,
    ) -> u64 {
        let fresh = || Box::new(Column::new(self.calls, false));
        let context = Context {
            fine: mix(number.into(), 0x66),
            coarse: mix(signature.context().into(), 0x66),
            before: 0,
        };
        let counts = self.counts.get_or_insert_with(fresh);
        counts.code(coder, context, count)
    }
}
