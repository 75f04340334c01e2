//! Readers that are Python modules.

use std::path::Path;
use std::process::{Command, Output};

/// Runs a script on a file. Prints the reason and returns `None` if Python lacks the module.
pub(crate) fn read(module: &str, script: &str, path: &Path) -> Option<Output> {
    let python = std::env::var("BELLJAR_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let run = |script: &str| {
        let ended = Command::new(&python)
            .args(["-c", script])
            .arg(path)
            .output();
        ended.expect("Python can be run")
    };
    if !run(&format!("import {module}")).status.success() {
        let package = module.split('.').next().unwrap_or(module);
        eprintln!(
            "SKIPPED: {python} has no module {package}; PyPI has it (BELLJAR_PYTHON names another Python)"
        );
        return None;
    }
    Some(run(script))
}
