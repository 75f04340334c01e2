//! The commands of a connection, one packet at a time.
//!
//! A target is only looked at: packets that would change its registers or memory are refused. Movements run
//! in the caller's thread; another thread reads the connection meanwhile, and sets `stop` for an interrupt.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::description;
use crate::fields::{self, ThreadField, from_hex, number, range, to_hex};
use crate::files::{OpenFiles, output, part};
use crate::packet::MOST_PACKET;
use crate::target::{
    Breakpoint, Cause, Movement, Stop, Target, ThreadId, WatchedAccesses, WatchedRange,
};

/// Breakpoints and watchpoints.
mod points;

/// An invalid packet, and a refused one.
const INVALID: &str = "E16";
const REFUSED: &str = "E01";
/// SIGINT and SIGTRAP.
const INTERRUPTED: u8 = 2;
const TRAPPED: u8 = 5;
/// Properties of the machine in replies to LLDB: the triple `x86_64-pc-linux-gnu` in hexadecimal digits, and sizes.
const MACHINE: &str = "triple:7838365f36342d70632d6c696e75782d676e75;endian:little;ptrsize:8;";
/// Most bytes of memory in a reply.
const MOST_MEMORY: u64 = 16 << 10;

/// The consequence of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Replies in order; an empty one says that the packet is unknown.
    Replies(Vec<Vec<u8>>),
    /// The same, and no acknowledgements from now on.
    NoAcknowledgements(Vec<Vec<u8>>),
    /// The debugger leaves, after this reply.
    Leaves(Vec<u8>),
}

/// The state of a connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// The thread of packets about registers and memory.
    general: Option<ThreadId>,
    /// The thread of movements.
    moving: Option<ThreadId>,
    /// The thread of the last stop.
    stopped: Option<ThreadId>,
    breakpoints: Vec<Breakpoint>,
    watched: Vec<WatchedRange>,
    /// Processes that the debugger has attached to, after the first one.
    attached: BTreeSet<u64>,
    files: OpenFiles,
    /// Threads that `qsThreadInfo` has not listed yet.
    listed: Vec<ThreadId>,
    tells_breakpoints: bool,
    /// True for LLDB, which does not know the ends of a recording.
    is_lldb: bool,
}

impl Connection {
    /// Executes a packet. A movement ends when `stop` is set.
    pub fn execute(
        &mut self,
        packet: &[u8],
        target: &mut impl Target,
        stop: &AtomicBool,
    ) -> Outcome {
        let text = String::from_utf8_lossy(packet);
        let reply = |reply: String| Outcome::Replies(vec![reply.into_bytes()]);
        if text == "QStartNoAckMode" {
            return Outcome::NoAcknowledgements(vec![b"OK".to_vec()]);
        }
        if let Some(process) = text.strip_prefix("D;") {
            self.attached.remove(&number(process).unwrap_or_default());
            return match self.attached.is_empty() {
                true => Outcome::Leaves(b"OK".to_vec()),
                false => reply("OK".to_owned()),
            };
        }
        if text == "D" {
            return Outcome::Leaves(b"OK".to_vec());
        }
        if text == "k" || text.starts_with("vKill") {
            return Outcome::Leaves(b"OK".to_vec());
        }
        if let Some(movement) = self.movement(&text, target) {
            return Outcome::Replies(self.resume(movement, target, stop));
        }
        if let Some(operation) = text.strip_prefix("vFile:") {
            let done = self.files.execute(operation, target);
            return Outcome::Replies(vec![done.unwrap_or_default()]);
        }
        if let Some(object) = text.strip_prefix("qXfer:") {
            return Outcome::Replies(vec![self.transfer(object, target)]);
        }
        if let Some(command) = text.strip_prefix("qRcmd,") {
            let command = from_hex(command).unwrap_or_default();
            let said = target.command(&String::from_utf8_lossy(&command));
            let mut replies = said_in_parts(said.as_bytes());
            replies.push(b"OK".to_vec());
            return Outcome::Replies(replies);
        }
        reply(self.answer(&text, target))
    }

    /// The reply to a packet without a consequence of its own.
    fn answer(&mut self, text: &str, target: &mut impl Target) -> String {
        let mut characters = text.chars();
        let first = characters.next().unwrap_or_default();
        let rest = characters.as_str();
        match first {
            '?' => {
                let thread = target.current();
                self.attached = BTreeSet::from([thread.pid]);
                self.show(thread);
                self.describe(Stop {
                    thread,
                    cause: Cause::Stepped,
                })
            }
            '!' => "OK".to_owned(),
            'g' => {
                let thread = self.thread(target);
                let registers = target.registers(thread);
                registers.map_or_else(|| REFUSED.to_owned(), |it| it.encode())
            }
            'm' => self.memory(rest, target),
            // A target is only looked at.
            'G' | 'P' | 'M' => REFUSED.to_owned(),
            'H' => self.select(rest, target),
            'T' => match ThreadField::of(rest) {
                Some(field) if target.threads().iter().any(|it| field.covers(*it)) => {
                    "OK".to_owned()
                }
                _ => REFUSED.to_owned(),
            },
            'Z' => self.change_point(rest, true, target),
            'z' => self.change_point(rest, false, target),
            'q' | 'v' | 'Q' => self.query(text, target),
            _ => String::new(),
        }
    }

