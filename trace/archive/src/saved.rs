//! A writer's state in a checkpoint: the data that is not in the file and is needed for further chunks.
//!
//! It is as large as a chunk of calls, the dictionary and the state of threads. The bytes are untrusted: invalid
//! indices and inconsistent sums are refused before a writer uses them. Used by the writer.

use belljar_trace::Polls;
use bincode::{Decode, Encode};

use crate::Sizes;
use crate::calls::dictionary::SavedDictionary;
use crate::calls::stream::{Outlook, Stream};
use crate::structure::CHUNK_CALLS;
use crate::times::{CallTimestamps, Clocks};
use crate::writer::CHUNK_WEIGHT;

/// A thread and its calls since the last chunk.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct SavedThread {
    pub(crate) stream: Stream,
    pub(crate) outlook: Outlook,
    pub(crate) clocks: Clocks,
    pub(crate) last: u32,
    pub(crate) calls: Vec<u32>,
    pub(crate) operands: Vec<u64>,
    pub(crate) times: Vec<CallTimestamps>,
    /// The sums of records that stand for several calls.
    pub(crate) folds: Vec<Polls>,
}

/// The state from which a writer continues.
#[derive(Encode, Decode)]
pub(crate) struct WriterState {
    /// Bytes of the file.
    pub(crate) length: u64,
    /// The number of calls in the file, and of chunks of them.
    pub(crate) calls: u64,
    pub(crate) chunks: u64,
    /// Number of threads that are in the file.
    pub(crate) known_threads: u64,
    pub(crate) threads: Vec<SavedThread>,
    /// The thread of each call since the last chunk.
    pub(crate) order: Vec<u32>,
    pub(crate) weight: u64,
    pub(crate) dictionary: SavedDictionary,
    pub(crate) sizes: Sizes,
}

impl WriterState {
    /// True if all its numbers are valid.
    pub(crate) fn is_sound(&self) -> bool {
        self.is_of_a_file() && self.has_its_calls() && self.has_its_signatures()
    }

    /// True if its counts are possible for a file of its length: a chunk takes more than a byte.
    fn is_of_a_file(&self) -> bool {
        let most = self.chunks.saturating_mul(CHUNK_CALLS as u64);
        self.sizes.checked_total() == Some(self.length)
            && self.chunks <= self.length
            && self.calls <= most
            && self.weight <= CHUNK_WEIGHT as u64
            && self.known_threads <= self.threads.len() as u64
    }

    /// True if each thread has as many calls as it occurs in the order, with their times and operands.
    fn has_its_calls(&self) -> bool {
        if self.order.len() > CHUNK_CALLS {
            return false;
        }
        let slots = self.dictionary.slots();
        let mut counts = vec![0; self.threads.len()];
        for number in &self.order {
            match counts.get_mut(*number as usize) {
                Some(count) => *count += 1usize,
                None => return false,
            }
        }
        self.threads.iter().zip(counts).all(|(thread, count)| {
            let own = thread.calls.iter().map(|it| slots.get(*it as usize));
            let operands: Option<usize> = own.sum();
            let folded = thread
                .calls
                .iter()
                .filter(|it| self.dictionary.is_folded(**it));
            thread.calls.len() == count
                && thread.folds.len() == folded.count()
                && thread.times.len() == count
                && operands == Some(thread.operands.len())
                && thread.outlook.is_sound()
        })
    }

    /// True if the dictionary is sound and each new signature has a call.
    fn has_its_signatures(&self) -> bool {
        let mut called = vec![false; self.dictionary.len()];
        for call in self.threads.iter().flat_map(|thread| &thread.calls) {
            if let Some(called) = called.get_mut(*call as usize) {
                *called = true;
            }
        }
        let stored = self.dictionary.stored();
        self.dictionary.is_sound() && called.iter().skip(stored).all(|called| *called)
    }
}
