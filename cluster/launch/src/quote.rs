//! Words for shells.
//!
//! Whatever is in a word, a shell takes it as one word with just these bytes. Called for batch scripts and
//! for what ssh has run on a host.

/// As one word for a shell, whatever is in it.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn words_stay_what_they_are() {
        for word in [
            "",
            "a b",
            "it's",
            "$(id) `id` \\ \" ; & * ~",
            "--x",
            "'",
            "''\n'",
        ] {
            let script = format!("printf %s {}", quoted(word));
            let output = Command::new("/bin/sh").args(["-c", &script]).output();
            assert_eq!(output.unwrap().stdout, word.as_bytes());
        }
    }
}
