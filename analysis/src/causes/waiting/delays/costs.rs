//! Delay costs by rank, by code, by function and by loop.
//!
//! A code is a stretch of a thread between two calls, or within a call without its waiting. Used by `delays`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use belljar_job::Member;
use belljar_mpi::FUNCTIONS;
use serde::Serialize;

use super::CallPlace;
use super::shares::{Cause, Share};
use crate::dump::frames::SiteFrame;
use crate::sums::sites::number::SiteNumbers;

/// Most distinct codes.
const MOST_CODES: usize = 1 << 17;
/// Most pairs of a thread and a code with separate costs.
const MOST_CAUSES: usize = 1 << 20;

/// The root causes of all waiting in a trace, in picoseconds of waiting time. Direct, indirect and unattributed costs add up to the
/// waiting.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DelayCosts {
    /// By rank, in the order of jobs and ranks.
    pub ranks: Vec<RankDelay>,
    /// By code, in descending order of cost.
    pub codes: Vec<CodeDelay>,
    /// By the MPI function that ends the code or contains it, in descending order of cost.
    pub functions: Vec<FunctionDelay>,
    /// By loop, in descending order of cost; empty if loops were not requested.
    pub loops: Vec<LoopDelay>,
    /// Waiting whose causes are too many to follow, or whose partners' past is unknown.
    pub unattributed_ps: u64,
}

/// Costs of a rank's delays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankDelay {
    /// Its MPI program.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Waiting of ranks for this one.
    pub direct_ps: u64,
    /// Waiting that other ranks' waits passed on.
    pub indirect_ps: u64,
    /// The sum of both.
    pub total_ps: u64,
}

/// The place of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodePlace {
    /// The function that is called.
    pub function: &'static str,
    /// Frames of the call, innermost first; empty in traces without frames.
    pub frames: Vec<SiteFrame>,
}

/// Costs of delays in a code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CodeDelay {
    /// The call before the code; `None` at the beginning, and for code within a call.
    pub from: Option<CodePlace>,
    /// The call that ends the code or contains it; `None` for unknown code.
    pub to: Option<CodePlace>,
    /// True for time within the call `to`, beyond waiting.
    pub in_call: bool,
    /// The number of ranks that were delayed in it.
    pub ranks: u64,
    /// The MPI program of the rank with the highest cost ...
    pub most_job: u32,
    /// ... and its rank.
    pub most_rank: u32,
    /// Waiting for ranks in this code.
    pub direct_ps: u64,
    /// Waiting that other ranks' waits passed on.
    pub indirect_ps: u64,
    /// The sum of both.
    pub total_ps: u64,
}

/// Costs of delays before and in the calls of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDelay {
    /// Its name.
    pub function: &'static str,
    /// The part in work before its calls.
    pub before_ps: u64,
    /// The part within its calls.
    pub within_ps: u64,
    /// Waiting for ranks in work before these calls or within them.
    pub direct_ps: u64,
    /// Waiting that other ranks' waits passed on.
    pub indirect_ps: u64,
    /// The sum of both.
    pub total_ps: u64,
}

/// Costs of delays in a loop, without loops inside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoopDelay {
    /// The call with which its iterations begin; `None` outside of loops.
    pub header: Option<String>,
    /// Waiting for ranks in the loop.
    pub direct_ps: u64,
    /// Waiting that other ranks' waits passed on.
    pub indirect_ps: u64,
    /// The sum of both.
    pub total_ps: u64,
}

impl DelayCosts {
    /// Returns all waiting with a cause, in picoseconds.
    pub fn attributed_ps(&self) -> u64 {
        let ranks = self.ranks.iter().map(|rank| rank.total_ps);
        ranks.fold(0, u64::saturating_add)
    }
}

/// Names of call sites and loops.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlaceNames<'p> {
    pub(crate) sites: Option<&'p SiteNumbers>,
    /// Names of loops, by their numbers from 1.
    pub(crate) loops: Option<&'p [String]>,
}

/// A code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Code {
    Unknown,
    /// Between two calls.
    Between(Option<CallPlace>, CallPlace),
    /// Within a call.
    Within(CallPlace),
}

