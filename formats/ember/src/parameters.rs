//! Functions as lines of parameter files.
//!
//! A line has one call site, or the two of a transition, then the threads of a rank, the form and its numbers. The form `CONSTANT v` is a constant, and `EXPONENTIAL A B
//! C D` is `exp(A nodes size + B nodes + C size + D)`. `TERMS` has five numbers for each sum: a factor, and exponents of the nodes, of their logarithm, of the size and
//! of its logarithm. `POLYNOMIAL` has its order, centre and half span of nodes and size, and coefficients. Nodes are ranks here. Used by `tables`.

use std::fmt::Write;

use belljar_model::Values;
use belljar_model::fit::{Fitted, Form, Term};

/// Distance between the sites of several functions for the same value.
const PART: u64 = 1_000_000;

/// The lines of both parameter files.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    pub(super) bytes: String,
    pub(super) times: String,
    /// Number of allocated sites of bytes.
    sites: u32,
}

impl Parameters {
    /// Writes the functions of bytes, or of turns, and returns their site.
    pub(super) fn bytes(&mut self, values: &Values) -> u32 {
        self.sites += 1;
        for (part, function) in (0..).zip(values.functions()) {
            let site = u64::from(self.sites) + part * PART;
            let _ = writeln!(self.bytes, "{site} 1 {}", line(function, 1.0));
        }
        self.sites
    }

    /// Writes the functions of the time from one call site to another, converted from picoseconds to nanoseconds.
    pub(super) fn times(&mut self, from: u32, to: u32, values: &Values) {
        for (part, function) in (0..).zip(values.functions()) {
            let to = u64::from(to) + part * PART;
            let _ = writeln!(self.times, "{from} {to} 1 {}", line(function, 1e-3));
        }
    }
}

/// Formats a function's form and numbers, multiplied by a factor.
fn line(function: &Fitted, factor: f64) -> String {
    let by = |index: usize| function.coefficients.get(index).copied().unwrap_or(0.0) * factor;
    let term = |by: f64, term: Term| {
        let (ranks, size) = (term.ranks, term.size);
        format!(
            " {by} {} {} {} {}",
            ranks.exponent, ranks.logarithm, size.exponent, size.logarithm
        )
    };
    let one = || term(by(0), Term::default());
    match function.form {
        Form::Constant => format!("CONSTANT {}", by(0)),
        Form::Exponential => {
            let plain = |index: usize| function.coefficients.get(index).copied().unwrap_or(0.0);
            let last = plain(3) + factor.ln();
            format!("EXPONENTIAL {} {} {} {last}", plain(0), plain(1), plain(2))
        }
        Form::Alone(a) => format!("TERMS{}", term(by(0), a)),
        Form::One(a) => format!("TERMS{}{}", one(), term(by(1), a)),
        Form::Two(a, b) => format!("TERMS{}{}{}", one(), term(by(1), a), term(by(2), b)),
        Form::Polynomial { order, ranks, size } => {
            let mut text = format!(
                "POLYNOMIAL {order} {} {} {} {}",
                ranks.0, ranks.1, size.0, size.1
            );
            for index in 0..function.coefficients.len() {
                let _ = write!(text, " {}", by(index));
            }
            text
        }
    }
}
