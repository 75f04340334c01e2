use belljar_fabric::{LinkSpec, Settings, SwitchSpec, Topology};
use belljar_program::Builder;
use belljar_sim::{Frequency, Span};
use belljar_trace::Implementation;

use super::*;
use crate::calibration::Calibration;
use crate::replay::{NetworkModel, replay};

fn setting(costs: Costs) -> Setting {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    Setting {
        network: NetworkModel::Flow(
            Topology::star(2, link, switch).unwrap(),
            Settings::default(),
        ),
        costs,
        clocks: vec![Frequency::from_hz(2_600_000_000).unwrap()],
        hosts: vec![0, 1],
        scale: 1.0,
    }
}

/// A ping-pong of messages of these sizes.
fn pingpong(sizes: &[u64]) -> Program {
    let mut builder = Builder::new(2);
    for bytes in sizes {
        for [from, to] in [[0, 1], [1, 0]] {
            let slot = builder.send(from, to, 7, *bytes);
            builder.wait(from, slot);
            builder.call(from, "MPI_Send", 0);
            let slot = builder.receive(to, from, 7);
            builder.wait(to, slot);
            builder.call(to, "MPI_Recv", 0);
        }
    }
    builder.finish()
}

/// Returns the program with its times in a setting.
fn traced(mut program: Program, setting: &Setting) -> Program {
    let nothing = Calibration::nothing(&program);
    let outcome = replay(&program, &nothing, setting, || true).unwrap();
    for (thread, times) in program.threads.iter_mut().zip(&outcome.times) {
        thread.start = times[0].0;
        let mut now = thread.start;
        for (call, (entry, exit)) in thread.calls.iter_mut().zip(times) {
            (call.before, call.inside) = (entry - now, exit - entry);
            now = *exit;
        }
    }
    program
}

#[test]
fn costs_that_made_a_trace_are_found() {
    let begin = Costs::of(Implementation::Mpich);
    let mut made = begin;
    (made.send.first, made.receive.first) = (19_000.0, 3_000.0);
    let sizes = [0, 100, 1000, 2000, 3000, 5000];
    let program = traced(pingpong(&sizes), &setting(made));
    let traces = [Traced {
        program: &program,
        setting: setting(begin),
    }];
    let fitted = fit_costs(&traces, || true).unwrap();
    let share = |fits: &[Fit]| unexplained(fits) / fits[0].inside_ps as f64;
    assert!(share(&fitted.before) > 0.1, "{:?}", fitted.before);
    assert!(share(&fitted.after) < 0.02, "{:?}", fitted.after);
    let close = |is: f64, was: f64| (is - was).abs() < 0.1 * was;
    assert!(close(fitted.costs.send.first, 19_000.0), "{fitted:?}");
    assert!(close(fitted.costs.receive.first, 3_000.0), "{fitted:?}");
}

#[test]
fn what_a_trace_does_not_tell_is_said() {
    let begin = Costs::of(Implementation::Mpich);
    let program = traced(pingpong(&[100, 200]), &setting(begin));
    let traces = [Traced {
        program: &program,
        setting: setting(begin),
    }];
    let fitted = fit_costs(&traces, || true).unwrap();
    assert_eq!(fitted.costs, begin);
    let determined = |name: &str| {
        fitted
            .each
            .iter()
            .any(|of| of.name == name && of.determined)
    };
    // One frame each: costs of more frames and of reductions are undetermined.
    assert!(determined("send.first") && determined("receive.first"));
    assert!(!determined("take_in") && !determined("combine") && !determined("send.frame"));
}

#[test]
fn it_ends_when_told_to() {
    let begin = Costs::of(Implementation::Mpich);
    let mut made = begin;
    made.send.first *= 2.0;
    let program = traced(pingpong(&[100, 200]), &setting(made));
    let traces = [Traced {
        program: &program,
        setting: setting(begin),
    }];
    let mut left = 3;
    let fitted = fit_costs(&traces, || {
        left -= 1;
        left > 0
    })
    .unwrap();
    assert!(fitted.broken_off && fitted.plays <= 4, "{fitted:?}");
}

#[test]
fn candidates_that_are_played_ahead_change_nothing() {
    let begin = Costs::of(Implementation::Mpich);
    let mut made = begin;
    (made.send.first, made.receive.first) = (9_000.0, 2_000.0);
    let programs =
        [&[0, 100, 3000][..], &[2000, 5000]].map(|it| traced(pingpong(it), &setting(made)));
    let traces = programs.each_ref().map(|program| Traced {
        program,
        setting: setting(begin),
    });
    let searched = [1, 2, 3, 16].map(|ahead| {
        let mut left = 400;
        let mut search = FittingSearch {
            traced: &traces,
            each: || {
                left -= 1;
                left > 0
            },
            ahead,
            plays: 0,
            broken_off: false,
        };
        let least = unexplained(&search.fits(&begin).unwrap());
        let dials = search.determined(begin, least).unwrap();
        let best = search.fit(&dials, begin, least).unwrap();
        let names: Vec<&str> = dials.iter().map(|dial| dial.name).collect();
        (best, names, search.plays, search.broken_off)
    });
    let [(best, names, plays, _), ..] = &searched[..] else {
        panic!("no search");
    };
    assert!(*best != begin && names.len() > 2 && *plays > 24);
    assert!(searched.iter().all(|it| *it == searched[0]), "{searched:?}");
}
