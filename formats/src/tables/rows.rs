//! The rows of calls, communicators and probes.
//!
//! Calls are numbered from 0 in the order of the trace. A row's cells are in the order of its table's columns. Used for each call, and
//! at the end for the items that calls named.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_archive::ProbesReader;
use belljar_job::Member;
use belljar_mpi::FUNCTIONS;
use belljar_trace::{CallStack, Datatype, Fact, ProbeValue, ValueKind};

use super::{Cell, ExportTable, Sheets};
use crate::records::ExportError;
use crate::records::calls::{Collected, ExportedCall, ExportedMessage, Record, Root};
use crate::records::places::Places;
use crate::records::source::Source;
use belljar_mpi::Access;

/// Most sites that are kept.
const MOST_SITES: usize = 1 << 20;

/// Numbers of rows.
#[derive(Debug, Default)]
pub(super) struct RowNumbers {
    call: u64,
    sites: BTreeMap<Arc<CallStack>, u32>,
}

/// Creates rows.
pub(super) struct RowWriter<'a> {
    pub(super) sheets: &'a mut dyn Sheets,
    pub(super) numbers: &'a mut RowNumbers,
}

/// The process and the time of a row.
#[derive(Clone, Copy)]
struct Of {
    call: u64,
    time: u64,
    own: Member,
}

