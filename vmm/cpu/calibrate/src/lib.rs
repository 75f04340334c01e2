//! Measures this host's processor with loops of a few instructions, and fits the parameters of a processor file.
//!
//! Loops are assembled at run time and timed in cycles of a chain of additions that runs beside them, by the thread's
//! processor time: the clock's rate and other processes hardly matter. Fitting is a function of the measurements
//! alone. `belljar calibrate processor` is the caller.
//!
//! The modules, from top to bottom; each imports only lower ones.
//!
//! | module | contents |
//! |---|---|
//! | [`self_test`] | loops that no parameter was fitted to, on the processor and by the model |
//! | [`fit`] | a processor file from measurements |
//! | [`measure`] | runs all loops |
//! | `caches` | sizes by CPUID; lists, streams and independent misses |
//! | `predict` | cycles of a loop by the model |
//! | `loops` | the loops, and the parameter that each one isolates |
//! | `clock` | cycles of a run of code |
//! | `code` | executable memory, and the only calls into it |

mod caches;
mod clock;
mod code;
/// A processor file from measurements.
pub mod fit;
mod loops;
/// Measurements of this host.
pub mod measure;
mod predict;
/// Loops that no parameter was fitted to.
pub mod self_test;

/// Errors of a calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The host refused memory.
    #[error("cannot map {bytes} bytes of memory for the loops: {source}")]
    Memory {
        /// Bytes that were asked for.
        bytes: usize,
        /// The host's reason.
        source: std::io::Error,
    },
    /// A loop cannot be assembled.
    #[error("cannot assemble the loop `{name}`: {source}")]
    Assemble {
        /// The loop.
        name: String,
        /// The assembler's reason.
        source: iced_x86::IcedError,
    },
    /// A measurement that a parameter needs is missing, or is no positive number.
    #[error("the measurement `{name}` is {value}; it must be a positive number of cycles")]
    Measurement {
        /// The measurement.
        name: String,
        /// Its value, or "missing".
        value: String,
    },
    /// The file that the measurements result in is no valid one.
    #[error("the measurements result in no valid processor file: {0}")]
    File(#[from] belljar_pipeline::processor::ProcessorError),
    /// The base of the file cannot be read.
    #[error("the base of the processor file is no TOML: {0}")]
    Base(#[from] toml::de::Error),
}
