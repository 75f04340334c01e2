//! `docs/` as a book: its table of contents has every page once, and relative links lead to files and to headings in them.
//!
//! Tests alone.

use std::fs;
use std::path::{Path, PathBuf};

/// Pages outside of the book whose links are checked, too.
const OTHERS: [&str; 2] = ["README.md", "CONTRIBUTING.md"];

/// The book's table of contents.
const SUMMARY: &str = "SUMMARY.md";

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of the book's pages in order, its table of contents left out.
fn pages(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).expect("docs/ can be read") {
        let name = entry.expect("docs/ can be read").file_name();
        let name = name.into_string().expect("names in docs/ are text");
        if name.ends_with(".md") && name != SUMMARY {
            names.push(name);
        }
    }
    names.sort();
    names
}

/// The files that a page's relative links name, without anchors. Text in code is no link.
fn links(text: &str) -> Vec<String> {
    let file = |target: String| target.split('#').next().unwrap_or_default().to_owned();
    let files = targets(text).into_iter().map(file);
    files.filter(|file| !file.is_empty()).collect()
}

/// The targets of a page's relative links: a file, an anchor, or both.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            take_links(line, &mut found);
        }
    }
    found
}

/// The anchors of a page: its headings in lower case, with hyphens for blanks, and without punctuation.
fn anchors(text: &str) -> Vec<String> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#').strip_prefix(' ');
        if let (Some(title), false, true) = (title, in_code, line.starts_with('#')) {
            let kept = title.trim().chars().filter_map(|letter| match letter {
                ' ' => Some('-'),
                '-' | '_' => Some(letter),
                _ => letter.is_alphanumeric().then_some(letter),
            });
            found.push(kept.collect::<String>().to_lowercase());
        }
    }
    found
}

fn take_links(line: &str, found: &mut Vec<String>) {
    let plain: String = line.split('`').step_by(2).collect();
    for end in plain.split("](").skip(1) {
        let target = end.split(')').next().unwrap_or_default();
        if !target.is_empty() && !target.contains(':') {
            found.push(target.to_owned());
        }
    }
}

#[test]
fn every_page_is_in_the_table_of_contents_once() {
    let folder = crate::root().join("docs");
    let mut listed = links(&read(&folder.join(SUMMARY)));
    listed.sort();
    assert_eq!(listed, pages(&folder));
}

#[test]
fn every_relative_link_leads_to_a_file() {
    let root = crate::root();
    let book = root.join("docs");
    let mut files: Vec<PathBuf> = OTHERS.iter().map(|name| root.join(name)).collect();
    files.extend(pages(&book).iter().map(|name| book.join(name)));
    for file in &files {
        let folder = file.parent().expect("every file is in a folder");
        for link in links(&read(file)) {
            let there = folder.join(&link).exists();
            assert!(there, "{}: there is no {link}", file.display());
        }
    }
}

#[test]
fn every_anchor_is_a_heading() {
    let root = crate::root();
    let book = root.join("docs");
    let mut files: Vec<PathBuf> = OTHERS.iter().map(|name| root.join(name)).collect();
    files.extend(pages(&book).iter().map(|name| book.join(name)));
    let mut wrong = Vec::new();
    for file in &files {
        let folder = file.parent().expect("every file is in a folder");
        let text = read(file);
        for target in targets(&text) {
            let Some((name, anchor)) = target.split_once('#') else {
                continue;
            };
            let page = match name {
                "" => text.clone(),
                name => read(&folder.join(name)),
            };
            if !anchors(&page).iter().any(|known| known == anchor) {
                wrong.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "no headings for {wrong:#?}");
}

#[test]
fn headings_become_anchors() {
    let text = "# A b\n```\n# no\n```\n## A run: `c d`, e-f's\n#no\n";
    assert_eq!(anchors(text), ["a-b", "a-run-c-d-e-fs"]);
}

#[test]
fn links_in_code_and_to_other_places_are_left_out() {
    let text = "[a](b.md#c) `[d](e)` [f](#g) [h](https://i)\n```\n[j](k)\n```\n[`l`](m)";
    assert_eq!(links(text), ["b.md", "m"]);
}
