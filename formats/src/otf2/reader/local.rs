//! Mappings of a location's numbers and clock.
//!
//! Each process has its own numbers, which tables translate; without a table, numbers are the global ones. Its clock is corrected by offsets measured at some
//! times, with linear interpolation between them and linear extrapolation beyond. Read before the location's events.

use std::collections::BTreeMap;
use std::path::Path;

use super::records::{RecordFields, Records};
use crate::builder::ImportError;

/// Kinds of records.
const MAPPING_TABLE: u8 = 0x05;
const CLOCK_OFFSET: u8 = 0x06;
/// A table of pairs, instead of a number for each index from 0.
const SPARSE: u8 = 1;

/// The type of a mapping table: the kind of the numbered items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MappingType {
    Region = 3,
    Comm = 6,
    Window = 8,
    Context = 10,
}

/// Mappings of a location's numbers and clock.
#[derive(Debug, Default)]
pub(super) struct Local {
    /// True if it has a file.
    pub(super) there: bool,
    tables: BTreeMap<u8, BTreeMap<u64, u64>>,
    offsets: Vec<(u64, i64)>,
}

impl Local {
    /// Reads the file at `path`; without a file, numbers stay unchanged.
    pub(super) fn read(path: &Path, chunk: u64) -> Result<Self, ImportError> {
        let mut records = Records::open(path, chunk)?;
        let mut own = Self {
            there: records.is_there(),
            ..Self::default()
        };
        while let Some(kind) = records.kind()? {
            let mut fields = records.content()?;
            match kind {
                MAPPING_TABLE => own.table(&mut fields)?,
                CLOCK_OFFSET => {
                    let (time, offset) = (fields.fixed()?, fields.number()?);
                    own.offsets.push((time, offset.cast_signed()));
                }
                _ => {}
            }
        }
        own.offsets.sort_unstable();
        Ok(own)
    }

    fn table(&mut self, fields: &mut RecordFields<'_>) -> Result<(), ImportError> {
        let (kind, count, mode) = (fields.byte()?, fields.number()?, fields.byte()?);
        if count > fields.left() as u64 {
            return Err(fields.damaged("a table has more rows than its record has bytes"));
        }
        let table = self.tables.entry(kind).or_default();
        for row in 0..count {
            let own = match mode {
                SPARSE => fields.number()?,
                _ => row,
            };
            table.insert(own, fields.number()?);
        }
        Ok(())
    }

    /// Returns the global number for the location's `number`.
    pub(super) fn global(&self, kind: MappingType, number: u32) -> u32 {
        let table = self.tables.get(&(kind as u8));
        let found = table.and_then(|table| table.get(&u64::from(number)));
        found.map_or(number, |found| u32::try_from(*found).unwrap_or(u32::MAX))
    }

    /// Converts a time to the global clock.
    pub(super) fn time(&self, own: u64) -> u64 {
        let after = self.offsets.partition_point(|(time, _)| *time <= own);
        let last = self.offsets.len().saturating_sub(2);
        let line = after.saturating_sub(1).min(last);
        let offset = match self.offsets.get(line..).unwrap_or_default() {
            [] => 0,
            [(_, offset)] => *offset,
            [(from, first), (to, second), ..] => {
                let span = i128::from(*to) - i128::from(*from);
                let climb = i128::from(*second) - i128::from(*first);
                let part = (i128::from(own) - i128::from(*from)) as f64 / span.max(1) as f64;
                first.saturating_add((climb as f64 * part).round() as i64)
            }
        };
        own.saturating_add_signed(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_corrected_by_the_nearest_measurements() {
        let with = |offsets: &[(u64, i64)]| Local {
            offsets: offsets.to_vec(),
            ..Local::default()
        };
        let local = with(&[(1000, 10), (2000, 30), (4000, 30)]);
        let times = [500, 1000, 1500, 2000, 3000, 9000].map(|own| local.time(own));
        assert_eq!(times, [500, 1010, 1520, 2030, 3030, 9030]);
        let local = with(&[(1000, -10), (2000, -30)]);
        assert_eq!([500, 3000].map(|own| local.time(own)), [500, 2950]);
        assert_eq!(with(&[(1000, 10)]).time(7), 17);
        assert_eq!(Local::default().time(77), 77);
        let hostile = with(&[(0, i64::MIN), (u64::MAX, i64::MAX), (u64::MAX, 1)]);
        assert_eq!(hostile.time(5), 0);
    }

    /// As the `otf2` package of PyPI writes them: regions 0 to 2, two communicators, two offsets.
    #[test]
    fn tables_of_another_writer_are_read() {
        let mut bytes = b"\x03B\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend_from_slice(&[
            0x05, 0x0b, 3, 1, 3, 0, 1, 5, 1, 6, 2, 0x2c, 1, //
            0x05, 0x0d, 6, 1, 2, 1, 1, 7, 1, 9, 1, 0x64, 2, 0xe8, 3,
        ]);
        // The time has eight bytes, the offset as many as it needs, after their number, and the deviation eight again.
        bytes.extend_from_slice(&[0x06, 0x19, 0xe8, 3, 0, 0, 0, 0, 0, 0, 8]);
        bytes.extend_from_slice(&(-5i64).to_le_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
        bytes.extend_from_slice(&[0x06, 0x11, 0xe8, 7, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 2, 1]);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("0.def");
        std::fs::write(&path, &bytes).expect("it is written");
        let local = Local::read(&path, 4 << 20).expect("it is sound");
        let regions = [0, 1, 2, 3].map(|number| local.global(MappingType::Region, number));
        assert_eq!(regions, [5, 6, 300, 3]);
        let comms = [7, 100, 1].map(|number| local.global(MappingType::Comm, number));
        assert_eq!(comms, [9, 1000, 1]);
        assert_eq!(local.time(1000), 995);
        assert_eq!(local.time(2024), 2024);
    }
}
