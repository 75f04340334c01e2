//! Checks of a recipe's values: names without special meaning to apt and to a shell, and paths that
//! stay within their folder. A recipe is checked when it is read, so its users need no further
//! checks.

use std::path::{Component, Path};

use super::{RecipeError, RecipeSource, Spec};
use crate::recipe::pattern::Pattern;

pub(super) fn bad(
    path: &Path,
    what: &'static str,
    value: &str,
    problem: &'static str,
) -> RecipeError {
    RecipeError::Value {
        path: path.to_owned(),
        what,
        value: value.to_owned(),
        problem,
    }
}

/// Checks that all required keys are set once the recipe's bases are merged.
pub(super) fn whole(path: &Path, spec: &Spec) -> Result<(), RecipeError> {
    let needed = [
        ("suite", spec.suite.is_empty()),
        ("architecture", spec.architecture.is_empty()),
        ("kernel.package", spec.kernel.package.is_empty()),
        ("initramfs.files", spec.initramfs.files.is_empty()),
    ];
    match needed.iter().find(|(_, missing)| *missing) {
        None => Ok(()),
        Some((what, _)) => Err(RecipeError::Missing {
            path: path.to_owned(),
            what,
        }),
    }
}

/// Checks the values of one recipe by itself.
pub(super) fn layer(path: &Path, spec: &Spec) -> Result<(), RecipeError> {
    let words = [("name", &spec.name), ("suite", &spec.suite)];
    for (what, value) in words {
        if !is_word(value) && (what == "name" || !value.is_empty()) {
            return Err(bad(
                path,
                what,
                value,
                "must be letters, digits, `-`, `.`, `+` or `_`",
            ));
        }
    }
    if !matches!(spec.architecture.as_str(), "" | "amd64") {
        return Err(bad(
            path,
            "architecture",
            &spec.architecture,
            "is not supported: use amd64",
        ));
    }
    root(path, spec)?;
    names(path, spec)?;
    for (what, value) in guest_paths(spec) {
        if !is_guest_path(value) {
            return Err(bad(
                path,
                what,
                value,
                "must be an absolute path without `.` and `..`, with `**` only as a whole part",
            ));
        }
    }
    for source in &spec.source {
        source_kind(path, source)?;
    }
    arguments(path, spec)
}

/// Checks that a recipe for an existing file system does not change it.
fn root(path: &Path, spec: &Spec) -> Result<(), RecipeError> {
    let Some(root) = &spec.root else {
        return Ok(());
    };
    if root.path.is_empty() || root.path.contains(['\n', '\0']) {
        return Err(bad(
            path,
            "root.path",
            &root.path,
            "must be a file or a folder",
        ));
    }
    let userland = &spec.userland;
    let empty = [
        spec.kernel.package.is_empty() && spec.kernel.modules.is_empty(),
        userland.packages.is_empty() && userland.whole.is_empty() && userland.files.is_empty(),
        userland.optional.is_empty() && userland.lib_paths.is_empty(),
        userland.links.is_empty() && userland.directories.is_empty() && userland.busybox.is_none(),
        spec.initramfs.files.is_empty() && spec.initramfs.directories.is_empty(),
        spec.include.is_empty() && spec.program.is_empty() && spec.source.is_empty(),
        spec.suite.is_empty() && spec.builder.packages.is_empty(),
    ];
    if empty.contains(&false) {
        let problem = "is what nodes run on, to which nothing is added: with it a recipe has `name`, `extends` and `environment` and no more";
        return Err(bad(path, "root.path", &root.path, problem));
    }
    Ok(())
}

/// Checks that a source names its kind and its outputs.
fn source_kind(path: &Path, source: &RecipeSource) -> Result<(), RecipeError> {
    let outputs = || {
        bad(
            path,
            "source.outputs",
            "",
            "must name what the script makes",
        )
    };
    match &source.path {
        None if source.outputs.is_empty() => Err(outputs()),
        None => Ok(()),
        Some(_) if !source.package.is_empty() => Err(bad(
            path,
            "source.package",
            &source.package,
            "stands next to source.path; a source is one or the other",
        )),
        Some(tree) if tree.is_empty() || tree.contains(['\n', '\0']) => {
            Err(bad(path, "source.path", tree, "must be a folder"))
        }
        Some(_) => Ok(()),
    }
}

