//! Sources of packages: the host's apt sources if they carry the requested suite.
//!
//! Otherwise, Debian's public mirrors. Of the host's other settings, only those for access to mirrors are
//! used. Called by `bootstrap` and `fetch`.

use std::fmt::Write as _;

use crate::command::{self, CommandError};

/// Debian's public mirrors, for hosts whose own sources carry another suite.
const FALLBACK: [(&str, &str); 3] = [
    ("http://deb.debian.org/debian", ""),
    ("http://deb.debian.org/debian", "-updates"),
    ("http://deb.debian.org/debian-security", "-security"),
];

/// Debian's keys, from the package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The host's apt settings for access to its mirrors, which apt in a build must share.
const SHARED_OPTIONS: [&str; 2] = ["Acquire::http::Proxy", "Acquire::https::Proxy"];

/// A sources.list for `suite`, for these kinds of packages: `deb` and `deb-src`.
pub(crate) fn list(suite: &str, kinds: &[&str]) -> Result<String, CommandError> {
    let mut apt = command::new("apt-get");
    let format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
    apt.args(["indextargets", "--format", format, "Created-By: Packages"]);
    Ok(from_targets(suite, kinds, &command::output(&mut apt)?))
}

/// The host's apt settings for access to its mirrors: keys and values.
pub(crate) fn shared() -> Vec<(&'static str, String)> {
    let read = |key: &'static str| {
        let mut apt = command::new("apt-config");
        apt.args(["dump", "--format", "%v%n", key]);
        let value = command::output(&mut apt).ok()?.trim().to_owned();
        (!value.is_empty()).then_some((key, value))
    };
    SHARED_OPTIONS.into_iter().filter_map(read).collect()
}

/// Options for mmdebstrap with these settings.
pub(crate) fn options() -> Vec<String> {
    let option = |(key, value)| format!("--aptopt={key} \"{value}\"");
    shared().into_iter().map(option).collect()
}

fn from_targets(suite: &str, kinds: &[&str], targets: &str) -> String {
    let ours = |release: &str| {
        ["", "-updates", "-security"]
            .iter()
            .any(|pocket| release == format!("{suite}{pocket}"))
    };
    let mut list = String::new();
    let mut base = false;
    for line in targets.lines() {
        let [uri, release, component] = line.split(' ').collect::<Vec<_>>()[..] else {
            continue;
        };
        if ours(release) {
            base |= release == suite;
            add(&mut list, kinds, uri, release, component);
        }
    }
    if !base {
        list.clear();
        for (uri, pocket) in FALLBACK {
            add(&mut list, kinds, uri, &format!("{suite}{pocket}"), "main");
        }
    }
    list
}

fn add(list: &mut String, kinds: &[&str], uri: &str, release: &str, component: &str) {
    for kind in kinds {
        let _ = writeln!(
            list,
            "{kind} [signed-by={KEYRING}] {uri} {release} {component}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &[&str] = &["deb", "deb-src"];

    #[test]
    fn the_host_s_mirrors_are_used_for_its_own_suite() {
        let targets = "http://mirror.example/debian/ bookworm main\n\
                       http://mirror.example/debian/ bookworm-updates main\n\
                       http://other.example/tools/ nodistro main\n";
        let list = from_targets("bookworm", BOTH, targets);
        assert_eq!(list.lines().count(), 4);
        assert!(
            list.lines()
                .all(|line| line.contains("http://mirror.example/debian/ bookworm"))
        );
        assert!(list.contains("\ndeb-src "));
    }

    #[test]
    fn another_suite_comes_from_debian_itself() {
        let list = from_targets(
            "bookworm",
            BOTH,
            "http://archive.example/ubuntu/ noble main\n",
        );
        assert!(list.contains("http://deb.debian.org/debian bookworm main"));
        assert!(list.contains("http://deb.debian.org/debian-security bookworm-security main"));
        assert!(!list.contains("noble"));
    }

    #[test]
    fn a_pocket_alone_is_not_the_suite() {
        let list = from_targets(
            "bookworm",
            BOTH,
            "http://mirror.example/ bookworm-security main\n",
        );
        assert!(!list.contains("mirror.example"));
    }
}
