//! The share of sentences that are hard to read, in comments of crates and in pages of the documentation.
//!
//! A sentence counts if it has a listed pronoun or phrase without a concrete referent (`WORDS`), or if it is a statement
//! that opens with a question word. Well-known codebases have 0.5 to 2.2 %. At most 3 % of the sentences of a crate or page may
//! count; `xtask/prose.toml` lists older ones with more, and their shares never rise. Called by `cargo xtask prose` and by the
//! lint group.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use clap::Args;
use regex::Regex;

/// The greatest share, in percent.
const LIMIT: f64 = 3.0;
/// Shares of older parts that exceed the limit.
const LISTED: &str = "xtask/prose.toml";
/// Shorter sentences are not counted, in words.
const FEWEST_WORDS: usize = 3;
/// Shorter parts, in sentences, may have one that counts.
const FEW_SENTENCES: usize = 34;

static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let words = r"what|whoever|whatever|whom|of which|nobody|somebody|anybody|is told|tells|are told|had none|none of|those that|that of";
    Regex::new(&format!(r"(?i)\b(?:{words})\b")).expect("a pattern")
});
static OPENING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:What|Which|Who|Whose|Whoever|Where|Whether|How|Why)\b").expect("a pattern")
});
static COMMENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\s*//[/!]?\s?(.*)").expect("a pattern"));
static CODE_BLOCK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)```.*?```").expect("a pattern"));

#[derive(Args)]
pub(crate) struct Arguments {
    /// Print the sentences that count, below this path.
    #[arg(long, value_name = "PATH")]
    list: Option<String>,
    /// Lower the listed shares to the present ones.
    #[arg(long)]
    write: bool,
}

/// Sentences of one crate or page.
#[derive(Default)]
struct Prose {
    sentences: usize,
    riddles: Vec<(String, String)>,
}

impl Prose {
    /// Percentage of the sentences that count.
    fn share(&self) -> f64 {
        100.0 * self.riddles.len() as f64 / self.sentences.max(1) as f64
    }

    fn add(&mut self, path: &str, text: &str) {
        for sentence in sentences(text) {
            self.sentences += 1;
            if is_riddle(&sentence) {
                self.riddles.push((path.to_owned(), sentence));
            }
        }
    }

    /// True if the share is above the limit and above the listed share.
    fn exceeds(&self, listed: Option<f64>) -> bool {
        let few = self.sentences < FEW_SENTENCES && self.riddles.len() <= 1;
        !few && self.share() > LIMIT.max(listed.unwrap_or(0.0))
    }
}

/// Splits a text after full stops, question marks and exclamation marks.
fn sentences(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let mut end = |words: &mut Vec<&str>| {
        if words.len() >= FEWEST_WORDS {
            all.push(words.join(" "));
        }
        words.clear();
    };
    for word in text.split_whitespace() {
        words.push(word);
        if word.ends_with(['.', '!', '?']) {
            end(&mut words);
        }
    }
    end(&mut words);
    all
}

fn is_riddle(sentence: &str) -> bool {
    let is_statement = !sentence.ends_with('?');
    WORDS.is_match(sentence) || (is_statement && OPENING.is_match(sentence))
}

/// Texts of the blocks of comments of a source.
fn comments(source: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in source.lines() {
        let last = blocks.last_mut().expect("a block");
        match COMMENT.captures(line) {
            Some(found) => {
                last.push_str(&found[1]);
                last.push('\n');
            }
            None if !last.is_empty() => blocks.push(String::new()),
            None => {}
        }
    }
    blocks
}

/// The text of a page without code blocks, tables and headings.
fn page(text: &str) -> String {
    let text = CODE_BLOCK.replace_all(text, "");
    let lines = text.lines().filter(|line| !line.starts_with(['|', '#']));
    lines.collect::<Vec<_>>().join("\n")
}

/// The folder of the crate that a source belongs to, relative to the project's top folder.
fn crate_of(path: &Path) -> PathBuf {
    let above = path.ancestors().skip(1);
    let mut folders = above.filter(|it| crate::root().join(it).join("Cargo.toml").is_file());
    folders.next().unwrap_or(Path::new(".")).to_owned()
}

