//! The memory that a call's operations own: buffers of operations in progress, and memory of windows.
//!
//! Ranges follow from arguments, counts and the blocks of datatypes. Buffers that these do not describe exactly are left out:
//! those of unknown datatypes and of very many blocks. Used when calls return.

use belljar_mpi::{Access, Base, CallKind};
use belljar_trace::{
    Amount, Collective, Details, Direction, Event, Peer, Share, Transfer, TransferKind, Who,
};

use super::Process;
use crate::decode::arguments::Arguments;
use crate::guest::memory::Reader;
use crate::objects::communicators::{Communicator, Reach};
use crate::own::buffers::{BufferRole, OwnedRange};

/// Most ranges of an operation.
const MOST_RANGES: usize = 1 << 10;

/// The memory that a call's operations own.
#[derive(Clone, Debug)]
pub(crate) struct OwnedMemory {
    pub(crate) ranges: Vec<OwnedRange>,
    /// False if some of it is not described exactly, or has too many pieces.
    pub(crate) is_whole: bool,
}

impl OwnedMemory {
    /// Room for further ranges.
    fn room(&self) -> u64 {
        MOST_RANGES.saturating_sub(self.ranges.len()) as u64
    }
}

/// One side of a collective operation: the argument with its buffer, the one with its datatype, and displacements.
struct CollectiveSide<'a> {
    buffer: &'static str,
    datatype: &'static str,
    /// The argument with a datatype for each piece.
    datatypes: &'static str,
    amount: &'a Amount,
    displacements: &'a [i64],
    role: BufferRole,
}

impl Process {
    /// Returns the ranges that the operations of a call own that returned; for a call that prepares an operation, those that
    /// the operation will own.
    pub(crate) fn owned_ranges(&self, event: &Event, memory: Reader<'_>) -> OwnedMemory {
        let mut arguments = Arguments::new(event, memory);
        let mut owned = OwnedMemory {
            ranges: Vec::new(),
            is_whole: true,
        };
        if arguments.has("partitions") {
            self.partitions(event, &arguments, &mut owned);
            return owned;
        }
        for transfer in &event.transfers {
            if transfer.peer != Peer::Null {
                self.transfer_ranges(event, transfer, &arguments, &mut owned);
            }
        }
        for collective in &event.collectives {
            self.collective_ranges(event, collective, &mut arguments, &mut owned);
        }
        owned.is_whole &= owned.ranges.len() <= MOST_RANGES;
        owned.ranges.truncate(MOST_RANGES);
        owned
    }

    /// Adds the ranges of the partitions of a message, one partition after the other; none if they are not described exactly.
    fn partitions(&self, event: &Event, arguments: &Arguments<'_>, owned: &mut OwnedMemory) {
        let sends = event.meaning().kind == CallKind::SendPartitioned;
        let role = match sends {
            true => BufferRole::Send,
            false => BufferRole::Receive,
        };
        let words = |name| arguments.count(name);
        let numbers = words("partitions").zip(words("count"));
        let handle = arguments.word("datatype");
        let extent = handle.and_then(|handle| Some(self.datatypes.bounds(handle)?.extent));
        let place = self.address("buf", arguments).zip(handle).zip(extent);
        let Some(((partitions, count), ((start, handle), extent))) = numbers.zip(place) else {
            owned.is_whole = false;
            return;
        };
        let bytes = extent.checked_mul(count.cast_signed());
        for partition in 0..partitions {
            let offset = bytes.and_then(|bytes| bytes.checked_mul(partition.cast_signed()));
            match offset.and_then(|offset| start.checked_add_signed(offset)) {
                Some(start) if owned.room() > 0 => {
                    self.add_elements((handle, count), start, role, owned);
                }
                _ => owned.is_whole = false,
            }
            if !owned.is_whole {
                owned.ranges.clear();
                return;
            }
        }
    }

    /// Returns the memory of a window that a call created; `None` if it has none of its own.
    pub(crate) fn window_range(&self, event: &Event, memory: Reader<'_>) -> Option<OwnedRange> {
        let mut arguments = Arguments::new(event, memory);
        let size = arguments.count("size")?;
        let start = match arguments.word("base") {
            Some(base) => base,
            None => arguments.integer("baseptr")?.cast_unsigned(),
        };
        range(start, size, BufferRole::Window)
    }

