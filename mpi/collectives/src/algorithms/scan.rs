//! Prefixes, and barriers.
//!
//! Block 0 of a prefix is the rank's combined data of its partners so far.

use crate::call::Call;
use crate::schedule::Builder;

/// Builds rounds in which each rank receives from one twice as far away.
pub(crate) fn dissemination(call: &Call, to: &mut Builder) {
    let mut mask = 1;
    while mask < call.members {
        to.exchange(call.after(mask), 0, || vec![0], call.before(mask), 0);
        mask <<= 1;
    }
}

/// Builds recursive doubling, as far as partners exist.
pub(crate) fn doubling(call: &Call, to: &mut Builder) {
    if call.count == 0 {
        return;
    }
    let bytes = call.bytes();
    let mut mask = 1;
    while mask < call.members {
        let partner = call.rank ^ mask;
        if partner < call.members {
            to.exchange_combine(partner, bytes, || vec![0], partner, bytes);
        }
        mask <<= 1;
    }
}
