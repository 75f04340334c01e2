//! The events of a location, which is a thread of a process.
//!
//! Functions of MPI are calls, others are skipped; a call within a call is internal to the library. Events of an unknown kind are counted. Used for each
//! location, one after the other.

use std::path::Path;

use belljar_trace::{Collective, Direction, Event, Peer};

use super::Archive;
use super::call::{self, PendingCalls};
use super::counts::Counts;
use super::local::{Local, MappingType};
use super::records::{RecordFields, Records};
use crate::builder::ImportError;
use crate::builder::amounts::{CollectiveAmounts, has_pieces, numbered};
use crate::builder::calls::{ImportedMessage, ImportedThread, blank};
use crate::builder::spool::Spool;
use crate::otf2::numbers::event as kind;

/// Deepest nesting of functions.
const DEEPEST: usize = 1 << 16;
/// A root that is this process, and one of its group.
const ROOT_OWN: u32 = u32::MAX - 1;
const ROOT_OWN_GROUP: u32 = u32::MAX - 2;

/// The reader of a location.
pub(super) struct LocationReader<'a> {
    archive: &'a Archive,
    place: ImportedThread,
    local: &'a Local,
    spool: &'a mut Spool,
    counts: &'a mut Counts,
    waiting: PendingCalls,
    /// The functions entered; true for MPI's.
    entered: Vec<bool>,
    /// Number of MPI's functions among them.
    depth: u32,
    call: Option<Event>,
    time: u64,
    opened: bool,
}

impl<'a> LocationReader<'a> {
    pub(super) fn new(
        archive: &'a Archive,
        place: ImportedThread,
        local: &'a Local,
        spool: &'a mut Spool,
        counts: &'a mut Counts,
    ) -> Self {
        Self {
            archive,
            place,
            local,
            spool,
            counts,
            waiting: PendingCalls::default(),
            entered: Vec::new(),
            depth: 0,
            call: None,
            time: 0,
            opened: false,
        }
    }

    /// Reads the file at `path`, with as many events as the location's definition declares; a location without a file has no events.
    pub(super) fn read(
        &mut self,
        path: &Path,
        location: u64,
        defined: Option<u64>,
    ) -> Result<(), ImportError> {
        let mut records = Records::open(path, self.archive.anchor.event_chunk)?;
        if !records.is_there() && defined.is_some_and(|events| events > 0) {
            let missing = std::io::ErrorKind::NotFound.into();
            return Err(crate::builder::failed(path)(missing));
        }
        let mut events = 0;
        while let Some(kind) = records.kind()? {
            events += u64::from(!matches!(kind, kind::TIME | kind::ATTRIBUTES));
            self.record(kind, &mut records)?;
        }
        if let Some(defined) = defined.filter(|defined| events < *defined) {
            let short = (location, events, defined);
            self.counts.short.get_or_insert(short);
            self.counts.cut += 1;
        }
        self.finish()
    }

    fn finish(&mut self) -> Result<(), ImportError> {
        self.counts.unpaired += self.entered.len() as u64;
        if let Some(call) = self.call.take() {
            self.waiting.push(call);
        }
        self.give(true)?;
        // A process without calls is still a process.
        self.open_at(self.time)?;
        self.counts.untold += self.waiting.untold;
        Ok(())
    }

