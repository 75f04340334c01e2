//! What the tracer knows of one MPI process.

use std::collections::BTreeMap;

use belljar_abi::{Base, FUNCTIONS};

use crate::event::{Event, Implementation};
use crate::memory::{BadAddress, Reader};

/// One MPI process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number on the node.
    pub(crate) number: u32,
    rank: u32,
    implementation: Implementation,
    calls: BTreeMap<u16, u64>,
    threads: BTreeMap<u64, u32>,
}

impl Process {
    pub(crate) fn new(number: u32, rank: Option<u32>, implementation: Implementation) -> Self {
        Self {
            number,
            rank: rank.unwrap_or(0),
            implementation,
            calls: BTreeMap::new(),
            threads: BTreeMap::new(),
        }
    }

    /// Learns the addresses of Open MPI's predefined objects.
    pub(crate) fn learn_objects(
        &mut self,
        _at: u64,
        _count: u64,
        _memory: Reader<'_>,
    ) -> Result<(), BadAddress> {
        Ok(())
    }

    /// Counts a call; returns how many there were of this function with it.
    pub(crate) fn count(&mut self, function: u16) -> u64 {
        let calls = self.calls.entry(function).or_default();
        *calls += 1;
        *calls
    }

    /// Whether calls of the function must be followed even when not selected.
    pub(crate) fn follows(&self, _function: u16) -> bool {
        false
    }

    /// An event of this process with its arguments.
    pub(crate) fn event(
        &mut self,
        function: u16,
        thread: u64,
        arguments: Vec<Option<u64>>,
    ) -> Event {
        let threads = self.threads.len() as u32;
        let thread = *self.threads.entry(thread).or_insert(threads);
        let bad = arguments.iter().position(Option::is_none);
        let parameters = FUNCTIONS[usize::from(function)].parameters;
        let words = arguments.into_iter().zip(parameters);
        let arguments = words
            .map(|(word, parameter)| {
                let word = word.unwrap_or(0);
                match parameter.base {
                    _ if parameter.pointer > 0 => word,
                    Base::Int | Base::Fint => i64::from(word as i32).cast_unsigned(),
                    _ => word,
                }
            })
            .collect();
        Event {
            node: 0,
            vcpu: 0,
            process: self.number,
            thread,
            rank: self.rank,
            implementation: self.implementation,
            function,
            entry: 0,
            exit: None,
            result: None,
            depth: 0,
            selected: true,
            bad: bad.map(|index| index as u8),
            arguments,
            texts: Vec::new(),
            communicator: None,
            transfers: Vec::new(),
            collectives: Vec::new(),
            started: Vec::new(),
            completed: Vec::new(),
            status: None,
            fact: None,
        }
    }

    pub(crate) fn enter(&mut self, _event: &mut Event, _memory: Reader<'_>) -> Vec<u64> {
        Vec::new()
    }

    pub(crate) fn leave(&mut self, _event: &mut Event, _handles: &[u64], _memory: Reader<'_>) {}

    pub(crate) fn take_forgotten(&mut self) -> u64 {
        0
    }
}
