//! Messages as the point-to-point layers of MPI libraries send them.
//!
//! MPICH over UCX sends to an endpoint, whose destination worker is known from `ucp_ep_create`; Open MPI's ob1 sends to a rank of a
//! communicator, whose group has each process's name. A message therefore has its library's own names of both sides, independent of the
//! communicator. Guests are untrusted: unreadable values are missing from the record, and the number of known endpoints is bounded. Used at the
//! entry and return of the run's own probes.

/// Open MPI's structures.
mod open_mpi;

use std::collections::BTreeMap;

use belljar_trace::{MESSAGE, MessageWord, ProbePurpose, ProbeRecord, ProbeValue};
use bincode::{Decode, Encode};

use crate::calls::Space;
use crate::guest::memory::{BadAddress, MAX_ENTRIES, Reader};
use crate::guest::registers::{ARGUMENT_REGISTERS, MagicRegisters, RAX, RSP};

/// Most known endpoints and persistent requests of a node.
const MOST_ENDPOINTS: usize = 1 << 18;

/// `UCP_EP_PARAM_FIELD_REMOTE_ADDRESS` and `UCP_OP_ATTR_FIELD_DATATYPE` (`ucp.h`).
const HAS_ADDRESS: u64 = 1;
const HAS_DATATYPE: u64 = 1 << 3;

/// Parts of the first byte of a worker's address: the version, and the following flag that says that the worker's UUID follows
/// (`ucp/wireup/address.c` of UCX 1.13).
const ADDRESS_VERSION: u64 = 0xf;
const HAS_UUID: u64 = 2;

/// Classes of UCX's datatypes, in their low bits.
const DATATYPE_CLASS: u64 = 7;
const CONTIGUOUS: u64 = 0;
const GENERIC: u64 = 7;

/// Offset of the size in MPICH's datatypes (`mpir_datatype.h`), after handle and reference count.
const MPICH_SIZE: u64 = 8;

/// Destinations of the endpoints of a node's processes.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(super) struct Endpoints {
    /// Names of the node's processes.
    own: BTreeMap<Space, u64>,
    /// Names of other processes, by endpoint.
    others: BTreeMap<(Space, u64), u64>,
    /// Messages of persistent requests.
    prepared: BTreeMap<(Space, u64), MessageFields>,
}

/// The known parts of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
struct MessageFields {
    from: Option<u64>,
    to: Option<u64>,
    context: Option<u64>,
    tag: Option<u64>,
    bytes: Option<u64>,
}

impl MessageFields {
    /// Returns the arguments of its record.
    fn arguments(self) -> Vec<ProbeValue> {
        let value = |(word, _, kind): (MessageWord, &str, belljar_trace::ValueKind)| {
            let word = match word {
                MessageWord::From => self.from,
                MessageWord::To => self.to,
                MessageWord::Context => self.context,
                MessageWord::Tag => self.tag,
                MessageWord::Bytes => self.bytes,
            };
            word.map_or(ProbeValue::Missing, |word| {
                ProbeValue::Word(kind.clean(word))
            })
        };
        MESSAGE.into_iter().map(value).collect()
    }

    /// Returns the message of a record.
    fn of(record: &ProbeRecord) -> Self {
        Self {
            from: record.message(MessageWord::From),
            to: record.message(MessageWord::To),
            context: record.message(MessageWord::Context),
            tag: record.message(MessageWord::Tag),
            bytes: record.message(MessageWord::Bytes),
        }
    }
}

impl Endpoints {
    /// Returns the arguments of the records of a call that is entered; empty if the call is neither recorded nor learned from.
    pub(super) fn arguments(
        &self,
        purpose: ProbePurpose,
        registers: &MagicRegisters,
        memory: Reader<'_>,
    ) -> Vec<Vec<ProbeValue>> {
        let argument = |number: usize| registers.gpr[ARGUMENT_REGISTERS[number]];
        match purpose {
            ProbePurpose::User | ProbePurpose::BufferAccess => Vec::new(),
            ProbePurpose::UcxAddress => vec![vec![ProbeValue::Word(argument(1))]],
            ProbePurpose::UcxEndpoint => {
                let named = endpoint_to(argument(1), memory).ok().flatten();
                let told = named.map(|name| [name, argument(2)].map(ProbeValue::Word).to_vec());
                told.into_iter().collect()
            }
            ProbePurpose::UcxSend => vec![self.ucx_send(registers, memory).arguments()],
            // It calls `mca_pml_ob1_isend` for these.
            ProbePurpose::OpenMpiSend if argument(5) as u32 == open_mpi::BUFFERED => Vec::new(),
            ProbePurpose::OpenMpiSend | ProbePurpose::OpenMpiIsend => {
                vec![open_mpi::message(registers, memory).arguments()]
            }
            ProbePurpose::OpenMpiPrepare => {
                let mut told = open_mpi::message(registers, memory).arguments();
                // The address of the request is the eighth argument.
                let request = memory.u64(registers.gpr[RSP].wrapping_add(16));
                told.push(request.map_or(ProbeValue::Missing, ProbeValue::Word));
                vec![told]
            }
            ProbePurpose::OpenMpiStart => {
                let count = argument(0).min(MAX_ENTRIES);
                let slots = (0..count).map(|number| argument(1).wrapping_add(8 * number));
                let requests = slots.map_while(|slot| memory.u64(slot).ok());
                let space = registers.space();
                let sent = requests.filter_map(|request| self.prepared.get(&(space, request)));
                sent.map(|message| message.arguments()).collect()
            }
        }
    }

