//! Barriers.
//!
//! Messages have no data; a rank leaves only when all have entered. Used by name from `algorithm`.

use crate::algorithms::fold::pairs_above;
use crate::call::Call;
use crate::schedule::Builder;

/// Builds messages of all ranks to rank 0, which answers all.
pub(crate) fn linear(call: &Call, to: &mut Builder) {
    let others = 1..call.members;
    if call.rank > 0 {
        to.send(0, 0, || vec![0]);
        to.receive(0, 0);
        return;
    }
    for rank in others.clone() {
        to.begin_receive(rank, 0);
    }
    to.wait();
    for rank in others {
        to.send(rank, 0, || vec![0]);
    }
}

/// Builds recursive doubling. Ranks from the power of two on send to one below it first, and get its answer afterwards.
pub(crate) fn doubling(call: &Call, to: &mut Builder) {
    let (power, partner) = pairs_above(call.rank, call.members);
    match partner {
        Some(partner) if call.rank >= power => {
            to.exchange(partner, 0, || vec![0], partner, 0);
            return;
        }
        Some(partner) => to.receive(partner, 0),
        None => {}
    }
    let mut mask = 1;
    while mask < power {
        let other = call.rank ^ mask;
        to.exchange(other, 0, || vec![0], other, 0);
        mask <<= 1;
    }
    if let Some(partner) = partner {
        to.send(partner, 0, || vec![0]);
    }
}

/// Builds a binomial tree up, and down again.
pub(crate) fn tree(call: &Call, to: &mut Builder) {
    let depth = call.members.next_power_of_two();
    let partner = |jump: u32| {
        let partner = call.rank ^ jump;
        let is = partner & (jump - 1) == 0 && partner < call.members;
        is.then_some(partner)
    };
    let mut jump = 1;
    while jump < depth {
        match partner(jump) {
            Some(partner) if partner > call.rank => to.receive(partner, 0),
            Some(partner) => to.send(partner, 0, || vec![0]),
            None => {}
        }
        jump <<= 1;
    }
    while jump > 1 {
        jump >>= 1;
        match partner(jump) {
            Some(partner) if partner > call.rank => to.send(partner, 0, || vec![0]),
            Some(partner) => to.receive(partner, 0),
            None => {}
        }
    }
}
