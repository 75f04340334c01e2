//! Continuation of interrupted simulations.
//!
//! The folder of results has the mix, and the row of each finished combination. Finished rows are reused; other combinations
//! continue from their saved states, or begin. Called by `simulate`.

use std::fs::{self, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use belljar_files::{Folder, read_input_text};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::SimulationRow;

/// The mix, in the folder of results.
const MIX_FILE: &str = "mix.toml";
/// A combination's row, in its folder. Its form restores numbers to the last bit.
const ROW_FILE: &str = "row.toml";
/// The first line of a row's file, followed by the checksum of the other lines.
const SUM: &str = "# XXH3-64 of the lines below: ";
/// Largest row file, in bytes.
const MOST_BYTES: u64 = 1 << 24;

/// The version of the rules of simulation and of rows: rows of another version are simulated again.
const RULES: u32 = 3;

/// Attempts to lock the folder, and the time between them. A killed process holds the lock until the kernel has freed its memory.
const LOCK_TRIES: u32 = 20;
const LOCK_NAP: Duration = Duration::from_millis(100);

/// A row in its file.
#[derive(Serialize, Deserialize)]
struct KeptRow {
    /// The version of the rules of simulation; absent in rows that precede versions.
    #[serde(default)]
    rules: u32,
    /// The digest of the simulation: its mix, network, jobs and traced runs.
    simulation: String,
    #[serde(flatten)]
    row: SimulationRow,
}

/// The folder of results, locked while this value lives.
pub(super) struct Results {
    folder: Folder,
    /// The mix's text.
    mix: String,
}

impl Results {
    /// Makes a new folder for a mix, or with `resume` opens the existing one.
    ///
    /// # Errors
    /// If a folder exists, or with `resume` is missing; if it has another mix, or another process simulates in it.
    pub(super) fn open(path: &Path, mix: &Path, resume: bool) -> Result<Self> {
        let text =
            read_input_text(mix).with_context(|| format!("cannot read {}", mix.display()))?;
        if !resume {
            fs::create_dir(path).with_context(|| {
                format!(
                    "cannot make the folder {}; continue an interrupted simulation there with --resume",
                    path.display()
                )
            })?;
        }
        let folder = locked(path)?;
        let kept = path.join(MIX_FILE);
        if !resume {
            let written = folder.write(MIX_FILE, text.as_bytes());
            if written.is_err() {
                // An empty folder would block the next attempt.
                let _ = fs::remove_dir(path);
            }
            written.with_context(|| format!("cannot write {}", kept.display()))?;
            return Ok(Self { folder, mix: text });
        }
        let mut before = String::new();
        let read = folder.open_file(MIX_FILE);
        read.and_then(|mut file| file.read_to_string(&mut before))
            .with_context(|| {
                format!("cannot read {}, which a simulation leaves", kept.display())
            })?;
        if before != text {
            bail!(
                "{} is another mix than the one that {} was begun with: take another folder",
                mix.display(),
                path.display()
            );
        }
        Ok(Self { folder, mix: text })
    }

    /// The mix's text.
    pub(super) fn mix(&self) -> &str {
        &self.mix
    }

    /// The folder of all results.
    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The folder of a combination, made if it does not exist.
    ///
    /// # Errors
    /// If a link has its name, or the host refuses.
    pub(super) fn of(&self, combination: usize) -> Result<Folder> {
        let name = combination.to_string();
        let made = self.folder.folder(&name);
        made.with_context(|| {
            let path = self.folder.path().join(&name);
            format!("cannot make the folder {}", path.display())
        })
    }

    /// The row that a combination's folder has, if it is one of this simulation.
    pub(super) fn row(
        folder: &Folder,
        simulation: u128,
        values: &[(String, String)],
    ) -> Option<SimulationRow> {
        match kept(folder, simulation, values) {
            Ok(row) => row,
            Err(reason) => {
                let path = folder.path().join(ROW_FILE);
                warning!(
                    "{}: {reason}; its combination is simulated again",
                    path.display()
                );
                None
            }
        }
    }

    /// Writes the row of a combination after its other files: then it is finished.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn keep(folder: &Folder, simulation: u128, row: &SimulationRow) -> Result<()> {
        let kept = KeptRow {
            rules: RULES,
            simulation: format!("{simulation:032x}"),
            row: row.clone(),
        };
        let text = toml::to_string(&kept)?;
        let sum = XxHash3_64::oneshot(text.as_bytes());
        let written = folder.write(ROW_FILE, format!("{SUM}{sum:016x}\n{text}").as_bytes());
        written.with_context(|| {
            let path = folder.path().join(ROW_FILE);
            format!("cannot write {}", path.display())
        })
    }
}

