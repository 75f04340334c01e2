//! Findings as text and as JSON.
//!
//! Used by the command.

use std::io;

use super::{CheckedCall, Finding, MpiCheck, Severity};
use crate::dump::frames::{SiteFrame, lines};
use crate::time_words;

/// Most findings of one severity that the text has.
const MOST_SHOWN: usize = 50;

impl Severity {
    /// The word in the text.
    fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl MpiCheck {
    /// Counts the findings of a severity.
    fn number(&self, severity: Severity) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|finding| finding.severity == severity)
            .count()
    }

    /// Writes the result as text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for severity in [Severity::Error, Severity::Warning, Severity::Note] {
            let findings = self.findings.iter();
            let own = findings.filter(|finding| finding.severity == severity);
            for finding in own.take(MOST_SHOWN) {
                self.write_finding(out, finding)?;
            }
            match self.number(severity).saturating_sub(MOST_SHOWN) {
                0 => {}
                more => writeln!(out, "and {more} more of severity {}\n", severity.word())?,
            }
        }
        let counted = |number: usize, word: &str| match number {
            1 => format!("1 {word}"),
            number => format!("{number} {word}s"),
        };
        writeln!(
            out,
            "{}, {} and {} in {} calls of {} ranks",
            counted(self.number(Severity::Error), "error"),
            counted(self.number(Severity::Warning), "warning"),
            counted(self.number(Severity::Note), "note"),
            self.calls,
            self.processes
        )?;
        if let Some(failure) = &self.failure {
            writeln!(out, "{failure}")?;
        }
        for unchecked in &self.unchecked {
            writeln!(
                out,
                "not checked: {}: {}",
                unchecked.check, unchecked.reason
            )?;
        }
        Ok(())
    }

    fn write_finding(&self, out: &mut dyn io::Write, finding: &Finding) -> io::Result<()> {
        let kind = serde_json::to_value(finding.kind)?;
        let kind = kind.as_str().unwrap_or_default();
        write!(
            out,
            "{} [{kind}]: {}",
            finding.severity.word(),
            finding.text
        )?;
        match finding.count {
            0 | 1 => writeln!(out)?,
            count => writeln!(out, " ({count} times)")?,
        }
        for call in &finding.calls {
            self.write_call(out, call)?;
        }
        writeln!(out)
    }

    fn write_call(&self, out: &mut dyn io::Write, call: &CheckedCall) -> io::Result<()> {
        let has_jobs = self.findings.iter().flat_map(|finding| &finding.calls);
        let has_jobs = has_jobs.map(|call| call.of.job).any(|job| job > 0);
        let rank = match has_jobs {
            true => format!("{}.{}", call.of.job, call.of.rank),
            false => call.of.rank.to_string(),
        };
        writeln!(
            out,
            "  rank {rank} at {}: {}({})",
            time_words(call.entry_ps),
            call.function,
            call.arguments
        )?;
        // Callers of the program's main function are the same for all calls.
        let ends = |frame: &SiteFrame| {
            let mut functions = frame.places.iter().filter_map(|it| it.function.as_deref());
            functions.any(|function| matches!(function, "main" | "MAIN__"))
        };
        let end = call.site.iter().position(ends);
        let shown = end.map_or(call.site.len(), |end| end + 1);
        for line in call.site.iter().take(shown).flat_map(lines) {
            writeln!(out, "    {line}")?;
        }
        Ok(())
    }

    /// Writes the result as JSON.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}