impl RowWriter<'_> {
    /// Adds the rows of a call.
    pub(super) fn call(
        &mut self,
        source: &mut Source,
        call: &ExportedCall,
    ) -> Result<(), ExportError> {
        let site = self.site(source, call)?;
        let number = self.numbers.call;
        self.numbers.call += 1;
        let event = &call.event;
        let of = source.places().processes().get(call.process as usize);
        let own = of.map_or(Member { job: 0, rank: 0 }, |(member, _)| *member);
        let (entry, exit) = (call.entry, call.exit);
        let entry_ps = source.picoseconds(entry);
        let exit_ps = exit.map(|exit| source.picoseconds(exit));
        let rate = source.header().frequency(event.node);
        let inside = event.duration().map(|inside| rate.time_of(inside).as_ps());
        let cells = [
            number.into(),
            own.job.into(),
            own.rank.into(),
            event.node.into(),
            event.process.into(),
            event.thread.into(),
            event.vcpu.into(),
            Cell::Text(event.name()),
            event.entry.into(),
            event.exit.into(),
            entry_ps.into(),
            exit_ps.into(),
            inside.into(),
            event.calls().into(),
            event.result.map_or(Cell::Empty, Cell::Signed),
            site.map(u64::from).into(),
        ];
        self.sheets.row(ExportTable::Calls, &cells)?;
        self.datatype(call, number, own)?;
        for (records, time) in [(&call.begun, Some(entry_ps)), (&call.done, exit_ps)] {
            let Some(time) = time else {
                continue;
            };
            let of = Of {
                call: number,
                time,
                own,
            };
            for record in records {
                self.record(source.places(), of, record)?;
            }
        }
        Ok(())
    }

    /// Returns the number of a call's site, whose frames are added if it is new.
    fn site(
        &mut self,
        source: &mut Source,
        call: &ExportedCall,
    ) -> Result<Option<u32>, ExportError> {
        let Some(stack) = &call.event.site.0 else {
            return Ok(None);
        };
        if let Some(known) = self.numbers.sites.get(stack) {
            return Ok(Some(*known));
        }
        if self.numbers.sites.len() >= MOST_SITES {
            source.left_out().sites += 1;
            return Ok(None);
        }
        let number = self.numbers.sites.len() as u32 + 1;
        self.numbers.sites.insert(stack.clone(), number);
        for (index, frame) in (0u32..).zip(&stack.0) {
            let file = frame.file.as_ref();
            let digits = file.map(|file| {
                let digits = file.build_id.iter().map(|byte| format!("{byte:02x}"));
                digits.collect::<String>()
            });
            let cells = [
                number.into(),
                index.into(),
                file.map_or(Cell::Empty, |file| Cell::Text(&file.path)),
                digits.as_deref().map_or(Cell::Empty, Cell::Text),
                frame.address.into(),
            ];
            self.sheets.row(ExportTable::Sites, &cells)?;
        }
        Ok(Some(number))
    }

    /// Adds a datatype that the call created.
    fn datatype(
        &mut self,
        call: &ExportedCall,
        number: u64,
        own: Member,
    ) -> Result<(), ExportError> {
        let Some(Fact::Datatype(Datatype::Derived { number: made, size })) = call.event.fact else {
            return Ok(());
        };
        let details = call.event.details.0.as_ref();
        let bounds = details.and_then(|details| details.bounds);
        let signed = |value: Option<i64>| value.map_or(Cell::Empty, Cell::Signed);
        let cells = [
            number.into(),
            own.job.into(),
            own.rank.into(),
            made.into(),
            size.into(),
            signed(bounds.map(|bounds| bounds.lower)),
            signed(bounds.map(|bounds| bounds.extent)),
        ];
        self.sheets.row(ExportTable::Datatypes, &cells)
    }

    fn record(&mut self, places: &Places, of: Of, record: &Record) -> Result<(), ExportError> {
        match record {
            Record::Send(part) => self.message(of, "send", part, None),
            Record::SendBegun(part, request) => self.message(of, "send", part, Some(*request)),
            Record::Receive(part) => self.message(of, "receive", part, None),
            Record::ReceiveCompleted(part, request) => {
                self.message(of, "receive", part, Some(*request))
            }
            Record::Collective(collected) => self.collective(of, collected, None),
            Record::CollectiveCompleted(collected, request) => {
                self.collective(of, collected, Some(*request))
            }
            Record::Accessed { .. } => self.access(places, of, record),
            _ => Ok(()),
        }
    }

    fn message(
        &mut self,
        of: Of,
        side: &str,
        part: &ExportedMessage,
        request: Option<u64>,
    ) -> Result<(), ExportError> {
        let cells = [
            part.message.into(),
            Cell::Text(side),
            of.call.into(),
            of.time.into(),
            of.own.job.into(),
            of.own.rank.into(),
            part.other.member.job.into(),
            part.other.member.rank.into(),
            part.group.into(),
            Cell::Signed(part.tag.into()),
            part.bytes.into(),
            request.into(),
        ];
        self.sheets.row(ExportTable::Messages, &cells)
    }

    fn collective(
        &mut self,
        of: Of,
        collected: &Collected,
        request: Option<u64>,
    ) -> Result<(), ExportError> {
        let root = match collected.root {
            Some(Root::Rank(rank)) => rank.into(),
            _ => Cell::Empty,
        };
        let cells = [
            of.call.into(),
            of.time.into(),
            of.own.job.into(),
            of.own.rank.into(),
            Cell::Text(collected.operation.name()),
            collected.group.into(),
            root,
            collected.sent.into(),
            collected.received.into(),
            request.into(),
        ];
        self.sheets.row(ExportTable::Collectives, &cells)
    }

    fn access(&mut self, places: &Places, of: Of, record: &Record) -> Result<(), ExportError> {
        let Record::Accessed {
            access,
            window,
            other,
            sent,
            received,
        } = *record
        else {
            return Ok(());
        };
        let name = match access {
            Access::Put => "put",
            Access::Get => "get",
            Access::Accumulate => "accumulate",
            Access::GetAccumulate | Access::FetchAndOp => "fetch and accumulate",
            Access::CompareAndSwap => "compare and swap",
        };
        let group = places.windows().get(window as usize);
        let cells = [
            of.call.into(),
            of.time.into(),
            of.own.job.into(),
            of.own.rank.into(),
            Cell::Text(name),
            window.into(),
            group.map(|window| u64::from(window.group)).into(),
            other.member.job.into(),
            other.member.rank.into(),
            sent.into(),
            received.into(),
        ];
        self.sheets.row(ExportTable::Accesses, &cells)
    }

    /// Adds the members of all communicators that calls named.
    pub(super) fn communicators(&mut self, places: &Places) -> Result<(), ExportError> {
        for (number, group) in (0u32..).zip(places.groups()) {
            let sides = [
                ("own", Some(&group.members)),
                ("other", group.remote.as_ref()),
            ];
            for (side, members) in sides {
                for (place, member) in (0u32..).zip(members.iter().flat_map(|it| it.iter())) {
                    let process = places.process(member);
                    let process = process.and_then(|it| places.processes().get(it as usize));
                    let cells = [
                        number.into(),
                        Cell::Text(side),
                        place.into(),
                        member.job.into(),
                        member.rank.into(),
                        process.map(|(_, node)| u64::from(*node)).into(),
                    ];
                    self.sheets.row(ExportTable::Communicators, &cells)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the records of the user's probes.
    pub(super) fn probes(&mut self, reader: &mut ProbesReader) -> Result<(), ExportError> {
        let header = reader.header().clone();
        for record in reader.by_ref() {
            let Some(probe) = header.probes.get(record.probe as usize) else {
                continue;
            };
            let rate = header.trace.frequency(record.node);
            let ps = |cycles| rate.time_of(cycles).as_ps();
            let words = |value: &ProbeValue, kind: Option<&ValueKind>| {
                kind.map_or_else(String::new, |kind| value.in_words(*kind))
            };
            let arguments = record.arguments.iter().enumerate();
            let arguments: Vec<String> = arguments
                .map(|(index, value)| words(value, probe.arguments.get(index)))
                .collect();
            let arguments = arguments.join(", ");
            let result = record.result.as_ref();
            let result = result.map(|value| words(value, probe.result.as_ref()));
            let within = record
                .within
                .and_then(|number| FUNCTIONS.get(usize::from(number)));
            let cells = [
                Cell::Text(&probe.name),
                record.node.into(),
                record.vcpu.into(),
                record.task.into(),
                record.thread.into(),
                record.rank.map(u64::from).into(),
                Cell::Text(&record.program),
                u64::from(record.depth).into(),
                record.entry.into(),
                record.exit.into(),
                ps(record.entry).into(),
                record.exit.map(ps).into(),
                Cell::Text(&arguments),
                result.as_deref().map_or(Cell::Empty, Cell::Text),
                within.map_or(Cell::Empty, |function| Cell::Text(function.name)),
            ];
            self.sheets.row(ExportTable::Probes, &cells)?;
        }
        Ok(())
    }
}
