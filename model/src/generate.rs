//! Generation of calls for a size that never ran.
//!
//! Each rank's class determines its calls. Communicators are created first, as all of their members must agree on them, then the calls, one rank after the other. A call
//! takes the processor's own work and no waiting: a replay determines the waiting. Used by `belljar model generate`.

/// The calls of one rank.
mod calls;
/// Members of communicators.
mod groups;
/// Sends and receives of a generated run, compared.
mod matching;
/// The sequence of a rank's calls.
mod plan;

use std::fs::File;
use std::path::Path;

use belljar_archive::{Contents, TraceWriter};
use belljar_sim::Frequency;
use belljar_sim::figures::counted;
use belljar_trace::{Event, TraceError, TraceHeader, TraceSummary};

use crate::model::{Model, ModelError, Role};
use calls::RankCalls;
use groups::Groups;
use plan::plan;

/// Most ranks.
const MOST_RANKS: u32 = 1 << 20;

/// Default of the most calls of all ranks, which are kept until all are generated.
pub const MOST_CALLS: u64 = 1 << 25;

/// Generated calls of a size.
#[derive(Debug)]
pub struct Generated {
    header: TraceHeader,
    events: Vec<Event>,
    /// Warnings about them.
    pub warnings: Vec<String>,
    /// Origin of the calls, in words, also for the trace's summary.
    pub origin: String,
}

/// An error in generating calls of a size.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The model is damaged.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// An invalid number of ranks.
    #[error("{0} ranks are none, or more than {MOST_RANKS}")]
    Ranks(u32),
    /// An invalid size.
    #[error("a size is a number above 0, not {0}")]
    Size(f64),
    /// The model has no rank of the same kind.
    #[error(
        "the runs that the model is made of have no rank like rank {rank} of {ranks}: fit it to more of them, of other sizes"
    )]
    Role {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// No rule describes the ranks' calls.
    #[error(
        "no rule of a rank's number gives the calls of ranks, as where a master hands out work in the order of requests: the model answers for ranks that its runs have, not for rank {rank} of {ranks}"
    )]
    Apart {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// A loop has an invalid number of turns.
    #[error("by the model a loop turns {0} times: that is far outside of what its runs tell")]
    Turns(f64),
    /// There would be too many calls.
    #[error("they would be more than {0} calls: ask for fewer ranks or a smaller size")]
    Calls(u64),
    /// Sends and receives of two ranks differ.
    #[error(
        "the model's ranks do not agree at this size: {0}; fit the model to runs of more numbers of ranks, with call sites (`trace.frames = 1`)"
    )]
    Unmatched(String),
    /// Processes do not agree on a communicator, or it is created in a way that is not generalised.
    #[error(
        "who is in the communicator that {function} makes cannot be said of another size: {why}"
    )]
    Communicator {
        /// The function.
        function: String,
        /// The reason.
        why: &'static str,
    },
}

/// Generates the calls of a program for this number of ranks and this size; at most `most`.
///
/// # Errors
/// Returns [`GenerateError`] if the model is damaged, or if its runs do not determine this size.
pub fn generate(
    model: &Model,
    ranks: u32,
    size: f64,
    most: u64,
) -> Result<Generated, GenerateError> {
    if ranks == 0 || ranks > MOST_RANKS {
        return Err(GenerateError::Ranks(ranks));
    }
    if !(size.is_finite() && size > 0.0) {
        return Err(GenerateError::Size(size));
    }
    let templates = model.templates()?;
    let mut plans = Vec::new();
    let mut calls = 0;
    for rank in 0..ranks {
        let role = model.roles.class(rank, ranks);
        let role = role.ok_or(match model.roles.role {
            Role::Rank => GenerateError::Apart { rank, ranks },
            _ => GenerateError::Role { rank, ranks },
        })?;
        let class = &model.classes[role];
        let plan = plan(class, rank, (f64::from(ranks), size), most - calls)?;
        calls += plan.len() as u64;
        plans.push((class, plan));
    }
    let per_node = model.per_node.clamp(1, MOST_RANKS);
    let groups = Groups::make(&templates, &plans, per_node)?;
    let mut warnings = model.doubts(f64::from(ranks), size);
    let clock = Frequency::from_hz(model.clock_hz).ok_or(GenerateError::Ranks(ranks))?;
    let nodes = ranks.div_ceil(per_node) as usize;
    let mut events = Vec::with_capacity(usize::try_from(calls).unwrap_or(0));
    for (rank, (class, plan)) in (0..).zip(&plans) {
        let own = RankCalls::new(rank, ranks, size, &templates, class, &groups, per_node);
        own.make(plan, model.start_ps as f64, clock, &mut events);
    }
    matching::check(&events, &groups)?;
    warnings.extend(uneven(&events));
    events.sort_by_key(|event: &Event| (event.exit, event.node, event.process));
    Ok(Generated {
        header: TraceHeader::new(&model.name, &vec![clock; nodes]),
        events,
        warnings,
        origin: model.origin(f64::from(ranks), size),
    })
}

/// Returns the warning about messages that are not a multiple of their datatype.
fn uneven(events: &[Event]) -> Option<String> {
    let transfers = events.iter().flat_map(|event| &event.transfers);
    let sized = transfers.filter_map(|it| Some((it.bytes, it.datatype.size()?)));
    let count = sized.filter(|(bytes, size)| *size > 0 && bytes % size != 0);
    let count = count.count() as u64;
    (count > 0).then(|| {
        format!(
            "bytes of {} are no multiple of the size of their datatype: the problem cannot be divided evenly among so many ranks, which no run shows",
            counted(count, "message")
        )
    })
}

impl Generated {
    /// Returns the number of calls.
    pub fn calls(&self) -> usize {
        self.events.len()
    }

    /// Returns the number of their nodes.
    pub fn nodes(&self) -> usize {
        self.header.nodes()
    }

    /// Returns the calls, in the order of a trace.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Writes them to a new trace.
    ///
    /// # Errors
    /// Returns [`TraceError`] if it cannot be written.
    pub fn write(self, path: &Path) -> Result<(), TraceError> {
        let file = File::create_new(path).map_err(|source| TraceError::Io {
            action: "create",
            path: path.to_owned(),
            source,
        })?;
        let frames = self.events.iter().filter_map(|event| event.site.0.as_ref());
        let frames = frames.map(|stack| stack.0.len()).max().unwrap_or(0);
        let contents = Contents {
            accounted: false,
            frames: u8::try_from(frames).unwrap_or(u8::MAX),
        };
        let mut writer = TraceWriter::over(file, path, &self.header, contents)?;
        for event in self.events {
            writer.push(event)?;
        }
        writer.finish(&TraceSummary {
            nodes: Vec::new(),
            ending: self.origin,
        })?;
        Ok(())
    }
}
