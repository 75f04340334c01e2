//! The lists on the page `docs/testing.md`, which are those of the code: groups of tests, and fuzz targets.
//!
//! Tests alone. `BELLJAR_BLESS=1 cargo test -p xtask testing_page` rewrites them.

use std::fs;

use clap::ValueEnum;

use crate::fuzz::Target;
use crate::groups::Group;

/// A table of all values of an enumeration, with the text of their doc comments.
fn table<T: ValueEnum>(title: &str) -> String {
    let mut text = format!("| {title} | tests |\n|---|---|\n");
    for value in T::value_variants() {
        let value = value.to_possible_value().expect("no value is skipped");
        let help = value.get_help().map(ToString::to_string);
        let help = help.expect("each value has a doc comment");
        text.push_str(&format!("| `{}` | {help} |\n", value.get_name()));
    }
    text
}

/// Replaces the lines between the markers of a list.
fn with_list(page: &str, name: &str, list: &str) -> String {
    let begin = format!("<!-- {name}: generated;");
    let end = format!("<!-- end of {name} -->");
    let at = page.find(&begin).expect("the list has a first marker");
    let first = at + page[at..].find('\n').expect("it is a line") + 1;
    let last = page.find(&end).expect("the list has a last marker");
    format!("{}{list}{}", &page[..first], &page[last..])
}

#[test]
fn lists_of_groups_and_targets_are_those_of_the_code() {
    let path = crate::root().join("docs/testing.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let new = with_list(&page, "groups", &table::<Group>("group"));
    let new = with_list(&new, "targets", &table::<Target>("target"));
    if std::env::var_os("BELLJAR_BLESS").is_some() {
        fs::write(&path, &new).expect("the page can be written");
    } else {
        assert!(
            page == new,
            "the lists are old: BELLJAR_BLESS=1 rewrites them"
        );
    }
}

#[test]
fn targets_are_those_of_the_fuzz_crate() {
    let source = fs::read_to_string(crate::root().join("fuzz/src/lib.rs"));
    let source = source.expect("the fuzz crate is there");
    let names = source.lines().filter_map(|line| {
        let name = line.trim().strip_prefix("name: \"")?;
        name.strip_suffix("\",")
    });
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    // The one target that compares with the host's processor is a test of the engine.
    names.push("engine".to_owned());
    let targets = Target::value_variants().iter();
    let targets = targets.filter_map(ValueEnum::to_possible_value);
    let mut targets: Vec<String> = targets.map(|it| it.get_name().to_owned()).collect();
    names.sort();
    targets.sort();
    assert_eq!(names, targets);
}

#[test]
fn a_list_is_replaced_between_its_markers() {
    let page = "a\n<!-- x: generated; by -->\nold\n<!-- end of x -->\nb\n";
    let new = with_list(page, "x", "new\n");
    assert_eq!(new, page.replace("old", "new"));
}
