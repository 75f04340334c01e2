//! Models of programs, of any content and made of traces of any content.
//!
//! What begins as JSON is taken for a model, anything else for a trace that one is made of. A model is saved, loaded, and asked for sizes. Called by name from `lib.rs`.

use belljar_collectives::Tables;
use belljar_model::{Model, Traced, generate, learn};
use belljar_program::{Algorithms, extract};
use belljar_replay::Calibration;

use super::{archive_chunks, archive_seeds, stored};

/// Calls that are made, at most.
const MOST_CALLS: u64 = 1 << 12;

/// Makes a model of a trace, or takes one, and asks it for sizes.
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

/// Traces, and the models of those that one can be made of.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = archive_seeds();
    let models = seeds.iter().filter_map(|data| learned(data)?.save().ok());
    let models: Vec<Vec<u8>> = models.map(String::into_bytes).collect();
    seeds.extend(models);
    seeds
}
