//! Calls of a size that never ran.
//!
//! Each rank's class says which calls it makes; communicators are made first, as all of their members have to agree on them, then the calls, one rank after the other. A call takes the
//! processor's own work and no waiting: how long it waits is for a replay to say. Called by `belljar model generate`.

/// The calls of one rank.
mod calls;
/// Who is in which communicator.
mod groups;
/// Sends and receives of a generated run, compared.
mod matching;
/// Which calls a rank makes, in order.
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

/// Ranks, at most.
const MOST_RANKS: u32 = 1 << 20;

/// Calls of all ranks, at most, unless it is said otherwise: they are kept until all are made.
pub const MOST_CALLS: u64 = 1 << 25;

/// Calls of a size.
#[derive(Debug)]
pub struct Generated {
    header: TraceHeader,
    events: Vec<Event>,
    /// Warnings about them.
    pub warnings: Vec<String>,
    /// Origin of the calls, in words, also for the trace's summary.
    pub origin: String,
}

/// Why a model makes no calls of a size.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The model is damaged.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Not so many ranks.
    #[error("{0} ranks are none, or more than {MOST_RANKS}")]
    Ranks(u32),
    /// No such size.
    #[error("a size is a number above 0, not {0}")]
    Size(f64),
    /// No rank like it was seen.
    #[error(
        "the runs that the model is made of have no rank like rank {rank} of {ranks}: fit it to more of them, of other sizes"
    )]
    Role {
        /// The rank.
        rank: u32,
        /// Of so many.
        ranks: u32,
    },
    /// Each rank does something else.
    #[error(
        "no rule of a rank's number gives the calls of ranks, as where a master hands out work in the order of requests: the model answers for ranks that its runs have, not for rank {rank} of {ranks}"
    )]
    Apart {
        /// The rank.
        rank: u32,
        /// Of so many.
        ranks: u32,
    },
    /// A loop turns a number of times that is none.
    #[error("by the model a loop turns {0} times: that is far outside of what its runs tell")]
    Turns(f64),
    /// There would be too many.
    #[error("they would be more than {0} calls: ask for fewer ranks or a smaller size")]
    Calls(u64),
    /// Sends and receives of two ranks differ.
    #[error(
        "the model's ranks do not agree at this size: {0}; fit the model to runs of more numbers of ranks, with call sites (`trace.frames = 1`)"
    )]
    Unmatched(String),
    /// Processes do not agree on a communicator, or it is made in a way that is not generalised.
    #[error(
        "who is in the communicator that {function} makes cannot be said of another size: {why}"
    )]
    Communicator {
        /// The function.
        function: String,
        /// Why.
        why: &'static str,
    },
}

/// The calls of a program of so many ranks, of that size; `most` at most.
///
/// # Errors
/// [`GenerateError`] when the model is damaged or asked for what its runs do not tell.
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
        let plan = plan(class, (rank, (f64::from(ranks), size)), most - calls)?;
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
        let own = RankCalls::new((rank, ranks, size), (&templates, class), &groups, per_node);
        own.make(plan, (model.start_ps as f64, clock), &mut events);
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

/// The warning about messages that are no whole number of their datatype.
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
    /// How many calls there are.
    pub fn calls(&self) -> usize {
        self.events.len()
    }

    /// How many nodes they are on.
    pub fn nodes(&self) -> usize {
        self.header.nodes()
    }

    /// The calls, in the order of a trace.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Writes them to a new trace.
    ///
    /// # Errors
    /// [`TraceError`] when it cannot be written.
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
