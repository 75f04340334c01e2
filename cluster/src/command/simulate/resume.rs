//! Simulations that were broken off, continued.
//!
//! The folder of results has the mix, and the row of each combination that was simulated to its end: those are taken from there, all others continue from the state that was kept of them, or begin. Called by `simulate`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::Row;

/// The mix, in the folder of results.
const MIX_FILE: &str = "mix.toml";
/// A combination's row, in its folder: in a form whose numbers come back to the last bit.
const ROW_FILE: &str = "row.toml";

/// The version of the rules of simulation: rows of another version are simulated again.
const RULES: u32 = 2;

/// A row as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptRow {
    /// The version of the rules of simulation; absent in rows that precede versions.
    #[serde(default)]
    rules: u32,
    #[serde(flatten)]
    row: Row,
}

/// The folder of results.
pub(super) struct Folder {
    path: PathBuf,
    /// The mix's text.
    mix: String,
}

impl Folder {
    /// A new folder for a mix, or with `resume` the one that it has already.
    ///
    /// # Errors
    /// When there is one, or none; when it is of another mix.
    pub(super) fn open(path: &Path, mix: &Path, resume: bool) -> Result<Self> {
        let text =
            fs::read_to_string(mix).with_context(|| format!("cannot read {}", mix.display()))?;
        let kept = path.join(MIX_FILE);
        if !resume {
            fs::create_dir(path).with_context(|| {
                format!(
                    "cannot make the folder {}; a simulation that was broken off there continues with --resume",
                    path.display()
                )
            })?;
            fs::write(&kept, &text).with_context(|| format!("cannot write {}", kept.display()))?;
            return Ok(Self {
                path: path.to_owned(),
                mix: text,
            });
        }
        let before = fs::read_to_string(&kept).with_context(|| {
            format!("cannot read {}, which a simulation leaves", kept.display())
        })?;
        if before != text {
            bail!(
                "{} is another mix than the one that {} was begun with: take another folder",
                mix.display(),
                path.display()
            );
        }
        Ok(Self {
            path: path.to_owned(),
            mix: text,
        })
    }

    /// The mix's text.
    pub(super) fn mix(&self) -> &str {
        &self.mix
    }

    /// The folder of a combination.
    pub(super) fn of(&self, combination: usize) -> PathBuf {
        self.path.join(combination.to_string())
    }

    /// A file for all of them.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The row of a combination that was simulated before, with these values.
    pub(super) fn row(&self, combination: usize, values: &[(String, String)]) -> Option<Row> {
        let text = fs::read_to_string(self.of(combination).join(ROW_FILE)).ok()?;
        let kept: KeptRow = toml::from_str(&text).ok()?;
        (kept.rules == RULES && kept.row.values == values).then_some(kept.row)
    }

    /// Keeps the row of a combination whose other files are there: it is done then.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn keep(&self, combination: usize, row: &Row) -> Result<()> {
        let path = self.of(combination).join(ROW_FILE);
        let half = path.with_extension("incomplete");
        let kept = KeptRow {
            rules: RULES,
            row: row.clone(),
        };
        let text = toml::to_string(&kept)?;
        let write = fs::write(&half, text).and_then(|()| fs::rename(&half, &path));
        write.with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use belljar_mixes::Measures;

    use super::*;

    #[test]
    fn rows_come_back_for_the_mix_that_they_are_of() {
        let folder = tempfile::tempdir().unwrap();
        let (mix, out) = (folder.path().join("a.toml"), folder.path().join("out"));
        fs::write(&mix, "hosts = 4").unwrap();
        assert!(Folder::open(&out, &mix, true).is_err());
        let first = Folder::open(&out, &mix, false).unwrap();
        assert!(Folder::open(&out, &mix, false).is_err());
        let values = vec![("hosts".to_owned(), "4".to_owned())];
        let row = Row {
            values: values.clone(),
            warnings: vec!["4 of 8 links".to_owned()],
            measures: Measures {
                makespan_s: 3_353.483_267_117_123_6,
                mean_load: 0.1 + 0.2,
                highest_share: 1.0,
                ..Measures::default()
            },
        };
        fs::create_dir(first.of(3)).unwrap();
        first.keep(3, &row).unwrap();
        let again = Folder::open(&out, &mix, true).unwrap();
        let kept = again.row(3, &values).unwrap();
        assert_eq!((kept.measures, kept.warnings), (row.measures, row.warnings));
        assert!(again.row(2, &values).is_none());
        assert!(again.row(3, &[]).is_none());
        // A row of a version that took the mix for another network.
        let path = first.of(3).join(ROW_FILE);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("rules = 2\n", "")).unwrap();
        assert!(again.row(3, &values).is_none());
        fs::write(&mix, "hosts = 5").unwrap();
        assert!(Folder::open(&out, &mix, true).is_err());
    }
}
