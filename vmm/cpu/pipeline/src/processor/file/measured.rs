//! The key `measured` of a processor file: where and when, or `false`.
//!
//! Results under a file that was not measured have a warning, so `true` without a word of the measurement is refused.
//! `file` calls `measured`.

use serde::Deserialize;

use super::ProcessorError;

/// The value of the key.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Measured {
    Where(String),
    Whether(bool),
}

/// Origin and date of a measurement; `None` for `false`.
pub(super) fn measured(file: &str, value: Measured) -> Result<Option<String>, ProcessorError> {
    match value {
        Measured::Where(text) => Ok(Some(text)),
        Measured::Whether(false) => Ok(None),
        Measured::Whether(true) => Err(ProcessorError::Syntax {
            file: file.to_owned(),
            reason:
                "measured = true names no measurement; write where and when as a text, or false"
                    .to_owned(),
        }),
    }
}