    fn query(&mut self, text: &str, target: &mut impl Target) -> String {
        if let Some(features) = text.strip_prefix("qSupported") {
            self.tells_breakpoints = features.contains("swbreak+");
            return format!(
                "PacketSize={MOST_PACKET:x};multiprocess+;swbreak+;QStartNoAckMode+;vContSupported+;qXfer:features:read+;qXfer:auxv:read+;qXfer:exec-file:read+;ReverseStep+;ReverseContinue+"
            );
        }
        if let Some(process) = text.strip_prefix("vAttach;") {
            return self.attach(process, target);
        }
        if let Some(thread) = text.strip_prefix("qThreadExtraInfo,") {
            let field = ThreadField::of(thread);
            let threads = target.threads();
            let found = threads
                .iter()
                .find(|it| field.is_some_and(|field| field.covers(**it)));
            return match found {
                Some(thread) => to_hex(target.describe(*thread).as_bytes()),
                None => REFUSED.to_owned(),
            };
        }
        match text {
            "qfThreadInfo" => {
                if self.attached.is_empty() {
                    self.attached.insert(target.current().pid);
                }
                self.listed = target.threads();
                self.listed
                    .retain(|thread| self.attached.contains(&thread.pid));
                self.list()
            }
            "qsThreadInfo" => self.list(),
            "qC" => format!("QC{}", fields::thread(self.thread(target))),
            "qHostInfo" => {
                self.is_lldb = true;
                format!("{MACHINE}ostype:linux;vendor:pc;")
            }
            "qProcessInfo" => {
                let pid = self.thread(target).pid;
                format!("pid:{pid:x};{MACHINE}ostype:linux;vendor:pc;")
            }
            "vCont?" => "vCont;c;C;s;S".to_owned(),
            "vMustReplyEmpty" => String::new(),
            text if text.starts_with("qAttached") => "1".to_owned(),
            text if text.starts_with("qSymbol") => "OK".to_owned(),
            _ => String::new(),
        }
    }

    /// Attaches to a process, which stands as all of them do.
    fn attach(&mut self, process: &str, target: &mut impl Target) -> String {
        let threads = target.threads();
        let mut own = threads.iter().filter(|it| Some(it.pid) == number(process));
        let Some(&thread) = own.next() else {
            return REFUSED.to_owned();
        };
        self.attached.insert(thread.pid);
        self.show(thread);
        self.describe(Stop {
            thread,
            cause: Cause::Stepped,
        })
    }

    /// The next part of the list of threads.
    fn list(&mut self) -> String {
        let most = self.listed.len().min(MOST_PACKET / 64);
        let threads: Vec<String> = self.listed.drain(..most).map(fields::thread).collect();
        match threads.is_empty() {
            true => "l".to_owned(),
            false => format!("m{}", threads.join(",")),
        }
    }

    /// The thread that packets are about.
    fn thread(&mut self, target: &mut impl Target) -> ThreadId {
        match self.general.or(self.stopped) {
            Some(thread) => thread,
            None => target.current(),
        }
    }

    fn show(&mut self, thread: ThreadId) {
        self.stopped = Some(thread);
        self.general = Some(thread);
        self.moving = Some(thread);
    }

    fn select(&mut self, text: &str, target: &mut impl Target) -> String {
        let field = text.get(1..).and_then(ThreadField::of);
        let Some(field) = field else {
            return INVALID.to_owned();
        };
        let stopped = self.stopped.filter(|thread| field.covers(*thread));
        let found = stopped.or_else(|| {
            let threads = target.threads();
            threads.into_iter().find(|thread| field.covers(*thread))
        });
        let Some(found) = found else {
            return REFUSED.to_owned();
        };
        match text.as_bytes().first() {
            Some(b'g') => self.general = Some(found),
            _ => self.moving = Some(found),
        }
        "OK".to_owned()
    }

    fn memory(&mut self, text: &str, target: &mut impl Target) -> String {
        let Some((address, length)) = range(text) else {
            return INVALID.to_owned();
        };
        let thread = self.thread(target);
        let length = length.min(MOST_MEMORY) as usize;
        let bytes = target.read_memory(thread, address, length);
        match bytes.is_empty() && length > 0 {
            true => "E0e".to_owned(),
            false => to_hex(&bytes),
        }
    }

