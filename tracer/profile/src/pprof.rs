//! The format of `pprof`: the gzipped protocol buffer of its `profile.proto`.
//!
//! It has only the fields that a profile of functions needs; numbers and names of fields follow that file. Used by
//! `table`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};

use crate::tally::Named;

/// A message of a protocol buffer (protobuf.dev, "Encoding").
#[derive(Default)]
struct ProtoMessage(Vec<u8>);

impl ProtoMessage {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    fn numbers(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut packed = Self::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.message(field, &packed);
    }
}

/// Strings by their indices in the table; the first is empty.
struct Strings<'n>(BTreeMap<&'n str, u64>, Vec<&'n str>);

impl<'n> Strings<'n> {
    fn place(&mut self, word: &'n str) -> u64 {
        let next = self.1.len() as u64;
        let place = *self.0.entry(word).or_insert(next);
        if place == next {
            self.1.push(word);
        }
        place
    }

    fn kind(&mut self, kind: &'n str, unit: &'n str) -> ProtoMessage {
        let mut message = ProtoMessage::default();
        message.number(1, self.place(kind));
        message.number(2, self.place(unit));
        message
    }
}

/// Writes the profile.
pub(crate) fn write(profile: &Named, out: &mut dyn Write) -> io::Result<()> {
    let mut whole = ProtoMessage::default();
    let mut strings = Strings(BTreeMap::from([("", 0)]), vec![""]);
    whole.message(1, &strings.kind("samples", "count"));
    whole.message(1, &strings.kind("time", "nanoseconds"));
    let nanoseconds = |count: u64| count.saturating_mul(profile.every) / 1000;
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, count) in &profile.stacks {
        let mut locations = Vec::new();
        for name in stack.iter().rev() {
            let next = places.len() as u64 + 1;
            locations.push(*places.entry(name).or_insert(next));
        }
        let mut sample = ProtoMessage::default();
        sample.numbers(1, locations);
        sample.numbers(2, [*count, nanoseconds(*count)]);
        whole.message(2, &sample);
    }
    // A location for each function, with the same number.
    for (name, number) in &places {
        let mut line = ProtoMessage::default();
        line.number(1, *number);
        let mut location = ProtoMessage::default();
        location.number(1, *number);
        location.message(4, &line);
        whole.message(4, &location);
        let mut function = ProtoMessage::default();
        function.number(1, *number);
        let name = strings.place(name);
        function.number(2, name);
        function.number(3, name);
        whole.message(5, &function);
    }
    let period = strings.kind("time", "nanoseconds");
    strings
        .1
        .iter()
        .for_each(|word| whole.bytes(6, word.as_bytes()));
    whole.number(10, nanoseconds(profile.samples()));
    whole.message(11, &period);
    whole.number(12, profile.every / 1000);
    let mut packed = GzBuilder::new().mtime(0).write(out, Compression::default());
    packed.write_all(&whole.0)?;
    packed.finish().map(drop)
}