/// Reads all sources and pages in git's index.
fn read() -> Result<BTreeMap<String, Prose>> {
    let output = Command::new("git")
        .args(["ls-files", "*.rs", "*.md"])
        .current_dir(crate::root())
        .output()
        .context("cannot start git")?;
    let files = String::from_utf8(output.stdout).context("paths are not UTF-8")?;
    let mut parts: BTreeMap<String, Prose> = BTreeMap::new();
    for path in files.lines() {
        let Ok(text) = fs::read_to_string(crate::root().join(path)) else {
            continue;
        };
        if path.ends_with(".md") {
            parts
                .entry(path.to_owned())
                .or_default()
                .add(path, &page(&text));
            continue;
        }
        let part = crate_of(Path::new(path)).display().to_string();
        let prose = parts.entry(part).or_default();
        for block in comments(&text) {
            prose.add(path, &block);
        }
    }
    parts.retain(|_, prose| prose.sentences > 0);
    Ok(parts)
}

/// Reads the listed shares.
fn listed() -> BTreeMap<String, f64> {
    let text = fs::read_to_string(crate::root().join(LISTED)).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let (part, share) = line.split_once('=')?;
        let part = part.trim().trim_matches('"').to_owned();
        Some((part, share.trim().parse().ok()?))
    });
    lines.collect()
}

/// Prints the shares, or the sentences that count.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let parts = read()?;
    if let Some(start) = &arguments.list {
        let riddles = parts.values().flat_map(|prose| &prose.riddles);
        for (path, sentence) in riddles.filter(|(path, _)| path.starts_with(start)) {
            println!("{path}: {sentence}");
        }
        return Ok(());
    }
    for (part, prose) in &parts {
        let (share, sentences) = (prose.share(), prose.sentences);
        println!("{part:<34} {sentences:>6} sentences, {share:>5.1} % hard to read");
    }
    match arguments.write {
        true => write(&parts),
        false => check(),
    }
}

/// Writes the listed shares, none above its former one.
fn write(parts: &BTreeMap<String, Prose>) -> Result<()> {
    let former = listed();
    let mut text = String::from(
        "# Shares of sentences that are hard to read, in percent, of crates and pages above the limit of 3 %. `cargo xtask prose --write` lowers them.\n",
    );
    for (part, prose) in parts.iter().filter(|(_, prose)| prose.exceeds(None)) {
        let share = (prose.share() * 10.0).ceil() / 10.0;
        let share = former.get(part).map_or(share, |before| before.min(share));
        let _ = writeln!(text, "\"{part}\" = {share:.1}");
    }
    let path = crate::root().join(LISTED);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Fails for crates and pages with a share above the limit, or above the listed one.
pub(crate) fn check() -> Result<()> {
    let (parts, listed) = (read()?, listed());
    let too_many = parts
        .iter()
        .filter(|(part, prose)| prose.exceeds(listed.get(*part).copied()));
    let lines: Vec<String> = too_many
        .map(|(part, prose)| {
            let most = listed.get(part).copied().unwrap_or(0.0).max(LIMIT);
            format!("{part}: {:.1} % of the sentences are hard to read; the limit is {most:.1} %; list them with: cargo xtask prose --list {part}", prose.share())
        })
        .collect();
    match lines.is_empty() {
        true => Ok(()),
        false => bail!("{}", lines.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_that_count_are_found() {
        for riddle in [
            "Label that whoever asks calls it by.",
            "Which of them is first.",
            "It knows what a call was given.",
        ] {
            assert!(is_riddle(riddle), "{riddle}");
        }
        for plain in [
            "Returns the first of them.",
            "Which one is first?",
            "A somewhat long queue.",
        ] {
            assert!(!is_riddle(plain), "{plain}");
        }
    }

    #[test]
    fn comments_and_pages_are_read_as_sentences() {
        let source = "//! One thing.\n//! Two things follow it. And\n//! three.\nfn code() {} // no block\n/// A fourth block here.\n";
        let all: Vec<String> = comments(source)
            .iter()
            .flat_map(|it| sentences(it))
            .collect();
        assert_eq!(all, ["Two things follow it.", "A fourth block here."]);
        let text = page(
            "# What it is\nA page has text.\n```\nwhat code\n```\n| what | table |\nMore text follows here.",
        );
        assert_eq!(
            sentences(&text),
            ["A page has text.", "More text follows here."]
        );
    }
}
