//! One scenario under all combinations of some settings, and the resulting table.
//!
//! Combinations are numbered by the order of the settings, the last one varying fastest, so a number means
//! the same when a sweep's results are gathered again. Called by `belljar sweep`.

use serde::{Deserialize, Serialize};

/// Short names for whole networks.
pub(crate) mod labels;
/// The table of a sweep: a row for each combination, including failed ones.
mod table;

pub use labels::labels;
pub use table::{CommandOutcome, SweepTable};

/// Maximum number of combinations.
const MOST: usize = 10_000;

/// An error in the settings of a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// `--set` without `=`.
    #[error("--set {0}: there is no `=`; write --set section.key=[value, value]")]
    Assignment(String),
    /// An empty list.
    #[error("--set {0}=[]: there is no value to try")]
    Empty(String),
    /// No list at all.
    #[error("nothing varies; write --set section.key=[value, value]")]
    Constant,
    /// Too many combinations.
    #[error("these are more than {MOST} combinations; vary fewer keys, or fewer values")]
    TooMany,
}

/// All combinations of some settings. The last key varies fastest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// The keys that vary, in the order of the settings.
    pub keys: Vec<String>,
    /// For each combination, a value for each key, as TOML.
    pub combinations: Vec<Vec<String>>,
    /// Settings that are the same in all.
    constants: Vec<String>,
}

impl Sweep {
    /// Reads the settings of `--set`: `key=[a, b]` varies, and any other setting is the same in all. A
    /// value that is a list itself needs one more pair of brackets.
    ///
    /// # Errors
    /// If nothing varies, or there are too many combinations.
    pub fn parse(assignments: &[String]) -> Result<Self, SweepError> {
        let mut sweep = Self {
            keys: Vec::new(),
            combinations: vec![Vec::new()],
            constants: Vec::new(),
        };
        for assignment in assignments {
            let (key, value) = assignment
                .split_once('=')
                .ok_or_else(|| SweepError::Assignment(assignment.clone()))?;
            match list(value) {
                Some(values) => sweep.vary(key.trim(), &values)?,
                None => sweep.constants.push(assignment.clone()),
            }
        }
        if sweep.keys.is_empty() {
            return Err(SweepError::Constant);
        }
        Ok(sweep)
    }

    fn vary(&mut self, key: &str, values: &[String]) -> Result<(), SweepError> {
        if values.is_empty() {
            return Err(SweepError::Empty(key.to_owned()));
        }
        if self.combinations.len().saturating_mul(values.len()) > MOST {
            return Err(SweepError::TooMany);
        }
        self.keys.push(key.to_owned());
        let with_each = |before: &Vec<String>| {
            let with = |value| [before.as_slice(), std::slice::from_ref(value)].concat();
            values.iter().map(with).collect::<Vec<_>>()
        };
        self.combinations = self.combinations.iter().flat_map(with_each).collect();
        Ok(())
    }

    /// The settings of a combination, as `key=value`.
    pub fn overrides(&self, combination: usize) -> Vec<String> {
        let values = self.combinations.get(combination);
        let varied = self.keys.iter().zip(values.into_iter().flatten());
        let varied = varied.map(|(key, value)| format!("{key}={value}"));
        self.constants.iter().cloned().chain(varied).collect()
    }

    /// The values of each combination for tables: a short name for a whole network, otherwise the value.
    pub fn labels(&self) -> Vec<Vec<String>> {
        let columns = self.keys.iter().enumerate().map(|(column, key)| {
            let values = self
                .combinations
                .iter()
                .map(|values| values[column].clone());
            labels(key, &values.collect::<Vec<_>>())
        });
        let columns: Vec<Vec<String>> = columns.collect();
        let rows = 0..self.combinations.len();
        rows.map(|row| columns.iter().map(|column| column[row].clone()).collect())
            .collect()
    }

    /// A combination as text, such as `nodes.count=2, network.latency="1 us"`.
    pub fn describe(&self, combination: usize) -> String {
        let overrides = self.overrides(combination);
        overrides[self.constants.len()..].join(", ")
    }
}

/// The values of a list; `None` if the value is no list. Words without quotes are texts.
fn list(value: &str) -> Option<Vec<String>> {
    let value = value.trim();
    if let Ok(mut table) = format!("value = {value}").parse::<toml::Table>() {
        return match table.remove("value")? {
            toml::Value::Array(values) => Some(values.iter().map(toml::Value::to_string).collect()),
            _ => None,
        };
    }
    let inside = value.strip_prefix('[')?.strip_suffix(']')?;
    let mut quoted = false;
    let ends_a_word = |letter| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    };
    let words = inside.split(ends_a_word).map(str::trim);
    let words = words.filter(|word| !word.is_empty());
    let text = |word: &str| match format!("value = {word}").parse::<toml::Table>() {
        Ok(_) => word.to_owned(),
        Err(_) => toml::Value::String(word.to_owned()).to_string(),
    };
    Some(words.map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(assignments: &[&str]) -> Result<Sweep, SweepError> {
        let assignments: Vec<String> = assignments.iter().map(|&text| text.to_owned()).collect();
        Sweep::parse(&assignments)
    }

    #[test]
    fn all_combinations_are_there_and_the_last_key_is_fastest() {
        let sweep = sweep(&["a.x=[1,2]", "seed=7", "b=[\"p q\", \"r\"]"]).unwrap();
        let described: Vec<String> = (0..sweep.combinations.len())
            .map(|index| sweep.describe(index))
            .collect();
        let expected = [
            "a.x=1, b=\"p q\"",
            "a.x=1, b=\"r\"",
            "a.x=2, b=\"p q\"",
            "a.x=2, b=\"r\"",
        ];
        assert_eq!(described, expected);
        assert_eq!(sweep.overrides(2), ["seed=7", "a.x=2", "b=\"p q\""]);
    }

    #[test]
    fn words_need_no_quotes_and_lists_can_be_values() {
        let plain = sweep(&["a=[1 us, 10 Gb/s, 3, true]"]).unwrap();
        let values: Vec<&str> = plain.combinations.iter().map(|c| c[0].as_str()).collect();
        assert_eq!(values, ["\"1 us\"", "\"10 Gb/s\"", "3", "true"]);
        let lists = sweep(&["a=[[], [\"aes\"]]"]).unwrap();
        assert_eq!(lists.overrides(1), ["a=[\"aes\"]"]);
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        assert!(matches!(sweep(&["a=1"]), Err(SweepError::Constant)));
        assert!(matches!(sweep(&["a"]), Err(SweepError::Assignment(_))));
        assert!(matches!(sweep(&["a=[]"]), Err(SweepError::Empty(_))));
        let much = format!("[{}]", "1,".repeat(101));
        let much = [format!("a={much}"), format!("b={much}")];
        assert!(matches!(Sweep::parse(&much), Err(SweepError::TooMany)));
    }
}
