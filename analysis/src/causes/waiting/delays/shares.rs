//! The causes of a wait, and their shares of it.
//!
//! A share is the part of a waiting time that belongs to one cause. Shares of a wait add up to its length to the picosecond, even after truncation. Used by `delays`
//! for each wait.

use std::cmp::Reverse;

/// Most causes that are kept for one wait. The smallest ones beyond that become [`Cause::NONE`].
const MOST_CAUSES: usize = 16;

/// A thread and its code that delayed others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    /// The number of the thread.
    pub(super) actor: u32,
    /// The number of the code.
    pub(super) code: u32,
}

impl Cause {
    /// The cause of waits that are not followed.
    pub(super) const NONE: Self = Self {
        actor: u32::MAX,
        code: 0,
    };
}

/// A part of a wait, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) cause: Cause,
    pub(super) time: u64,
    /// True for a delay of the rank that was waited for; false for one that this rank's own waits passed on.
    pub(super) direct: bool,
}

/// Scales shares so that they add up to `whole`, and keeps the largest. Empty if all shares are 0.
pub(super) fn scaled(mut shares: Vec<Share>, whole: u64) -> Vec<Share> {
    shares.retain(|share| share.time > 0);
    let sum: u128 = shares.iter().map(|share| u128::from(share.time)).sum();
    let mut before = 0;
    let mut given = 0;
    for share in &mut shares {
        before += u128::from(share.time);
        let until = part(whole, before, sum);
        share.time = until - given;
        given = until;
    }
    cut(&mut shares);
    shares
}

/// Returns `whole` times `of`, divided by `sum`, rounded down.
fn part(whole: u64, of: u128, sum: u128) -> u64 {
    // The product must fit.
    let bits = (128 - sum.leading_zeros()) + (64 - whole.leading_zeros());
    let shift = bits.saturating_sub(128);
    let (of, sum) = (of >> shift, (sum >> shift).max(1));
    u64::try_from(u128::from(whole) * of / sum)
        .unwrap_or(whole)
        .min(whole)
}

/// Moves the smallest shares beyond the bound to [`Cause::NONE`].
fn cut(shares: &mut Vec<Share>) {
    shares.retain(|share| share.time > 0);
    if shares.len() <= MOST_CAUSES {
        return;
    }
    shares.sort_by_key(|share| (Reverse(share.time), share.cause));
    let rest = shares.split_off(MOST_CAUSES - 1);
    let time = rest
        .iter()
        .fold(0u64, |sum, share| sum.saturating_add(share.time));
    shares.push(Share {
        cause: Cause::NONE,
        time,
        direct: false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(code: u32, time: u64) -> Share {
        let cause = Cause { actor: 1, code };
        Share {
            cause,
            time,
            direct: true,
        }
    }

    #[test]
    fn shares_add_up_to_the_wait_whatever_is_rounded_or_cut() {
        for (count, whole) in [(3, 10), (7, 1), (16, 1000), (17, 1000), (400, 12_345)] {
            let parts = (1..=count).map(|code| share(code, u64::from(code) * 7 + 1));
            let scaled = scaled(parts.collect(), whole);
            assert_eq!(scaled.iter().map(|it| it.time).sum::<u64>(), whole);
            assert!(scaled.len() <= MOST_CAUSES);
        }
        let huge = scaled(vec![share(1, u64::MAX), share(2, u64::MAX)], 10);
        assert_eq!(huge.iter().map(|it| it.time).collect::<Vec<_>>(), [5, 5]);
        assert!(scaled(vec![share(1, 0)], 10).is_empty());
    }
}
