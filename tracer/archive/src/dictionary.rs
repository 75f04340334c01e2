//! All signatures of a file so far, by number.
//!
//! A chunk brings those that are new in it. A writer finds a call's signature first where the same call led
//! last time, then by its bytes. The dictionary is emptied, on both sides, by a chunk that says so: when it
//! has become too large to be kept. Called by the writer and the readers.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::codec;
use bincode::{Decode, Encode};

use crate::signature::Signature;

/// Signatures that are kept, at most, before the dictionary is emptied.
const MOST_SIGNATURES: usize = 1 << 17;

/// Bytes of all signatures, at most, before the dictionary is emptied.
const MOST_BYTES: usize = 8 << 20;

/// Bytes of a chunk's new signatures, at most.
const MOST_NEW: usize = 16 << 20;

/// zstd's level: signatures are few.
const LEVEL: i32 = 12;

/// Signatures by number, and numbers by signature.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    signatures: Vec<Signature>,
    numbers: BTreeMap<Vec<u8>, u32>,
    /// What followed each signature last.
    next: Vec<u32>,
    /// How many are in the file.
    stored: usize,
    bytes: usize,
    /// Whether it was emptied since the last chunk.
    emptied: bool,
}

impl Dictionary {
    pub(crate) fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// How many are in the file.
    pub(crate) fn stored(&self) -> usize {
        self.stored
    }

    /// Bytes of all signatures.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of a signature, which comes after the call of signature `last`. Gives back the
    /// memory of its slots.
    pub(crate) fn number(&mut self, last: u32, signature: Signature) -> (u32, Vec<u8>) {
        let guess = self.next.get(last as usize).copied().unwrap_or(0);
        if self.signatures.get(guess as usize) == Some(&signature) {
            return (guess, signature.slots);
        }
        let bytes = encoded(&signature);
        let number = self.signatures.len() as u32;
        let number = *self.numbers.entry(bytes).or_insert_with_key(|bytes| {
            self.bytes += bytes.len();
            number
        });
        if number as usize == self.signatures.len() {
            self.signatures.push(signature);
            self.next.push(number);
        }
        if let Some(next) = self.next.get_mut(last as usize) {
            *next = number;
        }
        (number, Vec::new())
    }

    /// Numbers new signatures anew, in this order, in which all of them must be. Returns the new
    /// number of each signature; `None` when none is new.
    pub(crate) fn reorder(&mut self, order: &[u32]) -> Option<Vec<u32>> {
        if self.signatures.len() == self.stored {
            return None;
        }
        let mut renumbered: Vec<u32> = (0..self.signatures.len() as u32).collect();
        let mut signatures = Vec::with_capacity(self.signatures.len() - self.stored);
        for number in order.iter().filter(|it| **it as usize >= self.stored) {
            renumbered[*number as usize] = (self.stored + signatures.len()) as u32;
            signatures.push(self.signatures[*number as usize].clone());
        }
        self.signatures.splice(self.stored.., signatures);
        for number in self.numbers.values_mut() {
            *number = renumbered[*number as usize];
        }
        let mut next = vec![0; self.next.len()];
        for (number, after) in self.next.iter().enumerate() {
            next[renumbered[number] as usize] = renumbered[*after as usize];
        }
        self.next = next;
        Some(renumbered)
    }

    /// The section with what is new.
    pub(crate) fn take_new(&mut self) -> Result<Vec<u8>, String> {
        let mut raw = vec![u8::from(std::mem::take(&mut self.emptied))];
        for signature in &self.signatures[self.stored..] {
            raw.extend(encoded(signature));
        }
        self.stored = self.signatures.len();
        if raw.len() > MOST_NEW {
            return Err(format!("signatures of {} bytes are too many", raw.len()));
        }
        let mut section = (raw.len() as u32).to_le_bytes().to_vec();
        let packed = zstd::bulk::compress(&raw, LEVEL).map_err(|error| error.to_string())?;
        section.extend(packed);
        Ok(section)
    }

