//! The client's side of the control socket.
//!
//! Each request has one reply, in order; the end of the run and invalid replies are a `ControlError`.
//! Used by `belljar watch`, `belljar console` and `belljar checkpoint`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::server::short_path;
use super::{ControlRequest, Hello, LONGEST_REPLY, Look, Reply, VERSION};
use crate::run::checkpoint::Report;

/// Errors of the connection to a run.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No run listens there.
    #[error("no run is active in {0}; give the directory of an active run")]
    NotRunning(PathBuf),
    /// It has another version of the protocol.
    #[error(
        "the run speaks version {0} of its control protocol and this belljar {VERSION}; use the one that runs it"
    )]
    Version(u32),
    /// The connection is lost, or a reply is invalid.
    #[error("the connection to the run is lost: {0}")]
    Lost(#[from] io::Error),
    /// It refuses the request.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a running run.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<UnixStream>,
    directory: PathBuf,
    /// The run's first message.
    pub hello: Hello,
}

impl Client {
    /// Connects to the run in `directory`, or in the same name with `.incomplete`.
    ///
    /// # Errors
    /// [`ControlError::NotRunning`] if there is none.
    pub fn connect(directory: &Path) -> Result<Self, ControlError> {
        let mut incomplete = directory.as_os_str().to_owned();
        incomplete.push(".incomplete");
        let places = [directory.to_owned(), incomplete.into()];
        let found = places
            .iter()
            .find_map(|place| Some((place, dial(place).ok()?)));
        let Some((place, stream)) = found else {
            return Err(ControlError::NotRunning(directory.to_owned()));
        };
        let mut reader = BufReader::new(stream);
        let hello: Hello = receive(&mut reader)?;
        if hello.belljar_control != VERSION {
            return Err(ControlError::Version(hello.belljar_control));
        }
        Ok(Self {
            reader,
            directory: place.clone(),
            hello,
        })
    }

    /// The run directory's current path.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The state of the run.
    ///
    /// # Errors
    /// If the run has ended.
    pub fn look(&mut self) -> Result<Look, ControlError> {
        match self.ask(&ControlRequest::Look)? {
            Reply::Look(look) => Ok(look),
            _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        }
    }

    /// Requests a checkpoint, and waits until it is made.
    ///
    /// # Errors
    /// If it fails, or the run has ended.
    pub fn checkpoint(&mut self) -> Result<Report, ControlError> {
        match self.ask(&ControlRequest::Checkpoint)? {
            Reply::Checkpoint(report) => Ok(report),
            _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        }
    }

    /// The messages of MPI that wait, and the call of each rank, as text.
    ///
    /// # Errors
    /// If the run has no whole trace, or has ended.
    pub fn queues(&mut self) -> Result<String, ControlError> {
        match self.ask(&ControlRequest::Queues)? {
            Reply::Queues(queues) => Ok(queues),
            _ => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
        }
    }

    /// Sends any request except a look.
    ///
    /// # Errors
    /// If the run refuses or has ended.
    pub fn order(&mut self, request: &ControlRequest) -> Result<(), ControlError> {
        self.ask(request).map(drop)
    }

    fn ask(&mut self, request: &ControlRequest) -> Result<Reply, ControlError> {
        let mut line = serde_json::to_vec(request).map_err(io::Error::from)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)?;
        match receive(&mut self.reader)? {
            Reply::Refused(reason) => Err(ControlError::Refused(reason)),
            reply => Ok(reply),
        }
    }
}

fn dial(directory: &Path) -> io::Result<UnixStream> {
    let directory = File::open(directory)?;
    UnixStream::connect(short_path(&directory))
}

fn receive<T: serde::de::DeserializeOwned>(reader: &mut impl BufRead) -> io::Result<T> {
    let mut line = Vec::new();
    reader.take(LONGEST_REPLY).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}
