//! Execution of one reader on one trace.
//!
//! A scratch folder has copies of the pinned files under fixed names, so that no path of the host is in an output. The
//! environment has only the caller's search path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::pinned::{PinnedTrace, run_of};
use super::readers::{DigestedOutput, FrozenReader};
use super::report_data;

/// The run that `trace diff` compares all others with.
const OTHER: &str = "ring";
/// The decision tables of Debian's MPICH, as its library has them.
const TABLES: &str = "mpich.tables";
/// The file or folder that a command writes.
const OUT: &str = "out";
/// Lines of standard error that a digest covers, of each command.
const ERROR_LINES: usize = 8;

/// Named outputs of a reader.
#[derive(Default)]
pub(super) struct ReaderOutputs(Vec<(String, Vec<u8>)>);

impl ReaderOutputs {
    fn push(&mut self, name: String, bytes: Vec<u8>) {
        self.0.push((name, bytes));
    }

    /// The output of this name.
    pub(super) fn part(&self, name: &str) -> Option<&[u8]> {
        let part = self.0.iter().find(|(own, _)| own == name);
        part.map(|(_, bytes)| bytes.as_slice())
    }

    /// The SHA-256 of all names and bytes, with their lengths.
    pub(super) fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for (name, bytes) in &self.0 {
            for piece in [name.as_bytes(), bytes] {
                digest.update((piece.len() as u64).to_le_bytes());
                digest.update(piece);
            }
        }
        let digest = digest.finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Writes the outputs into a folder.
    pub(super) fn keep(&self, folder: &Path) -> Result<()> {
        for (name, bytes) in &self.0 {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(folder);
            let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, bytes));
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// A folder for running a reader.
pub(super) struct Scratch(TempDir);

impl Scratch {
    /// A new folder with the files of `trace` and of the runs for comparisons.
    pub(super) fn new(folder: &Path, trace: &PinnedTrace) -> Result<Self> {
        let scratch = Self(tempfile::tempdir().context("cannot make a temporary folder")?);
        scratch.copy("run", &trace.files)?;
        scratch.copy("other", &run_of(folder, OTHER)?)?;
        if let Some(larger) = trace.larger {
            scratch.copy("larger", &run_of(folder, larger)?)?;
        }
        let tables = [(TABLES.to_owned(), folder.join(TABLES))];
        scratch.copy("", &tables)?;
        Ok(scratch)
    }

    fn copy(&self, name: &str, files: &[(String, PathBuf)]) -> Result<()> {
        let folder = self.0.path().join(name);
        fs::create_dir_all(&folder).context("cannot make a temporary folder")?;
        for (name, path) in files {
            let copied = fs::copy(path, folder.join(name));
            copied.with_context(|| format!("cannot copy {}", path.display()))?;
        }
        Ok(())
    }

    /// Runs a reader; returns all its outputs.
    pub(super) fn read(
        &self,
        binary: &Path,
        trace: &PinnedTrace,
        reader: &FrozenReader,
    ) -> Result<ReaderOutputs> {
        let mut parts = ReaderOutputs::default();
        for (number, words) in reader.commands.iter().enumerate() {
            let output = self.command(binary, trace, words).output();
            let output = output.with_context(|| format!("cannot start {}", binary.display()))?;
            let code = output.status.code();
            let errors = String::from_utf8_lossy(&output.stderr);
            let errors: Vec<&str> = errors.lines().take(ERROR_LINES).collect();
            let errors = format!("exit code {code:?}\n{}\n", errors.join("\n"));
            parts.push(format!("stderr-{number}"), errors.into_bytes());
            parts.push(format!("stdout-{number}"), output.stdout);
            if code != Some(0) {
                return Ok(parts);
            }
        }
        match reader.output {
            DigestedOutput::Text => {}
            DigestedOutput::Files => self.add_files(&self.0.path().join(OUT), OUT, &mut parts)?,
            DigestedOutput::ReportData => self.add_report_data(&mut parts)?,
        }
        Ok(parts)
    }

    fn command(&self, binary: &Path, trace: &PinnedTrace, words: &str) -> Command {
        let words = words
            .split_ascii_whitespace()
            .filter_map(|word| match word {
                "RUN" => Some("run"),
                "OTHER" => Some("other"),
                "LARGER" => trace.larger.map(|_| "larger"),
                "OUT" => Some(OUT),
                word => Some(word),
            });
        let mut command = Command::new(binary);
        command.arg("--quiet").args(words);
        command.current_dir(self.0.path()).stdin(Stdio::null());
        command.env_clear().env("HOME", self.0.path());
        command
    }

    /// Adds a file, or all files of a folder by their names.
    fn add_files(&self, path: &Path, name: &str, parts: &mut ReaderOutputs) -> Result<()> {
        let failed = || format!("cannot read {name}, which a reader wrote");
        if !path.is_dir() {
            parts.push(name.to_owned(), fs::read(path).with_context(failed)?);
            return Ok(());
        }
        let entries = fs::read_dir(path).with_context(failed)?;
        let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names = names.collect::<Result<Vec<_>, _>>().with_context(failed)?;
        names.sort();
        for own in names {
            let own = own.to_string_lossy();
            self.add_files(&path.join(&*own), &format!("{name}/{own}"), parts)?;
        }
        Ok(())
    }

    fn add_report_data(&self, parts: &mut ReaderOutputs) -> Result<()> {
        let page = fs::read_to_string(self.0.path().join(OUT));
        let page = page.context("cannot read the report's page")?;
        let data = report_data::unpack(&page)?;
        for (name, bytes) in data {
            parts.push(format!("data/{name}"), bytes);
        }
        Ok(())
    }
}
