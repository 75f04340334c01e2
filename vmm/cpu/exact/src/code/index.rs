//! Which block stands where: a hash table with chains. Looking for a block is mostly
//! waiting for memory, so all that the search and the jump to the block need stands in
//! one short line.

use belljar_translate::host::block::Block;
use belljar_translate::host::exit_stub::BlockId;

use crate::code::form::Sought;

/// Chains; a power of two.
const CHAINS: usize = 1 << 16;
/// The end of a chain. Ids are stored plus one, so that fresh memory is a table of
/// empty chains and is not touched before it is used.
const END: u32 = 0;

/// A block as far as jumping to it needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub id: BlockId,
    /// Host address for jumps that know where they lead.
    pub entry: u64,
    /// Host address for indirect jumps.
    pub indirect_entry: u64,
    /// It reaches into a second page.
    pub crosses: bool,
}

/// Under what a block is found: RIP, the physical address of its first byte, and its
/// mode's bits, without that of hot code.
pub(crate) type Key = (u64, u64, u32);

#[derive(Debug)]
struct Line {
    key: Key,
    hot: bool,
    crosses: bool,
    next: u32,
    entry: u64,
    indirect_entry: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    heads: Vec<u32>,
    /// One for each block, forgotten ones too.
    lines: Vec<Line>,
}

/// Which of `chains` chains, a power of two, has what stands under a key.
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

    /// The newest block under `key`, which is the hot one if there is one; with `plain`,
    /// the other.
    pub(crate) fn find(&self, key: Key, sought: Sought) -> Option<Found> {
        let mut at = self.heads[chain_of(key, CHAINS)];
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
    pub(crate) fn add(&mut self, key: Key, block: &Block) -> Found {
        self.add_line(Line {
            key,
            hot: block.hot,
            crosses: block.origin.second.is_some(),
            next: END,
            entry: block.entry,
            indirect_entry: block.indirect_entry,
        })
    }

    /// Adds what leads to a block from elsewhere: code at `entry`, and for indirect jumps.
    pub(crate) fn add_thunk(&mut self, key: Key, entry: u64, indirect_entry: u64) -> Found {
        self.add_line(Line {
            key,
            hot: false,
            crosses: false,
            next: END,
            entry,
            indirect_entry,
        })
    }

    fn add_line(&mut self, line: Line) -> Found {
        let head = &mut self.heads[chain_of(line.key, CHAINS)];
        self.lines.push(Line {
            next: *head,
            ..line
        });
        let at = self.lines.len() as u32;
        *head = at;
        self.found(at)
    }

    fn found(&self, at: u32) -> Found {
        let line = &self.lines[at as usize - 1];
        Found {
            id: at - 1,
            entry: line.entry,
            indirect_entry: line.indirect_entry,
            crosses: line.crosses,
        }
    }

    /// Forgets a block.
    pub(crate) fn remove(&mut self, id: BlockId) {
        let (wanted, line) = (id + 1, &self.lines[id as usize]);
        let (chain, behind) = (chain_of(line.key, CHAINS), line.next);
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
