//! The sections of a chunk: structure, operands and times of the buffered calls.
//!
//! A chunk is written when enough calls are buffered, and can be decoded without others. Called by `writer`.

use std::collections::BTreeMap;

use super::TraceWriter;
use crate::coding::coder::Encoder;
use crate::coding::grammar::Grammar;
use crate::structure::{self, Structure};
use crate::times::{Called, OrderKey, SectionCoders, merge, put_before_next};

impl TraceWriter {
    /// Returns the chunk's grammar, and numbers new signatures in the order in which it defines them.
    pub(super) fn structure(&mut self) -> Structure {
        let mut terminals = vec![u32::MAX; self.dictionary.signatures().len()];
        let mut signatures = Vec::new();
        let mut known: BTreeMap<&[u32], u32> = BTreeMap::new();
        let mut sequences: Vec<Vec<u32>> = Vec::new();
        let mut threads = Vec::new();
        for (number, thread) in self.threads.iter().enumerate() {
            if thread.calls.is_empty() {
                continue;
            }
            let next = sequences.len() as u32;
            let sequence = *known.entry(&thread.calls).or_insert(next);
            threads.push((number as u32, sequence));
            if sequence != next {
                continue;
            }
            let dense = thread.calls.iter().map(|call| {
                let terminal = &mut terminals[*call as usize];
                if *terminal == u32::MAX {
                    *terminal = signatures.len() as u32;
                    signatures.push(*call);
                }
                *terminal
            });
            sequences.push(dense.collect());
        }
        let grammar = Grammar::of(signatures.len() as u32, sequences);
        let order = structure::first_uses(&grammar);
        let order: Vec<u32> = order.iter().map(|it| signatures[*it as usize]).collect();
        if let Some(numbers) = self.dictionary.reorder(&order) {
            let threads = self.threads.iter_mut();
            let calls = threads.flat_map(|it| it.calls.iter_mut().chain([&mut it.last]));
            for call in calls.chain(&mut signatures) {
                *call = numbers.get(*call as usize).copied().unwrap_or(0);
            }
        }
        let fresh = self.threads[self.known_threads..].iter();
        Structure {
            calls: self.order.len(),
            fresh: fresh.map(|thread| thread.stream).collect(),
            threads,
            grammar,
            signatures,
        }
    }

    pub(super) fn operands_section(&mut self) -> Vec<u8> {
        let model = &mut self.operands_model;
        model.restart(self.order.len());
        let mut coder = Encoder::new();
        for (number, thread) in self.threads.iter().enumerate() {
            let mut operands = &thread.operands[..];
            let mut folds = thread.folds.iter();
            for call in &thread.calls {
                let signature = &self.dictionary.signatures()[*call as usize];
                let place = (number as u32, *call);
                let (own, rest) = operands.split_at(signature.slots.len());
                model.code(&mut coder, place.0, place.1, signature, own, |_| {});
                if signature.folded
                    && let Some(polls) = folds.next()
                {
                    model.code_count(&mut coder, *call, signature, polls.calls);
                }
                operands = rest;
            }
        }
        coder.finish()
    }

    pub(super) fn times_section(&mut self) -> (Vec<u8>, [usize; 3]) {
        let model = &mut self.times_model;
        model.restart(self.order.len());
        let mut coders = SectionCoders::for_writing();
        let mut keys: Vec<Vec<OrderKey>> = vec![Vec::new(); self.threads.len()];
        for (number, thread) in self.threads.iter_mut().enumerate() {
            let mut folds = thread.folds.iter();
            let mut folded = Vec::new();
            let keys = &mut keys[number];
            for (call, times) in thread.calls.iter().zip(&thread.times) {
                let called = Called::of(*call, &self.dictionary.signatures()[*call as usize]);
                model.code(&mut coders, &mut thread.clocks, called, times);
                if called.folded
                    && let Some(polls) = folds.next()
                {
                    folded.push(keys.len());
                    let told = (times.accounts.is_some(), Some(polls.calls));
                    model.code_folded(&mut coders.rest, &thread.clocks, polls, told.0, told.1);
                }
                keys.push(times.key(called, thread.stream.node));
            }
            put_before_next(keys, &folded);
        }
        merge(&mut coders.rest, &keys, &self.order, |_| {});
        coders.finish()
    }
}
