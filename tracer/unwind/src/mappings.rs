//! Mappings of files in a process, as far as addresses were looked up.
//!
//! The first page of a file precedes its code; it is searched for from the address downward, once for each piece of code.
//! Results are kept, and are state: they are saved with a run, so that a resumed run gives the same answers. If a process
//! maps another file in place of an unmapped one, the old answer remains.

use bincode::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::PAGE;
use crate::files::{Files, MAGIC};
use crate::rules::Memory;

/// Most pages before an address that are searched: code of 256 MiB.
const MOST_PAGES: u64 = 1 << 16;

/// Most pieces of code that are kept for a process; beyond that, all are forgotten.
const MOST_MAPPINGS: usize = 1 << 12;

/// A piece of code in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Mapping {
    start: u64,
    end: u64,
    /// The file's number and the difference between addresses and those in the file; `None` for a page without a file.
    found: Option<(u32, u64)>,
}

/// The pieces of code of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Mappings {
    /// In the order of their addresses.
    mappings: Vec<Mapping>,
}

impl Mappings {
    /// Returns the file whose code is at `address`: its number, and the address relative to it.
    pub(crate) fn find(
        &mut self,
        address: u64,
        files: &Files,
        memory: &dyn Memory,
    ) -> Option<(u32, u64)> {
        let after = self.mappings.partition_point(|it| it.start <= address);
        let known = after.checked_sub(1).and_then(|at| self.mappings.get(at));
        let known = known.filter(|it| address < it.end);
        let mapping = match known {
            Some(mapping) => *mapping,
            None => {
                let mapping = self.apart_from_known(address, search(address, files, memory));
                self.keep(mapping);
                mapping
            }
        };
        let (file, bias) = mapping.found?;
        Some((file, address.wrapping_sub(bias)))
    }

    /// Forgets files that are no longer mapped where they were found, for callers that do not notice when another process
    /// takes over the address space.
    pub fn recheck(&mut self, files: &Files, memory: &dyn Memory) {
        let mut last = None;
        self.mappings.retain(|mapping| match mapping.found {
            Some(found) => {
                // The pieces of a file are consecutive.
                let (before, is_there) = last.unwrap_or((found, false));
                let is_there = match last.is_some() && before == found {
                    true => is_there,
                    false => is_mapped(found.0, found.1, files, memory),
                };
                last = Some((found, is_there));
                is_there
            }
            None => true,
        });
    }

    /// Returns the part of a page without a file that is not a known piece of code, since a file's piece may end within it.
    /// `address` is in no known piece.
    fn apart_from_known(&self, address: u64, mut mapping: Mapping) -> Mapping {
        if mapping.found.is_none() {
            let after = self.mappings.partition_point(|it| it.start <= address);
            let before = after.checked_sub(1).and_then(|at| self.mappings.get(at));
            mapping.start = before.map_or(mapping.start, |it| it.end.max(mapping.start));
            let next = self.mappings.get(after);
            mapping.end = next.map_or(mapping.end, |it| it.start.min(mapping.end));
        }
        mapping
    }

    /// Keeps a piece in place of earlier ones there, as code may have been mapped since.
    fn keep(&mut self, mapping: Mapping) {
        if self.mappings.len() >= MOST_MAPPINGS {
            self.mappings.clear();
        }
        let is_apart = |it: &Mapping| it.end <= mapping.start || mapping.end <= it.start;
        self.mappings.retain(is_apart);
        let at = self.mappings.partition_point(|it| it.start < mapping.start);
        self.mappings.insert(at, mapping);
    }

    /// True if the pieces are in order and within the limit.
    pub fn is_sound(&self) -> bool {
        self.mappings.len() <= MOST_MAPPINGS
            && self.mappings.is_sorted_by_key(|it| it.start)
            && self.mappings.iter().all(|it| it.start < it.end)
    }
}

/// True if a file is mapped at this difference from its own addresses.
fn is_mapped(file: u32, bias: u64, files: &Files, memory: &dyn Memory) -> bool {
    let mut page = [0; PAGE];
    let base = files.code(file).and_then(|code| code.base(bias));
    let there = base.is_some_and(|base| memory.read(base, &mut page));
    there && files.beginning_with(&page) == Some(file)
}

/// Finds the piece of code that contains `address`; its page, if it is not a file's code.
fn search(address: u64, files: &Files, memory: &dyn Memory) -> Mapping {
    let page = address / PAGE as u64;
    let pages = (0..MOST_PAGES).map_while(|back| page.checked_sub(back));
    let mut found = pages.filter_map(|page| {
        let base = page * PAGE as u64;
        let mut start = MAGIC;
        let begins = memory.read(base, &mut start) && start == MAGIC;
        begins.then(|| piece(base, address, files, memory))?
    });
    found.next().unwrap_or(Mapping {
        start: page * PAGE as u64,
        end: (page * PAGE as u64).saturating_add(PAGE as u64),
        found: None,
    })
}

/// Returns the piece with `address` of the file that begins at `base`.
fn piece(base: u64, address: u64, files: &Files, memory: &dyn Memory) -> Option<Mapping> {
    let mut page = [0; PAGE];
    if !memory.read(base, &mut page) {
        return None;
    }
    let file = files.beginning_with(&page)?;
    let code = files.code(file)?;
    let bias = code.bias(base)?;
    let (start, end) = code.piece(address.wrapping_sub(bias))?;
    let (start, end) = (start.wrapping_add(bias), end.wrapping_add(bias));
    (start..end).contains(&address).then_some(Mapping {
        start,
        end,
        found: Some((file, bias)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_no_file_leaves_the_code_that_ends_within_it() {
        let mapping = |start, end, found| Mapping { start, end, found };
        let mut mappings = Mappings::default();
        let code = mapping(0x1000, 0x1a00, Some((0, 0)));
        mappings.keep(code);
        mappings.keep(mapping(0x1c00, 0x2800, Some((1, 0))));
        let page = mappings.apart_from_known(0x1a01, mapping(0x1000, 0x2000, None));
        assert_eq!(page, mapping(0x1a00, 0x1c00, None));
        mappings.keep(page);
        assert!(mappings.is_sound());
        assert!(mappings.mappings.contains(&code), "{mappings:?}");
    }

    #[test]
    fn what_is_found_takes_the_place_of_what_was() {
        let mapping = |start, end, found| Mapping { start, end, found };
        let mut mappings = Mappings::default();
        for start in [0x1000, 0x3000, 0x7000] {
            mappings.keep(mapping(start, start + 0x1000, None));
        }
        // Code that was mapped later: it begins before a page that was searched.
        mappings.keep(mapping(0x2000, 0x6000, Some((0, 0))));
        assert!(mappings.is_sound());
        let starts: Vec<u64> = mappings.mappings.iter().map(|it| it.start).collect();
        assert_eq!(starts, [0x1000, 0x2000, 0x7000]);
    }
}
