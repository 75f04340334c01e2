//! Checks that this host's KVM can run a kernel: some hosts offer the device but cannot.
//!
//! A trial guest executes in order the operations of kernels, each within a time limit; the error
//! names the step at which KVM failed. `belljar doctor` runs it, and each run under this engine
//! before it makes machines.

/// The trial guest's program: operations of kernels.
mod program;

use std::sync::Arc;

use belljar_abi::{FACT_ADDRESS, MAGIC_ADDRESS};
use belljar_cpu::{CpuError, Exit, Registers, Vcpu};
use vm_memory::{Bytes, GuestAddress};

use crate::host::breakpoints::Breakpoints;
use crate::host::ioctl;
use crate::host::means::{Means, RequestedMeans};
use crate::host::{Host, HostError};
use crate::trial::bare;
use crate::vcpu::KvmVcpu;
use crate::vcpu::clock::TransitionCosts;
use program::{
    APIC_MSR, APIC_VALUE, CALL, CALLS, DEVICE, DEVICE_VALUE, DONE, NO_MSR, ProbeProgram, STEP_PORT,
    VECTOR, WRONG_PORT,
};

/// The results for a working KVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The mechanisms by which guests are run.
    pub means: Means,
    /// Time of a traced call, from the guest and back into it, in nanoseconds.
    pub call: u64,
    /// The largest error of the guest's clock after a stop, in nanoseconds.
    pub jitter: u64,
}

/// Errors of an unusable KVM.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// There is no KVM.
    #[error(transparent)]
    Host(#[from] HostError),
    /// KVM refuses an operation.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// KVM executes an operation wrongly.
    #[error(
        "/dev/kvm is there and cannot carry an unmodified kernel: a trial guest came to {what} at {doing}; this is KVM in software (module kvm_pvm), or hardware virtualisation is incomplete; use engine = \"exact\""
    )]
    Broken {
        /// The step of the trial guest.
        doing: &'static str,
        /// The wrong result.
        what: String,
    },
}

impl From<ProbeError> for CpuError {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Cpu(error) => error,
            other => Self::Unusable(other.to_string()),
        }
    }
}

/// The last step of the trial guest, which needs breakpoints.
const TRACED_CALL: &str = "a traced call from user code";
/// The steps of the trial guest, in order.
const STEPS: [&str; 9] = [
    "its first instruction",
    "descriptor tables and far returns",
    "control registers and model-specific registers",
    "exceptions and their return",
    "device memory",
    "the local APIC's registers",
    "a halt and the interrupt that ends it",
    "user code",
    TRACED_CALL,
];
/// Time limit in nanoseconds between two exits of the trial guest: a guest that hangs is given up
/// within a second, including the earlier steps.
const PATIENCE: u64 = 500_000_000;
/// The largest acceptable median error of a stopped clock in nanoseconds: generous, as emulated
/// processors are slow.
const MOST_JITTER: u64 = 10_000_000;
/// Limit on exits of the trial guest, with a margin.
const MOST_EXITS: u32 = 4 * CALLS;

/// Runs a trial guest with operations of kernels, and measures the error of its stopped clock, by
/// the `wanted` mechanisms. By default, traced calls use hardware breakpoints if they work,
/// otherwise INT3.
///
/// # Errors
/// [`ProbeError`] names the missing or faulty feature, and the remedy.
pub fn probe(wanted: RequestedMeans) -> Result<Probe, ProbeError> {
    let host = Host::open()?;
    let trial = |breakpoints| Trial::new(&host, Means::on(&host, breakpoints, wanted)?)?.run();
    let (breakpoints, call) = match wanted.breakpoints {
        Some(breakpoints) => (breakpoints, trial(breakpoints)?),
        None => choose(trial)?,
    };
    let means = Means::on(&host, breakpoints, wanted)?;
    let costs = host.costs(means)?;
    let clock = bare::processor(&host, &[], means, costs)?.clock;
    let typical = clock.nanoseconds(costs.typical_jitter);
    if typical > MOST_JITTER {
        return Err(ProbeError::Broken {
            doing: "its clock, which runs while it is stopped",
            what: format!("{typical} ns that it should not have seen"),
        });
    }
    Ok(Probe {
        means,
        call: clock.nanoseconds(call),
        jitter: clock.nanoseconds(costs.jitter),
    })
}

/// The breakpoints with which `trial` succeeds, and its result. INT3 is tried only if the traced
/// call is all that failed.
fn choose<T>(
    trial: impl Fn(Breakpoints) -> Result<T, ProbeError>,
) -> Result<(Breakpoints, T), ProbeError> {
    match trial(Breakpoints::Hardware) {
        Err(ProbeError::Broken { doing, .. }) if doing == TRACED_CALL => {
            trial(Breakpoints::Int3).map(|found| (Breakpoints::Int3, found))
        }
        other => other.map(|found| (Breakpoints::Hardware, found)),
    }
}

/// The trial guest and its progress.
struct Trial {
    vcpu: KvmVcpu,
    behind_call: u64,
    doing: &'static str,
    calls: u32,
    /// The host's counter at the first traced call and at the last.
    times: (u64, u64),
}

