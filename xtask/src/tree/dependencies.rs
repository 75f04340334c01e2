//! Licences, sources and advisories of the packages that Belljar depends on.
//!
//! cargo-deny checks them, if it is installed. Its check of advisories needs the RustSec database, which it fetches from GitHub.
//! Without a network it uses an earlier copy; without a copy the check is skipped with a message. Tests here check the most
//! important parts without a network. Called by `groups`.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::shell;

/// Checks licences, sources and advisories, if cargo-deny is installed.
pub(crate) fn deny(cargo: &str) -> Result<()> {
    if output(cargo, &["--version"]).is_err() {
        eprintln!("SKIPPED: cargo-deny is not installed (cargo install cargo-deny --locked)");
        return Ok(());
    }
    let offline = ["deny", "--offline", "check"];
    shell::run(
        cargo,
        &[&offline[..], &["bans", "licenses", "sources"]].concat(),
    )?;
    match (output(cargo, &["fetch", "db"]), has_database()) {
        (Ok(()), _) => {}
        (Err(reason), true) => {
            eprintln!("note: advisories are those of an earlier copy of the database: {reason}");
        }
        (Err(reason), false) => {
            eprintln!("SKIPPED: advisories: the RustSec database cannot be fetched: {reason}");
            return Ok(());
        }
    }
    shell::run(cargo, &[&offline[..], &["advisories"]].concat())
}

/// Runs a subcommand of cargo-deny; the last line of its errors if it fails.
fn output(cargo: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(cargo).arg("deny").args(words).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(last.unwrap_or("no reason was given").trim().to_owned())
}

/// True if an earlier check left the database.
fn has_database() -> bool {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let databases = home.map(|home| home.join("advisory-dbs"));
    let entries = databases.and_then(|folder| fs::read_dir(folder).ok());
    entries.is_some_and(|mut entries| entries.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages without maintainers that many crates still depend on, by their advisories.
    const UNMAINTAINED: [(&str, &str); 24] = [
        ("adler", "RUSTSEC-2025-0056"),
        ("ansi_term", "RUSTSEC-2021-0139"),
        ("async-std", "RUSTSEC-2025-0052"),
        ("atty", "RUSTSEC-2024-0375"),
        ("backoff", "RUSTSEC-2025-0012"),
        ("bincode", "RUSTSEC-2025-0141"),
        ("derivative", "RUSTSEC-2024-0388"),
        ("encoding", "RUSTSEC-2021-0153"),
        ("failure", "RUSTSEC-2020-0036"),
        ("fxhash", "RUSTSEC-2025-0057"),
        ("instant", "RUSTSEC-2024-0384"),
        ("json", "RUSTSEC-2022-0081"),
        ("mach", "RUSTSEC-2020-0168"),
        ("net2", "RUSTSEC-2020-0016"),
        ("number_prefix", "RUSTSEC-2025-0119"),
        ("paste", "RUSTSEC-2024-0436"),
        ("proc-macro-error", "RUSTSEC-2024-0370"),
        ("rustls-pemfile", "RUSTSEC-2025-0134"),
        ("serde_cbor", "RUSTSEC-2021-0127"),
        ("serde_yml", "RUSTSEC-2025-0068"),
        ("stdweb", "RUSTSEC-2020-0056"),
        ("tempdir", "RUSTSEC-2018-0017"),
        ("term", "RUSTSEC-2018-0015"),
        ("yaml-rust", "RUSTSEC-2024-0320"),
    ];

    fn text(path: &str) -> String {
        let path = crate::root().join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn bincode_is_the_only_package_that_is_known_to_be_unmaintained() {
        let lock = text("Cargo.lock");
        let is_there = |name: &str| lock.contains(&format!("\nname = \"{name}\"\n"));
        let there = UNMAINTAINED.iter().filter(|(name, _)| is_there(name));
        let there: Vec<_> = there.collect();
        assert_eq!(there, [&("bincode", "RUSTSEC-2025-0141")]);
        let ignored = text("deny.toml");
        let ignored: Vec<&str> = ignored
            .match_indices("RUSTSEC-")
            .map(|(at, _)| &ignored[at..at + "RUSTSEC-2025-0141".len()])
            .collect();
        assert_eq!(ignored, ["RUSTSEC-2025-0141"], "exceptions of deny.toml");
    }

    #[test]
    fn one_crate_depends_on_bincode_itself() {
        let lock = text("Cargo.lock");
        let packages = lock.split("[[package]]");
        let dependents: Vec<&str> = packages
            .filter(|package| package.lines().any(|line| line.trim() == "\"bincode\","))
            .filter_map(|package| package.split("name = \"").nth(1)?.split('"').next())
            .collect();
        assert_eq!(dependents, ["belljar-codec"]);
    }
}
