//! The global definitions of an archive: texts, places, functions, communicators, windows.
//!
//! A definition is written once, before definitions that refer to it; texts at their first use. Numbers are those of the
//! events. Written after all events, since the referenced items and their number are only known then.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_job::Members;
use belljar_trace::TraceHeader;

use super::chunks::Chunks;
use super::contexts::Contexts;
use super::encode::RecordContent;
use super::place::{Otf2Location, role};
use crate::otf2::numbers::{CALLING_CONTEXT_TYPE, definition as kind};
use crate::records::ExportError;
use crate::records::places::{ExportedCommunicator, Places};

/// Bytes of a chunk of definitions: the format's maximum.
pub(super) const CHUNK: u64 = 16 << 20;
/// The paradigm of all definitions.
const MPI: u8 = 4;
/// The paradigm and the role of frames: code.
const NO_PARADIGM: u8 = 0;
const CODE: u8 = 4;
/// A group of communicating processes, by their locations.
const COMM_LOCATIONS: u8 = 4;
/// The members of a communicator, by their positions in that group.
const COMM_GROUP: u8 = 5;
/// The same in the numbers of earlier formats, which records still contain.
const EARLIER_COMM_LOCATIONS: u8 = 6;
const EARLIER_COMM_GROUP: u8 = 4;
/// A process, and its threads.
const PROCESS: u8 = 1;
const CPU_THREAD: u8 = 1;

/// The input of definitions.
#[derive(Debug)]
pub(super) struct DefinitionsInput<'a> {
    pub(super) header: &'a TraceHeader,
    pub(super) places: &'a Places,
    pub(super) ticks_per_second: u64,
    /// The first and the last time.
    pub(super) span: (u64, u64),
    /// Functions' names, by region.
    pub(super) regions: &'a [&'static str],
    /// Call sites.
    pub(super) contexts: &'a Contexts,
    /// Threads, with the number of their events.
    pub(super) locations: &'a [(Otf2Location, u64)],
}

/// Writes and counts definitions.
#[derive(Debug)]
pub(super) struct Definitions {
    chunks: Chunks,
    texts: BTreeMap<String, u32>,
    groups: u32,
    count: u64,
}

impl Definitions {
    /// Writes all of them to a new file. Returns their number.
    pub(super) fn write(path: &Path, content: &DefinitionsInput<'_>) -> Result<u64, ExportError> {
        let mut own = Self {
            chunks: Chunks::create(path, CHUNK)?,
            texts: BTreeMap::new(),
            groups: 0,
            count: 0,
        };
        own.clock(content)?;
        own.text("")?;
        own.machine(content)?;
        own.locations(content)?;
        for (number, name) in (0..).zip(content.regions) {
            own.region(number, name, role(name), MPI, "MPI")?;
        }
        own.contexts(content)?;
        own.communicators(content)?;
        own.windows(content)?;
        let count = own.count;
        own.chunks.finish()?;
        Ok(count)
    }

    fn put(&mut self, kind: u8, fields: &RecordContent) -> Result<(), ExportError> {
        let mut record = Vec::new();
        fields.put(kind, &mut record);
        self.chunks.make_room(record.len())?;
        self.count += 1;
        self.chunks.append(&record, 0)
    }

    fn clock(&mut self, content: &DefinitionsInput<'_>) -> Result<(), ExportError> {
        let (first, last) = content.span;
        let mut fields = RecordContent::default();
        fields.number(content.ticks_per_second);
        fields.number(first).number(last - first);
        // The calendar time of the run is omitted, as it would differ between runs.
        fields.perhaps(None);
        self.put(kind::CLOCK, &fields)
    }

    /// Returns the number of a text.
    fn text(&mut self, text: &str) -> Result<u32, ExportError> {
        if let Some(known) = self.texts.get(text) {
            return Ok(*known);
        }
        let number = self.texts.len() as u32;
        self.texts.insert(text.to_owned(), number);
        let mut fields = RecordContent::default();
        fields.number(number).text(text);
        self.put(kind::STRING, &fields)?;
        Ok(number)
    }

    /// Writes the cluster and its nodes.
    fn machine(&mut self, content: &DefinitionsInput<'_>) -> Result<(), ExportError> {
        let name = self.text(content.header.scenario())?;
        let class = self.text("cluster")?;
        let mut fields = RecordContent::default();
        fields.number(0u32).number(name).number(class).perhaps(None);
        self.put(kind::SYSTEM_TREE_NODE, &fields)?;
        let class = self.text("node")?;
        for node in 0..content.header.nodes() as u32 {
            let name = self.text(&format!("node{node}"))?;
            let mut fields = RecordContent::default();
            fields.number(node + 1).number(name).number(class);
            fields.number(0u32);
            self.put(kind::SYSTEM_TREE_NODE, &fields)?;
        }
        Ok(())
    }