    /// Returns the message of `ucp_tag_send_nbx(ep, buffer, count, tag, param)`, as MPICH calls it.
    fn ucx_send(&self, registers: &MagicRegisters, memory: Reader<'_>) -> MessageFields {
        let argument = |number: usize| registers.gpr[ARGUMENT_REGISTERS[number]];
        let (space, tag) = (registers.space(), argument(3));
        let bytes = element(argument(4), memory).ok().flatten();
        MessageFields {
            from: self.own.get(&space).copied(),
            to: self.others.get(&(space, argument(0))).copied(),
            // 16 bits of context, 16 of the sender's rank there, and the tag (`ucx_types.h` of MPICH 4.0).
            context: Some(tag >> 48),
            tag: Some(tag),
            bytes: bytes.and_then(|element| element.checked_mul(argument(2))),
        }
    }

    /// Learns names from a call that returned. Returns true if it is to be recorded.
    pub(super) fn learn(
        &mut self,
        purpose: ProbePurpose,
        record: &mut ProbeRecord,
        registers: &MagicRegisters,
        memory: Reader<'_>,
    ) -> bool {
        let space = registers.space();
        let word = |number: usize| match record.arguments.get(number) {
            Some(ProbeValue::Word(word)) => Some(*word),
            _ => None,
        };
        let pointed = |number: usize| memory.u64(word(number)?).ok();
        // `ucs_status_t` is a byte, and 0 means success.
        let went_well = registers.gpr[RAX] as u8 == 0;
        match purpose {
            ProbePurpose::UcxAddress => {
                let address = pointed(0).filter(|_| went_well);
                let name = address.and_then(|at| uuid(at, memory).ok().flatten());
                let Some(name) = name else {
                    return false;
                };
                if self.has_room() {
                    self.own.insert(space, name);
                }
                record.arguments = vec![ProbeValue::Word(name)];
                true
            }
            ProbePurpose::UcxEndpoint => {
                let endpoint = pointed(1).filter(|_| went_well);
                if let (Some(name), Some(endpoint)) = (word(0), endpoint)
                    && self.has_room()
                {
                    self.others.insert((space, endpoint), name);
                }
                false
            }
            ProbePurpose::OpenMpiPrepare => {
                if let Some(request) = pointed(MESSAGE.len())
                    && self.has_room()
                {
                    let message = MessageFields::of(record);
                    self.prepared.insert((space, request), message);
                }
                false
            }
            _ => true,
        }
    }

    fn len(&self) -> usize {
        self.own.len() + self.others.len() + self.prepared.len()
    }

    fn has_room(&self) -> bool {
        self.len() < MOST_ENDPOINTS
    }

    /// Forgets the process in an address space.
    pub(super) fn end_process(&mut self, space: Space) {
        self.own.remove(&space);
        forget(&mut self.others, space);
        forget(&mut self.prepared, space);
    }

    /// True if its size is within the limit.
    pub(super) fn is_sound(&self) -> bool {
        self.len() <= MOST_ENDPOINTS
    }
}

/// Removes the entries of this address space.
fn forget<T>(all: &mut BTreeMap<(Space, u64), T>, space: Space) {
    let of_it = all.range((space, 0)..=(space, u64::MAX));
    let of_it: Vec<(Space, u64)> = of_it.map(|(key, _)| *key).collect();
    for key in of_it {
        all.remove(&key);
    }
}

/// Returns the worker to which an endpoint of these parameters leads (`ucp_ep_params_t`: a mask of fields, followed by the address).
fn endpoint_to(parameters: u64, memory: Reader<'_>) -> Result<Option<u64>, BadAddress> {
    match memory.u64(parameters)? & HAS_ADDRESS {
        0 => Ok(None),
        _ => uuid(memory.u64(parameters.wrapping_add(8))?, memory),
    }
}

/// Returns the UUID of the worker whose address is at `at`.
fn uuid(at: u64, memory: Reader<'_>) -> Result<Option<u64>, BadAddress> {
    let head = memory.u64(at)?;
    let (flags, after) = match head & ADDRESS_VERSION {
        0 => (head >> 4 & 0xf, 1),
        _ => (head >> 8 & 0xff, 2),
    };
    match flags & HAS_UUID {
        0 => Ok(None),
        _ => memory.u64(at.wrapping_add(after)).map(Some),
    }
}

/// Returns the bytes of an element sent with these parameters (`ucp_request_param_t`): 1 without a datatype.
fn element(parameters: u64, memory: Reader<'_>) -> Result<Option<u64>, BadAddress> {
    if memory.u64(parameters)? & HAS_DATATYPE == 0 {
        return Ok(Some(1));
    }
    let datatype = memory.u64(parameters.wrapping_add(24))?;
    match datatype & DATATYPE_CLASS {
        CONTIGUOUS => Ok(Some(datatype >> 3)),
        GENERIC => {
            // Its context is MPICH's datatype.
            let own = memory.u64(datatype & !DATATYPE_CLASS)?;
            memory.u64(own.wrapping_add(MPICH_SIZE)).map(Some)
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
