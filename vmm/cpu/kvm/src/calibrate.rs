//! What entering and leaving a guest costs on this host, measured once.

use std::sync::{Arc, OnceLock};

use belljar_cpu::{CpuError, Exit, Registers, Vcpu};

use crate::bare;
use crate::clock::Costs;
use crate::host::Host;

/// Exits that are measured.
const ROUNDS: usize = 64;
/// Of those, how many are left out at the beginning, where nothing is in any cache.
const WARM: usize = 8;
/// Cycles in which the trial guest must get to its next exit.
const PATIENCE: u64 = 1 << 33;
/// `rdtsc; shl rdx, 32; or rax, rdx; out 0x80, al; jmp` to the beginning.
const PROGRAM: [u8; 13] = [
    0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xe6, 0x80, 0xeb, 0xf3,
];

impl Host {
    /// What lies between the host's look at its counter and the guest's, so that it can
    /// be left out of the guest's time.
    pub(crate) fn costs(self: &Arc<Self>) -> Result<Costs, CpuError> {
        static COSTS: OnceLock<Costs> = OnceLock::new();
        if let Some(costs) = COSTS.get() {
            return Ok(*costs);
        }
        let measured = measure(self)?;
        Ok(*COSTS.get_or_init(|| measured))
    }
}

/// What the guest's counter showed at each of its looks, and the clock at each exit, with
/// `costs` taken out.
fn looks(host: &Arc<Host>, costs: Costs) -> Result<Vec<(u64, u64, u64)>, CpuError> {
    let mut vcpu = bare::processor(host, &PROGRAM, costs)?;
    let mut looks = Vec::with_capacity(ROUNDS);
    while looks.len() < ROUNDS {
        let before = vcpu.now();
        match vcpu.run(before + PATIENCE)? {
            Exit::PioWrite { .. } => {
                looks.push((before, vcpu.registers().gpr[Registers::RAX], vcpu.now()));
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

/// The least that was seen: the guest must never see its clock go back.
fn measure(host: &Arc<Host>) -> Result<Costs, CpuError> {
    let looks = looks(host, Costs::default())?;
    let least = |costs: &dyn Fn(&(u64, u64, u64)) -> u64| looks.iter().map(costs).min();
    let entry = least(&|(before, seen, _)| seen.saturating_sub(*before)).unwrap_or(0);
    let exit = least(&|(_, seen, after)| after.saturating_sub(*seen)).unwrap_or(0);
    let mut costs = Costs {
        entry,
        exit,
        ..Costs::default()
    };
    let looks = self::looks(host, costs)?;
    let off = looks.iter().map(|(before, seen, _)| seen.abs_diff(*before));
    let mut off: Vec<u64> = off.collect();
    off.sort_unstable();
    costs.typical_jitter = off.get(off.len() / 2).copied().unwrap_or(0);
    costs.jitter = off.last().copied().unwrap_or(0);
    Ok(costs)
}