    /// Writes processes and their threads.
    fn locations(&mut self, content: &DefinitionsInput<'_>) -> Result<(), ExportError> {
        let several = content.places.processes().iter().any(|(it, _)| it.job > 0);
        let nodes = content.header.nodes() as u32;
        for (number, (member, node)) in (0u32..).zip(content.places.processes()) {
            let name = match several {
                true => format!("job {}, rank {}", member.job, member.rank),
                false => format!("rank {}", member.rank),
            };
            let name = self.text(&name)?;
            let mut fields = RecordContent::default();
            fields.number(number).number(name).byte(PROCESS);
            fields.perhaps((*node < nodes).then_some(node.saturating_add(1)));
            fields.perhaps(None);
            self.put(kind::LOCATION_GROUP, &fields)?;
        }
        for (place, events) in content.locations {
            let name = match place.0.thread {
                0 => "main thread".to_owned(),
                thread => format!("thread {thread}"),
            };
            let name = self.text(&name)?;
            let mut fields = RecordContent::default();
            fields.number(place.location()).number(name);
            fields.byte(CPU_THREAD).number(*events);
            fields.number(place.0.process);
            self.put(kind::LOCATION, &fields)?;
        }
        Ok(())
    }

    /// Writes call sites, which each call has as an attribute.
    fn contexts(&mut self, content: &DefinitionsInput<'_>) -> Result<(), ExportError> {
        if content.contexts.list().is_empty() {
            return Ok(());
        }
        let name = self.text("call site")?;
        let told = self.text("where the call was made: file and return address")?;
        let mut fields = RecordContent::default();
        fields.number(0u32).number(name);
        fields.byte(CALLING_CONTEXT_TYPE).number(told);
        self.put(kind::ATTRIBUTE, &fields)?;
        let functions = content.regions.len() as u32;
        for (name, number) in content.contexts.frames() {
            let file = name.split('+').next().unwrap_or_default();
            self.region(functions + number, name, CODE, NO_PARADIGM, file)?;
        }
        for (number, (frame, caller)) in (0u32..).zip(content.contexts.list()) {
            let mut fields = RecordContent::default();
            fields.number(number).number(functions + frame);
            fields.perhaps(None).perhaps(*caller);
            self.put(kind::CALLING_CONTEXT, &fields)?;
        }
        Ok(())
    }

    fn region(
        &mut self,
        number: u32,
        name: &str,
        role: u8,
        paradigm: u8,
        file: &str,
    ) -> Result<(), ExportError> {
        let name_text = self.text(name)?;
        let file = self.text(file)?;
        let mut fields = RecordContent::default();
        // The role in earlier formats, and unknown lines.
        fields.number(number).number(name_text).number(0u32).byte(0);
        fields.number(file).number(0u32).number(0u32);
        fields.number(name_text).byte(role).byte(paradigm);
        fields.number(0u32);
        self.put(kind::REGION, &fields)
    }

    fn communicators(&mut self, content: &DefinitionsInput<'_>) -> Result<(), ExportError> {
        let mains = 0..content.places.processes().len() as u32;
        let all = mains.map(|process| Otf2Location::main(process).location());
        let all = all.collect();
        self.group("", COMM_LOCATIONS, EARLIER_COMM_LOCATIONS, all)?;
        for (number, group) in (0u32..).zip(content.places.groups()) {
            self.communicator(number, group, content.places)?;
        }
        Ok(())
    }

    /// Writes a group of processes, and returns its number.
    fn group(
        &mut self,
        name: &str,
        kind: u8,
        earlier: u8,
        members: Vec<u64>,
    ) -> Result<u32, ExportError> {
        let name = self.text(name)?;
        let number = self.groups;
        self.groups += 1;
        let mut fields = RecordContent::default();
        fields.number(number).number(name).byte(earlier);
        fields.number(members.len() as u64);
        for member in members {
            fields.number(member);
        }
        fields.byte(kind).byte(MPI).number(0u32);
        self.put(kind::GROUP, &fields)?;
        Ok(number)
    }

    fn communicator(
        &mut self,
        number: u32,
        group: &ExportedCommunicator,
        places: &Places,
    ) -> Result<(), ExportError> {
        let name = match &group.remote {
            _ if group.is_world => "MPI_COMM_WORLD".to_owned(),
            None if group.members.len() == 1 => format!("communicator {number}, alone"),
            None => format!("communicator {number}"),
            Some(_) => format!("intercommunicator {number}"),
        };
        let numbers = |members: &Members| {
            let numbers = members.iter().filter_map(|member| places.process(member));
            numbers.map(u64::from).collect()
        };
        let own = self.group(
            &name,
            COMM_GROUP,
            EARLIER_COMM_GROUP,
            numbers(&group.members),
        )?;
        let name_text = self.text(&name)?;
        let mut fields = RecordContent::default();
        fields.number(number).number(name_text).number(own);
        match &group.remote {
            Some(remote) => {
                let remote = self.group(&name, COMM_GROUP, EARLIER_COMM_GROUP, numbers(remote))?;
                fields.number(remote).perhaps(None).number(0u32);
                self.put(kind::INTER_COMM, &fields)
            }
            None => {
                fields.perhaps(None).number(0u32);
                self.put(kind::COMM, &fields)
            }
        }
    }

    fn windows(&mut self, content: &DefinitionsInput<'_>) -> Result<(), ExportError> {
        for (number, window) in (0u32..).zip(content.places.windows()) {
            let name = self.text(&format!("window {number}"))?;
            let mut fields = RecordContent::default();
            fields.number(number).number(name).number(window.group);
            fields.number(0u32);
            self.put(kind::RMA_WIN, &fields)?;
        }
        Ok(())
    }
}
