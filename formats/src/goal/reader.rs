//! Group Operation Assembly Language, as text and in its binary form.
//!
//! A schedule has the operations of each rank, and the dependences between them. A rank becomes the calls of one thread if one thread can begin each operation as
//! soon as its dependences allow, and the calls of several threads otherwise. A rank's operations are in memory. Times are nanoseconds of work; calls take no
//! time. Used by `import`.

/// The binary form.
mod binary;
/// Calls of a rank.
mod calls;
/// Operations and their dependences.
mod schedule;
/// Operations as the sequence of one thread.
mod sequence;
/// The text form.
mod text;
/// Operations as threads that wait for one another.
mod threads;

use std::path::Path;

use belljar_sim::Frequency;
use belljar_sim::figures::counted_as;

use self::schedule::{Counts, RankSchedule};
use crate::builder::calls::Functions;
use crate::builder::layout::{self, Layout};
use crate::builder::spool::Spool;
use crate::builder::{ImportError, Imported};
use crate::format::Format;

pub(crate) use binary::is_binary;
pub(crate) use text::is_text;

/// Work is in nanoseconds.
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// Imports the schedule at `path`.
pub(crate) fn import(path: &Path, out: &Path, name: &str) -> Result<Imported, ImportError> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut sink = Sink {
        spool: Spool::new(folder.unwrap_or(Path::new(".")))?,
        functions: Functions::new(),
        counts: Counts::default(),
    };
    let ranks = match binary::open(path)? {
        Some(mut file) => {
            let ranks = file.ranks;
            for rank in 0..ranks {
                let operations = file.rank(rank)?;
                sink.rank(rank, ranks, &operations)?;
            }
            ranks
        }
        None => text::read(path, |rank, operations| {
            sink.rank(rank.0, rank.1, operations)
        })?,
    };
    let clock = Frequency::from_hz(TICKS_PER_SECOND);
    let clock = clock.unwrap_or_else(|| unreachable!("it is not zero"));
    let notes = notes(&sink.counts);
    let nodes = layout::nodes(ranks);
    crate::builder::write::write(sink.spool, out, name, Format::Goal, notes, nodes, clock)
}

fn notes(counts: &Counts) -> Vec<String> {
    let mut notes = vec![
        "imported from a GOAL schedule: it tells neither communicators, collective operations and arguments of calls, nor where they were made, nor the frames on \
         the wire, nor consoles"
            .to_owned(),
        "it has no times: work takes as long as it says, and calls take none; `belljar replay DIR --out DIR2` makes a trace with times".to_owned(),
    ];
    if counts.threaded > 0 {
        notes.push(counted_as(
            counts.threaded,
            "rank has operations that do not depend on one another: it has several threads, which wait for one another as the schedule says",
            "ranks have operations that do not depend on one another: they have several threads, which wait for one another as the schedule says",
        ));
    }
    if counts.interfaces > 0 {
        notes.push(counted_as(
            counts.interfaces,
            "message takes another network interface of its rank; a node has one interface here, which all messages share",
            "messages take other network interfaces of their ranks; a node has one interface here, which all messages share",
        ));
    }
    notes
}

/// The destination of calls.
struct Sink {
    spool: Spool,
    functions: Functions,
    counts: Counts,
}

impl Sink {
    /// Adds a rank's operations, out of `ranks` ranks.
    fn rank(
        &mut self,
        rank: u32,
        ranks: u32,
        operations: &RankSchedule,
    ) -> Result<(), ImportError> {
        let layout = Layout::new(ranks);
        let to = (&self.functions, &mut self.spool);
        calls::calls(
            layout::place(rank, ranks),
            operations,
            &layout,
            to.0,
            to.1,
            &mut self.counts,
        )
    }
}
