//! What a recipe's values may be: names that mean themselves to apt and to a shell, and paths that
//! stay where they belong. A recipe is checked when it is read, so whoever has one needs no
//! further look.

use std::path::{Component, Path};

use super::{RecipeError, Spec};

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

pub(super) fn check(path: &Path, spec: &Spec) -> Result<(), RecipeError> {
    let words = [("name", &spec.name), ("suite", &spec.suite)];
    for (what, value) in words {
        if !is_word(value) {
            return Err(bad(
                path,
                what,
                value,
                "must be letters, digits, `-`, `.`, `+` or `_`",
            ));
        }
    }
    if spec.architecture != "amd64" {
        return Err(bad(
            path,
            "architecture",
            &spec.architecture,
            "is not supported: use amd64",
        ));
    }
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
    for (what, value) in guest_paths(spec) {
        if !is_guest_path(value) {
            return Err(bad(
                path,
                what,
                value,
                "must be an absolute path without `.` and `..`",
            ));
        }
    }
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
    std::iter::once(("kernel.package", &spec.kernel.package))
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
            spec.source
                .iter()
                .map(|source| ("source.package", &source.package)),
        )
}

fn guest_paths(spec: &Spec) -> impl Iterator<Item = (&'static str, &String)> {
    let userland = &spec.userland;
    let trees = [
        ("userland.files", &userland.files),
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

/// A name that means itself to apt, to a shell and as part of a path.
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
            .all(|byte| byte.is_ascii_alphanumeric() || b"/-.+_*[".contains(&byte))
        && value[1..]
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."))
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
