//! Queue pairs: their contexts, states and rings.
//!
//! The context is kept in the driver's layout, so that a query returns the values that the driver set. Running values are beside it.
//! `transitions` changes states; requester and responder work on a pair.

use serde::{Deserialize, Serialize};

use belljar_verbs::Psn;

use crate::congestion::PairPace;
use crate::fields::{u8_at, u16_at, u32_at, u64_at};
use crate::lent::Buffer;
use crate::requester::Requester;
use crate::responder::Responder;

/// Bytes of a context.
pub(crate) const CONTEXT: usize = 0xf8;

/// Offsets in the context.
pub(crate) mod at {
    pub(crate) const FLAGS: usize = 0x00;
    pub(crate) const DOMAIN: usize = 0x04;
    pub(crate) const MTU: usize = 0x08;
    pub(crate) const RECEIVE_SIZE: usize = 0x09;
    pub(crate) const SEND_SIZE: usize = 0x0a;
    pub(crate) const PEER: usize = 0x14;
    pub(crate) const PATH: usize = 0x18;
    pub(crate) const PATH_END: usize = 0x44;
    pub(crate) const REQUESTS: usize = 0x70;
    pub(crate) const SEND_PSN: usize = 0x78;
    pub(crate) const SEND_COMPLETIONS: usize = 0x7c;
    pub(crate) const ANSWERS: usize = 0x90;
    pub(crate) const RECEIVE_PSN: usize = 0x94;
    pub(crate) const RECEIVE_COMPLETIONS: usize = 0x9c;
    pub(crate) const RECORD: usize = 0xa0;
    pub(crate) const QUEUE_KEY: usize = 0xa8;
    pub(crate) const SHARED: usize = 0xac;
    pub(crate) const MESSAGES: usize = 0xb0;
    pub(crate) const PAGE_SIZE: usize = 0xc8;
    pub(crate) const MTT_HIGH: usize = 0xcb;
    pub(crate) const MTT: usize = 0xcc;
    /// In the path: P_Key index, flags with path bits, identifier, timeout, and more.
    pub(crate) const PARTITION: usize = PATH + 3;
    pub(crate) const PATH_FLAGS: usize = PATH + 5;
    pub(crate) const PEER_LID: usize = PATH + 6;
    pub(crate) const TIMEOUT: usize = PATH + 8;
    pub(crate) const HOPS: usize = PATH + 0xb;
    pub(crate) const CLASS: usize = PATH + 0xc;
    pub(crate) const PEER_GID: usize = PATH + 0x10;
    pub(crate) const SCHEDULE: usize = PATH + 0x20;
}

/// States of a pair, by the number in the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PairState {
    #[default]
    Reset = 0,
    Init = 1,
    Receive = 2,
    Send = 3,
    SendError = 4,
    Drained = 5,
    Error = 6,
}

/// Transport services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PairService {
    #[default]
    Reliable,
    Unreliable,
    Datagram,
    /// Of queue pairs 0 and 1: the driver writes the headers.
    Management,
}

/// A ring of work requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ring {
    /// Offset in the pair's buffer.
    pub(crate) start: u64,
    pub(crate) log_count: u8,
    pub(crate) log_stride: u8,
}

impl Ring {
    fn of_byte(byte: u8) -> Self {
        Self {
            start: 0,
            log_count: (byte >> 3 & 0xf).min(15),
            log_stride: (byte & 7) + 4,
        }
    }

    pub(crate) fn count(&self) -> u16 {
        1 << self.log_count
    }

    pub(crate) fn stride(&self) -> usize {
        1 << self.log_stride
    }

    fn bytes(&self) -> u64 {
        1 << (self.log_count + self.log_stride)
    }

    /// Offset in the buffer of the work with this counter.
    pub(crate) fn place(&self, counter: u16) -> u64 {
        self.start + (u64::from(counter & (self.count() - 1)) << self.log_stride)
    }
}

/// A queue pair.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct QueuePair {
    pub(crate) number: u32,
    pub(crate) state: PairState,
    /// In the driver's layout.
    #[serde(with = "serde_bytes")]
    pub(crate) context: Vec<u8>,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) pace: PairPace,
}

impl QueuePair {
    /// A pair with the context of a driver's mailbox.
    pub(crate) fn new(number: u32, context: &[u8]) -> Self {
        let mut own = context.to_vec();
        own.resize(CONTEXT, 0);
        Self {
            number,
            state: PairState::Init,
            context: own,
            requester: Requester::default(),
            responder: Responder::default(),
            pace: PairPace::default(),
        }
    }

    pub(crate) fn service(&self) -> PairService {
        match self.context[at::FLAGS + 1] & 0xf {
            0 => PairService::Reliable,
            1 => PairService::Unreliable,
            3 => PairService::Datagram,
            _ => PairService::Management,
        }
    }

