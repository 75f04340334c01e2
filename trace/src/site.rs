//! Call sites: the frames of a call's stack.
//!
//! A frame is a location in a file of the guest. It is therefore the same for all ranks and runs that call from the same
//! line, wherever their processes have mapped the file. Sites are not part of an event's encoding. They are encoded by
//! number, from a table ([`SiteNumbers`] creates it, [`Sites`] reads it); a trace without sites has no such table. Created
//! by the tracer, used by writers and readers of events.

use std::collections::BTreeMap;
use std::sync::Arc;

use bincode::{Decode, Encode};

use crate::codec::not_encoded;

/// Most frames that a site has.
pub const MOST_FRAMES: u8 = 64;

/// A program or a library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct CodeFile {
    /// Its path in the guest; for a file of the workload, its name there.
    pub path: String,
    /// Its build ID, as its linker made it; empty where it has none.
    pub build_id: Vec<u8>,
}

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// The return address: relative to its file, or as in the process if it is outside of any file.
    pub address: u64,
    /// The file that contains the address.
    pub file: Option<Arc<CodeFile>>,
}

/// The frames of a call: first the address to which the call returns, then the address to which that function returns, and
/// so on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallStack(pub Vec<Frame>);

/// A call site. Not encoded with an event, but by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site(pub Option<Arc<CallStack>>);

not_encoded!(Site);

/// Files and stacks that are new in a table of sites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct NewSites {
    /// New files, numbered after the existing ones.
    pub files: Vec<CodeFile>,
    /// New stacks, numbered likewise: for each frame the file's number plus one, or 0, and the address.
    pub stacks: Vec<Vec<(u32, u64)>>,
}

/// Numbers sites, from 1 in the order of their appearance; 0 means no site.
#[derive(Clone, Debug, Default)]
pub struct SiteNumbers {
    files: BTreeMap<Arc<CodeFile>, u32>,
    stacks: BTreeMap<Arc<CallStack>, u32>,
    fresh: NewSites,
    bytes: usize,
}

impl SiteNumbers {
    /// Returns the number of a site.
    pub fn number(&mut self, site: &Site) -> u32 {
        let Some(stack) = &site.0 else {
            return 0;
        };
        if let Some(number) = self.stacks.get(stack) {
            return *number;
        }
        let frames = stack.0.iter().map(|frame| {
            let file = frame.file.as_ref().map_or(0, |file| self.file(file));
            (file, frame.address)
        });
        let frames: Vec<(u32, u64)> = frames.collect();
        self.bytes += 16 * (1 + frames.len());
        self.fresh.stacks.push(frames);
        let number = self.stacks.len() as u32 + 1;
        self.stacks.insert(stack.clone(), number);
        number
    }

    fn file(&mut self, file: &Arc<CodeFile>) -> u32 {
        if let Some(number) = self.files.get(file) {
            return *number;
        }
        self.bytes += 16 + file.path.len() + file.build_id.len();
        self.fresh.files.push(CodeFile::clone(file));
        let number = self.files.len() as u32 + 1;
        self.files.insert(file.clone(), number);
        number
    }

    /// Returns the approximate memory of the table, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the entries added since the last call.
    pub fn take_new(&mut self) -> NewSites {
        std::mem::take(&mut self.fresh)
    }

    /// Creates a table with the files and stacks `known`. The next [`take_new`](Self::take_new) returns all but the first
    /// `told` files and stacks. `None` if the input is invalid.
    pub fn of(known: &NewSites, told: (usize, usize)) -> Option<Self> {
        let mut sites = Sites::default();
        sites.add(known)?;
        let mut numbers = Self::default();
        for (file, number) in sites.files.iter().zip(1..) {
            if numbers.file(file) != number {
                return None;
            }
        }
        for (stack, number) in sites.stacks.iter().zip(1..) {
            if numbers.number(&Site(Some(stack.clone()))) != number {
                return None;
            }
        }
        numbers.fresh = NewSites {
            files: known.files.get(told.0..)?.to_vec(),
            stacks: known.stacks.get(told.1..)?.to_vec(),
        };
        Some(numbers)
    }

