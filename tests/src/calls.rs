//! The calls of a run's ranks.
//!
//! Addresses and polls are omitted, so that runs with different timing have equal lists. Called by end-to-end tests that compare
//! engines and methods of tracing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Dir;

impl Dir {
    /// The calls of each rank of each job of the run in the folder `out`, in order, with their arguments except addresses. Jobs
    /// are separate, as a call without a return may be given up at different times. Polls are omitted, as their number depends on
    /// time.
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
