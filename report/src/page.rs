//! The page: its frame, style and script, and the data as elements that browsers do not execute.
//!
//! No data of a run is written as HTML: all of it is packed, and the script shows it as text. A Content Security Policy allows
//! this page's own script and style by their digests, and no network. Used by [`write`](crate::Report::write).

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The frame: the page before any script runs.
const FRAME: &str = include_str!("../page/frame.html");
const STYLES: [&str; 2] = [
    include_str!("../page/vendor/uPlot.min.css"),
    include_str!("../page/style.css"),
];
const CHARTS: &str = include_str!("../page/vendor/uPlot.iife.min.js");
const CHARTS_LICENSE: &str = include_str!("../page/vendor/uPlot.LICENSE");
/// Modules, each after the modules that it imports.
const MODULES: [&str; 23] = [
    include_str!("../page/script/data/units.js"),
    include_str!("../page/script/data/binary.js"),
    include_str!("../page/script/data/colours.js"),
    include_str!("../page/script/data/elements.js"),
    include_str!("../page/script/data/tables.js"),
    include_str!("../page/script/data/comparing.js"),
    include_str!("../page/script/timeline/levels.js"),
    include_str!("../page/script/timeline/pages.js"),
    include_str!("../page/script/timeline/drawing.js"),
    include_str!("../page/script/timeline/raster.js"),
    include_str!("../page/script/timeline/classes.js"),
    include_str!("../page/script/timeline/span.js"),
    include_str!("../page/script/timeline/timeline.js"),
    include_str!("../page/script/timeline/controls.js"),
    include_str!("../page/script/sections/charts.js"),
    include_str!("../page/script/sections/matrix.js"),
    include_str!("../page/script/sections/flames.js"),
    include_str!("../page/script/sections/sections.js"),
    include_str!("../page/script/sections/loops.js"),
    include_str!("../page/script/sections/waits.js"),
    include_str!("../page/script/sections/network.js"),
    include_str!("../page/script/sections/overview.js"),
    include_str!("../page/script/main.js"),
];

/// Joins the modules: imports and exports are removed, as all names are unique.
fn script() -> String {
    let mut script = String::new();
    for line in MODULES.iter().flat_map(|module| module.lines()) {
        if !line.starts_with("import ") && !line.starts_with("// @ts-check") {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script
}

/// Returns the digest by which a policy allows an element.
fn digest(content: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(content)))
}

/// Writes the page around its data.
///
/// # Errors
/// Returns the errors of `out`.
pub(crate) fn write(
    out: &mut dyn Write,
    data: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let style = STYLES.concat();
    let charts = format!("/*\n{CHARTS_LICENSE}*/\n{CHARTS}");
    let script = script();
    let policy = format!(
        "default-src 'none'; script-src {} {}; style-src {}; base-uri 'none'; form-action 'none'",
        digest(&charts),
        digest(&script),
        digest(&style)
    );
    let head = FRAME.replace("POLICY", &policy).replace("STYLE", &style);
    let (head, tail) = head.split_once("DATA").unwrap_or((&head, ""));
    out.write_all(head.as_bytes())?;
    data(out)?;
    writeln!(out, "<script>{charts}</script>")?;
    writeln!(out, "<script type=\"module\">{script}</script>")?;
    out.write_all(tail.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_allows_what_it_has_and_nothing_else() {
        let mut page = Vec::new();
        write(&mut page, |out| writeln!(out, "<p>data</p>")).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("default-src 'none'"));
        for (begin, end) in [
            ("<style>", "</style>"),
            ("<script>", "</script>"),
            ("<script type=\"module\">", "</script>"),
        ] {
            let (_, rest) = page.split_once(begin).expect(begin);
            let (content, _) = rest.split_once(end).expect(end);
            assert!(page.contains(&digest(content)), "{begin} is not allowed");
        }
        assert!(!page.contains("https://cdn") && !page.contains("src=\"http"));
        assert!(
            page.contains("Permission is hereby granted"),
            "the library's licence"
        );
    }

    #[test]
    fn modules_are_one_script() {
        let script = script();
        for line in script.lines() {
            assert!(
                !line.starts_with("import ") && !line.starts_with("export "),
                "{line}"
            );
        }
        assert!(!script.contains("</script") && !script.contains("innerHTML"));
        // Each name has one meaning, as all of them are in one scope.
        let mut names: Vec<&str> = script
            .lines()
            .filter_map(|line| {
                let line = line.strip_prefix("async ").unwrap_or(line);
                let mut words =
                    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
                let kind = words.next()?;
                ["function", "const", "let", "class"]
                    .contains(&kind)
                    .then(|| words.find(|word| !word.is_empty()))?
            })
            .collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }
}
