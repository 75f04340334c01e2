//! Sorting of any number of records by time.
//!
//! Records are sorted in memory in runs and written to unnamed files next to the result; runs are merged at the end, or as soon as too many are open.
//! Records of equal time stay in the order in which they came. Used by the writer of records.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Numbers in a record: its time, and its values.
pub(super) const WIDTH: usize = 16;
/// A record.
pub(super) type Entry = [u64; WIDTH];
/// Number of records in a run: 32 MiB.
const RUN: usize = 1 << 18;
/// Most runs that are open at once.
const OPEN: usize = 64;

/// Sorts records.
#[derive(Debug)]
pub(super) struct Sorter {
    folder: PathBuf,
    most: usize,
    run: Vec<Entry>,
    runs: Vec<File>,
}

impl Sorter {
    /// Creates a sorter with files in `folder`.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            most: RUN,
            run: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds a record.
    pub(super) fn push(&mut self, entry: Entry) -> io::Result<()> {
        self.run.push(entry);
        match self.run.len() >= self.most {
            true => self.end_run(),
            false => Ok(()),
        }
    }

    fn end_run(&mut self) -> io::Result<()> {
        self.run.sort_by_key(|entry| entry[0]);
        let mut out = BufWriter::new(tempfile::tempfile_in(&self.folder)?);
        for entry in self.run.drain(..) {
            put(&entry, &mut out)?;
        }
        self.add(out)?;
        if self.runs.len() >= OPEN {
            let runs = std::mem::take(&mut self.runs);
            let mut out = BufWriter::new(tempfile::tempfile_in(&self.folder)?);
            merge(runs, |entry| put(entry, &mut out))?;
            self.add(out)?;
        }
        Ok(())
    }

    fn add(&mut self, run: BufWriter<File>) -> io::Result<()> {
        let mut file = run.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        self.runs.push(file);
        Ok(())
    }

    /// Passes all records to `to` in order.
    pub(super) fn finish(mut self, to: impl FnMut(&Entry) -> io::Result<()>) -> io::Result<()> {
        self.end_run()?;
        merge(self.runs, to)
    }
}

fn put(entry: &Entry, out: &mut impl Write) -> io::Result<()> {
    entry
        .iter()
        .try_for_each(|number| out.write_all(&number.to_le_bytes()))
}

/// Reads the next record of a run.
fn take(run: &mut BufReader<File>) -> io::Result<Option<Entry>> {
    let mut bytes = [0; WIDTH * 8];
    match run.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
        Ok(()) => {
            let mut entry = [0; WIDTH];
            for (number, bytes) in entry.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *number = u64::from_le_bytes(*bytes);
            }
            Ok(Some(entry))
        }
    }
}

/// Passes the records of runs to `to` in order; at equal times, those of an earlier run first.
fn merge(runs: Vec<File>, mut to: impl FnMut(&Entry) -> io::Result<()>) -> io::Result<()> {
    let mut runs: Vec<_> = runs.into_iter().map(BufReader::new).collect();
    let mut heads = BinaryHeap::new();
    for (number, run) in runs.iter_mut().enumerate() {
        if let Some(entry) = take(run)? {
            heads.push(Reverse((entry[0], number, entry)));
        }
    }
    while let Some(Reverse((_, number, entry))) = heads.pop() {
        to(&entry)?;
        if let Some(next) = take(&mut runs[number])? {
            heads.push(Reverse((next[0], number, next)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_runs_come_out_in_order_and_stably() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sorter = Sorter::new(folder.path().to_owned());
        sorter.most = 3;
        let mut expected = Vec::new();
        for number in 0..1000u64 {
            let mut entry = [0; WIDTH];
            (entry[0], entry[1]) = (number.wrapping_mul(0x9e37_79b9) % 50, number);
            expected.push((entry[0], number));
            sorter.push(entry).expect("it is taken");
        }
        expected.sort_unstable();
        let mut read = Vec::new();
        let told = sorter.finish(|entry| {
            read.push((entry[0], entry[1]));
            Ok(())
        });
        told.expect("they are told");
        assert_eq!(read, expected);
    }
}
