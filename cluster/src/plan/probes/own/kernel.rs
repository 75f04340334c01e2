//! Places of probes in the guests' kernel.
//!
//! Places come from the kernel's own table of symbols in its file: guests boot it with `nokaslr`, so it runs at the
//! addresses of that table. The table is read once, for the first probe. Called by the search for a scenario's probes.

use std::collections::BTreeSet;
use std::path::Path;

use belljar_symbols::KernelSymbols;
use belljar_vmm::KernelImage;

use super::ProbeSite;
use super::error::KernelPlaceError;

/// Maximum number of names in an error.
const MOST_NAMES: usize = 5;

/// The kernel of a run's nodes.
pub(super) struct NodeKernel<'a> {
    path: &'a Path,
    symbols: Option<KernelSymbols>,
}

impl<'a> NodeKernel<'a> {
    /// The kernel in the file at `path`.
    pub(super) fn at(path: &'a Path) -> Self {
        Self {
            path,
            symbols: None,
        }
    }

    /// The linear addresses of a place; several if static functions share the name.
    pub(super) fn places(&mut self, place: ProbeSite<'_>) -> Result<Vec<u64>, KernelPlaceError> {
        let symbols = self.symbols()?;
        match place {
            ProbeSite::Symbol(name) => {
                let found = symbols.addresses(name);
                match found.is_empty() {
                    false => Ok(found),
                    true => Err(KernelPlaceError::Unknown {
                        name: name.to_owned(),
                        near: alike(symbols, name),
                    }),
                }
            }
            ProbeSite::Address(address)
                if is_upper(address) && symbols.function(address).is_some() =>
            {
                Ok(vec![address])
            }
            ProbeSite::Address(address) => Err(KernelPlaceError::NoCode(address)),
        }
    }

    fn symbols(&mut self) -> Result<&KernelSymbols, KernelPlaceError> {
        if self.symbols.is_none() {
            let image = KernelImage::open(self.path)?;
            self.symbols = KernelSymbols::of(image.contents());
        }
        self.symbols.as_ref().ok_or(KernelPlaceError::NoTable)
    }
}

/// True for the upper half of the address space, the kernel's.
fn is_upper(address: u64) -> bool {
    address >> 63 != 0
}

/// Functions whose names contain `name`, or begin alike, for an error.
fn alike(symbols: &KernelSymbols, name: &str) -> String {
    let start = name.get(..name.len().saturating_sub(2)).unwrap_or(name);
    let near = symbols.functions().map(|(_, other)| other);
    let near = near.filter(|other| !start.is_empty() && other.contains(start));
    let near: BTreeSet<(usize, &str)> = near.map(|other| (other.len(), other)).collect();
    let names: Vec<&str> = near.iter().take(MOST_NAMES).map(|(_, it)| *it).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!(", but {}", names.join(", ")),
    }
}