    /// Adds the ranges of `count` elements of a datatype from `start` on; adds none if they are unknown or too many.
    fn add_elements(
        &self,
        (handle, count): (u64, u64),
        start: u64,
        role: BufferRole,
        owned: &mut OwnedMemory,
    ) {
        let Some((blocks, extent)) = self.datatypes.blocks(handle) else {
            owned.is_whole &= count == 0;
            return;
        };
        if let [(0, bytes)] = blocks[..]
            && (i64::try_from(bytes) == Ok(extent) || count == 1)
        {
            let bytes = bytes.checked_mul(count);
            owned
                .ranges
                .extend(bytes.and_then(|bytes| range(start, bytes, role)));
            return;
        }
        let most = owned.room() / (blocks.len().max(1) as u64);
        if count > most {
            owned.is_whole = false;
            return;
        }
        for element in 0..count {
            let offset = element.cast_signed().saturating_mul(extent);
            let all = blocks.iter().filter_map(|(at, bytes)| {
                let at = start.checked_add_signed(offset.checked_add(*at)?)?;
                range(at, *bytes, role)
            });
            owned.ranges.extend(all);
        }
    }

    /// The process's own buffer of a message or access.
    fn transfer_ranges(
        &self,
        event: &Event,
        transfer: &Transfer,
        arguments: &Arguments<'_>,
        owned: &mut OwnedMemory,
    ) {
        let receives = transfer.direction == Direction::Receive;
        let (buffer, datatype, role) = match (transfer.kind, receives) {
            (TransferKind::Access(Access::Get), true) => {
                ("origin_addr", "origin_datatype", BufferRole::Result)
            }
            (TransferKind::Access(_), true) => {
                ("result_addr", "result_datatype", BufferRole::Result)
            }
            (TransferKind::Access(_), false) => {
                ("origin_addr", "origin_datatype", BufferRole::Origin)
            }
            (TransferKind::Message(_), true) => ("recvbuf", "recvtype", BufferRole::Receive),
            (TransferKind::Message(_), false) => ("sendbuf", "sendtype", BufferRole::Send),
        };
        let shared = match arguments.has("buf") {
            true => "buf",
            false => buffer,
        };
        let datatype = match arguments.has(datatype) {
            true => datatype,
            false => "datatype",
        };
        // A receive that replaces the sent data owns the buffer alone.
        let replaces = event.meaning().kind == CallKind::SendReceive && shared == "buf";
        let place = self
            .address(shared, arguments)
            .zip(arguments.word(datatype));
        if let Some((start, handle)) = place.filter(|_| receives || !replaces) {
            self.add_elements((handle, transfer.count), start, role, owned);
        }
    }

    fn address(&self, name: &str, arguments: &Arguments<'_>) -> Option<u64> {
        let word = arguments.word(name)?;
        (!self.implementation.in_place(word)).then_some(word)
    }

    fn collective_ranges(
        &self,
        event: &Event,
        collective: &Collective,
        arguments: &mut Arguments<'_>,
        owned: &mut OwnedMemory,
    ) {
        let none = Details::default();
        let details = event.details.0.as_deref().unwrap_or(&none);
        let pick = |own: &'static str, shared: &'static str| {
            if arguments.has(own) { own } else { shared }
        };
        let sent = CollectiveSide {
            buffer: pick("sendbuf", "buffer"),
            datatype: pick("sendtype", "datatype"),
            datatypes: "sendtypes",
            amount: &collective.sent,
            displacements: &details.send_displacements,
            role: BufferRole::Send,
        };
        let received = CollectiveSide {
            buffer: pick("recvbuf", "buffer"),
            datatype: pick("recvtype", "datatype"),
            datatypes: "recvtypes",
            amount: &collective.received,
            displacements: &details.receive_displacements,
            role: BufferRole::Receive,
        };
        let communicator = self.communicator(arguments);
        for side in [sent, received] {
            if let Some(communicator) = communicator {
                self.side_ranges(&side, collective.root, communicator, arguments, owned);
            }
        }
    }

