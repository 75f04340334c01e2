//! Words for shells.
//!
//! A shell reads the result as one word with exactly these bytes. Called for batch scripts and for
//! commands on hosts of ssh.

/// Quotes any word for a shell.
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