impl Trial {
    fn new(host: &Arc<Host>, means: Means) -> Result<Self, CpuError> {
        let broken = |what: String| CpuError::Internal(format!("the trial guest: {what}"));
        let program: ProbeProgram =
            program::assemble().map_err(|error| broken(error.to_string()))?;
        let vcpu = bare::processor(host, &program.code, means, TransitionCosts::default())?;
        for (at, bytes) in &program.data {
            let placed = vcpu.machine.ram.write_slice(bytes, GuestAddress(*at));
            placed.map_err(|error| broken(error.to_string()))?;
        }
        Ok(Self {
            vcpu,
            behind_call: program.behind_call,
            doing: STEPS[0],
            calls: 0,
            times: (0, 0),
        })
    }

    /// Runs it to its end; returns the cycles of a traced call.
    fn run(mut self) -> Result<u64, ProbeError> {
        for _ in 0..MOST_EXITS {
            let until = self.vcpu.now() + self.vcpu.clock.cycles(PATIENCE);
            let exit = self.vcpu.run(until)?;
            if self.follow(exit)? {
                return Ok((self.times.1 - self.times.0) / u64::from(CALLS - 1));
            }
        }
        Err(self.broken("no end".to_owned()))
    }

    fn broken(&self, what: String) -> ProbeError {
        ProbeError::Broken {
            doing: self.doing,
            what,
        }
    }

    /// Handles the guest's exit; returns true at the end of the program.
    fn follow(&mut self, exit: Exit) -> Result<bool, ProbeError> {
        match exit {
            Exit::PioWrite {
                port: STEP_PORT,
                data: DONE,
                ..
            } if self.calls == CALLS => return Ok(true),
            Exit::PioWrite {
                port: STEP_PORT,
                data,
                ..
            } if (data as usize) < STEPS.len() => self.doing = STEPS[data as usize],
            Exit::PioWrite {
                port: WRONG_PORT, ..
            } => return Err(self.broken("a wrong result".to_owned())),
            Exit::MmioRead { addr: DEVICE, .. } => {
                self.vcpu.complete_read(DEVICE_VALUE.into());
            }
            Exit::MmioWrite { addr: DEVICE, .. } | Exit::MsrWrite { .. } => {}
            Exit::MsrRead { index: APIC_MSR } => self.vcpu.complete_read(APIC_VALUE.into()),
            Exit::MsrRead { index: NO_MSR } => self.vcpu.refuse_msr(),
            Exit::Halt if self.vcpu.interruptible() => self.vcpu.interrupt(VECTOR),
            Exit::Magic { .. } => self.answer_call()?,
            other => return Err(self.broken(format!("{other:?}"))),
        }
        Ok(false)
    }

    fn answer_call(&mut self) -> Result<(), ProbeError> {
        let registers = self.vcpu.registers();
        let expected = match registers.rip {
            MAGIC_ADDRESS => registers.gpr[Registers::R11] == CALL,
            FACT_ADDRESS => self.calls == CALLS,
            _ => false,
        };
        if !expected {
            return Err(self.broken(format!("a call at {:#x}", registers.rip)));
        }
        if registers.rip == MAGIC_ADDRESS {
            let now = ioctl::host_tsc();
            if self.calls == 0 {
                self.times.0 = now;
            }
            self.times.1 = now;
            self.calls += 1;
        }
        self.vcpu.complete_magic(self.behind_call);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tsc::TscControl;

    /// Requires a working KVM, as the engine does; without one, the error must give a reason.
    #[test]
    fn a_host_either_works_or_says_why_not() {
        let breakpoints = [None, Some(Breakpoints::Hardware), Some(Breakpoints::Int3)];
        let controls = [None, Some(TscControl::Offset), Some(TscControl::Register)];
        let both = breakpoints
            .into_iter()
            .flat_map(|breakpoints| controls.map(|tsc| RequestedMeans { breakpoints, tsc }));
        for wanted in both {
            match probe(wanted) {
                Ok(found) => assert!(found.call > 0),
                Err(error) => {
                    assert!(error.to_string().contains("engine = \"exact\""), "{error}");
                }
            }
        }
    }

    fn broken(doing: &'static str) -> ProbeError {
        ProbeError::Broken {
            doing,
            what: String::new(),
        }
    }

    #[test]
    fn int3_is_taken_where_only_hardware_breakpoints_fail() {
        let host = |fails: &'static str| {
            choose(move |breakpoints| match breakpoints {
                Breakpoints::Hardware => Err(broken(fails)),
                Breakpoints::Int3 => Ok(7),
            })
        };
        assert_eq!(host(TRACED_CALL).unwrap(), (Breakpoints::Int3, 7));
        assert!(host(STEPS[3]).is_err());
        let (found, _) = choose(|_| Ok(())).unwrap();
        assert_eq!(found, Breakpoints::Hardware);
        assert!(choose::<()>(|_| Err(broken(TRACED_CALL))).is_err());
    }
}
