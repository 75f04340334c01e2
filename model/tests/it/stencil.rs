//! A known program, learned from small runs and generated at other sizes.

use std::fs::File;
use std::path::{Path, PathBuf};

use belljar_analysis::generated::Stencil;
use belljar_archive::{Contents, TraceReader, TraceWriter};
use belljar_collectives::Tables;
use belljar_model::{GenerateError, MOST_CALLS, Model, Traced, generate, learn};
use belljar_networks::Parameters;
use belljar_program::{Algorithms, extract};
use belljar_replay::{Costs, NetworkModel, Setting, calibrate};
use belljar_sim::{Frequency, Span};
use belljar_trace::{Event, Implementation, TraceSummary};

fn stencil(side: u32, steps: u64) -> Stencil {
    Stencil {
        width: side,
        height: side,
        steps,
        rounds: 2,
        report: 10,
    }
}

fn contents() -> Contents {
    Contents {
        accounted: false,
        frames: 0,
    }
}

fn written(folder: &Path, side: u32, steps: u64) -> PathBuf {
    let path = folder.join(format!("{side}-{steps}.bjt"));
    let file = File::create(&path).unwrap();
    let of = stencil(side, steps);
    let mut writer = TraceWriter::over(file, &path, &of.header(), contents()).unwrap();
    for event in of.events() {
        writer.push(event).unwrap();
    }
    let summary = TraceSummary {
        nodes: Vec::new(),
        ending: "well".to_owned(),
    };
    writer.finish(&summary).unwrap();
    path
}

/// Learns the model of runs of squares of this many ranks a side and this many steps.
fn learned(folder: &Path, runs: &[(u32, u64)]) -> Model {
    let tables = Tables::open_mpi();
    let played = runs.iter().map(|(side, steps)| {
        let trace = written(folder, *side, *steps);
        let (program, _) = extract(&trace, Algorithms::By(&tables)).unwrap();
        let ranks = side * side;
        let parameters = Parameters {
            latency: Span::from_ns(1000),
            gap: Span::ZERO,
            bandwidth: 10_000_000_000,
        };
        let setting = Setting {
            network: NetworkModel::LogGops(ranks, parameters),
            costs: Costs::of(Implementation::Mpich),
            clocks: vec![Frequency::from_hz(1_000_000_000).unwrap()],
            hosts: (0..ranks).collect(),
            scale: 1.0,
        };
        let calibration = calibrate(&program, &setting).unwrap();
        (trace, program, calibration, *steps as f64)
    });
    let played: Vec<_> = played.collect();
    let traced: Vec<Traced<'_>> = played
        .iter()
        .map(|(trace, program, calibration, size)| Traced {
            trace,
            program,
            calibration,
            size: *size,
        })
        .collect();
    learn(&traced, None).unwrap()
}

/// Returns the calls of each rank in order, without times.
fn done(events: impl Iterator<Item = Event>, ranks: u32) -> Vec<Vec<Event>> {
    let mut all = vec![Vec::new(); ranks as usize];
    for event in events {
        let rank = event.rank as usize;
        // Requests are numbered differently; the others' messages identify them.
        all[rank].push(Event {
            entry: 0,
            exit: None,
            started: vec![0; event.started.len()],
            completed: event
                .completed
                .into_iter()
                .map(|it| belljar_trace::Completion {
                    request: 0,
                    // The synthetic traces do not set it for sends.
                    exact: true,
                    ..it
                })
                .collect(),
            ..event
        });
    }
    all
}

#[test]
fn a_stencil_of_other_sizes_is_the_stencil() {
    let folder = tempfile::tempdir().unwrap();
    let model = learned(folder.path(), &[(3, 20), (4, 20), (4, 40), (5, 30)]);
    let model = Model::load(&model.save().unwrap()).unwrap();
    for (side, steps) in [(8, 20), (6, 60), (4, 20)] {
        let ranks = side * side;
        let made = generate(&model, ranks, steps as f64, MOST_CALLS).unwrap();
        let of = stencil(side, steps);
        assert_eq!(made.calls() as u64, of.calls());
        let path = folder.path().join(format!("made-{side}-{steps}.bjt"));
        made.write(&path).unwrap();
        let reader = TraceReader::open(&path).unwrap();
        let (is, should) = (done(reader, ranks), done(of.events(), ranks));
        for (rank, (is, should)) in is.iter().zip(&should).enumerate() {
            for (call, (is, should)) in is.iter().zip(should).enumerate() {
                assert_eq!(is, should, "rank {rank}, call {call}");
            }
        }
        // All messages are received by their peers.
        let (program, _) = extract(&path, Algorithms::By(&Tables::open_mpi())).unwrap();
        assert_eq!(program.unknown, Default::default());
    }
}

#[test]
fn what_no_run_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = learned(folder.path(), &[(3, 20), (4, 40)]);
    // No run has a rank at both ends of a row.
    let error = generate(&model, 7, 20.0, MOST_CALLS).unwrap_err();
    assert!(matches!(error, GenerateError::Role { .. }), "{error}");
    for (ranks, size) in [(0, 20.0), (9, f64::NAN), (9, -1.0)] {
        assert!(generate(&model, ranks, size, MOST_CALLS).is_err());
    }
    // Ranks and size grow together in these runs, so that classes of ranks disagree about far sizes.
    let error = generate(&model, 9, 500.0, MOST_CALLS).unwrap_err();
    assert!(matches!(error, GenerateError::Unmatched(_)), "{error}");
    let model = learned(folder.path(), &[(3, 20), (4, 20), (4, 40), (5, 30)]);
    let far = generate(&model, 9, 500.0, MOST_CALLS).unwrap();
    assert!(
        far.warnings.iter().any(|it| it.contains("beyond")),
        "{:?}",
        far.warnings
    );
    assert!(matches!(
        generate(&model, 9, 1e9, MOST_CALLS),
        Err(GenerateError::Calls(_))
    ));
}

#[test]
fn a_damaged_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = learned(folder.path(), &[(2, 20), (3, 20)]).save().unwrap();
    assert!(Model::load(&text[..text.len() / 2]).is_err());
    for (from, to) in [
        ("\"version\":4", "\"version\":5"),
        ("\"template\":0", "\"template\":99999"),
        ("\"loops\":", "\"loops\":1"),
        ("\"templates\":\"", "\"templates\":\"f"),
    ] {
        let damaged = text.replacen(from, to, 1);
        assert_ne!(damaged, text, "{from}");
        assert!(Model::load(&damaged).is_err(), "{from}");
    }
}