    /// Empties it for the chunks to come, if it has become too large.
    pub(crate) fn keep_small(&mut self) -> bool {
        let large = self.signatures.len() > MOST_SIGNATURES || self.bytes > MOST_BYTES;
        if large {
            *self = Self {
                emptied: true,
                ..Self::default()
            };
        }
        large
    }

    /// Takes a section into itself. Returns how many signatures it had before.
    pub(crate) fn add(&mut self, section: &[u8]) -> Result<usize, String> {
        let head = section.first_chunk().ok_or("a dictionary is too short")?;
        let length = u32::from_le_bytes(*head) as usize;
        if length > MOST_NEW {
            return Err("a dictionary's length is impossible".to_owned());
        }
        let raw = zstd::bulk::decompress(&section[4..], length)
            .map_err(|error| format!("a dictionary cannot be decompressed: {error}"))?;
        let (emptied, mut raw) = raw.split_first().ok_or("a dictionary is empty")?;
        if *emptied != 0 {
            self.signatures.clear();
            self.bytes = 0;
        }
        self.bytes += raw.len();
        let known = self.signatures.len();
        while !raw.is_empty() {
            let (signature, used) = codec::decode_first::<Signature>(raw)
                .map_err(|error| format!("a signature: {error}"))?;
            self.signatures.push(signature);
            raw = &raw[used..];
        }
        self.stored = self.signatures.len();
        let most = MOST_SIGNATURES + 2 * crate::structure::CHUNK_CALLS;
        if self.stored > most || self.bytes > MOST_BYTES + MOST_NEW {
            return Err("a dictionary has more signatures than there can be".to_owned());
        }
        Ok(known)
    }

    /// What it is to be [made again](Self::load) of.
    pub(crate) fn save(&self) -> SavedDictionary {
        SavedDictionary {
            signatures: self.signatures.clone(),
            next: self.next.clone(),
            stored: self.stored as u64,
            emptied: self.emptied,
        }
    }

    /// A writer's again, which was [saved](Self::save) and is sound.
    pub(crate) fn load(saved: SavedDictionary) -> Self {
        let mut bytes = 0;
        let numbers = saved.signatures.iter().zip(0..).map(|(signature, number)| {
            let encoded = encoded(signature);
            bytes += encoded.len();
            (encoded, number)
        });
        let numbers = numbers.collect();
        Self {
            numbers,
            bytes,
            signatures: saved.signatures,
            next: saved.next,
            stored: saved.stored as usize,
            emptied: saved.emptied,
        }
    }
}

/// A writer's dictionary as it is saved.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct SavedDictionary {
    signatures: Vec<Signature>,
    next: Vec<u32>,
    stored: u64,
    emptied: bool,
}

impl SavedDictionary {
    /// How many operands each signature has.
    pub(crate) fn slots(&self) -> Vec<usize> {
        self.signatures.iter().map(|it| it.slots.len()).collect()
    }

    /// How many signatures there are.
    pub(crate) fn len(&self) -> usize {
        self.signatures.len()
    }

    /// How many of them are in the file.
    pub(crate) fn stored(&self) -> usize {
        self.stored as usize
    }

    /// Whether its parts fit together: every signature is there once, as in one that grew call by call.
    pub(crate) fn is_sound(&self) -> bool {
        let count = self.signatures.len();
        let known = |number: &u32| (*number as usize) < count.max(1);
        let distinct: BTreeSet<Vec<u8>> = self.signatures.iter().map(encoded).collect();
        self.stored <= count as u64
            && self.next.len() == count
            && self.next.iter().all(known)
            && count <= MOST_SIGNATURES + crate::structure::CHUNK_CALLS
            && distinct.len() == count
    }
}

fn encoded(signature: &Signature) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Into memory, of a record that has an encoding: it cannot fail.
    let _ = codec::encode(signature, &mut bytes);
    bytes
}
