//! Messages about errors in the text of recipes and scenarios, for their authors: the parser's own
//! messages use Rust's types. Long values and lines are shortened. Called wherever recipes and scenarios
//! are read.

/// Longest value of the user's text that is shown, in characters.
const LONGEST_VALUE: usize = 60;

/// Longest line of a file that is shown.
const LONGEST_LINE: usize = 160;

/// Minimum similarity of a suggested name, from 0 to 1.
const NEAR: f64 = 0.6;

/// Describes the error in several lines, with its position if the parser knows it.
pub fn in_words(error: &toml::de::Error) -> String {
    let told = error.to_string();
    let lines = told.lines().map(|line| {
        let words = mismatch(line).or_else(|| unknown(line));
        words.unwrap_or_else(|| short(line, LONGEST_LINE))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Rewrites a line such as "invalid type: integer `-1`, expected u32"; `None` for others.
fn mismatch(line: &str) -> Option<String> {
    let mismatch = ["invalid type: ", "invalid value: "];
    let rest = mismatch.iter().find_map(|start| line.strip_prefix(start))?;
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    let found = found
        .replace("sequence", "a list")
        .replace("map", "a table");
    Some(format!(
        "{} where {} is wanted",
        short(&found, LONGEST_VALUE),
        kind(wanted)
    ))
}

/// Rewrites a line such as "unknown field `cuont`, expected one of `count`, `name`"; `None` for others.
fn unknown(line: &str) -> Option<String> {
    let kinds = [("unknown field ", "key"), ("unknown variant ", "value")];
    let (rest, kind) = kinds
        .iter()
        .find_map(|(start, kind)| Some((line.strip_prefix(start)?, kind)))?;
    let (found, expected) = rest.split_once(", ")?;
    let found = found.trim_matches('`');
    let names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let found_words = short(found, LONGEST_VALUE);
    if names.is_empty() {
        return Some(format!(
            "unknown {kind} `{found_words}`; there is none here"
        ));
    }
    if let Some(near) = nearest(found, names.iter().copied()) {
        return Some(format!(
            "unknown {kind} `{found_words}`; did you mean `{near}`?"
        ));
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Some(format!(
        "unknown {kind} `{found_words}`; known: {}",
        names.join(", ")
    ))
}

/// The name closest to `found`, if any is similar enough.
#[must_use]
pub fn nearest<'n>(found: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // The time of a comparison grows with the length of the name.
    if found.len() > LONGEST_VALUE {
        return None;
    }
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let found = plain(found);
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&found, &plain(name));
    names
        .into_iter()
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Describes a type of Rust or of the parser.
fn kind(wanted: &str) -> String {
    let whole = |most: u64| format!("a whole number from 0 to {most}");
    match wanted {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        // Integers in TOML are signed.
        "u64" | "usize" => whole(i64::MAX as u64),
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" => "text in quotes".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other if other.starts_with("a nonzero ") => "a whole number from 1 on".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns `text`, with its middle omitted if it is long.
fn short(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let start: String = text.chars().take(longest / 2).collect();
    let end: String = text.chars().skip(length - longest / 4).collect();
    format!("{start}...{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "what a wrong text would be read into")]
    struct Inner {
        count: u32,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "what a wrong text would be read into")]
    struct Outer {
        inner: Inner,
        names: Vec<String>,
        on: bool,
    }

    fn refused(text: &str) -> String {
        in_words(&toml::from_str::<Outer>(text).unwrap_err())
    }

    #[test]
    fn kinds_of_values_are_named_as_people_do() {
        for (text, words) in [
            (
                "inner = { count = -1 }",
                "integer `-1` where a whole number from 0 to 4294967295 is",
            ),
            ("inner = 5", "integer `5` where a table is wanted"),
            ("names = 5", "integer `5` where a list is wanted"),
            ("names = [5]", "integer `5` where text in quotes is wanted"),
            ("on = []", "a list where true or false is wanted"),
        ] {
            let told = refused(text);
            assert!(told.contains(words), "{told}");
            assert!(told.contains("line 1"), "{told}");
        }
    }

    #[test]
    fn unknown_keys_are_named_with_the_one_that_was_meant() {
        for (text, words) in [
            (
                "inner = { cuont = 1 }",
                "unknown key `cuont`; did you mean `count`?",
            ),
            (
                "inner = { Count = 1 }",
                "unknown key `Count`; did you mean `count`?",
            ),
            ("inner = { x = 1 }", "unknown key `x`; known: `count`"),
        ] {
            let told = refused(text);
            assert!(told.contains(words), "{told}");
        }
        assert_eq!(
            nearest("bandwith", ["latency", "bandwidth"]),
            Some("bandwidth")
        );
        assert_eq!(nearest(&"x".repeat(1000), ["latency"]), None);
    }

    #[test]
    fn long_values_and_lines_are_cut() {
        let told = refused(&format!("on = {:?}", "x".repeat(100_000)));
        assert!(told.len() < 1000, "{} bytes", told.len());
        assert!(told.contains("where true or false is wanted"), "{told}");
    }
}
