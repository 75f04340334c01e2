//! Programs of tests, which are built once and started without cargo.
//!
//! Called by `groups`.

use anyhow::Result;

use crate::shell;

/// Form of a group's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputForm {
    /// Unchanged.
    Plain,
    /// With the group's name before each line, for parallel groups.
    Named,
}

/// Paths of programs.
#[derive(Debug)]
pub(super) struct TestPrograms {
    /// The end-to-end tests.
    end_to_end: String,
    /// The tests of the kvm engine's crate.
    pub(super) kvm: String,
    /// Digests of the exact engine, compared in an emulated machine.
    pub(super) digests: String,
}

impl TestPrograms {
    /// Builds them.
    pub(super) fn build() -> Result<Self> {
        Ok(Self {
            end_to_end: shell::test_program("belljar-tests", "e2e")?,
            kvm: shell::test_program("belljar-kvm", "belljar-kvm")?,
            digests: shell::test_program("belljar-exact", "digests")?,
        })
    }

    /// Runs end-to-end tests in a group of this name.
    pub(super) fn end_to_end(
        &self,
        name: &str,
        output: OutputForm,
        arguments: &[String],
        environment: &[(&str, &str)],
    ) -> Result<()> {
        match output {
            OutputForm::Plain => shell::run_with(&self.end_to_end, arguments, environment),
            OutputForm::Named => shell::run_named(name, &self.end_to_end, arguments, environment),
        }
    }
}
