//! Symbolic addresses, and the stores that later loads may read.
//!
//! Registers hold a symbol plus a constant; addresses are equal if their symbols and constants are. A load of the
//! eight bytes of an uncommitted store gets its data from the store. `schedule` calls this in program order.

use crate::uops::{MicroOp, Place, STACK};

/// Number of general registers.
const GENERAL: usize = 16;
/// Recorded stores, by a hash of their address; a newer one replaces an older one.
const STORES: usize = 256;

/// A value: an unknown number, or zero for none, plus a constant.
#[derive(Clone, Copy, Debug)]
struct Symbolic {
    symbol: u64,
    offset: i64,
}

/// The values of the general registers.
#[derive(Debug)]
pub(super) struct Addresses {
    values: [Symbolic; GENERAL],
    /// The last symbol.
    last: u64,
}

impl Default for Addresses {
    fn default() -> Self {
        let mut values = [Symbolic {
            symbol: 0,
            offset: 0,
        }; GENERAL];
        for (number, value) in values.iter_mut().enumerate() {
            value.symbol = number as u64 + 1;
        }
        Self {
            values,
            last: GENERAL as u64,
        }
    }
}

impl Addresses {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A number that equals that of other places with the same eight bytes; nonzero.
    pub(super) fn key(&self, place: Place) -> u64 {
        let mut offset = place.displacement;
        let mut hash = 0;
        if let Some(base) = place.base {
            let base = self.values[usize::from(base)];
            hash = mixed(hash, base.symbol);
            offset = offset.wrapping_add(base.offset);
        }
        if let Some((index, scale)) = place.index {
            let index = self.values[usize::from(index)];
            if index.symbol != 0 {
                hash = mixed(hash, index.symbol << 4 | u64::from(scale));
            }
            offset = offset.wrapping_add(index.offset.wrapping_mul(i64::from(scale)));
        }
        mixed(hash, (offset >> 3) as u64) | 1
    }

    /// Applies the effects of an instruction.
    pub(super) fn write(&mut self, op: &MicroOp) {
        let known = op.value.map(|value| {
            let base = match value.from {
                Some(from) => self.values[usize::from(from)],
                None => Symbolic {
                    symbol: 0,
                    offset: 0,
                },
            };
            let offset = base.offset.wrapping_add(value.offset);
            (value.target, Symbolic { offset, ..base })
        });
        let mut left = op.targets & ((1 << GENERAL) - 1);
        while left != 0 {
            self.last += 1;
            self.values[left.trailing_zeros() as usize] = Symbolic {
                symbol: self.last,
                offset: 0,
            };
            left &= left - 1;
        }
        let stack = &mut self.values[usize::from(STACK)];
        stack.offset = stack.offset.wrapping_add(i64::from(op.stack));
        if let Some((target, value)) = known {
            self.values[usize::from(target)] = value;
        }
    }
}

fn mixed(hash: u64, value: u64) -> u64 {
    (hash.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[derive(Clone, Copy, Debug, Default)]
struct Store {
    key: u64,
    data: u64,
    committed: u64,
    /// Its registers and constant.
    place: Option<Place>,
}

/// The last stores.
#[derive(Debug)]
pub(super) struct Stores {
    stores: [Store; STORES],
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            stores: [Store::default(); STORES],
        }
    }
}

fn slot(key: u64) -> usize {
    (key >> 40) as usize % STORES
}

impl Stores {
    pub(super) fn clear(&mut self) {
        self.stores.fill(Store::default());
    }

    /// Records a store whose data is available in cycle `data` and in the first level in cycle `committed`.
    pub(super) fn add(&mut self, key: u64, place: Option<Place>, data: u64, committed: u64) {
        self.stores[slot(key)] = Store {
            key,
            data,
            committed,
            place,
        };
    }

    /// The cycle in which the data of an uncommitted store is available to a load of `place` that is issued in cycle
    /// `at`, and true if the store had the same base register.
    pub(super) fn find(&self, key: u64, place: Place, at: u64) -> Option<(u64, bool)> {
        let store = &self.stores[slot(key)];
        let alike = store.place.is_some_and(|own| own.base == place.base);
        (store.key == key && store.committed > at).then_some((store.data, alike))
    }
}
