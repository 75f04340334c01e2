//! Files that a script names.
//!
//! A word of the script is a path, a folder or a pattern. A variable in a word stands for any text, so that `input_$SLURM_ARRAY_TASK_ID.dat` names the files of all tasks. Called when the
//! files of a job are collected.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Files that a script may name.
const MOST_FILES: usize = 10_000;

/// Files below this folder that a script or its command line names: by path, by folder, or by pattern.
pub(super) fn named_files(text: &str, arguments: &[String]) -> Result<Vec<PathBuf>> {
    let ends = |c: char| c.is_whitespace() || "\"'`;|&()<>=".contains(c);
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let text: String = lines.map(|line| without_variables(line) + "\n").collect();
    let words = text.split(ends).flat_map(candidates);
    let words = words.chain(arguments.iter().map(String::as_str));
    let mut found = Vec::new();
    for word in words.filter(|word| is_below(Path::new(word))) {
        let path = Path::new(word);
        if word.contains(['*', '?', '[']) {
            let matches = glob::glob(word)
                .into_iter()
                .flatten()
                .filter_map(Result::ok);
            found.extend(matches.filter(|path| path.is_file()));
            within_limit(&found, path)?;
        } else if path.components().all(|part| part == Component::CurDir) {
            // The folder itself, as in `cd .`.
        } else {
            take_below(path, &mut found)?;
        }
        found.sort();
        found.dedup();
    }
    Ok(found)
}

/// True for a relative path that stays below this folder.
fn is_below(path: &Path) -> bool {
    let mut parts = path.components();
    path.is_relative() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// A line with `*` in the place of each variable: `$NAME`, `${NAME...}`, `$1`. Of `$(...)`, the words are left.
fn without_variables(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = match rest.chars().next() {
            Some('(') | None => {
                out.push(' ');
                continue;
            }
            Some('{') => rest.find('}').map_or(rest.len(), |end| end + 1),
            Some(c) if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            Some(c) => c.len_utf8(),
        };
        out.push('*');
        rest = &rest[end..];
    }
    out + rest
}

/// Candidates of a word: the word itself, if it has a letter or digit, and its rest after variables and `..` at its begin, which may lead back to this folder: as in
/// `$SLURM_SUBMIT_DIR/input`, and in `../input` after `cd $SLURM_JOB_ID`.
fn candidates(word: &str) -> impl Iterator<Item = &str> {
    let names = |word: &&str| word.contains(|c: char| c.is_alphanumeric());
    std::iter::successors(Some(word), |word| after_a_folder(word)).filter(names)
}

/// The rest of a word after a variable, `..` or `.` at its begin.
fn after_a_folder(word: &str) -> Option<&str> {
    let mut begins = ["*/", "../", "./"].into_iter();
    begins.find_map(|begin| word.strip_prefix(begin))
}

/// Adds the file at `path`, or all files of the folder there.
fn take_below(path: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        found.push(path.to_owned());
    } else if path.is_dir() {
        let entries =
            fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
        for entry in entries {
            take_below(&entry?.path(), found)?;
        }
    }
    within_limit(found, path)
}

/// Refuses more files than are brought.
fn within_limit(found: &[PathBuf], path: &Path) -> Result<()> {
    if found.len() > MOST_FILES {
        bail!(
            "the script names {}, which has more than {MOST_FILES} files with those named before; pack them into an archive, or give the script another folder",
            path.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_stand_for_any_text() {
        for (line, expected) in [
            (
                "./app --input data_${SLURM_ARRAY_TASK_ID}.inp",
                "./app --input data_*.inp",
            ),
            ("cp $SLURM_SUBMIT_DIR/in.lj $1", "cp */in.lj *"),
            ("x=${a:-b}/c; y=$(cat list.txt)", "x=*/c; y= (cat list.txt)"),
            ("echo $? ${open", "echo * *"),
            ("price 5$", "price 5 "),
        ] {
            assert_eq!(without_variables(line), expected);
        }
    }

    #[test]
    fn words_without_letters_name_nothing() {
        let of = |word| candidates(word).collect::<Vec<_>>();
        assert_eq!(of("*/in.lj"), ["*/in.lj", "in.lj"]);
        let back = ["../../bin/app", "../bin/app", "bin/app"];
        assert_eq!(of("../../bin/app"), back);
        assert_eq!(of("data_*.inp"), ["data_*.inp"]);
        assert_eq!(of("*"), [""; 0]);
        assert_eq!(of("*/*.*"), [""; 0]);
        assert_eq!(of(""), [""; 0]);
    }
}