    /// The movement that a packet requests.
    fn movement(&mut self, text: &str, target: &mut impl Target) -> Option<Movement> {
        if let Some(actions) = text.strip_prefix("vCont;") {
            return Some(self.continued(actions, target));
        }
        let moving = |connection: &mut Self, target: &mut _| match connection.moving {
            Some(thread) => thread,
            None => connection.thread(target),
        };
        match text {
            "bs" => Some(Movement::ReverseStep(moving(self, target))),
            "bc" => Some(Movement::ReverseContinue),
            _ => match text.as_bytes().first()? {
                b'c' | b'C' => Some(Movement::Continue),
                b's' | b'S' => Some(Movement::Step(moving(self, target))),
                _ => None,
            },
        }
    }

    /// The movement of a `vCont` packet: a step if any thread is to be stepped.
    fn continued(&mut self, actions: &str, target: &mut impl Target) -> Movement {
        for action in actions.split(';') {
            let (action, thread) = action.split_once(':').unwrap_or((action, "-1"));
            if !action.starts_with(['s', 'S']) {
                continue;
            }
            let field = ThreadField::of(thread);
            let threads = target.threads();
            let found = threads
                .into_iter()
                .find(|it| field.is_some_and(|field| field.covers(*it)));
            if let Some(thread) = found {
                return Movement::Step(thread);
            }
        }
        Movement::Continue
    }

    fn resume(
        &mut self,
        movement: Movement,
        target: &mut impl Target,
        stop: &AtomicBool,
    ) -> Vec<Vec<u8>> {
        target.set_breakpoints(&self.breakpoints);
        target.set_watchpoints(&self.watched);
        let resumed = target.resume(movement, stop);
        stop.store(false, Ordering::Relaxed);
        let mut replies = said_in_parts(&target.take_output());
        match resumed {
            Ok(stop) => {
                self.show(stop.thread);
                replies.push(self.describe(stop).into_bytes());
            }
            Err(why) => {
                replies.extend(said_in_parts(format!("belljar: {why}\n").as_bytes()));
                let thread = target.current();
                self.show(thread);
                let cause = Cause::Stepped;
                replies.push(self.describe(Stop { thread, cause }).into_bytes());
            }
        }
        replies
    }

    /// A stop reply.
    fn describe(&self, stop: Stop) -> String {
        let thread = fields::thread(stop.thread);
        let stopped = |signal: u8, why: &str| format!("T{signal:02x}{why}thread:{thread};");
        match stop.cause {
            Cause::Breakpoint if self.tells_breakpoints => stopped(TRAPPED, "swbreak:;"),
            Cause::Breakpoint | Cause::Stepped => stopped(TRAPPED, ""),
            Cause::Accessed(address, accesses) => {
                let kind = match accesses {
                    WatchedAccesses::Stores => "watch",
                    WatchedAccesses::Loads => "rwatch",
                    WatchedAccesses::All => "awatch",
                };
                stopped(TRAPPED, &format!("{kind}:{address:x};"))
            }
            Cause::Stopped => stopped(0, ""),
            Cause::Signal(number) => stopped(signal(number), ""),
            Cause::Interrupted => stopped(INTERRUPTED, ""),
            Cause::Libraries => stopped(TRAPPED, "library:;"),
            Cause::Start | Cause::End if self.is_lldb => {
                match self.attached.contains(&stop.thread.pid) {
                    true => stopped(TRAPPED, ""),
                    false => "W00".to_owned(),
                }
            }
            Cause::Start => stopped(TRAPPED, "replaylog:begin;"),
            Cause::End => stopped(TRAPPED, "replaylog:end;"),
            Cause::Exited { pid, status } => match status {
                Ok(code) => format!("W{code:02x};process:{pid:x}"),
                Err(signal) => format!("X{signal:02x};process:{pid:x}"),
            },
        }
    }

    /// The part of an object that a packet `qXfer:OBJECT:read:ANNEX:OFFSET,LENGTH` requests.
    fn transfer(&mut self, text: &str, target: &mut impl Target) -> Vec<u8> {
        let fields: Vec<&str> = text.splitn(4, ':').collect();
        let [object, "read", annex, place] = fields[..] else {
            return Vec::new();
        };
        let Some((offset, length)) = range(place) else {
            return INVALID.into();
        };
        let own = self.thread(target).pid;
        let document = match object {
            "features" if annex == "target.xml" => Some(description::target().into_bytes()),
            "auxv" => target.auxiliary_vector(own),
            "exec-file" => {
                let pid = number(annex).unwrap_or(own);
                target.program(pid).map(String::into_bytes)
            }
            _ => return Vec::new(),
        };
        document.map_or_else(
            || REFUSED.into(),
            |document| part(&document, offset, length),
        )
    }
}

/// The number in the protocol of a signal of Linux.
fn signal(number: u8) -> u8 {
    match number {
        7 => 10,
        10 => 30,
        12 => 31,
        31 => 12,
        number => number,
    }
}

/// Packets that make the debugger print `bytes`.
fn said_in_parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let parts = bytes.chunks(MOST_PACKET / 4);
    parts.map(|part| output(part).into_bytes()).collect()
}

#[cfg(test)]
mod tests;
