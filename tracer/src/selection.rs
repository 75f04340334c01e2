//! The selection of calls that a scenario records.
//!
//! It affects only the trace: all calls are counted, and calls that create objects are followed. Checked with the plan,
//! compiled once for each node's tracer.

use std::collections::BTreeMap;

use belljar_mpi::FUNCTIONS;
use belljar_trace::matches;
use serde::{Deserialize, Serialize};

/// Selection of the recorded calls. All calls are counted and followed in any case: a smaller selection changes the
/// trace, never the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// Names of functions, or patterns with `*` (any text) and `?` (any character), such as `MPI_I*`. Empty for all
    /// functions.
    pub functions: Vec<String>,
    /// Only calls entered in this window. `None` for any time.
    pub window: Option<Window>,
    /// By name or pattern: only every Nth call of each such function in each process. `{"MPI_Iprobe": 10000}` records
    /// the 10,000th, the 20,000th and so on. If several match a function, the longest pattern applies.
    pub sampling: BTreeMap<String, u64>,
    /// True if calls have the contents of datatypes that they create, and the datatypes of their collective operations.
    pub datatypes: bool,
}

/// A span of a node's virtual time, in cycles of its processor since its reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its first cycle.
    pub start: u64,
    /// The first cycle after it.
    pub end: u64,
}

/// An error in a [`Selection`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// No function has this name.
    #[error(
        "no MPI function matches `{0}`: functions are written like MPI_Send, patterns like MPI_I*"
    )]
    NoSuchFunction(String),
    /// A sampling of 0.
    #[error(
        "the sampling of `{0}` is 0: give 1 to record every call, n to record every n-th, or leave the function out of the selected ones"
    )]
    NoSampling(String),
    /// A window that ends before it starts.
    #[error(
        "the traced window ends (cycle {end}) before it starts (cycle {start}): nothing would be recorded"
    )]
    EmptyWindow {
        /// Its first cycle.
        start: u64,
        /// The first cycle after it.
        end: u64,
    },
}

impl Selection {
    /// Checks that every name matches a function, sampling is at least 1 and the
    /// window not empty.
    ///
    /// # Errors
    /// Returns the first [`SelectionError`].
    pub fn check(&self) -> Result<(), SelectionError> {
        for pattern in self.functions.iter().chain(self.sampling.keys()) {
            if !FUNCTIONS
                .iter()
                .any(|function| matches(pattern, function.name))
            {
                return Err(SelectionError::NoSuchFunction(pattern.clone()));
            }
        }
        if let Some((pattern, _)) = self.sampling.iter().find(|(_, every)| **every == 0) {
            return Err(SelectionError::NoSampling(pattern.clone()));
        }
        match self.window {
            Some(Window { start, end }) if end <= start => {
                Err(SelectionError::EmptyWindow { start, end })
            }
            _ => Ok(()),
        }
    }

    /// Resolves the patterns for each function.
    pub(crate) fn compile(&self) -> CompiledSelection {
        let every = FUNCTIONS
            .iter()
            .map(|function| self.every(function.name))
            .collect();
        CompiledSelection {
            every,
            window: self.window,
            datatypes: self.datatypes,
        }
    }

    /// Returns the sampling interval of a function; 0 if it is not recorded.
    pub fn every(&self, name: &str) -> u64 {
        let wanted = self.functions.is_empty()
            || self.functions.iter().any(|pattern| matches(pattern, name));
        if !wanted {
            return 0;
        }
        let longest = self
            .sampling
            .iter()
            .filter(|(pattern, _)| matches(pattern, name))
            .max_by_key(|(pattern, _)| pattern.len());
        longest.map_or(1, |(_, every)| (*every).max(1))
    }
}

/// A [`Selection`] with its patterns resolved.
#[derive(Clone, Debug)]
pub(crate) struct CompiledSelection {
    every: Vec<u64>,
    window: Option<Window>,
    /// True if calls have datatypes.
    pub(crate) datatypes: bool,
}

impl CompiledSelection {
    /// True if call number `number` (from 1) of function `function` in its process, entered at `at`, is recorded.
    pub(crate) fn selects(&self, function: u16, number: u64, at: u64) -> bool {
        let every = self.every.get(usize::from(function)).copied().unwrap_or(0);
        self.is_within(at) && every != 0 && number.is_multiple_of(every)
    }

    /// True if `at` is in the window.
    pub(crate) fn is_within(&self, at: u64) -> bool {
        self.window
            .is_none_or(|window| window.start <= at && at < window.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(name: &str) -> u16 {
        belljar_mpi::number(name).unwrap()
    }

    #[test]
    fn the_longest_sampling_pattern_holds_and_the_window_is_half_open() {
        let selection = Selection {
            functions: vec!["MPI_I*".into()],
            window: Some(Window { start: 10, end: 20 }),
            sampling: [("MPI_I*".into(), 2), ("MPI_Iprobe".into(), 3)].into(),
            datatypes: false,
        };
        selection.check().unwrap();
        let compiled = selection.compile();
        let recorded = |name, at| -> Vec<u64> {
            (1..=6)
                .filter(|&number| compiled.selects(operation(name), number, at))
                .collect()
        };
        assert_eq!(recorded("MPI_Iprobe", 10), [3, 6]);
        assert_eq!(recorded("MPI_Isend", 19), [2, 4, 6]);
        assert!(recorded("MPI_Isend", 20).is_empty());
        assert!(recorded("MPI_Isend", 9).is_empty());
        assert!(recorded("MPI_Send", 15).is_empty());
    }

    #[test]
    fn senseless_selections_are_named() {
        let check = |selection: Selection| selection.check().unwrap_err();
        let unknown = Selection {
            functions: vec!["MPI_Sned".into()],
            ..Selection::default()
        };
        assert_eq!(
            check(unknown),
            SelectionError::NoSuchFunction("MPI_Sned".into())
        );
        let never = Selection {
            sampling: [("MPI_Send".into(), 0)].into(),
            ..Selection::default()
        };
        assert_eq!(check(never), SelectionError::NoSampling("MPI_Send".into()));
        let window = Selection {
            window: Some(Window { start: 2, end: 2 }),
            ..Selection::default()
        };
        assert_eq!(
            check(window),
            SelectionError::EmptyWindow { start: 2, end: 2 }
        );
    }
}
