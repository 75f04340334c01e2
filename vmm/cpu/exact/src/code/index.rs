//! An index of blocks: a hash table with chains. Lookups mostly wait for memory, so all data for
//! the search and the jump to the block is in a short line.

use belljar_translate::host::block::Block;
use belljar_translate::host::exit_stub::BlockId;

use crate::code::form::Sought;

/// Number of chains at the beginning; a power of two. It doubles when there are as many blocks.
const CHAINS: usize = 1 << 16;
/// The end of a chain. Ids are stored plus one, so that fresh memory is a table of empty chains,
/// and is not touched before use.
const END: u32 = 0;

/// The data of a block that a jump to it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    pub id: BlockId,
    /// Host address for jumps that need no check of the RIP.
    pub entry: u64,
    /// Host address for indirect jumps.
    pub indirect_entry: u64,
    /// True if it extends into a second page.
    pub crosses: bool,
}

/// The key of a block: RIP, physical address of its first byte, and its mode's bits, without the
/// one for hot code.
pub(crate) type Key = (u64, u64, u32);

#[derive(Debug)]
struct IndexLine {
    key: Key,
    hot: bool,
    crosses: bool,
    next: u32,
    entry: u64,
    indirect_entry: u64,
}

/// The index of a store; see the module.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    heads: Vec<u32>,
    /// A line for each block, including dropped ones.
    lines: Vec<IndexLine>,
}

/// The chain, of `chains`, a power of two, for a key.
pub(crate) fn chain_of((rip, physical, mode): Key, chains: usize) -> usize {
    // Multipliers of Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4).
    let mixed = rip.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (physical + u64::from(mode)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed >> 40) as usize % chains
}

impl BlockIndex {
    pub(crate) fn new() -> Self {
        Self {
            heads: vec![END; CHAINS],
            lines: Vec::new(),
        }
    }

    /// The newest block under `key`, which is the hot one if there is one; for plain code, the
    /// other one.
    pub(crate) fn find(&self, key: Key, sought: Sought) -> Option<BlockEntry> {
        let mut at = self.heads[chain_of(key, self.heads.len())];
        while at != END {
            let line = &self.lines[at as usize - 1];
            if line.key == key && !(sought == Sought::Plain && line.hot) {
                return Some(self.found(at));
            }
            at = line.next;
        }
        None
    }

    /// Adds the next block.
    pub(crate) fn add(&mut self, key: Key, block: &Block) -> BlockEntry {
        self.add_line(IndexLine {
            key,
            hot: block.hot,
            crosses: block.origin.second.is_some(),
            next: END,
            entry: block.entry,
            indirect_entry: block.indirect_entry,
        })
    }

    /// Adds a thunk: code at `entry` that leads to a block, with an entry for indirect jumps.
    pub(crate) fn add_thunk(&mut self, key: Key, entry: u64, indirect_entry: u64) -> BlockEntry {
        self.add_line(IndexLine {
            key,
            hot: false,
            crosses: false,
            next: END,
            entry,
            indirect_entry,
        })
    }

    fn add_line(&mut self, line: IndexLine) -> BlockEntry {
        if self.lines.len() == self.heads.len() {
            self.double_chains();
        }
        let chains = self.heads.len();
        let head = &mut self.heads[chain_of(line.key, chains)];
        self.lines.push(IndexLine {
            next: *head,
            ..line
        });
        let at = self.lines.len() as u32;
        *head = at;
        self.found(at)
    }

    /// Doubles the number of chains: each becomes two with the same order.
    fn double_chains(&mut self) {
        let chains = self.heads.len();
        self.heads.resize(2 * chains, END);
        for chain in 0..chains {
            let mut at = std::mem::replace(&mut self.heads[chain], END);
            let mut last = [END; 2];
            while at != END {
                let line = &mut self.lines[at as usize - 1];
                let behind = std::mem::replace(&mut line.next, END);
                let to = chain_of(line.key, 2 * chains);
                match std::mem::replace(&mut last[to / chains], at) {
                    END => self.heads[to] = at,
                    before => self.lines[before as usize - 1].next = at,
                }
                at = behind;
            }
        }
    }

    fn found(&self, at: u32) -> BlockEntry {
        let line = &self.lines[at as usize - 1];
        BlockEntry {
            id: at - 1,
            entry: line.entry,
            indirect_entry: line.indirect_entry,
            crosses: line.crosses,
        }
    }

    /// Removes a block.
    pub(crate) fn remove(&mut self, id: BlockId) {
        let (wanted, line) = (id + 1, &self.lines[id as usize]);
        let (chain, behind) = (chain_of(line.key, self.heads.len()), line.next);
        let mut at = self.heads[chain];
        if at == wanted {
            self.heads[chain] = behind;
            return;
        }
        while at != END {
            let line = &mut self.lines[at as usize - 1];
            if line.next == wanted {
                line.next = behind;
                return;
            }
            at = line.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address of which many share a chain while there are few.
    fn key(number: u32) -> Key {
        (u64::from(number / 2) << 12, 0, 0)
    }

    #[test]
    fn blocks_stay_found_when_there_are_more_chains() {
        let mut index = BlockIndex::new();
        let blocks = 2 * CHAINS as u32 + 1;
        for number in 0..blocks {
            let added = index.add_thunk(key(number), number.into(), 0);
            assert_eq!(added.id, number);
        }
        assert_eq!(index.heads.len(), 4 * CHAINS);
        // Two blocks have each key: the newer one is found, then the older one.
        for number in (1..blocks).step_by(2) {
            let newest = |index: &BlockIndex| {
                let found = index.find(key(number), Sought::Best);
                found.map(|found| found.entry)
            };
            assert_eq!(newest(&index), Some(number.into()));
            index.remove(number);
            assert_eq!(newest(&index), Some((number - 1).into()));
            index.remove(number - 1);
            assert_eq!(newest(&index), None);
        }
    }
}
