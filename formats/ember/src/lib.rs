//! A model as a motif of SST's Ember, in the form of earlier motifs that were written by hand.
//!
//! A motif is C++ that returns the next events of a rank. Loops, peers, requests and communicators become tables in it; bytes and times become lines of two parameter
//! files, by call site and by transition, as functions of ranks and size. Operations without events in Ember are refused or reported. Used by `belljar model export
//! ember`.

/// Events for collective operations.
mod operations;
/// Functions as lines of parameter files.
mod parameters;
/// The motif's tables.
mod tables;

use belljar_model::{Model, ModelError};
use parameters::Parameters;
use tables::Tables;

/// A motif, as the texts of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Motif {
    /// Its name: `NAMEMotif` in configurations, `emberNAME.h` and `.cc` as files.
    pub name: String,
    /// The header.
    pub header: String,
    /// The source.
    pub source: String,
    /// Bytes by call site.
    pub bytes: String,
    /// Nanoseconds by transition.
    pub times: String,
    /// Parts of the model that the motif lacks.
    pub warnings: Vec<String>,
}

/// An error in creating a motif of a model.
#[derive(Debug, thiserror::Error)]
pub enum MotifError {
    /// The model is damaged.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Ember has no equivalent of a function.
    #[error("Ember has no event for {function}: {why}")]
    Missing {
        /// The function.
        function: String,
        /// The reason.
        why: &'static str,
    },
    /// The name is not valid for a class of C++.
    #[error("a motif cannot be called {0:?}: give it a name of letters and digits with --name")]
    Name(String),
}

/// Creates the motif of a model, with this name.
///
/// # Errors
/// Returns [`MotifError`] if the model is damaged, or has operations without events in Ember.
pub fn ember(model: &Model, name: &str) -> Result<Motif, MotifError> {
    let letters = name.starts_with(|it: char| it.is_ascii_alphabetic());
    if !letters || !name.chars().all(|it| it.is_ascii_alphanumeric()) {
        return Err(MotifError::Name(name.to_owned()));
    }
    let functions = model.functions();
    let divided = functions
        .iter()
        .find(|it| it.values.divisions().next().is_some());
    if let Some(divided) = divided {
        return Err(MotifError::Missing {
            function: divided.function.clone(),
            why: "its values follow from a division of data among ranks, for which a motif has no form",
        });
    }
    let mut parameters = Parameters::default();
    let tables = Tables::of(model, &mut parameters)?;
    let size = model.runs.iter().map(|(_, size)| *size);
    let size = size.fold(1.0, f64::max);
    let filled = |text: &str| {
        text.replace("@TABLES@", &tables.text)
            .replace("@NAME@", name)
            .replace("@GUARD@", &name.to_ascii_uppercase())
            .replace("@SIZE@", &size.to_string())
    };
    Ok(Motif {
        header: filled(include_str!("motif.h")),
        source: filled(include_str!("motif.cc")),
        name: name.to_owned(),
        bytes: parameters.bytes,
        times: parameters.times,
        warnings: tables.warnings,
    })
}
