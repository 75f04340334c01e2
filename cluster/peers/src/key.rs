//! The key of a run, created by its first host and passed to all others.
//!
//! It comes from the host's random numbers. `Debug` never prints it, and no command line contains it.
//! The handshake uses it to prove that a peer belongs to this run.

use std::fmt;
use std::str::FromStr;

/// A key's bytes.
pub(crate) const LENGTH: usize = 32;

/// A secret shared by the hosts of one run.
#[derive(Clone, PartialEq, Eq)]
pub struct RunKey([u8; LENGTH]);

/// Errors of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is no key.
    #[error("this is not a run's key, which has {} hexadecimal digits", 2 * LENGTH)]
    Text,
    /// The host has no random numbers.
    #[error("this host gives no random numbers to make a run's key of")]
    Random,
}

impl RunKey {
    /// Makes a new key from the host's random numbers: secrets are not part of the simulation.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes).map_err(|_| KeyError::Random)?;
        Ok(Self(bytes))
    }

    /// The key in hexadecimal digits, for the hosts of the run.
    pub fn reveal(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }
}

impl FromStr for RunKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let digits = text.as_bytes();
        if digits.len() != 2 * LENGTH || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(KeyError::Text);
        }
        let mut bytes = [0; LENGTH];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| KeyError::Text)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| KeyError::Text)?;
        }
        Ok(Self(bytes))
    }
}

/// Never shows the key.
impl fmt::Debug for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_can_be_handed_over_as_text() {
        let key = RunKey::generate().unwrap();
        let text = key.reveal();
        assert_eq!(text.parse(), Ok(key.clone()));
        assert_ne!(RunKey::generate().unwrap(), key);
        assert!(!format!("{key:?}").contains(&text[..8]));
        for bad in [
            "",
            &text[1..],
            &format!("{text}0"),
            &text.replace(&text[..1], "g"),
        ] {
            assert_eq!(bad.parse::<RunKey>(), Err(KeyError::Text));
        }
        assert_eq!("+1".repeat(LENGTH).parse::<RunKey>(), Err(KeyError::Text));
    }
}
