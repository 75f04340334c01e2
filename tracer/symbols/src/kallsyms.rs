//! Functions of a Linux kernel, from the kernel's built-in table.
//!
//! Kernels of distributions have no ELF symbols, but a symbol table of their own (`kernel/kallsyms.c`, written by
//! `scripts/kallsyms.c`). Names are tokens of a table of 256 texts, addresses are offsets from a base. Its address is not
//! recorded. The table of tokens is recognized by its digits, which encode themselves, and by its index. The preceding parts
//! are recognized by the markers, which have the position of every 256th name. An inconsistent table is rejected. Files are
//! untrusted; memory is bounded by the file's size. Addresses are those of a kernel without relocation (`nokaslr`). Used for
//! naming kernel functions, and for putting probes there.

/// Positions of the parts of such a table.
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use tables::Tables;

/// The functions of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbols {
    /// By address: its start, the start of the next symbol, its name.
    functions: Vec<(u64, u64, Arc<str>)>,
}

impl KernelSymbols {
    /// Reads the functions of the unpacked kernel `vmlinux`; `None` if it has no such table.
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

    /// Returns the addresses of the functions and variables `names`, as far as the kernel `vmlinux` has them. Addresses
    /// of variables of each processor are offsets.
    pub fn positions<'n>(vmlinux: &[u8], names: &[&'n str]) -> BTreeMap<&'n str, u64> {
        let tables = Tables::find(vmlinux);
        let named = tables.iter().flat_map(|tables| tables.named(names));
        named.map(|(address, name)| (name, address)).collect()
    }

    /// Returns the function at `address`: of several with the same start, the first in the table.
    pub fn function(&self, address: u64) -> Option<&str> {
        let after = self
            .functions
            .partition_point(|(start, ..)| *start <= address);
        let (start, ..) = self.functions.get(after.checked_sub(1)?)?;
        let first = self.functions.partition_point(|(other, ..)| other < start);
        let (_, end, name) = self.functions.get(first)?;
        (address < *end).then_some(name)
    }

    /// Returns the start addresses of functions with this name.
    pub fn addresses(&self, name: &str) -> Vec<u64> {
        let named = self.functions.iter().filter(|(.., other)| &**other == name);
        named.map(|(start, ..)| *start).collect()
    }

    /// Returns all functions by address: start and name of each.
    pub fn functions(&self) -> impl Iterator<Item = (u64, &str)> {
        let each = self.functions.iter();
        each.map(|(start, _, name)| (*start, &**name))
    }

    /// Returns the starts of all ranges: of functions, with their names, and of other data.
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
