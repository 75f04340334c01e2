//! Messages between an agent and its starter before they are connected.
//!
//! One line each way on its standard input and output, and a second line to the agent. The first
//! contains the run's key, which no other user may read. Lines have a limit. The agent ends at an
//! invalid line; its starter skips invalid lines until a greeting comes. Used by `agent` and `muster`.

use std::io::{self, BufRead};

use belljar_peers::RunKey;
use serde::{Deserialize, Serialize};

use super::placement::Capacity;

/// Beginning of the line with an agent's address.
const GREETING: &str = "belljar-agent";
/// Longest line that an agent accepts.
const LONGEST: u64 = 1 << 20;

/// First line to an agent. Secret, as it has the run's key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Introduction {
    /// The run's key, in hexadecimal digits.
    key: String,
    /// Number of the agent's host.
    pub(crate) own: u32,
}

impl Introduction {
    pub(crate) fn new(key: &RunKey, own: u32) -> Self {
        Self {
            key: key.reveal(),
            own,
        }
    }

    pub(crate) fn key(&self) -> io::Result<RunKey> {
        self.key.parse().map_err(io::Error::other)
    }
}

/// An agent's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// Digest of its program.
    pub(crate) build: String,
    /// Its port.
    pub(crate) port: u16,
    /// Processors that it may use.
    processors: u32,
    /// MiB of memory that it may use; 0 if unknown.
    mebibytes: u64,
}

impl Greeting {
    /// The greeting of a host that listens at `port` and has this `capacity`.
    pub(crate) fn new(build: String, port: u16, capacity: &Capacity) -> Self {
        Self {
            build,
            port,
            processors: capacity.processors,
            mebibytes: capacity.memory.map_or(0, |bytes| bytes >> 20),
        }
    }

    /// The capacity of the host called `name`.
    pub(crate) fn capacity(&self, name: &str) -> Capacity {
        Capacity {
            name: name.to_owned(),
            processors: self.processors.max(1),
            memory: Some(self.mebibytes << 20).filter(|bytes| *bytes > 0),
        }
    }

    pub(crate) fn line(&self) -> String {
        let (processors, mebibytes) = (self.processors, self.mebibytes);
        format!(
            "{GREETING} {} {} {processors} {mebibytes}",
            self.build, self.port
        )
    }

    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let is_greeting = words.next()? == GREETING;
        let greeting = Self {
            build: words.next()?.to_owned(),
            port: words.next()?.parse().ok()?,
            processors: words.next()?.parse().ok()?,
            mebibytes: words.next()?.parse().ok()?,
        };
        (is_greeting && words.next().is_none()).then_some(greeting)
    }
}

/// Second line to an agent: all hosts of the run.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Company {
    /// Addresses as `host:port`; host 0 is not dialled.
    pub(crate) addresses: Vec<String>,
    /// Time limit for connecting at the start, in milliseconds.
    pub(crate) gathering_ms: u64,
    /// Time of silence after which a host is given up, in milliseconds.
    pub(crate) patience_ms: u64,
}

/// A line as bytes to send.
///
/// # Errors
/// If it is longer than the limit of [`read`].
pub(crate) fn line(of: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(of)?;
    line.push(b'\n');
    if line.len() as u64 > LONGEST {
        let why = format!("{} bytes are too many for a line to an agent", line.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(line)
}

/// Reads a line.
pub(crate) fn read<T: for<'a> Deserialize<'a>>(input: &mut impl BufRead) -> io::Result<T> {
    let mut line = String::new();
    let mut limited = io::Read::take(input, LONGEST);
    limited.read_line(&mut line)?;
    if line.is_empty() {
        let why = "belljar run starts belljar agent and sends it orders; its input has ended";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_and_heads_understand_each_other() {
        let key = RunKey::generate().unwrap();
        let sent = line(&Introduction::new(&key, 3)).unwrap();
        let heard: Introduction = read(&mut &sent[..]).unwrap();
        assert_eq!((heard.own, heard.key().unwrap()), (3, key));
        let greeting = Greeting {
            build: "0123abc".to_owned(),
            port: 4711,
            processors: 8,
            mebibytes: 0,
        };
        assert_eq!(Greeting::parse(&greeting.line()), Some(greeting));
        for other in [
            "",
            "motd: welcome",
            "belljar-agent x",
            "belljar-agent x 1 2",
            "belljar-agent x 70000 1 1",
        ] {
            assert_eq!(Greeting::parse(other), None, "{other}");
        }
        let many = Company {
            addresses: vec!["a".repeat(255); 1 << 12],
            gathering_ms: 1,
            patience_ms: 1,
        };
        let error = line(&many).unwrap_err().to_string();
        assert!(error.contains("too many"), "{error}");
        assert!(read::<Company>(&mut &b""[..]).is_err());
        assert!(read::<Company>(&mut &b"{}\n"[..]).is_err());
    }
}
