//! `docs/` as a book: its table of contents has every page once, and relative links lead to files.
//!
//! Tests alone. Anchors are not checked.

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
    let mut files = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            take_links(line, &mut files);
        }
    }
    files
}

fn take_links(line: &str, files: &mut Vec<String>) {
    let plain: String = line.split('`').step_by(2).collect();
    for end in plain.split("](").skip(1) {
        let target = end.split(')').next().unwrap_or_default();
        let file = target.split('#').next().unwrap_or_default();
        if !file.is_empty() && !file.contains(':') {
            files.push(file.to_owned());
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
fn links_in_code_and_to_other_places_are_left_out() {
    let text = "[a](b.md#c) `[d](e)` [f](#g) [h](https://i)\n```\n[j](k)\n```\n[`l`](m)";
    assert_eq!(links(text), ["b.md", "m"]);
}