/// Numbers of codes. The number 0 is unknown code.
#[derive(Debug)]
pub(super) struct Codes {
    /// The code, its loop, and the number of the same code without a loop.
    all: Vec<(Code, u32, u32)>,
    numbers: BTreeMap<(Code, u32), u32>,
}

impl Default for Codes {
    fn default() -> Self {
        Self {
            all: vec![(Code::Unknown, 0, 0)],
            numbers: BTreeMap::new(),
        }
    }
}

impl Codes {
    /// Returns the code between two calls, in a loop.
    pub(super) fn between(&mut self, from: Option<CallPlace>, to: CallPlace, within: u32) -> u32 {
        self.number(Code::Between(from, to), within)
    }

    /// Returns the code within a call, in a loop.
    pub(super) fn within(&mut self, place: CallPlace, within: u32) -> u32 {
        self.number(Code::Within(place), within)
    }

    /// Returns the number of the same code without its loop.
    pub(super) fn bare(&self, number: u32) -> u32 {
        self.all.get(number as usize).map_or(0, |own| own.2)
    }

    fn number(&mut self, code: Code, within: u32) -> u32 {
        if let Some(number) = self.numbers.get(&(code, within)) {
            return *number;
        }
        if self.all.len() >= MOST_CODES {
            return 0;
        }
        let bare = if within > 0 {
            self.number(code, 0)
        } else {
            self.all.len() as u32
        };
        let number = self.all.len() as u32;
        self.all.push((code, within, bare));
        self.numbers.insert((code, within), number);
        number
    }
}

/// Direct and indirect cost, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    direct: u64,
    indirect: u64,
}

impl Cost {
    fn and(&mut self, other: Self) {
        self.direct = self.direct.saturating_add(other.direct);
        self.indirect = self.indirect.saturating_add(other.indirect);
    }

    fn total(self) -> u64 {
        self.direct.saturating_add(self.indirect)
    }
}

/// Costs by thread and code.
#[derive(Debug, Default)]
pub(super) struct Costs {
    all: BTreeMap<Cause, Cost>,
    unattributed: u64,
}

impl Costs {
    /// Adds the shares of a wait.
    pub(super) fn add(&mut self, shares: &[Share]) {
        for share in shares {
            if share.cause == Cause::NONE {
                self.unattributed = self.unattributed.saturating_add(share.time);
                continue;
            }
            let mut cause = share.cause;
            if self.all.len() >= MOST_CAUSES && !self.all.contains_key(&cause) {
                cause.code = 0;
            }
            let cost = match share.direct {
                true => Cost {
                    direct: share.time,
                    indirect: 0,
                },
                false => Cost {
                    direct: 0,
                    indirect: share.time,
                },
            };
            self.all.entry(cause).or_default().and(cost);
        }
    }

    /// Returns the costs by rank, code, function and loop.
    pub(super) fn finish(
        self,
        codes: &Codes,
        members: &[Member],
        places: &PlaceNames<'_>,
    ) -> DelayCosts {
        let mut ranks: BTreeMap<(u32, u32), Cost> = BTreeMap::new();
        let mut by_code: BTreeMap<Code, BTreeMap<(u32, u32), Cost>> = BTreeMap::new();
        let mut loops: BTreeMap<u32, Cost> = BTreeMap::new();
        for member in members {
            ranks.entry((member.job, member.rank)).or_default();
        }
        for (cause, cost) in &self.all {
            let member = members.get(cause.actor as usize);
            let Some(rank) = member.map(|member| (member.job, member.rank)) else {
                continue;
            };
            let code = codes.all.get(cause.code as usize).copied();
            let (code, within, _) = code.unwrap_or((Code::Unknown, 0, 0));
            ranks.entry(rank).or_default().and(*cost);
            let of = by_code.entry(code).or_default();
            of.entry(rank).or_default().and(*cost);
            loops.entry(within).or_default().and(*cost);
        }
        let ranks = ranks.into_iter().map(|((job, rank), cost)| RankDelay {
            job,
            rank,
            direct_ps: cost.direct,
            indirect_ps: cost.indirect,
            total_ps: cost.total(),
        });
        DelayCosts {
            ranks: ranks.collect(),
            functions: by_function(&by_code),
            codes: by_place(&by_code, places),
            loops: by_loop(&loops, places),
            unattributed_ps: self.unattributed,
        }
    }
}

