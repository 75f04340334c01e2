//! Writing of a profile's file.
//!
//! The bytes depend only on the samples: records have a fixed number of samples. Samples that are not in a record yet
//! are [`Pending`]; a run saves them with its state and continues with them. Used by runners of nodes.

use std::collections::BTreeMap;

use belljar_sim::encode;
use serde::{Deserialize, Serialize};

use crate::form::{
    CodeFile, END, HEAD, Head, MAGIC, MOST_FRAMES, MOST_SAMPLES, ProfileEnd, Sample, SampleFrame,
    Samples, VERSION, checksum,
};

/// The compression level of zstd, low because writing happens during the run.
const LEVEL: i32 = 3;

/// The samples since the last record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending(Samples);

/// Encodes a node's profile.
#[derive(Debug, Default)]
pub struct Writer {
    pending: Samples,
    files: BTreeMap<CodeFile, u32>,
    stacks: BTreeMap<Vec<SampleFrame>, u32>,
    /// Encoded bytes that were not taken yet.
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins a file.
    pub fn new(head: &Head) -> Self {
        let mut writer = Self::default();
        writer.bytes.extend(MAGIC);
        writer.bytes.extend(VERSION.to_le_bytes());
        writer.record(HEAD, head);
        writer
    }

    /// Continues a file whose bytes were all taken when `pending` was [saved](Self::save).
    pub fn resume(pending: Pending) -> Self {
        let mut writer = Self::default();
        if !pending.0.is_sound() {
            return writer;
        }
        writer.pending = pending.0;
        let numbers = 0..;
        let files = writer.pending.files.iter().cloned();
        writer.files = files.zip(numbers.clone()).collect();
        let stacks = writer.pending.stacks.iter().cloned();
        writer.stacks = stacks.zip(numbers).collect();
        writer
    }

    /// Returns the samples that are in no record yet.
    pub fn save(&self) -> Pending {
        Pending(self.pending.clone())
    }

    /// Returns the number of a file, for frames of the next sample.
    pub fn file(&mut self, file: &CodeFile) -> u32 {
        if let Some(number) = self.files.get(file) {
            return *number;
        }
        let number = self.pending.files.len() as u32;
        self.pending.files.push(file.clone());
        self.files.insert(file.clone(), number);
        number
    }

    /// Adds a sample with its stack, from the innermost frame outward; this sets the sample's `stack`.
    pub fn add(&mut self, mut sample: Sample, mut stack: Vec<SampleFrame>) {
        stack.truncate(MOST_FRAMES);
        sample.stack = match self.stacks.get(&stack) {
            Some(number) => *number,
            None => {
                let number = self.pending.stacks.len() as u32;
                self.pending.stacks.push(stack.clone());
                self.stacks.insert(stack, number);
                number
            }
        };
        self.pending.samples.push(sample);
        if self.pending.samples.len() >= MOST_SAMPLES {
            self.close();
        }
    }

    /// Ends the file: `next` is the number of the first point that the run did not reach.
    pub fn finish(&mut self, next: u64) {
        self.close();
        self.record(END, &ProfileEnd { next });
    }

    /// Takes the bytes to append to the file.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn close(&mut self) {
        let samples = std::mem::take(&mut self.pending);
        self.files.clear();
        self.stacks.clear();
        if !samples.samples.is_empty() {
            self.record(crate::form::SAMPLES, &samples);
        }
    }

    fn record<T: Serialize>(&mut self, kind: u32, record: &T) {
        // Neither can fail for records of plain numbers and words in memory.
        let plain = encode(record).unwrap_or_default();
        let packed = zstd::bulk::compress(&plain, LEVEL).unwrap_or_default();
        let [packed_bytes, plain_bytes] = [packed.len(), plain.len()].map(|length| length as u32);
        let sum = checksum([kind, packed_bytes, plain_bytes], &packed);
        let words = [kind, packed_bytes, plain_bytes, sum]
            .into_iter()
            .flat_map(u32::to_le_bytes);
        self.bytes.extend(words);
        self.bytes.extend(packed);
    }
}