fn names(path: &Path, spec: &Spec) -> Result<(), RecipeError> {
    let modules = spec
        .kernel
        .modules
        .iter()
        .map(|value| ("kernel.modules", value));
    let compilers = spec
        .program
        .iter()
        .map(|program| ("program.compiler", &program.compiler));
    for (what, value) in packages(spec).chain(modules).chain(compilers) {
        if !is_word(value) {
            return Err(bad(path, what, value, "must be a plain name"));
        }
    }
    for value in &spec.userland.optional_libraries {
        if !is_word(&value.replace(['*', '?'], "x")) {
            let problem = "must be a library's name, in which `*` and `?` may stand";
            return Err(bad(path, "userland.optional_libraries", value, problem));
        }
    }
    for (name, value) in &spec.environment {
        let plain = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if name.is_empty() || !plain || value.contains(['\n', '\0']) {
            let problem = "must be NAME = \"value\", on one line";
            return Err(bad(path, "environment", name, problem));
        }
    }
    Ok(())
}

fn arguments(path: &Path, spec: &Spec) -> Result<(), RecipeError> {
    for flag in spec
        .program
        .iter()
        .flat_map(|program| program.flags.iter().chain(&program.libraries))
    {
        if flag.contains(['\'', '\n', '\0']) {
            return Err(bad(
                path,
                "program.flags",
                flag,
                "must not hold a quote or a line's end",
            ));
        }
    }
    Ok(())
}

fn packages(spec: &Spec) -> impl Iterator<Item = (&'static str, &String)> {
    let kernel = ("kernel.package", &spec.kernel.package);
    let present = Some(kernel).filter(|(_, name)| !name.is_empty());
    present
        .into_iter()
        .chain(
            spec.userland
                .packages
                .iter()
                .map(|value| ("userland.packages", value)),
        )
        .chain(
            spec.builder
                .packages
                .iter()
                .map(|value| ("builder.packages", value)),
        )
        .chain(
            spec.userland
                .whole
                .iter()
                .map(|value| ("userland.whole", value)),
        )
        .chain(
            spec.source
                .iter()
                .filter(|source| source.path.is_none())
                .map(|source| ("source.package", &source.package)),
        )
}

fn guest_paths(spec: &Spec) -> impl Iterator<Item = (&'static str, &String)> {
    let userland = &spec.userland;
    let trees = [
        ("userland.files", &userland.files),
        ("userland.optional", &userland.optional),
        ("userland.lib_paths", &userland.lib_paths),
        ("userland.directories", &userland.directories),
        ("initramfs.files", &spec.initramfs.files),
        ("initramfs.directories", &spec.initramfs.directories),
    ];
    trees
        .into_iter()
        .flat_map(|(what, values)| values.iter().map(move |value| (what, value)))
        .chain(
            userland
                .busybox
                .iter()
                .map(|value| ("userland.busybox", value)),
        )
        .chain(userland.links.keys().map(|value| ("userland.links", value)))
        .chain(
            spec.include
                .iter()
                .map(|include| ("include.path", &include.path)),
        )
        .chain(
            spec.program
                .iter()
                .map(|program| ("program.path", &program.path)),
        )
        .chain(
            spec.source
                .iter()
                .flat_map(|source| source.outputs.iter().map(|value| ("source.outputs", value))),
        )
}

/// True for a name without special meaning to apt, to a shell and in a path.
fn is_word(value: &str) -> bool {
    let first = value
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    first
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.+_".contains(&byte))
}

fn is_guest_path(value: &str) -> bool {
    value.len() > 1
        && value.starts_with('/')
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/-.+_*?[@:,=~".contains(&byte))
        && value[1..]
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."))
        && Pattern::new(value).is_some()
}

pub(super) fn is_relative(value: &str) -> bool {
    let plain = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/-.+_".contains(&byte));
    plain
        && !value.is_empty()
        && Path::new(value)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}
