//! What the ranks of a run called.
//!
//! Addresses and polls are left out, so that lists of runs whose timing differs can be compared. Called by
//! end-to-end tests that hold engines and ways to trace against each other.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Dir;

impl Dir {
    /// What each rank of each job of the run in the folder `out` called, in order, with its arguments
    /// but for addresses. When a call that does not return is given up may differ, so that jobs are apart. Left out are polls, whose number depends on when what they wait
    /// for comes.
    pub fn calls(&self, out: &str) -> BTreeMap<[u64; 2], Vec<String>> {
        let (dump, error, code) = self.call(&["trace", "dump", "--json", out]);
        assert_eq!(code, Some(0), "{error}");
        let mut ranks: BTreeMap<[u64; 2], Vec<String>> = BTreeMap::new();
        for line in dump.lines() {
            let call: Value = serde_json::from_str(line).expect("a line of JSON");
            let function = call["function"].as_str().expect("a name");
            if function.starts_with("MPI_Test") || function.contains("probe") {
                continue;
            }
            let arguments = call["arguments"].as_object().expect("arguments");
            let values = arguments
                .iter()
                .filter(|(_, value)| !value.to_string().contains("0x"));
            let rank = ["job", "rank"].map(|key| call[key].as_u64().expect("a number"));
            let what = format!("{function} {:?}", values.collect::<Vec<_>>());
            ranks.entry(rank).or_default().push(what);
        }
        ranks
    }
}