    fn record(&mut self, kind: u8, records: &mut Records) -> Result<(), ImportError> {
        match kind {
            kind::TIME => {
                let time = self.local.time(records.bare_time()?);
                let time = time.saturating_sub(self.archive.definitions.clock.start);
                // A corrected clock may go back a bit.
                self.time = self.time.max(time);
                Ok(())
            }
            kind::ENTER | kind::LEAVE => {
                let number = records.bare_number()?;
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let region = self.local.global(MappingType::Region, number);
                self.region(kind == kind::ENTER, region, records)
            }
            kind::CONTEXT_ENTER | kind::CONTEXT_LEAVE => {
                let number = records.content()?.needed()?;
                let context = self.local.global(MappingType::Context, number);
                let definitions = &self.archive.definitions;
                let region = definitions.region_of_context(context).unwrap_or(u32::MAX);
                self.region(kind == kind::CONTEXT_ENTER, region, records)
            }
            kind::ISEND_COMPLETE | kind::IRECV_REQUEST | kind::REQUEST_CANCELLED => {
                let request = records.bare_number()?;
                self.request(kind, request);
                Ok(())
            }
            kind::REQUEST_TEST | kind::OMP_FORK => records.bare_number().map(drop),
            _ if kind::OMP_TASKS.contains(&kind) => records.bare_number().map(drop),
            _ if kind::MATCHED.contains(&kind) => {
                self.counts.matched += 1;
                records.skip()
            }
            kind::SEND
            | kind::ISEND
            | kind::RECV
            | kind::IRECV
            | kind::COLLECTIVE_END
            | kind::COLLECTIVE_REQUEST
            | kind::COLLECTIVE_COMPLETE
            | kind::WINDOW_CREATE
            | kind::WINDOW_DESTROY
            | kind::PUT
            | kind::GET
            | kind::ATOMIC => self.within(kind, &mut records.content()?),
            kind::ATTRIBUTES | kind::COLLECTIVE_BEGIN => records.skip(),
            _ => {
                self.counts.unknown += u64::from(kind > kind::LAST);
                records.skip()
            }
        }
    }

