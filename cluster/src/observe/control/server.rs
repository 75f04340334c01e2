//! The run's side of the socket: threads that never run a guest.
//!
//! Only the user of the run, or root, is served. Clients' messages are untrusted: lines have a limit,
//! and they reach the run only as requests that wait in the [`Mailbox`] until a round is over. Opened by
//! `belljar run`.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use super::{ControlRequest, Hello, INPUT_FILE, LONGEST_REQUEST, Mailbox, Reply, SOCKET, VERSION};
use belljar_files::Folder;

/// Maximum number of clients at a time.
const MOST_CLIENTS: usize = 16;

/// The control socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {path}: {source}")]
pub struct ServerError {
    /// The socket.
    pub path: PathBuf,
    /// The host's reason.
    pub source: io::Error,
}

/// The open socket of a run. Dropping it removes the socket.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: Arc<UnixListener>,
    mailbox: Arc<Mailbox>,
}

/// State shared by the threads that serve clients.
struct Office {
    mailbox: Arc<Mailbox>,
    hello: Hello,
    directory: Folder,
    clients: AtomicUsize,
}

impl Server {
    /// Listens in the run directory `directory` for requests to `mailbox`; only the user may connect.
    ///
    /// # Errors
    /// If the host refuses the socket.
    pub fn open(
        directory: &Path,
        name: &str,
        nodes: u32,
        mailbox: Arc<Mailbox>,
    ) -> Result<Self, ServerError> {
        let path = directory.join(SOCKET);
        let fail = |source| ServerError {
            path: path.clone(),
            source,
        };
        let listener = Arc::new(bind(directory).map_err(fail)?);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(fail)?;
        let office = Office::new(directory, name, nodes, &mailbox).map_err(fail)?;
        let office = Arc::new(office);
        let accepting = listener.clone();
        thread::spawn(move || accept(&accepting, &office));
        Ok(Self {
            path,
            listener,
            mailbox,
        })
    }

    /// The listening socket.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.mailbox.close();
        // It may be removed already.
        let _ = fs::remove_file(&self.path);
    }
}

/// A socket's address has at most 108 bytes, fewer than some run directories' paths.
pub(super) fn short_path(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

fn bind(directory: &Path) -> io::Result<UnixListener> {
    let directory = File::open(directory)?;
    // The socket of an earlier, interrupted run: this run now owns the directory.
    let _ = fs::remove_file(short_path(&directory));
    UnixListener::bind(short_path(&directory))
}

fn accept(listener: &UnixListener, office: &Arc<Office>) {
    for client in 1.. {
        let Ok((stream, _)) = listener.accept() else {
            // The process's filter permits accepting here; an error is permanent.
            return;
        };
        let office = office.clone();
        if !is_ours(&stream) || office.clients.load(Ordering::Relaxed) >= MOST_CLIENTS {
            continue;
        }
        office.clients.fetch_add(1, Ordering::Relaxed);
        let serving = thread::Builder::new().spawn(move || {
            // A client that disconnects early does not affect the run.
            let _ = office.serve(client, &stream, &stream);
            office.mailbox.leave(client);
            office.clients.fetch_sub(1, Ordering::Relaxed);
        });
        if serving.is_err() {
            return;
        }
    }
}

/// True if the peer's user is this process's user, or root.
fn is_ours(stream: &UnixStream) -> bool {
    let peer = getsockopt(stream, PeerCredentials);
    peer.is_ok_and(|peer| peer.uid() == geteuid().as_raw() || peer.uid() == 0)
}

impl Office {
    fn new(directory: &Path, name: &str, nodes: u32, mailbox: &Arc<Mailbox>) -> io::Result<Self> {
        Ok(Self {
            mailbox: mailbox.clone(),
            hello: Hello {
                belljar_control: VERSION,
                name: name.to_owned(),
                nodes,
            },
            directory: Folder::open(directory)?,
            clients: AtomicUsize::new(0),
        })
    }

    fn serve(&self, client: u64, from: impl Read, mut writer: impl Write) -> io::Result<()> {
        let mut reader = BufReader::new(from);
        send(&mut writer, &self.hello)?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = (&mut reader)
                .take(LONGEST_REQUEST)
                .read_until(b'\n', &mut line)?;
            if count == 0 {
                return Ok(());
            }
            let whole = line.last() == Some(&b'\n');
            let request = serde_json::from_slice(&line).map_err(|error| error.to_string());
            let reply = match request {
                Ok(request) => self.answer(client, request),
                Err(reason) => Reply::Refused(format!("invalid request: {reason}")),
            };
            send(&mut writer, &reply)?;
            if !whole {
                return Ok(());
            }
        }
    }

    fn answer(&self, client: u64, request: ControlRequest) -> Reply {
        match request {
            ControlRequest::Look => match self.mailbox.look() {
                Some(look) => return Reply::Look(look),
                None => return Reply::Refused("the run is ending".into()),
            },
            ControlRequest::Type { node, .. } if node >= self.hello.nodes => {
                return Reply::Refused(format!(
                    "there is no node {node}; nodes are 0 to {}",
                    self.hello.nodes - 1
                ));
            }
            ControlRequest::Type { node, bytes } => {
                let open = || self.directory.append(INPUT_FILE);
                match self.mailbox.type_in(node, bytes, open) {
                    Ok(true) => {}
                    Ok(false) => {
                        return Reply::Refused("too much input is waiting already".into());
                    }
                    Err(error) => {
                        return Reply::Refused(format!("cannot write {INPUT_FILE}: {error}"));
                    }
                }
            }
            ControlRequest::Checkpoint => {
                let outcome = self.mailbox.checkpoint();
                return outcome.map_or_else(Reply::Refused, Reply::Checkpoint);
            }
            ControlRequest::Queues => {
                let queues = self.mailbox.queues();
                return queues.map_or_else(Reply::Refused, Reply::Queues);
            }
            ControlRequest::Pause(paused) => self.mailbox.pause(client, paused),
            ControlRequest::Pace(Some(ratio)) if !(1e-6..=1e6).contains(&ratio) => {
                return Reply::Refused(format!("pace is {ratio}; it must be from 1e-6 to 1e6"));
            }
            ControlRequest::Pace(ratio) => self.mailbox.pace(client, ratio),
        }
        Reply::Done
    }
}

/// The reply to a client that sends these bytes, and then no more, to a run of `nodes` nodes in
/// `directory`; for tests of hostile clients.
///
/// # Errors
/// If the directory cannot be opened.
pub fn answers(
    directory: &Path,
    nodes: u32,
    mailbox: &Arc<Mailbox>,
    sent: &[u8],
) -> io::Result<Vec<u8>> {
    let office = Office::new(directory, "", nodes, mailbox)?;
    let mut answers = Vec::new();
    office.serve(1, sent, &mut answers)?;
    Ok(answers)
}

fn send(writer: &mut impl Write, message: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    writer.write_all(&line)
}

#[cfg(test)]
mod tests;