    fn u32(&self, at: usize) -> u32 {
        u32_at(&self.context, at)
    }

    pub(crate) fn domain(&self) -> u32 {
        self.u32(at::DOMAIN) & 0xff_ffff
    }

    /// The largest payload of a packet: the pair's for connections, the port's for datagrams.
    pub(crate) fn mtu(&self) -> usize {
        match u8_at(&self.context, at::MTU) >> 5 {
            code @ 1..=5 => 128 << code,
            _ => 4096,
        }
    }

    pub(crate) fn peer(&self) -> u32 {
        self.u32(at::PEER) & 0xff_ffff
    }

    pub(crate) fn peer_lid(&self) -> u16 {
        u16_at(&self.context, at::PEER_LID)
    }

    pub(crate) fn level(&self) -> u8 {
        u8_at(&self.context, at::SCHEDULE) >> 2 & 0xf
    }

    pub(crate) fn has_global_route(&self) -> bool {
        u8_at(&self.context, at::PATH_FLAGS) & 0x80 != 0
    }

    pub(crate) fn send_completions(&self) -> u32 {
        self.u32(at::SEND_COMPLETIONS) & 0xff_ffff
    }

    pub(crate) fn receive_completions(&self) -> u32 {
        self.u32(at::RECEIVE_COMPLETIONS) & 0xff_ffff
    }

    /// Physical address of the receive ring's doorbell record.
    pub(crate) fn record(&self) -> u64 {
        u64_at(&self.context, at::RECORD)
    }

    pub(crate) fn queue_key(&self) -> u32 {
        self.u32(at::QUEUE_KEY)
    }

    /// The shared receive queue, if the pair has one.
    pub(crate) fn shared(&self) -> Option<u32> {
        let field = self.u32(at::SHARED);
        (field >> 24 & 1 == 1).then_some(field & 0xff_ffff)
    }

    /// Rights of the peer: reads, writes, atomic operations.
    pub(crate) fn permits(&self) -> (bool, bool, bool) {
        let field = self.u32(at::ANSWERS);
        (
            field >> 15 & 1 == 1,
            field >> 14 & 1 == 1,
            field >> 13 & 1 == 1,
        )
    }

    /// The most outstanding reads and atomic operations, as requester.
    pub(crate) fn most_reads(&self) -> usize {
        1 << (self.u32(at::REQUESTS) >> 21 & 7)
    }

    pub(crate) fn retries(&self) -> u32 {
        self.u32(at::REQUESTS) >> 16 & 7
    }

    /// Number of tries when the peer has no receive; 7 for no limit.
    pub(crate) fn ready_retries(&self) -> u32 {
        self.u32(at::REQUESTS) >> 13 & 7
    }

    /// The code of the acknowledgement timeout: 4.096 us times two to this power; 0 is for ever.
    pub(crate) fn timeout_code(&self) -> u32 {
        u32::from(u8_at(&self.context, at::TIMEOUT) >> 3)
    }

    /// The code of the time after which a peer may try again when there was no receive.
    pub(crate) fn ready_timer(&self) -> u32 {
        self.u32(at::RECEIVE_PSN) >> 24 & 0x1f
    }

    pub(crate) fn first_send_psn(&self) -> Psn {
        Psn::new(self.u32(at::SEND_PSN))
    }

    pub(crate) fn first_receive_psn(&self) -> Psn {
        Psn::new(self.u32(at::RECEIVE_PSN))
    }

    pub(crate) fn buffer(&self) -> Buffer {
        Buffer {
            mtt: u64::from(u8_at(&self.context, at::MTT_HIGH)) << 32
                | u64::from(self.u32(at::MTT) & !7),
            page_shift: (u8_at(&self.context, at::PAGE_SIZE) & 0x3f) + 12,
            start: 0,
        }
    }

    /// The rings of sends and receives: the one with the larger stride comes first in the buffer, and on a tie the one of sends.
    pub(crate) fn rings(&self) -> (Ring, Option<Ring>) {
        let mut sends = Ring::of_byte(self.context[at::SEND_SIZE]);
        if self.shared().is_some() {
            return (sends, None);
        }
        let mut receives = Ring::of_byte(self.context[at::RECEIVE_SIZE]);
        match receives.log_stride > sends.log_stride {
            true => sends.start = receives.bytes(),
            false => receives.start = sends.bytes(),
        }
        (sends, Some(receives))
    }

    /// True if the pair takes packets.
    pub(crate) fn receives(&self) -> bool {
        use PairState::{Drained, Receive, Send, SendError};
        matches!(self.state, Receive | Send | SendError | Drained)
    }
}
