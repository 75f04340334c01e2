//! A file's functions by their addresses, from its symbol tables.
//!
//! If an address has several names, the first of the lowest order is used, so the result is deterministic. Created by
//! `module`.

use object::{Object, ObjectSymbol, ObjectSymbolTable, SymbolKind};

use crate::sections::Elf;

/// Most functions that are kept.
const MOST_FUNCTIONS: usize = 1 << 22;

/// Longest assumed size of a function without a size in the table, in bytes, such as assembly code.
const UNTOLD: u64 = 1 << 16;

/// A function of a symbol table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionSymbol {
    start: u64,
    /// 0 if the table has no size.
    size: u64,
    name: String,
}

impl FunctionSymbol {
    fn length(&self) -> u64 {
        match self.size {
            0 => UNTOLD,
            told => told,
        }
    }
}

/// The functions of a file.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    /// In the order of their addresses.
    functions: Vec<FunctionSymbol>,
}

impl Functions {
    /// Reads the functions of `elf` from its symbol table, or else from its dynamic one.
    pub(crate) fn of(elf: &Elf<'_>) -> Self {
        let mut functions = Vec::new();
        for table in [elf.symbol_table(), elf.dynamic_symbol_table()] {
            for symbol in table.iter().flat_map(|table| table.symbols()) {
                let is_function = symbol.kind() == SymbolKind::Text && symbol.is_definition();
                if let Ok(name) = symbol.name()
                    && is_function
                    && functions.len() < MOST_FUNCTIONS
                {
                    functions.push(FunctionSymbol {
                        start: symbol.address(),
                        size: symbol.size(),
                        name: name.to_owned(),
                    });
                }
            }
            if !functions.is_empty() {
                break;
            }
        }
        functions.sort_unstable();
        Self { functions }
    }

    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the name of the function at `address`.
    pub(crate) fn at(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|it| it.start <= address);
        let start = self.functions.get(after.checked_sub(1)?)?.start;
        let first = self.functions.partition_point(|it| it.start < start);
        let mut same = self.functions.get(first..after)?.iter();
        let found = same.find(|it| address - it.start < it.length())?;
        Some(&found.name)
    }
}
