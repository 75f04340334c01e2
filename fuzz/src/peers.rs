//! Peers of a run: its other hosts, and clients of its control socket; and recipes, which users
//! receive. No input may end the program that reads it. The list of targets in `lib.rs` names these
//! functions.

use std::path::Path;
use std::sync::Arc;

use belljar_cluster::hosts;
use belljar_cluster::observe::control::{self, Mailbox};
use belljar_images::Recipe;

/// Number of nodes of the run.
const NODES: u32 = 4;

/// Reads the bytes of a message between hosts. A message must be unchanged after it is written and
/// read again.
pub(crate) fn message(data: &[u8]) {
    let Ok(written) = hosts::reread(data) else {
        return;
    };
    let again = hosts::reread(&written).expect("what was written is read");
    assert_eq!(again, written, "a message changes as it is passed on");
}

/// Messages of every kind.
pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    hosts::samples()
}

/// Answers a client that sends these bytes; every answer is one line.
pub(crate) fn control(data: &[u8]) {
    let mailbox = Arc::new(Mailbox::default());
    // A run that is ending and does not answer requests.
    mailbox.close();
    let folder = tempfile::tempdir().expect("the host has a folder for files");
    let answers = control::answers(folder.path(), NODES, &mailbox, data).expect("a folder opens");
    let lines = answers.split(|&byte| byte == b'\n').count();
    assert!(
        answers.ends_with(b"\n") && lines >= 2,
        "at least the greeting is a line"
    );
}

/// Requests of every kind.
pub(crate) fn control_seeds() -> Vec<Vec<u8>> {
    let requests = "\"look\"\n{\"type\":{\"node\":1,\"bytes\":[108,115,10]}}\n\"checkpoint\"\n\
         {\"pause\":true}\n{\"pace\":0.5}\n{\"pace\":null}\n{\"pause\":false}\n";
    let alone = requests
        .lines()
        .map(|line| format!("{line}\n").into_bytes());
    let all = requests.as_bytes().to_vec();
    alone.chain([all]).collect()
}

/// Reads a recipe.
pub(crate) fn recipe(data: &[u8]) {
    // A recipe may name any folder, and reading all of this host would take too long.
    let text = String::from_utf8_lossy(data);
    let table = text.parse::<toml::Table>().unwrap_or_default();
    let sources = table.get("source").and_then(toml::Value::as_array);
    let names_source =
        sources.is_some_and(|all| all.iter().any(|source| source.get("path").is_some()));
    if names_source || table.contains_key("root") {
        return;
    }
    let folder = tempfile::tempdir().expect("the host has a folder for files");
    let path = folder.path().join("image.toml");
    std::fs::write(&path, data).expect("the host stores a file");
    // Errors are expected; only panics are defects.
    if let Ok(recipe) = Recipe::load(&path) {
        assert_eq!(recipe.key(), recipe.key());
        let lock = recipe.lock_path().expect("a recipe in a file has a lock");
        assert!(lock.starts_with(folder.path()));
        assert_eq!(Path::new(recipe.name()).components().count(), 1);
    }
}

/// The recipes of the documentation.
pub(crate) fn recipe_seeds() -> Vec<Vec<u8>> {
    const FILES: [&str; 2] = [
        include_str!("../../images/bookworm-mpich.toml"),
        include_str!("../../images/bookworm-smp.toml"),
    ];
    FILES.map(|file| file.as_bytes().to_vec()).to_vec()
}
