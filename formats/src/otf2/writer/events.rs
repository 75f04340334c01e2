//! The events of a thread, as OTF2 has them.
//!
//! A call is its entry, its records, and its exit. A time is written once before all events that have it. Related records are
//! in one chunk. Used for each call, in the order of its thread.

use std::path::Path;

use super::chunks::Chunks;
use super::encode::RecordContent;
use crate::otf2::numbers::{CALLING_CONTEXT_TYPE, collective_code, event as kind};
use crate::records::ExportError;
use crate::records::calls::{Collected, ExportedCall, ExportedMessage, Record, Root};
use belljar_mpi::Access;

/// Most bytes of an event of any kind with its time.
const LONGEST: usize = 256;
/// A root that is this process, and one that is of its group.
const ROOT_OWN: u32 = u32::MAX - 1;
const ROOT_OWN_GROUP: u32 = u32::MAX - 2;

/// The events of one thread.
#[derive(Debug)]
pub(super) struct Events {
    chunks: Chunks,
    /// The time written before the last event.
    time: Option<u64>,
    fields: RecordContent,
    record: Vec<u8>,
    accesses: u64,
    /// The calling context for the next event's attribute.
    context: Option<u32>,
}

impl Events {
    /// Creates an empty list, in a new file.
    pub(super) fn create(path: &Path, chunk: u64) -> Result<Self, ExportError> {
        Ok(Self {
            chunks: Chunks::create(path, chunk)?,
            time: None,
            fields: RecordContent::default(),
            record: Vec::new(),
            accesses: 0,
            context: None,
        })
    }

    /// Returns the number of events so far.
    pub(super) fn count(&self) -> u64 {
        self.chunks.events()
    }

    /// Appends the events of a call of the function that is defined as `region`, made in a calling context.
    pub(super) fn call(
        &mut self,
        call: &ExportedCall,
        region: u32,
        context: Option<u32>,
    ) -> Result<(), ExportError> {
        self.context = context;
        self.fields.clear();
        self.fields.number(region);
        self.put_bare(call.entry, kind::ENTER)?;
        for record in &call.begun {
            self.record(call.entry, record)?;
        }
        let Some(exit) = call.exit else {
            return Ok(());
        };
        for record in &call.done {
            self.record(exit, record)?;
        }
        self.fields.clear();
        self.fields.number(region);
        self.put_bare(exit, kind::LEAVE)
    }

    /// Ends the file.
    pub(super) fn finish(self) -> Result<(), ExportError> {
        self.chunks.finish()
    }

    fn put(&mut self, time: u64, kind: u8) -> Result<(), ExportError> {
        self.begin(time)?;
        self.fields.put(kind, &mut self.record);
        self.chunks.append(&self.record, 1)
    }

    fn put_bare(&mut self, time: u64, kind: u8) -> Result<(), ExportError> {
        self.begin(time)?;
        self.fields.put_bare(kind, &mut self.record);
        self.chunks.append(&self.record, 1)
    }

    /// Begins a record, with the time if it has changed.
    fn begin(&mut self, time: u64) -> Result<(), ExportError> {
        if self.chunks.make_room(LONGEST)? {
            self.time = None;
        }
        self.record.clear();
        if self.time != Some(time) {
            self.record.push(kind::TIME);
            self.record.extend_from_slice(&time.to_le_bytes());
            self.time = Some(time);
        }
        if let Some(context) = self.context.take() {
            // One attribute, the first one defined.
            let mut attributes = RecordContent::default();
            attributes.number(1u32).number(0u32);
            attributes.byte(CALLING_CONTEXT_TYPE).number(context);
            attributes.put(kind::ATTRIBUTES, &mut self.record);
        }
        Ok(())
    }

    fn record(&mut self, time: u64, record: &Record) -> Result<(), ExportError> {
        self.fields.clear();
        match record {
            Record::Send(part) => self.message(time, kind::SEND, part, None),
            Record::SendBegun(part, request) => {
                self.message(time, kind::ISEND, part, Some(*request))
            }
            Record::Receive(part) => self.message(time, kind::RECV, part, None),
            Record::ReceiveCompleted(part, request) => {
                self.message(time, kind::IRECV, part, Some(*request))
            }
            Record::SendCompleted(request) => self.request(time, kind::ISEND_COMPLETE, *request),
            Record::ReceiveBegun(request) => self.request(time, kind::IRECV_REQUEST, *request),
            Record::Cancelled(request) => self.request(time, kind::REQUEST_CANCELLED, *request),
            Record::CollectiveBegun(request) => {
                self.fields.number(*request);
                self.put(time, kind::COLLECTIVE_REQUEST)
            }
            Record::CollectiveEntered => self.put(time, kind::COLLECTIVE_BEGIN),
            Record::Collective(collected) => {
                self.collected(collected);
                self.put(time, kind::COLLECTIVE_END)
            }
            Record::CollectiveCompleted(collected, request) => {
                self.collected(collected);
                self.fields.number(*request);
                self.put(time, kind::COLLECTIVE_COMPLETE)
            }
            Record::WindowMade(window) => self.window(time, kind::WINDOW_CREATE, *window),
            Record::WindowFreed(window) => self.window(time, kind::WINDOW_DESTROY, *window),
            Record::Accessed {
                access,
                window,
                other,
                sent,
                received,
            } => {
                self.fields.number(*window).number(other.rank);
                self.access(time, *access, *sent, *received)
            }
        }
    }

    fn message(
        &mut self,
        time: u64,
        kind: u8,
        part: &ExportedMessage,
        request: Option<u64>,
    ) -> Result<(), ExportError> {
        let fields = &mut self.fields;
        fields.number(part.other.rank).number(part.group);
        fields.number(part.tag as u32).number(part.bytes);
        if let Some(request) = request {
            fields.number(request);
        }
        self.put(time, kind)
    }

    /// Appends an event that only has a request.
    fn request(&mut self, time: u64, kind: u8, request: u64) -> Result<(), ExportError> {
        self.fields.number(request);
        self.put_bare(time, kind)
    }

    /// Appends an event that only has a window.
    fn window(&mut self, time: u64, kind: u8, window: u32) -> Result<(), ExportError> {
        self.fields.number(window);
        self.put(time, kind)
    }

    fn collected(&mut self, collected: &Collected) {
        let root = match collected.root {
            Some(Root::Rank(rank)) => Some(rank),
            Some(Root::Own) => Some(ROOT_OWN),
            Some(Root::OwnGroup) => Some(ROOT_OWN_GROUP),
            None => None,
        };
        let fields = &mut self.fields;
        fields.byte(collective_code(collected.operation));
        fields.number(collected.group).perhaps(root);
        fields.number(collected.sent.unwrap_or(0));
        fields.number(collected.received.unwrap_or(0));
    }

    fn access(
        &mut self,
        time: u64,
        access: Access,
        sent: u64,
        received: u64,
    ) -> Result<(), ExportError> {
        self.accesses += 1;
        let number = self.accesses;
        let fields = &mut self.fields;
        let atomic = match access {
            Access::Put => {
                fields.number(sent).number(number);
                return self.put(time, kind::PUT);
            }
            Access::Get => {
                fields.number(received).number(number);
                return self.put(time, kind::GET);
            }
            Access::Accumulate => 0,
            Access::CompareAndSwap => 3,
            Access::GetAccumulate | Access::FetchAndOp => 7,
        };
        fields
            .byte(atomic)
            .number(sent)
            .number(received)
            .number(number);
        self.put(time, kind::ATOMIC)
    }
}
