//! Functions of a Linux kernel, by the table that it has in itself.
//!
//! Kernels of distributions have no ELF symbols, but their own table of them (`kernel/kallsyms.c`, written by
//! `scripts/kallsyms.c`): names as tokens of a table of 256 texts, addresses as offsets from a base. Nothing says where
//! it is: the table of tokens is known by its digits, which stand for themselves, and by its index, and what is before it by
//! its markers, which say where every 256th name begins. A table that does not fit together is none. Files may hold
//! anything; what is held is bounded by the file. Addresses are those of a kernel that was not moved (`nokaslr`). Called by
//! those who name what kernels do, and those who put probes there.

/// Where the parts of such a table are.
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use tables::Tables;

/// The functions of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbols {
    /// By address: where it begins, where the next symbol does, its name.
    functions: Vec<(u64, u64, Arc<str>)>,
}

impl KernelSymbols {
    /// Those of the unpacked kernel `vmlinux`; `None` where it has no such table.
    pub fn of(vmlinux: &[u8]) -> Option<Self> {
        let tables = Tables::find(vmlinux)?;
        let mut symbols: Vec<(u64, u8, String)> = tables.symbols().collect();
        symbols.sort_by_key(|(address, ..)| *address);
        let mut functions = Vec::new();
        for (at, (address, kind, name)) in symbols.iter().enumerate() {
            if !matches!(kind, b't' | b'T' | b'w' | b'W') {
                continue;
            }
            let after = symbols[at..].iter().map(|(address, ..)| *address);
            let end = after.clone().find(|next| next > address);
            functions.push((*address, end.unwrap_or(u64::MAX), name.as_str().into()));
        }
        Some(Self { functions })
    }

    /// The function at `address`: of several that begin alike, the first in the table.
    pub fn function(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|(start, ..)| *start <= address);
        let (start, ..) = self.functions.get(after.checked_sub(1)?)?;
        let first = self.functions.partition_point(|(other, ..)| other < start);
        let (_, end, name) = self.functions.get(first)?;
        (address < *end).then_some(name)
    }

    /// Where functions of this name begin.
    pub fn addresses(&self, name: &str) -> Vec<u64> {
        let named = self.functions.iter().filter(|(.., other)| &**other == name);
        named.map(|(start, ..)| *start).collect()
    }

    /// All functions by address: where each begins, and its name.
    pub fn functions(&self) -> impl Iterator<Item = (u64, &str)> {
        let each = self.functions.iter();
        each.map(|(start, _, name)| (*start, &**name))
    }

    /// What begins at which address: a function, or what is none.
    pub fn ranges(&self) -> BTreeMap<u64, Option<Arc<str>>> {
        let mut ranges: BTreeMap<u64, Option<Arc<str>>> = BTreeMap::new();
        for (start, end, name) in &self.functions {
            ranges.entry(*end).or_default();
            let there = ranges.entry(*start).or_default();
            there.get_or_insert_with(|| name.clone());
        }
        ranges
    }
}

#[cfg(test)]
mod tests;