    /// Handles the entry or exit of a function.
    fn region(&mut self, enters: bool, region: u32, records: &Records) -> Result<(), ImportError> {
        let function = self.archive.regions.function(region);
        if !enters {
            return self.leave();
        }
        if self.entered.len() >= DEEPEST {
            return Err(records.damaged("more than 65536 functions are entered and not left"));
        }
        self.entered.push(function.is_some());
        let Some(function) = function else {
            match self.archive.regions.is_unknown(region) {
                true => *self.counts.unnamed.entry(region).or_default() += 1,
                false => self.counts.others += 1,
            }
            return Ok(());
        };
        self.depth += 1;
        if self.depth == 1 {
            self.call = Some(blank(self.place, function, self.time, None));
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), ImportError> {
        match self.entered.pop() {
            None => self.counts.unpaired += 1,
            Some(false) => {}
            Some(true) => {
                self.depth -= 1;
                if self.depth == 0
                    && let Some(mut call) = self.call.take()
                {
                    (call.exit, call.result) = (Some(self.time), Some(0));
                    self.waiting.push(call);
                    self.give(false)?;
                }
            }
        }
        Ok(())
    }

    /// Passes on calls that wait for no request.
    fn give(&mut self, end: bool) -> Result<(), ImportError> {
        while let Some(event) = self.waiting.next(end) {
            self.open_at(event.entry)?;
            self.spool.push(&event)?;
        }
        Ok(())
    }

    /// Adds the calls before the first own call.
    fn open_at(&mut self, time: u64) -> Result<(), ImportError> {
        if self.opened || self.place.thread > 0 {
            return Ok(());
        }
        self.opened = true;
        let archive = self.archive;
        let spool = &mut *self.spool;
        let layout = &archive.communicators.layout;
        layout.opening(&archive.functions, self.place, time, |event| {
            spool.push(event)
        })
    }

    /// Handles an event that only has a request.
    fn request(&mut self, kind: u8, request: u64) {
        let Some(call) = &mut self.call else {
            self.counts.outside += 1;
            return;
        };
        match kind {
            kind::IRECV_REQUEST => self.waiting.receive(call, request),
            kind::REQUEST_CANCELLED => self.waiting.cancelled(call, request),
            _ => call
                .completed
                .push(crate::builder::calls::completion(request, None)),
        }
    }

    /// Handles an event that belongs to a call.
    fn within(&mut self, kind: u8, fields: &mut RecordFields<'_>) -> Result<(), ImportError> {
        let Some(mut call) = self.call.take() else {
            self.counts.outside += 1;
            return Ok(());
        };
        let done = self.part(kind, &mut call, fields);
        self.call = Some(call);
        done
    }

    fn part(
        &mut self,
        kind: u8,
        event: &mut Event,
        fields: &mut RecordFields<'_>,
    ) -> Result<(), ImportError> {
        match kind {
            kind::SEND => call::moved(event, Direction::Send, self.message(fields)?),
            kind::RECV => call::moved(event, Direction::Receive, self.message(fields)?),
            kind::ISEND => {
                let message = self.message(fields)?;
                call::sending(event, fields.number()?, message);
            }
            kind::IRECV => {
                let message = self.message(fields)?;
                self.waiting.received(event, fields.number()?, message);
            }
            kind::COLLECTIVE_REQUEST => self.waiting.collective(event, fields.number()?),
            kind::COLLECTIVE_END => {
                if let Some(part) = self.collective(fields)? {
                    call::collected(event, part);
                }
            }
            kind::COLLECTIVE_COMPLETE => {
                let part = self.collective(fields)?;
                let request = fields.number()?;
                match part {
                    Some(part) => self.waiting.collected(event, request, part),
                    None => event
                        .completed
                        .push(crate::builder::calls::completion(request, None)),
                }
            }
            _ => self.window(kind, event, fields)?,
        }
        Ok(())
    }

    fn message(&self, fields: &mut RecordFields<'_>) -> Result<ImportedMessage, ImportError> {
        let (peer, communicator) = (fields.needed()?, fields.needed()?);
        // All bits of a negative tag are stored.
        let tag = fields.number()? as u32;
        let bytes = fields.number()?;
        let reference = self.local.global(MappingType::Comm, communicator);
        let known = self.archive.communicators.get(reference);
        Ok(ImportedMessage {
            peer: known.map_or(Peer::Invalid(-1), |it| it.peer(self.place.rank, peer)),
            tag: Some(tag.cast_signed()),
            bytes,
            communicator: known.map(|known| known.number),
        })
    }

    /// Reads a part in a collective operation; `None` for one that creates objects.
    fn collective(
        &mut self,
        fields: &mut RecordFields<'_>,
    ) -> Result<Option<Collective>, ImportError> {
        let (operation, communicator) = (fields.byte()?, fields.needed()?);
        let root = fields.small()?;
        let (sent, received) = (fields.number()?, fields.number()?);
        let Some(operation) = numbered(operation) else {
            return Ok(None);
        };
        self.counts.operations += 1;
        self.counts.pieces += u64::from(has_pieces(operation));
        let reference = self.local.global(MappingType::Comm, communicator);
        let known = self.archive.communicators.get(reference);
        let place = known.map(|known| known.place(self.place.rank));
        let (members, rank) = place.unwrap_or((1, 0));
        let part = CollectiveAmounts {
            operation,
            sent,
            received,
            members,
            rank,
        };
        let (sent, received) = part.amounts(self.archive.counting);
        let root = root.map(|root| match root {
            ROOT_OWN => Peer::Root,
            ROOT_OWN_GROUP => Peer::Null,
            root => known.map_or(Peer::Rank(root), |it| it.peer(self.place.rank, root)),
        });
        Ok(Some(Collective {
            operation: Some(operation),
            phase: belljar_trace::Phase::Done,
            communicator: known.map(|known| known.number),
            root,
            sent,
            received,
        }))
    }

    /// Handles the creation or freeing of a window, or an access to its memory.
    fn window(
        &self,
        kind: u8,
        event: &mut Event,
        fields: &mut RecordFields<'_>,
    ) -> Result<(), ImportError> {
        let window = self.local.global(MappingType::Window, fields.needed()?);
        let reference = self.archive.definitions.windows.get(&window);
        let known = reference.and_then(|it| self.archive.communicators.get(*it));
        call::on_window(event, window, known.map(|known| known.number));
        if matches!(kind, kind::WINDOW_CREATE | kind::WINDOW_DESTROY) {
            return Ok(());
        }
        let remote = fields.needed()?;
        let (sent, received) = match kind {
            kind::PUT => (fields.number()?, 0),
            kind::GET => (0, fields.number()?),
            _ => {
                let _operation = fields.byte()?;
                (fields.number()?, fields.number()?)
            }
        };
        for (direction, bytes) in [(Direction::Send, sent), (Direction::Receive, received)] {
            if bytes == 0 {
                continue;
            }
            let message = ImportedMessage {
                peer: known.map_or(Peer::Invalid(-1), |it| it.peer(self.place.rank, remote)),
                tag: None,
                bytes,
                communicator: known.map(|known| known.number),
            };
            let transfer = message.transfer(direction, belljar_trace::Phase::Done);
            event.transfers.push(transfer);
        }
        Ok(())
    }
}
