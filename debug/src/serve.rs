//! A connection with a debugger: one at a time, over a Unix socket or TCP on the loopback interface.
//!
//! A thread reads the connection, so that an interrupt reaches a session that runs.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use belljar_gdb::{Connection, Incoming, Outcome, PacketReader, encode};

use crate::session::Session;

/// A socket for debuggers.
#[derive(Debug)]
pub enum Listener {
    /// A socket in the file system.
    Unix(UnixListener),
    /// A port of the loopback interface.
    Tcp(TcpListener),
}

/// A connection, of either kind.
trait Stream: Read + Write + Send {
    fn again(&self) -> io::Result<Box<dyn Stream>>;
    fn close(&self);
}

impl Stream for UnixStream {
    fn again(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn close(&self) {
        // The debugger may have left already.
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

impl Stream for TcpStream {
    fn again(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }

    fn close(&self) {
        let _ = self.shutdown(std::net::Shutdown::Both);
    }
}

impl Listener {
    /// Listens at a socket in the file system.
    ///
    /// # Errors
    /// If the host refuses it.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::Unix(UnixListener::bind(path)?))
    }

    /// Listens at a port of the loopback interface; 0 for any free one.
    ///
    /// # Errors
    /// If the host refuses it.
    pub fn port(port: u16) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?))
    }

    /// The words after gdb's `target remote`.
    ///
    /// # Errors
    /// If the host does not tell the address.
    pub fn address(&self) -> io::Result<String> {
        match self {
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().unwrap_or(Path::new("?"));
                Ok(path.display().to_string())
            }
            Self::Tcp(listener) => Ok(format!("localhost:{}", listener.local_addr()?.port())),
        }
    }

    /// Waits for a debugger. A process in the sandbox cannot, so that this comes before the session.
    ///
    /// # Errors
    /// If the host refuses the connection.
    pub fn accept(&self) -> io::Result<Debugger> {
        let stream: Box<dyn Stream> = match self {
            Self::Unix(listener) => Box::new(listener.accept()?.0),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let reading = stream.again()?;
        Ok(Debugger { stream, reading })
    }
}

/// A connected debugger.
pub struct Debugger {
    stream: Box<dyn Stream>,
    reading: Box<dyn Stream>,
}

/// Serves a debugger until it leaves.
///
/// # Errors
/// If the connection fails.
pub fn serve(debugger: Debugger, session: &mut Session) -> io::Result<()> {
    let Debugger {
        mut stream,
        reading,
    } = debugger;
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, hear) = channel();
    let interrupts = stop.clone();
    let reader = thread::spawn(move || {
        let mut reading = reading;
        let mut packets = PacketReader::default();
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = reading.read(&mut bytes) {
            for byte in &bytes[..count] {
                let Some(unit) = packets.take(*byte) else {
                    continue;
                };
                if unit == Incoming::Interrupt {
                    interrupts.store(true, Ordering::Relaxed);
                } else if tell.send(unit).is_err() {
                    return;
                }
            }
        }
        // A debugger that is gone needs no more movement.
        interrupts.store(true, Ordering::Relaxed);
    });
    let served = answer(&mut *stream, &hear, session, &stop);
    stream.close();
    // It has ended with the connection.
    let _ = reader.join();
    served
}

fn answer(
    stream: &mut dyn Stream,
    units: &Receiver<Incoming>,
    session: &mut Session,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut connection = Connection::default();
    let mut acknowledges = true;
    let mut last = Vec::new();
    while let Ok(unit) = units.recv() {
        let packet = match unit {
            Incoming::Packet(packet) => packet,
            Incoming::Damaged => {
                stream.write_all(b"-")?;
                continue;
            }
            Incoming::Repeat => {
                stream.write_all(&last)?;
                continue;
            }
            Incoming::Interrupt => continue,
        };
        if acknowledges {
            stream.write_all(b"+")?;
        }
        let (replies, leaves) = match connection.execute(&packet, session, stop) {
            Outcome::Replies(replies) => (replies, false),
            Outcome::NoAcknowledgements(replies) => {
                acknowledges = false;
                (replies, false)
            }
            Outcome::Leaves(reply) => (vec![reply], true),
        };
        for reply in replies {
            last = encode(&reply);
            stream.write_all(&last)?;
        }
        stream.flush()?;
        if leaves {
            return Ok(());
        }
    }
    Ok(())
}