type ByCode = BTreeMap<Code, BTreeMap<(u32, u32), Cost>>;

fn sum(ranks: &BTreeMap<(u32, u32), Cost>) -> Cost {
    ranks.values().fold(Cost::default(), |mut sum, own| {
        sum.and(*own);
        sum
    })
}

fn by_place(codes: &ByCode, places: &PlaceNames<'_>) -> Vec<CodeDelay> {
    let shown = |place: CallPlace| {
        let sites = places.sites.filter(|_| place.site > 0);
        let frames = sites.map_or_else(Vec::new, |sites| sites.shown(place.site).1);
        let function = name(place.function);
        CodePlace { function, frames }
    };
    let codes = codes.iter().map(|(code, ranks)| {
        let cost = sum(ranks);
        let most = ranks
            .iter()
            .max_by_key(|(rank, own)| (own.total(), Reverse(**rank)));
        let (from, to, in_call) = match code {
            Code::Unknown => (None, None, false),
            Code::Between(from, to) => (from.map(shown), Some(shown(*to)), false),
            Code::Within(place) => (None, Some(shown(*place)), true),
        };
        let (most_job, most_rank) = most.map_or((0, 0), |(rank, _)| *rank);
        CodeDelay {
            from,
            to,
            in_call,
            ranks: ranks.len() as u64,
            most_job,
            most_rank,
            direct_ps: cost.direct,
            indirect_ps: cost.indirect,
            total_ps: cost.total(),
        }
    });
    let mut codes: Vec<CodeDelay> = codes.collect();
    codes.sort_by_key(|code| Reverse(code.total_ps));
    codes
}

fn by_function(codes: &ByCode) -> Vec<FunctionDelay> {
    let mut functions: BTreeMap<u16, (Cost, u64, u64)> = BTreeMap::new();
    for (code, ranks) in codes {
        let cost = sum(ranks);
        let (place, inside) = match code {
            Code::Unknown => continue,
            Code::Between(_, to) => (to, false),
            Code::Within(place) => (place, true),
        };
        let (sum, before, within) = functions.entry(place.function).or_default();
        sum.and(cost);
        let part = if inside { within } else { before };
        *part = part.saturating_add(cost.total());
    }
    let functions = functions.into_iter();
    let mut functions: Vec<FunctionDelay> = functions
        .map(|(function, (cost, before_ps, within_ps))| FunctionDelay {
            function: name(function),
            before_ps,
            within_ps,
            direct_ps: cost.direct,
            indirect_ps: cost.indirect,
            total_ps: cost.total(),
        })
        .collect();
    functions.sort_by_key(|own| (Reverse(own.total_ps), own.function));
    functions
}

fn by_loop(loops: &BTreeMap<u32, Cost>, places: &PlaceNames<'_>) -> Vec<LoopDelay> {
    let Some(names) = places.loops else {
        return Vec::new();
    };
    // Loops of different classes of ranks with the same header are merged.
    let mut sums: BTreeMap<Option<&String>, Cost> = BTreeMap::new();
    for (number, cost) in loops {
        let name = (*number as usize).checked_sub(1);
        let name = name.and_then(|number| names.get(number));
        sums.entry(name).or_default().and(*cost);
    }
    let sums = sums.into_iter().map(|(header, cost)| LoopDelay {
        header: header.cloned(),
        direct_ps: cost.direct,
        indirect_ps: cost.indirect,
        total_ps: cost.total(),
    });
    let mut sums: Vec<LoopDelay> = sums.collect();
    sums.sort_by_key(|own| Reverse(own.total_ps));
    sums
}

fn name(function: u16) -> &'static str {
    let function = FUNCTIONS.get(usize::from(function));
    function.map_or("MPI_?", |function| function.name)
}
