//! `cargo xtask check`: checks before a commit, in a minute or two after a build.
//!
//! Format, lints, generated files, the links of the docs and of the code's documentation, and the unit tests of the crates with
//! changes. No node boots; `cargo xtask test` has all other tests. Called by `main`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::groups;
use crate::shell::{self, cargo};

/// Tests changes since the last commit, or the last commit if there are none.
pub(crate) fn run() -> Result<()> {
    groups::lint()?;
    let mut packages = packages_of(&changed()?)?;
    // The checks of the source tree are its tests.
    packages.insert("xtask".to_owned());
    // These need images and a built program.
    packages.remove("belljar-tests");
    let mut arguments = vec!["test", "--quiet", "--lib", "--bins"];
    for package in &packages {
        arguments.extend(["--package", package]);
    }
    shell::run(&cargo(), &arguments)
}

/// Files with changes, relative to the project's top folder.
fn changed() -> Result<Vec<String>> {
    let own = git(&["status", "--porcelain", "--untracked-files=all"])?;
    // Two letters and a blank, then a path, or "OLD -> NEW".
    let own = own.lines().filter_map(|line| line.get(3..));
    let own = own.map(|path| path.rsplit(" -> ").next().unwrap_or(path).to_owned());
    let own: Vec<String> = own.collect();
    if !own.is_empty() {
        return Ok(own);
    }
    let last = git(&["show", "--name-only", "--format=", "HEAD"])?;
    Ok(last.lines().map(str::to_owned).collect())
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(crate::root())
        .output()
        .context("cannot start git")?;
    if !output.status.success() {
        bail!("git {} failed ({})", arguments.join(" "), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The packages of these files.
fn packages_of(files: &[String]) -> Result<BTreeSet<String>> {
    let mut packages = BTreeSet::new();
    for file in files {
        let above = Path::new(file).ancestors().skip(1);
        let manifests = above.map(|folder| crate::root().join(folder).join("Cargo.toml"));
        let Some(manifest) = manifests.into_iter().find(|manifest| manifest.is_file()) else {
            continue;
        };
        let text = fs::read_to_string(&manifest);
        let text = text.with_context(|| format!("cannot read {}", manifest.display()))?;
        packages.extend(name_of(&text).map(str::to_owned));
    }
    Ok(packages)
}

/// The package's name in a manifest; the workspace's manifest has none.
fn name_of(manifest: &str) -> Option<&str> {
    let mut names = manifest.lines().filter_map(|line| {
        let name = line.strip_prefix("name = \"")?;
        name.strip_suffix('"')
    });
    names.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_nearest_package() {
        let of = |file: &str| packages_of(&[file.to_owned()]).unwrap();
        assert!(of("xtask/src/main.rs").contains("xtask"));
        assert!(of("cluster/peers/src/link.rs").contains("belljar-peers"));
        assert!(of("cluster/src/lib.rs").contains("belljar-cluster"));
        assert!(of("README.md").is_empty());
    }
}