/// Opens the folder and locks it.
fn locked(path: &Path) -> Result<Folder> {
    let folder = Folder::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    for tries in 1.. {
        match folder.file().try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => thread::sleep(LOCK_NAP),
            Err(TryLockError::WouldBlock) => bail!(
                "another process simulates in {}; wait until it has ended, or take another folder",
                path.display()
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
    Ok(folder)
}

/// The row in a folder; `None` if it is absent, or has other rules.
fn kept(
    folder: &Folder,
    simulation: u128,
    values: &[(String, String)],
) -> Result<Option<SimulationRow>, String> {
    let file = match folder.open_file(ROW_FILE) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| format!("it cannot be read: {error}"))?,
    };
    let mut text = String::new();
    file.take(MOST_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    let Some((sum, text)) = text
        .strip_prefix(SUM)
        .and_then(|text| text.split_once('\n'))
    else {
        return Err("it has no checksum, as rows of earlier versions".to_owned());
    };
    if sum != format!("{:016x}", XxHash3_64::oneshot(text.as_bytes())) {
        return Err("it is damaged: its checksum is wrong".to_owned());
    }
    let kept: KeptRow = toml::from_str(text).map_err(|_| "it is not a row".to_owned())?;
    if kept.rules != RULES {
        return Err(format!(
            "it is of version {} of the rules, and this program has version {RULES}",
            kept.rules
        ));
    }
    if kept.simulation != format!("{simulation:032x}") || kept.row.values != values {
        return Err(
            "it is of another simulation: the mix, its network, its jobs or their traced runs have changed"
                .to_owned(),
        );
    }
    Ok(Some(kept.row))
}

#[cfg(test)]
mod tests {
    use belljar_simulate::Measures;

    use super::*;

    #[test]
    fn rows_come_back_for_the_simulation_that_they_are_of() {
        let folder = tempfile::tempdir().unwrap();
        let (mix, out) = (folder.path().join("a.toml"), folder.path().join("out"));
        fs::write(&mix, "hosts = 4").unwrap();
        assert!(Results::open(&out, &mix, true).is_err());
        let first = Results::open(&out, &mix, false).unwrap();
        assert!(Results::open(&out, &mix, false).is_err());
        // The lock admits one process at a time.
        let second = Results::open(&out, &mix, true).map(drop).unwrap_err();
        assert!(second.to_string().contains("another process"), "{second}");
        drop(first);
        let values = vec![("hosts".to_owned(), "4".to_owned())];
        let row = SimulationRow {
            values: values.clone(),
            warnings: vec!["4 of 8 links".to_owned()],
            measures: Measures {
                makespan_s: 3_353.483_267_117_123_6,
                mean_load: 0.1 + 0.2,
                highest_share: 1.0,
                ..Measures::default()
            },
        };
        let again = Results::open(&out, &mix, true).unwrap();
        let own = again.of(3).unwrap();
        Results::keep(&own, 77, &row).unwrap();
        let kept = Results::row(&own, 77, &values).unwrap();
        assert_eq!((kept.measures, kept.warnings), (row.measures, row.warnings));
        assert!(Results::row(&again.of(2).unwrap(), 77, &values).is_none());
        // Simulates on another network.
        assert!(
            super::kept(&own, 78, &values)
                .unwrap_err()
                .contains("another simulation")
        );
        assert!(
            super::kept(&own, 77, &[])
                .unwrap_err()
                .contains("another simulation")
        );
        let path = own.path().join(ROW_FILE);
        let text = fs::read_to_string(&path).unwrap();
        for (from, to, reason) in [
            ("makespan_s = 3", "makespan_s = 9", "damaged"),
            (SUM, "# ", "no checksum"),
            ("rules = 3\n", "", "damaged"),
        ] {
            assert!(text.contains(from), "{from}");
            fs::write(&path, text.replace(from, to)).unwrap();
            let refused = super::kept(&own, 77, &values).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        drop(again);
        fs::write(&mix, "hosts = 5").unwrap();
        assert!(Results::open(&out, &mix, true).is_err());
    }

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (mix, out) = (folder.path().join("a.toml"), folder.path().join("out"));
        fs::write(&mix, "hosts = 4").unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        let results = Results::open(&out, &mix, false).unwrap();
        std::os::unix::fs::symlink("../elsewhere", out.join("3")).unwrap();
        let refused = results.of(3).map(drop).unwrap_err();
        assert!(format!("{refused:#}").contains("link"), "{refused:#}");
    }
}
