//! Sorting of dependencies in the order in which they are followed, on disk if there are many.
//!
//! A trace of a hundred million calls has about as many, too many for memory. Segments are sorted and written to temporary files,
//! and all files are merged at the end. Used by `path`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use crate::causes::waiting::{Dependency, DependencyNode};

/// Number of dependencies that are sorted at a time, in memory: some 50 MB.
const SEGMENT: usize = 1 << 20;

/// Bytes of a dependency on disk.
const STORED: usize = 40;

/// Takes dependencies in any order.
#[derive(Debug)]
pub(super) struct Sorter {
    segment: usize,
    memory: Vec<Dependency>,
    /// Sorted files, each of a segment's length.
    files: Vec<File>,
}

impl Sorter {
    /// Creates an empty sorter.
    pub(super) fn new() -> Self {
        Self::of(SEGMENT)
    }

    /// Creates one with segments of this length.
    fn of(segment: usize) -> Self {
        Self {
            segment,
            memory: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Adds a dependency.
    ///
    /// # Errors
    /// Returns the errors of the disk.
    pub(super) fn push(&mut self, dependency: Dependency) -> io::Result<()> {
        self.memory.push(dependency);
        if self.memory.len() < self.segment {
            return Ok(());
        }
        self.memory.sort_unstable();
        let mut writer = BufWriter::new(tempfile::tempfile()?);
        for dependency in self.memory.drain(..) {
            writer.write_all(&stored(&dependency))?;
        }
        self.files.push(writer.into_inner()?);
        Ok(())
    }

    /// Returns all dependencies, in order.
    ///
    /// # Errors
    /// Returns the errors of the disk.
    pub(super) fn sorted(mut self) -> io::Result<Sorted> {
        self.memory.sort_unstable();
        let mut segments = Vec::new();
        for mut file in self.files {
            file.rewind()?;
            segments.push(SortedRun::File(BufReader::new(file)));
        }
        segments.push(SortedRun::Memory(self.memory.into_iter()));
        let mut next = BinaryHeap::new();
        for (number, segment) in segments.iter_mut().enumerate() {
            next.extend(segment.next()?.map(|first| Reverse((first, number))));
        }
        Ok(Sorted { segments, next })
    }
}

/// A sorted run of dependencies.
#[derive(Debug)]
enum SortedRun {
    File(BufReader<File>),
    Memory(std::vec::IntoIter<Dependency>),
}

impl SortedRun {
    fn next(&mut self) -> io::Result<Option<Dependency>> {
        let file = match self {
            Self::Memory(memory) => return Ok(memory.next()),
            Self::File(file) => file,
        };
        let mut bytes = [0; STORED];
        match file.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(of_stored(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// All dependencies, in order.
#[derive(Debug)]
pub(super) struct Sorted {
    segments: Vec<SortedRun>,
    /// The next one of each segment, with its number.
    next: BinaryHeap<Reverse<(Dependency, usize)>>,
}

impl Iterator for Sorted {
    type Item = io::Result<Dependency>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((first, number)) = self.next.pop()?;
        match self.segments[number].next() {
            Ok(after) => {
                self.next
                    .extend(after.map(|after| Reverse((after, number))));
                Some(Ok(first))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// Encodes a dependency for the disk.
fn stored(dependency: &Dependency) -> [u8; STORED] {
    let Dependency {
        ready,
        level,
        who,
        on,
        at,
        waited,
    } = *dependency;
    let level = u64::from(level) << 1 | u64::from(waited);
    let mut bytes = [0; STORED];
    let numbers = [ready, who.bits(), on.bits(), at, level];
    for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
    bytes
}

fn of_stored(bytes: &[u8; STORED]) -> Dependency {
    let (numbers, _) = bytes.as_chunks::<8>();
    let [ready, who, on, at, level] = [0, 1, 2, 3, 4].map(|at| u64::from_le_bytes(numbers[at]));
    Dependency {
        ready,
        level: (level >> 1) as u32,
        who: DependencyNode::from_bits(who),
        on: DependencyNode::from_bits(on),
        at,
        waited: level & 1 == 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_job::Member;

    fn sorted(count: u64, segment: usize) -> Vec<u64> {
        let mut sorter = Sorter::of(segment);
        let process = DependencyNode::process(Member { job: 0, rank: 1 });
        for number in 0..count {
            // Not in order: 7 is a unit modulo these numbers.
            let ready = number * 7 % count;
            let one = Dependency {
                ready,
                level: 3,
                who: process,
                on: process,
                at: 5,
                waited: number % 2 == 0,
            };
            sorter.push(one).unwrap();
        }
        let all = sorter.sorted().unwrap();
        all.map(|one| one.unwrap().ready).collect()
    }

    #[test]
    fn all_come_from_the_last_on_whatever_their_number() {
        for count in [0, 1, 9, 10, 11, 19, 20, 22, 33, 100] {
            let expected: Vec<u64> = (0..count).rev().collect();
            assert_eq!(sorted(count, 10), expected, "{count}");
            assert_eq!(sorted(count, 1000), expected, "{count} in memory");
        }
    }

    #[test]
    fn what_the_disk_has_is_what_was_given() {
        let one = Dependency {
            ready: 1 << 60,
            level: 77,
            who: DependencyNode::from_bits(u64::MAX - 3),
            on: DependencyNode::process(Member { job: 5, rank: 9 }),
            at: 12,
            waited: true,
        };
        assert_eq!(of_stored(&stored(&one)), one);
    }
}
