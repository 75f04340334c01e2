//! Host addresses: `[USER@]HOST[:PORT]`.
//!
//! An invalid address is refused, with a message that quotes it, before any connection. Called
//! by [`Ssh`](super::Ssh) for the host of each agent.

use crate::LaunchError;

/// A host and the user to log in as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The address as written by the caller.
    pub(super) given: String,
    pub(super) user: String,
    /// The host's name or address.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Address {
    /// Reads `[USER@]HOST[:PORT]`, HOST being a name, an address, or an IPv6 address in
    /// brackets.
    pub(super) fn parse(given: &str, user: &str, port: u16) -> Result<Self, LaunchError> {
        let wrong = |reason| LaunchError::HostName {
            host: given.to_owned(),
            reason,
        };
        let (user, place) = given.rsplit_once('@').unwrap_or((user, given));
        let (host, port_text) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, behind) = rest.split_once(']').ok_or(wrong("`]` is missing"))?;
                (host, behind.strip_prefix(':'))
            }
            // More than one colon is an IPv6 address without brackets.
            None => match place.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (place, None),
            },
        };
        let port = match port_text {
            Some(text) => text
                .parse()
                .map_err(|_| wrong("the port is not a number"))?,
            None => port,
        };
        let plain = |letter: char| letter.is_ascii_graphic() && !"/*?!|,@[]".contains(letter);
        if host.is_empty() || host.starts_with('-') || !host.chars().all(plain) {
            return Err(wrong("the name is empty or has invalid characters"));
        }
        if user.is_empty() {
            return Err(wrong("the user is empty"));
        }
        Ok(Self {
            given: given.to_owned(),
            user: user.to_owned(),
            host: host.to_owned(),
            port,
        })
    }

    /// The host's name in files of known hosts.
    pub(super) fn known_as(&self) -> String {
        const USUAL: u16 = 22;
        let host = self.host.to_ascii_lowercase();
        match self.port {
            USUAL => host,
            port => format!("[{host}]:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_port_may_be_named() {
        for (given, user, host, port, known) in [
            ("n1", "me", "n1", 22, "n1"),
            ("you@N1", "you", "N1", 22, "n1"),
            ("n1:2222", "me", "n1", 2222, "[n1]:2222"),
            ("a@b@n1", "a@b", "n1", 22, "n1"),
            ("fe80::1", "me", "fe80::1", 22, "fe80::1"),
            ("you@[fe80::1]:23", "you", "fe80::1", 23, "[fe80::1]:23"),
        ] {
            let address = Address::parse(given, "me", 22).unwrap();
            let found = (address.user.as_str(), address.host.as_str(), address.port);
            assert_eq!(found, (user, host, port));
            assert_eq!(address.known_as(), known);
        }
    }

    #[test]
    fn what_names_no_host_is_refused() {
        for given in [
            "", "@n1", "n1:", "n1:x", "n1:70000", "[n1", "-o", "a b", "*", "x@",
        ] {
            assert!(Address::parse(given, "me", 22).is_err(), "{given:?}");
        }
    }
}
