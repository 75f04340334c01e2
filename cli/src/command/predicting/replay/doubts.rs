//! Warnings about a replay's own figures.
//!
//! They are printed with the result, and kept in its JSON. Called by `replay`.

use belljar_program::Program;
use belljar_replay::{Calibration, NetworkModel, Outcome, Setting, replay};
use belljar_sim::figures::{self, counted, plural};

/// Share of the time in calls that may be unexplained without a warning.
const UNEXPLAINED: f64 = 0.2;
/// Difference of two models of one network, as a share, without a warning.
const APART: f64 = 0.2;
/// Links named in a warning.
const LINKS: usize = 3;

/// Warnings about a replay in a setting; `changed` is true on another network than the trace's.
pub(super) fn doubts(
    program: &Program,
    calibration: &Calibration,
    wanted: &Setting,
    changed: bool,
    outcome: &Outcome,
) -> Vec<String> {
    let lost = outcome.links.iter().map(|link| link.dropped).sum::<u64>();
    [
        stuck(outcome),
        blocked(outcome),
        as_traced(outcome),
        lost_there(outcome, lost),
        lost_here(outcome, lost),
        ordered(program, changed),
        unexplained(program, calibration),
        models(program, calibration, wanted, outcome),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn stuck(outcome: &Outcome) -> Option<String> {
    let calls = outcome.stuck.len();
    (calls > 0).then(|| {
        format!(
            "{} never {}: the predicted time is that of the calls before",
            counted(calls as u64, "call"),
            plural(calls as u64, "returns", "return")
        )
    })
}

/// Messages that never arrive.
fn blocked(outcome: &Outcome) -> Option<String> {
    (!outcome.blocked.is_empty()).then(|| {
        format!(
            "links of the InfiniBand network wait for each other's credits in a circle, and no message over them arrives: {}; more virtual lanes (infiniband.lanes) or other routes avoid it",
            outcome.blocked.join(", ")
        )
    })
}

fn as_traced(outcome: &Outcome) -> Option<String> {
    outcome.as_traced.then(|| {
        "the network of the trace loses frames, by chance: calls keep the times of the trace"
            .to_owned()
    })
}

/// Losses on the network of the trace.
fn lost_there(outcome: &Outcome, lost: u64) -> Option<String> {
    let there = outcome.lost_in_trace;
    (there > 0 && !outcome.as_traced && lost == 0).then(|| {
        format!(
            "the network of the trace loses frames ({} in a replay): residuals of more than a millisecond are left out, as waiting for timers of TCP",
            counted(there, "frame")
        )
    })
}

/// Losses on the network of the replay.
fn lost_here(outcome: &Outcome, lost: u64) -> Option<String> {
    if lost == 0 {
        return None;
    }
    let mut links: Vec<_> = outcome
        .links
        .iter()
        .filter(|link| link.dropped > 0)
        .collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.dropped));
    let named = links.iter().take(LINKS);
    let named: Vec<String> = named
        .map(|link| format!("{} at {}", link.dropped, link.name))
        .collect();
    Some(format!(
        "{} {} lost ({}{}): losses wait for timers of TCP, of 4 to 200 ms and more, by chance, and the predicted time is as uncertain",
        counted(lost, "frame"),
        plural(lost, "is", "are"),
        named.join(", "),
        if links.len() > LINKS { " ..." } else { "" }
    ))
}

/// Warning about receives from any source: messages may arrive in another order on another
/// network.
fn ordered(program: &Program, changed: bool) -> Option<String> {
    let count = program.unknown.ordered;
    (changed && count > 0 && program.processes.len() > 2).then(|| {
        format!(
            "{} from any source {} the senders of the trace, in its order: elsewhere messages may come in another one",
            counted(count, "receive"),
            plural(count, "takes", "take")
        )
    })
}

fn unexplained(program: &Program, calibration: &Calibration) -> Option<String> {
    let fit = calibration.fit(program);
    if fit.inside_ps == 0 {
        // An imported trace without times: nothing was measured.
        return None;
    }
    let share = (fit.more_ps as f64 + fit.less_ps as f64) / fit.inside_ps.max(1) as f64;
    (share > UNEXPLAINED).then(|| {
        format!(
            "hosts' costs and the network do not explain {} of the {} in calls that move data: another network is predicted with the same residuals",
            figures::share(share, 0),
            figures::time(fit.inside_ps)
        )
    })
}

/// Warning if the flow model, where messages share links, predicts another time than the
/// replayed frames.
fn models(
    program: &Program,
    calibration: &Calibration,
    wanted: &Setting,
    outcome: &Outcome,
) -> Option<String> {
    let NetworkModel::Packet(topology, settings) = &wanted.network else {
        return None;
    };
    if outcome.broken_off || outcome.as_traced || !outcome.stuck.is_empty() {
        return None;
    }
    let flow = Setting {
        network: NetworkModel::Flow(topology.clone(), settings.clone()),
        ..wanted.clone()
    };
    let other = replay(program, calibration, &flow, || true).ok()?;
    let apart = other.total_ps.abs_diff(outcome.total_ps) as f64 / outcome.total_ps.max(1) as f64;
    (apart > APART).then(|| {
        format!(
            "the model flow predicts {}, {}: the result depends on queues, windows or losses, which that model lacks",
            figures::time(other.total_ps),
            figures::change(outcome.total_ps, other.total_ps)
        )
    })
}
