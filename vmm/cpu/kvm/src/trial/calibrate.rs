//! The cost of entering and leaving a guest on this host, measured once.
//!
//! A trial guest reads its counter several times under the mechanisms for real guests. The least
//! cost is subtracted from guests' time, so that no guest sees its clock go back. Creating a vCPU
//! calls `Host::costs`, which measures once in a process for each mechanism.

use std::sync::{Arc, OnceLock};

use belljar_cpu::{CpuError, Exit, Registers, Vcpu};

use crate::host::Host;
use crate::host::means::Means;
use crate::trial::bare;
use crate::vcpu::clock::TransitionCosts;

/// Exits that are measured.
const ROUNDS: usize = 64;
/// Number of these that are discarded at the beginning, when caches are cold.
const WARM: usize = 8;
/// Time limit for each exit of the trial guest in nanoseconds.
const PATIENCE: u64 = 500_000_000;
/// `rdtsc; shl rdx, 32; or rax, rdx; out 0x80, al; jmp` to the beginning.
const PROGRAM: [u8; 13] = [
    0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xe6, 0x80, 0xeb, 0xf3,
];

/// A counter read of the trial guest, in cycles.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// The clock when the guest continued.
    before: u64,
    /// The value that the guest read.
    seen: u64,
    /// The clock at the guest's exit with this value.
    after: u64,
}

impl Host {
    /// The time between the host's read of its counter and the guest's, to be subtracted from the
    /// guest's time. With hardware breakpoints, KVM loads debug registers at entry and restores the
    /// host's at exit. Writing the counter takes longer than setting its offset.
    pub(crate) fn costs(self: &Arc<Self>, means: Means) -> Result<TransitionCosts, CpuError> {
        static KNOWN: [[OnceLock<TransitionCosts>; 2]; 2] =
            [const { [const { OnceLock::new() }; 2] }; 2];
        let known = &KNOWN[means.breakpoints as usize][means.tsc as usize];
        if let Some(costs) = known.get() {
            return Ok(*costs);
        }
        let costs = least(&looks(self, means, TransitionCosts::default())?);
        let measured = with_jitter(costs, &looks(self, means, costs)?);
        Ok(*known.get_or_init(|| measured))
    }
}

/// The counter reads of a trial guest with `costs` subtracted from its time.
fn looks(host: &Arc<Host>, means: Means, costs: TransitionCosts) -> Result<Vec<Look>, CpuError> {
    let mut vcpu = bare::processor(host, &PROGRAM, means, costs)?;
    let mut looks = Vec::with_capacity(ROUNDS);
    while looks.len() < ROUNDS {
        let before = vcpu.now();
        match vcpu.run(before + vcpu.clock.cycles(PATIENCE))? {
            Exit::PioWrite { .. } => {
                looks.push(Look {
                    before,
                    seen: vcpu.registers().gpr[Registers::RAX],
                    after: vcpu.now(),
                });
            }
            exit => {
                return Err(CpuError::Unusable(format!(
                    "a guest that reads its time stamp counter ended with {exit:?}"
                )));
            }
        }
    }
    Ok(looks.split_off(WARM))
}

/// The least measured costs: the guest must never see its clock go back.
fn least(looks: &[Look]) -> TransitionCosts {
    let least = |cost: fn(&Look) -> u64| looks.iter().map(cost).min().unwrap_or(0);
    TransitionCosts {
        entry: least(|look| look.seen.saturating_sub(look.before)),
        exit: least(|look| look.after.saturating_sub(look.seen)),
        ..TransitionCosts::default()
    }
}

/// Adds to `costs` the clock's errors in `looks`, which were measured with these costs subtracted:
/// the worst one and the median.
fn with_jitter(costs: TransitionCosts, looks: &[Look]) -> TransitionCosts {
    let mut off: Vec<u64> = looks
        .iter()
        .map(|look| look.seen.abs_diff(look.before))
        .collect();
    off.sort_unstable();
    TransitionCosts {
        typical_jitter: off.get(off.len() / 2).copied().unwrap_or(0),
        jitter: off.last().copied().unwrap_or(0),
        ..costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(before: u64, seen: u64, after: u64) -> Look {
        Look {
            before,
            seen,
            after,
        }
    }

    #[test]
    fn costs_are_the_least_that_was_seen() {
        let looks = [
            look(100, 190, 230),
            look(300, 370, 500),
            look(600, 690, 720),
        ];
        let costs = least(&looks);
        assert_eq!((costs.entry, costs.exit), (70, 30));
        // A counter that went back counts as cost zero, not as a huge one.
        assert_eq!(least(&[look(100, 90, 80)]), TransitionCosts::default());
        assert_eq!(least(&[]), TransitionCosts::default());
    }

    /// A single bad value on a busy host must not make the host unusable.
    #[test]
    fn one_bad_look_is_the_worst_and_not_the_typical() {
        let costs = TransitionCosts {
            entry: 7,
            exit: 3,
            ..TransitionCosts::default()
        };
        let looks = [9, 1_000_000, 2, 4, 5].map(|off| look(50, 50 + off, 100 + off));
        let found = with_jitter(costs, &looks);
        assert_eq!((found.typical_jitter, found.jitter), (5, 1_000_000));
        assert_eq!((found.entry, found.exit), (7, 3));
        let back = [look(50, 44, 60)];
        assert_eq!(with_jitter(costs, &back).typical_jitter, 6);
    }
}
