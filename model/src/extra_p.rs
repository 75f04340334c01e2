//! A model's measurements for Extra-P.
//!
//! Extra-P (Calotoiu, Hoefler, Poke and Wolf 2013) reads JSON lines: an object for each measurement, with its parameters, call path, metric and value. Used by `belljar
//! model export extra-p`.

use serde_json::{Value, json};

use crate::model::Model;

/// Number of points that Extra-P requires of a parameter.
pub const EXTRA_P_POINTS: usize = 5;

/// Measurements of a model's functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurements {
    /// Extra-P's JSON lines.
    pub text: String,
    /// Number of functions without a value in each run, which Extra-P refuses.
    pub left_out: usize,
}

/// Writes measurements in Extra-P's JSON lines: means of each run, of the functions that the model is fitted to.
pub fn extra_p(model: &Model) -> Measurements {
    let sizes = model.sizes().len() > 1;
    let distinct = |points: &mut Vec<(f64, f64)>| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        points.dedup();
    };
    let runs = model
        .runs
        .iter()
        .map(|(ranks, size)| (f64::from(*ranks), *size));
    let mut runs: Vec<(f64, f64)> = runs.collect();
    distinct(&mut runs);
    let mut text = String::new();
    let mut left_out = 0;
    for function in model.functions() {
        let part = if function.start_up {
            "start-up"
        } else {
            "main"
        };
        let functions = function.values.functions();
        for (number, fitted) in functions.iter().enumerate() {
            let of = match functions.len() {
                1 => String::new(),
                _ => format!(" part {number}"),
            };
            let path = format!(
                "{part}->class {}->{} ({}){of}",
                function.class, function.function, function.place
            );
            let mut own: Vec<(f64, f64)> =
                fitted.measured().map(|it| (it.ranks, it.size)).collect();
            distinct(&mut own);
            if own != runs {
                left_out += 1;
                continue;
            }
            for point in fitted.measured() {
                let mut parameters = json!({ "ranks": point.ranks });
                if sizes {
                    parameters["size"] = Value::from(point.size);
                }
                let line = json!({
                    "params": parameters, "callpath": path, "metric": metric(function.what),
                    "value": point.value,
                });
                text.push_str(&line.to_string());
                text.push('\n');
            }
        }
    }
    Measurements { text, left_out }
}

/// Returns the name of a metric, with its unit.
fn metric(what: &str) -> String {
    match what {
        "time before" | "own time" => format!("{what} [ps]"),
        what => what.to_owned(),
    }
}