    fn side_ranges(
        &self,
        side: &CollectiveSide<'_>,
        root: Option<Peer>,
        communicator: &Communicator,
        arguments: &mut Arguments<'_>,
        owned: &mut OwnedMemory,
    ) {
        let is_root = root.is_some_and(|root| communicator.is_me(root));
        let takes_part = match side.amount.who {
            Who::Everyone => true,
            Who::Root => is_root,
            Who::Others => !is_root && communicator.rank.is_some(),
        };
        let Some(start) = self.address(side.buffer, arguments).filter(|_| takes_part) else {
            return;
        };
        let Some(handle) = arguments.word(side.datatype) else {
            return self.piece_ranges(side, start, arguments, owned);
        };
        let Some(size) = self.datatypes.size(handle).filter(|size| *size > 0) else {
            return;
        };
        if !side.displacements.is_empty() {
            let extent = self
                .datatypes
                .bounds(handle)
                .map_or(0, |bounds| bounds.extent);
            for (at, bytes) in side.displacements.iter().zip(&side.amount.pieces) {
                let offset = at.checked_mul(extent);
                if let Some(start) = offset.and_then(|offset| start.checked_add_signed(offset)) {
                    self.add_elements((handle, bytes / size), start, side.role, owned);
                }
            }
            return;
        }
        // All neighbours get the same block of this buffer.
        let shares_block = arguments.base().starts_with("Neighbor_allgather");
        let count = match (side.role, shares_block) {
            (BufferRole::Send, true) => arguments.count("sendcount"),
            _ => side.amount.bytes.and_then(|bytes| {
                let times = match side.amount.share {
                    Share::Whole => Some(1),
                    Share::Members => communicator.partners(),
                    Share::Group => communicator.size(),
                    Share::Sources => degree(communicator, true),
                    Share::Destinations => degree(communicator, false),
                    Share::Own => None,
                };
                (bytes / size).checked_mul(times?.into())
            }),
        };
        owned.is_whole &= count.is_some();
        if let Some(count) = count {
            self.add_elements((handle, count), start, side.role, owned);
        }
    }
}

impl Process {
    /// Adds the pieces of a buffer that starts at `start`, each with its datatype.
    fn piece_ranges(
        &self,
        side: &CollectiveSide<'_>,
        start: u64,
        arguments: &mut Arguments<'_>,
        owned: &mut OwnedMemory,
    ) {
        let count = side.amount.pieces.len();
        let handles = arguments.handles_there(side.datatypes, count as u64, false);
        owned.is_whole &= side.amount.bytes.is_some()
            && handles.len() >= count
            && side.displacements.len() >= count;
        let places = side.displacements.iter().zip(handles);
        for (bytes, (at, handle)) in side.amount.pieces.iter().zip(places) {
            let size = self.datatypes.size(handle).filter(|size| *size > 0);
            let piece = size.zip(start.checked_add_signed(*at));
            if let Some((size, start)) = piece.filter(|_| *bytes > 0) {
                self.add_elements((handle, bytes / size), start, side.role, owned);
            }
        }
    }
}

/// The number of neighbours of one kind.
fn degree(communicator: &Communicator, sources: bool) -> Option<u32> {
    let (from, to) = communicator.neighbors?;
    match if sources { from } else { to } {
        Reach::Exactly(count) => Some(count),
        _ => None,
    }
}

/// The handles of requests that a call names by their variables: their addresses.
pub(crate) fn request_variables(event: &Event) -> Option<(u64, u64)> {
    let parameters = event.description().parameters.iter().zip(&event.arguments);
    let mut requests = parameters
        .filter(|(parameter, _)| parameter.base == Base::Request && parameter.pointer > 0);
    let (_, start) = requests.next()?;
    let named = |name: &str| {
        let parameters = event.description().parameters.iter();
        let mut all = parameters.zip(&event.arguments);
        all.find(|(parameter, _)| parameter.name == name)
            .map(|(_, word)| *word)
    };
    let count = match named("array_of_requests") {
        Some(_) => named("count").or_else(|| named("incount")).unwrap_or(1),
        None => 1,
    };
    let width = u64::from(event.implementation.handle_width());
    Some((*start, start.saturating_add(count.saturating_mul(width))))
}

fn range(start: u64, bytes: u64, role: BufferRole) -> Option<OwnedRange> {
    let end = start.checked_add(bytes)?;
    // No program has memory at its first page, or in the upper half of the address space.
    (bytes > 0 && start >= 1 << 12 && end < 1 << 63).then_some(OwnedRange { start, end, role })
}
