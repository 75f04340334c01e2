//! Values that shells complete: run directories, scenarios, recipes and keys.
//!
//! The scripts of `belljar completions` call `belljar` again with the words of the line, so that values are those of the moment.
//! This is the dynamic engine of clap_complete, pinned because its interface may change with any version. Scripts of its static
//! engine complete no values, and handwritten scripts would be four more programs to maintain. Called by `main`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use belljar_cli::schema;
use clap::Command;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::command::results::runs::is_run;

/// Has `belljar` answer a completion script, and names the shell.
pub(super) const VARIABLE: &str = "BELLJAR_COMPLETE";

/// Maximum number of examined entries of a folder.
const MOST_ENTRIES: usize = 10_000;
/// Maximum number of examined bytes of a file.
const MOST_BYTES: u64 = 1 << 20;

/// Answers a completion script and ends the program, if one calls.
pub(crate) fn answer(belljar: impl Fn() -> Command) {
    let completing = || completing(belljar());
    CompleteEnv::with_factory(completing)
        .var(VARIABLE)
        .bin("belljar")
        .complete();
}

/// The kind of an argument's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Run directories.
    Runs,
    /// Files of the type.
    Toml,
    Recipes,
    /// Keys of scenarios, before `=`.
    Keys,
}

/// The values of an argument, by its name in the code.
fn values(argument: &str) -> Option<Values> {
    Some(match argument {
        "directory" | "directories" | "trace" | "traces" | "folders" | "runs" | "other"
        | "run_a" | "run_b" | "first" | "second" => Values::Runs,
        "scenario" | "mix" => Values::Toml,
        "recipe" | "image" => Values::Recipes,
        "set" | "vary" => Values::Keys,
        _ => return None,
    })
}

/// The command line with completers.
fn completing(command: Command) -> Command {
    let command = command.mut_args(|argument| match values(argument.get_id().as_str()) {
        Some(values) => argument.add(ArgValueCompleter::new(move |typed: &OsStr| {
            candidates(values, &typed.to_string_lossy())
        })),
        None => argument,
    });
    command.mut_subcommands(completing)
}

fn candidates(values: Values, typed: &str) -> Vec<CompletionCandidate> {
    match values {
        Values::Runs => paths(typed, is_run),
        Values::Toml => paths(typed, is_toml),
        Values::Recipes => {
            let built_in = belljar_images::built_in_recipes();
            let built_in = built_in.filter(|(name, _)| name.starts_with(typed));
            built_in
                .map(|(name, words)| CompletionCandidate::new(name).help(Some(words.into())))
                .chain(paths(typed, is_recipe))
                .collect()
        }
        Values::Keys => schema::keys()
            .into_iter()
            .map(|key| format!("{key}="))
            .filter(|key| key.starts_with(typed))
            .map(CompletionCandidate::new)
            .collect(),
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "toml") && path.is_file()
}

/// True for image recipes, archives of container images and folders of root file systems.
fn is_recipe(path: &Path) -> bool {
    let is_archive = || {
        path.extension()
            .is_some_and(|it| it == "tar" || it == "sif")
    };
    let says_so = || {
        let small = fs::metadata(path).is_ok_and(|data| data.len() <= MOST_BYTES);
        let text = small.then(|| fs::read_to_string(path).ok()).flatten();
        let table = text.and_then(|text| text.parse::<toml::Table>().ok());
        table.is_some_and(|table| !table.contains_key("workload") && !table.contains_key("jobs"))
    };
    is_toml(path) && says_so() || path.is_file() && is_archive()
}

/// Paths that begin with the typed text: matching ones, and folders that may contain some.
fn paths(typed: &str, is_wanted: impl Fn(&Path) -> bool) -> Vec<CompletionCandidate> {
    let (above, start) = match typed.rfind('/') {
        Some(at) => typed.split_at(at + 1),
        None => ("", typed),
    };
    let folder = match above {
        "" => PathBuf::from("."),
        above => PathBuf::from(above),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries.take(MOST_ENTRIES) {
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let is_hidden = name.starts_with('.') && !start.starts_with('.');
        if !name.starts_with(start) || is_hidden {
            continue;
        }
        let path = entry.path();
        if is_wanted(&path) {
            found.push(format!("{above}{name}"));
        } else if path.is_dir() {
            found.push(format!("{above}{name}/"));
        }
    }
    found.sort();
    found.into_iter().map(CompletionCandidate::new).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn arguments_that_have_values_exist() {
        let mut known = std::collections::BTreeSet::new();
        let mut all = vec![crate::Arguments::command()];
        while let Some(command) = all.pop() {
            let arguments = command.get_arguments();
            known.extend(arguments.map(|argument| argument.get_id().to_string()));
            all.extend(command.get_subcommands().cloned());
        }
        for name in [
            "directory",
            "directories",
            "trace",
            "traces",
            "folders",
            "runs",
            "other",
            "run_a",
            "run_b",
            "scenario",
            "mix",
            "recipe",
            "image",
            "set",
            "vary",
        ] {
            assert!(known.contains(name), "no command has {name}: {known:?}");
            assert!(values(name).is_some());
        }
    }

    #[test]
    fn recipes_and_keys_are_those_that_start_so() {
        let words = |values, typed| -> Vec<String> {
            let all = candidates(values, typed).into_iter();
            all.map(|it| it.get_value().to_string_lossy().into_owned())
                .collect()
        };
        let recipes = words(Values::Recipes, "bookworm-m");
        assert!(
            recipes.contains(&"bookworm-mpich".to_owned()),
            "{recipes:?}"
        );
        assert!(recipes.iter().all(|name| name.starts_with("bookworm-m")));
        let keys = words(Values::Keys, "network.la");
        assert_eq!(keys, ["network.latency="]);
        assert!(words(Values::Keys, "trace.fr").contains(&"trace.frames=".to_owned()));
    }
}
