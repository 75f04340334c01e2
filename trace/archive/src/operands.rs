//! Words that differ from call to call: pointers, displacements, large handles.
//!
//! Each is coded in the context of its thread, its call's signature and its argument index. The fallback is the context of thread and
//! index, since calls of several functions use the same buffers. They are coded by a `Column` of differences. The numbers of calls that
//! records stand for are stored here, too, so that readers of counts need no times. Used by the writer and the reader.

use crate::calls::signature::Signature;
use crate::coding::coder::Coder;
use crate::coding::column::{Column, Context, mix};

/// The operands of a chunk.
#[derive(Debug)]
pub(crate) struct Operands {
    column: Column,
    /// Numbers of calls that records stand for.
    counts: Option<Box<Column>>,
    calls: usize,
}

impl Operands {
    /// Creates the operands of a chunk with this number of calls.
    pub(crate) fn new(calls: usize) -> Self {
        Self {
            column: Column::new(calls, true),
            counts: None,
            calls,
        }
    }

    /// Restarts for a chunk with this number of calls.
    pub(crate) fn restart(&mut self, calls: usize) {
        self.column.restart(calls);
        self.calls = calls;
        if let Some(counts) = &mut self.counts {
            counts.restart(calls);
        }
    }

    /// Codes the operands of a thread's next call.
    pub(crate) fn code<C: Coder>(
        &mut self,
        coder: &mut C,
        thread: u32,
        number: u32,
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
    /// Codes the number of calls that the latest record stands for. Most chunks have no such records, and so no such column.
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