    /// Returns all files and stacks, and the numbers of those already returned as new.
    pub fn all(&self) -> (NewSites, (usize, usize)) {
        let mut files = vec![None; self.files.len()];
        for (file, number) in &self.files {
            files[*number as usize - 1] = Some(CodeFile::clone(file));
        }
        let mut stacks = vec![Vec::new(); self.stacks.len()];
        for (stack, number) in &self.stacks {
            let frames = stack.0.iter().map(|frame| {
                let file = frame.file.as_ref().and_then(|file| self.files.get(file));
                (file.copied().unwrap_or(0), frame.address)
            });
            stacks[*number as usize - 1] = frames.collect();
        }
        let told = (
            files.len() - self.fresh.files.len(),
            stacks.len() - self.fresh.stacks.len(),
        );
        let files = files.into_iter().flatten().collect();
        (NewSites { files, stacks }, told)
    }
}

/// Sites by number, as numbered by [`SiteNumbers`].
#[derive(Clone, Debug, Default)]
pub struct Sites {
    files: Vec<Arc<CodeFile>>,
    stacks: Vec<Arc<CallStack>>,
}

impl Sites {
    /// Adds new entries. `None` if they are invalid, as the input is untrusted.
    pub fn add(&mut self, new: &NewSites) -> Option<()> {
        self.files.extend(new.files.iter().cloned().map(Arc::new));
        for stack in &new.stacks {
            if stack.is_empty() || stack.len() > usize::from(MOST_FRAMES) {
                return None;
            }
            let frames = stack.iter().map(|(file, address)| {
                let file = match file.checked_sub(1) {
                    None => None,
                    Some(index) => Some(self.files.get(index as usize)?.clone()),
                };
                let address = *address;
                Some(Frame { address, file })
            });
            let frames: Option<Vec<Frame>> = frames.collect();
            self.stacks.push(Arc::new(CallStack(frames?)));
        }
        Some(())
    }

    /// Returns the site with this number; `None` if there is no such site.
    pub fn get(&self, number: u32) -> Option<Site> {
        match number.checked_sub(1) {
            None => Some(Site(None)),
            Some(index) => {
                let stack = self.stacks.get(index as usize)?;
                Some(Site(Some(stack.clone())))
            }
        }
    }

    /// Returns the number of stacks.
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// True if there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(addresses: &[u64], path: &str) -> Site {
        let file = Arc::new(CodeFile {
            path: path.to_owned(),
            build_id: vec![1, 2],
        });
        let frames = addresses.iter().map(|address| Frame {
            address: *address,
            file: (address % 2 == 0).then(|| file.clone()),
        });
        Site(Some(Arc::new(CallStack(frames.collect()))))
    }

    #[test]
    fn sites_come_back_from_their_numbers() {
        let all = [
            site(&[2, 4], "/a"),
            site(&[2], "/a"),
            Site(None),
            site(&[2, 4], "/b"),
            site(&[3], "/b"),
        ];
        let (mut numbers, mut sites) = (SiteNumbers::default(), Sites::default());
        for site in all.iter().chain(&all) {
            let number = numbers.number(site);
            sites.add(&numbers.take_new()).unwrap();
            assert_eq!(sites.get(number).as_ref(), Some(site));
            let (known, told) = numbers.all();
            let mut again = SiteNumbers::of(&known, told).unwrap();
            assert_eq!(again.number(site), number);
            assert_eq!(again.take_new(), NewSites::default());
            assert_eq!(again.bytes(), numbers.bytes());
        }
        assert_eq!(sites.len(), 4);
        assert_eq!(sites.get(5), None);
    }

    #[test]
    fn tables_that_make_no_sense_are_refused() {
        let stacks = |stacks: &[&[(u32, u64)]]| NewSites {
            files: Vec::new(),
            stacks: stacks.iter().map(|stack| stack.to_vec()).collect(),
        };
        let long = [(0, 1); 65];
        let bad: [&[(u32, u64)]; 3] = [&[], &[(1, 5)], &long];
        for stack in bad {
            assert!(Sites::default().add(&stacks(&[stack])).is_none());
        }
        let twice: &[(u32, u64)] = &[(0, 5)];
        assert!(SiteNumbers::of(&stacks(&[twice, twice]), (0, 0)).is_none());
        assert!(SiteNumbers::of(&stacks(&[twice]), (0, 2)).is_none());
    }
}
