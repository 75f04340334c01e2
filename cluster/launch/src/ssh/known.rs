//! Files of known hosts, as `sshd(8)` describes them: patterns, hashed names, revoked keys.
//!
//! A line that cannot be read makes no host known, and nothing is ever written to these files. Called by
//! `login`, which continues only with a known key.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use wildmatch::WildMatch;

/// The result of looking up a host's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The key is known for the host.
    Known,
    /// No key of this type is known for the host.
    Unknown,
    /// Another key of this type is known, at this place.
    Changed(String),
    /// The key is revoked, at this place.
    Revoked(String),
}

/// The entries of all files.
#[derive(Debug, Default)]
pub(super) struct KnownHosts {
    entries: Vec<KnownHostEntry>,
}

#[derive(Debug)]
struct KnownHostEntry {
    /// File and line.
    place: String,
    revokes: bool,
    names: String,
    kind: String,
    key: Vec<u8>,
}

impl KnownHosts {
    /// Reads `files`; a missing one is empty.
    pub(super) fn read(files: &[PathBuf]) -> Self {
        let mut known = Self::default();
        for file in files {
            let text = std::fs::read(file).unwrap_or_default();
            known.add(&file.display().to_string(), &String::from_utf8_lossy(&text));
        }
        known
    }

    /// Adds a file's lines. Invalid lines make no host known.
    fn add(&mut self, file: &str, text: &str) {
        for (line, number) in text.lines().zip(1..) {
            self.entries
                .extend(KnownHostEntry::parse(line).map(|entry| KnownHostEntry {
                    place: format!("{file}:{number}"),
                    ..entry
                }));
        }
    }

    /// The types of the keys that are known for `host`, in the files' order.
    pub(super) fn kinds(&self, host: &str) -> Vec<&str> {
        let own = self.entries.iter().filter(|entry| !entry.revokes);
        let own = own.filter(|entry| entry.is_of(host));
        own.map(|entry| entry.kind.as_str()).collect()
    }

    /// Looks up the `key` of `host`, with the name that the files use.
    pub(super) fn judge(&self, host: &str, key: &[u8]) -> Verdict {
        let same = |entry: &&KnownHostEntry| entry.key == key;
        // A revocation applies to all hosts, as a leaked key can be used by anyone.
        let mut revoking = self.entries.iter().filter(|entry| entry.revokes);
        if let Some(entry) = revoking.find(same) {
            return Verdict::Revoked(entry.place.clone());
        }
        let own = || self.entries.iter().filter(|entry| !entry.revokes);
        let own = || own().filter(|entry| entry.is_of(host));
        if own().any(|entry| same(&entry)) {
            return Verdict::Known;
        }
        match own().find(|entry| entry.kind == kind(key)) {
            Some(entry) => Verdict::Changed(entry.place.clone()),
            None => Verdict::Unknown,
        }
    }
}

impl KnownHostEntry {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let mut names = words.next().filter(|word| !word.starts_with('#'))?;
        let mut revokes = false;
        if names.starts_with('@') {
            // Keys that sign keys (@cert-authority) make no key known here.
            revokes = names == "@revoked";
            names = words.next().filter(|_| revokes)?;
        }
        let kind = words.next()?;
        let key = STANDARD.decode(words.next()?).ok()?;
        Some(Self {
            place: String::new(),
            revokes,
            names: names.to_owned(),
            kind: kind.to_owned(),
            key,
        })
    }

    /// True if the entry applies to `host`.
    fn is_of(&self, host: &str) -> bool {
        if let Some(hashed) = self.names.strip_prefix("|1|") {
            return is_hash_of(hashed, host).unwrap_or(false);
        }
        let mut found = false;
        for name in self.names.split(',') {
            let (pattern, is_exception) = match name.strip_prefix('!') {
                Some(pattern) => (pattern, true),
                None => (name, false),
            };
            if WildMatch::new_case_insensitive(pattern).matches(host) {
                if is_exception {
                    return false;
                }
                found = true;
            }
        }
        found
    }
}

/// True if `SALT|HASH` is the hashed name of `host`: HMAC-SHA1 of the name, with the salt as its key.
fn is_hash_of(hashed: &str, host: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let salt = STANDARD.decode(salt).ok()?;
    let hash = STANDARD.decode(hash).ok()?;
    let mut hasher = Hmac::<Sha1>::new_from_slice(&salt).ok()?;
    hasher.update(host.as_bytes());
    Some(hasher.verify_slice(&hash).is_ok())
}

/// The type in the first field of a public key (RFC 4253, 6.6).
pub(super) fn kind(key: &[u8]) -> &str {
    let field = || {
        let (length, rest) = key.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        std::str::from_utf8(rest.get(..length)?).ok()
    };
    field().unwrap_or("unreadable")
}

/// A key's fingerprint, as ssh prints it.
pub(super) fn fingerprint(key: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(key)))
}

#[cfg(test)]
mod tests;
