//! A replay on an ideal network: messages take no time, and calls take no work.
//!
//! Ranks keep their own work and wait for each other. The rest is only the time of dependences, as on the ideal network of Dimemas, by which the POP Centre of Excellence
//! splits communication efficiency. Used by `belljar trace stat`.

use belljar_networks::Parameters;
use belljar_program::Program;
use belljar_sim::{Frequency, Span};
use belljar_trace::Implementation;

use crate::calibration::Calibration;
use crate::costs::Costs;
use crate::dependence::UNLIMITED;
use crate::outcome::Outcome;
use crate::replay::{NetworkModel, ReplayError, Setting, replay};

/// Plays a program on a network without latency and with unlimited bandwidth, with a host for each process. Calls only take the time for which they wait, and all
/// processes start at once.
///
/// # Errors
/// Returns [`ReplayError`] if a message is larger than the limit.
pub fn ideal(program: &Program) -> Result<Outcome, ReplayError> {
    let mut program = program.clone();
    start_together(&mut program);
    let hosts = program.processes.len() as u32;
    let parameters = Parameters {
        latency: Span::ZERO,
        gap: Span::ZERO,
        bandwidth: UNLIMITED,
    };
    let costs = Costs::of(Implementation::Mpich);
    let setting = Setting {
        network: NetworkModel::LogGops(hosts, parameters),
        costs: Costs {
            combine: 0.0,
            copy: 0.0,
            ..Costs::none(&costs)
        },
        // Without costs, clocks are irrelevant.
        clocks: Frequency::from_hz(1_000_000_000).into_iter().collect(),
        hosts: (0..hosts).collect(),
        scale: 1.0,
    };
    replay(&program, &Calibration::nothing(&program), &setting, || true)
}

/// Shifts the start of each process to time 0, as a later start is not work.
fn start_together(program: &mut Program) {
    let mut starts = vec![u64::MAX; program.processes.len()];
    for thread in &program.threads {
        if let Some(start) = starts.get_mut(thread.process as usize) {
            *start = thread.start.min(*start);
        }
    }
    for thread in &mut program.threads {
        let start = starts.get(thread.process as usize).copied().unwrap_or(0);
        thread.start = thread.start.saturating_sub(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_program::Builder;

    #[test]
    fn dependences_alone_are_left() {
        // Rank 0 works for 10 us and sends; rank 1 works for 2 us, receives, and works for 3 us. Each call takes 5 us.
        let mut builder = Builder::new(2);
        let us = 1_000_000;
        builder.call(0, "MPI_Init", 5 * us);
        builder.call(1, "MPI_Init", 7 * us);
        builder.work(0, 10 * us);
        let slot = builder.send(0, 1, 7, 100);
        builder.wait(0, slot);
        builder.call(0, "MPI_Send", 5 * us);
        builder.call(0, "MPI_Finalize", 5 * us);
        builder.work(1, 2 * us);
        let slot = builder.receive(1, 0, 7);
        builder.wait(1, slot);
        builder.call(1, "MPI_Recv", 13 * us);
        builder.work(1, 3 * us);
        builder.call(1, "MPI_Finalize", 5 * us);
        let program = builder.finish();
        let outcome = ideal(&program).unwrap();
        assert_eq!(outcome.main_ps / 1000, 13 * us / 1000);
        assert!(outcome.stuck.is_empty());
    }
}
