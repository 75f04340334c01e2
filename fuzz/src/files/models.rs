//! Models of programs, of any content and learned from traces of any content.
//!
//! Input that begins like JSON is a model, other input is a trace from which one is learned. A model is saved, loaded, and evaluated for several sizes. Called by name
//! from `lib.rs`.

use belljar_collectives::Tables;
use belljar_model::{Model, Traced, generate, learn};
use belljar_program::{Algorithms, extract};
use belljar_replay::Calibration;

use super::{archive_chunks, archive_seeds, stored};

/// Limit on generated calls.
const MOST_CALLS: u64 = 1 << 12;

/// Learns a model from a trace, or loads one, and evaluates it for several sizes.
pub(crate) fn target(data: &[u8]) {
    if data.first() == Some(&b'{') {
        if let Ok(text) = std::str::from_utf8(data)
            && let Ok(model) = Model::load(text)
        {
            asked(&model);
        }
    } else if let Some(model) = learned(data) {
        let text = model.save().expect("a model that was learned is saved");
        asked(&Model::load(&text).expect("a model that was saved is loaded"));
    }
}

fn learned(data: &[u8]) -> Option<Model> {
    let file = stored(data, archive_chunks(data))?;
    let (program, _) = extract(file.path(), Algorithms::By(&Tables::open_mpi())).ok()?;
    let calibration = Calibration::own(&program);
    let traced = Traced {
        trace: file.path(),
        program: &program,
        calibration: &calibration,
        size: 3.0,
    };
    learn(&[traced], None).ok()
}

fn asked(model: &Model) {
    for (ranks, size) in [(1, 3.0), (4, 3.0), (9, 12.0)] {
        if let Ok(made) = generate(model, ranks, size, MOST_CALLS) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("t");
            made.write(&path).expect("what a model makes is written");
        }
    }
}

/// Traces, and models of the traces from which they can be learned.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = archive_seeds();
    let models = seeds.iter().filter_map(|data| learned(data)?.save().ok());
    let models: Vec<Vec<u8>> = models.map(String::into_bytes).collect();
    seeds.extend(models);
    seeds
}
