//! Subnet and performance management: a port as a subnet manager configures it, and its counters.
//!
//! There is no subnet manager: the scenario sets identifiers and states, and the agent answers as a port that one has configured. Requests
//! come by command from this node's driver, and by packets from other nodes. InfiniBand Architecture Specification volume 1, chapters 14 and 16.
//! Queries for the subnet manager's administrator are answered by the card with its identifier, in `administrator`.

/// Paths and multicast groups.
pub(crate) mod administrator;

use belljar_verbs::{Extensions, Packet};

use crate::Step;
use crate::completions::Failure;
use crate::fields::{put, u8_at, u16_at, u32_at};
use crate::pair::QueuePair;
use crate::work::{Work, data, op};

/// Bytes of a management datagram, and where its data begin.
pub(crate) const MAD: usize = 256;
const DATA: usize = 64;
const GET: u8 = 1;
const SET: u8 = 2;
const RESPONSE: u8 = 0x81;
const SUBNET: u8 = 0x01;
const SUBNET_DIRECTED: u8 = 0x81;
const PERFORMANCE: u8 = 0x04;
const UNSUPPORTED_METHOD: u16 = 0x0008;
const UNSUPPORTED_ATTRIBUTE: u16 = 0x000c;
/// The default partition, with full membership: the only key of the table.
pub(crate) const PARTITION: u16 = 0xffff;
/// Capabilities of a port: extended speeds; client registration.
const CAPABILITIES: u32 = 1 << 14 | 1 << 25;
/// The subnet manager's local identifier.
const MANAGER: u16 = 1;
/// Flags of a driver's packet: management lane; its own source identifier.
const LANE_15: u32 = 1 << 17;

impl Step<'_> {
    /// The answer to a management request of the port.
    pub(crate) fn answer_management(&self, request: &[u8]) -> Vec<u8> {
        let mut answer = request.to_vec();
        answer.resize(MAD, 0);
        let (class, method) = (u8_at(request, 1), u8_at(request, 3));
        answer[3] = RESPONSE;
        let mut body = vec![0; MAD - DATA];
        let attribute = u16_at(request, 16);
        let modifier = u32_at(request, 20);
        let known = match (class, method) {
            (SUBNET | SUBNET_DIRECTED, GET | SET) => self.subnet(attribute, modifier, &mut body),
            (PERFORMANCE, GET | SET) => self.performance(attribute, &mut body),
            _ => Err(UNSUPPORTED_METHOD),
        };
        match known {
            Ok(()) => put(&mut answer, DATA, &body),
            Err(status) => put(&mut answer, 4, &status.to_be_bytes()),
        }
        answer
    }

    fn subnet(&self, attribute: u16, modifier: u32, body: &mut [u8]) -> Result<(), u16> {
        let identity = &self.config.identity;
        match attribute {
            0x0010 => put(body, 0, identity.description.as_bytes()),
            0x0011 => self.node_info(body),
            0x0014 if modifier == 0 => put(body, 0, &identity.guid.to_be_bytes()),
            0x0014 => {}
            0x0015 => self.port_info(body),
            0x0016 if modifier & 0xffff == 0 => put(body, 0, &PARTITION.to_be_bytes()),
            0x0016 => {}
            // Service level n uses lane n, of the lanes that there are.
            0x0017 => (0..8).for_each(|pair| body[pair] = 0),
            0x0018 => {}
            0xff90 => body[3] = 1,
            _ => return Err(UNSUPPORTED_ATTRIBUTE),
        }
        Ok(())
    }

    fn node_info(&self, body: &mut [u8]) {
        let guid = self.config.identity.guid.to_be_bytes();
        put(body, 0, &[1, 1, 1, 1]);
        put(body, 4, &guid);
        put(body, 12, &guid);
        put(body, 20, &guid);
        put(body, 28, &128_u16.to_be_bytes());
        put(body, 30, &crate::DEVICE.to_be_bytes());
        put(body, 32, &u32::from(crate::REVISION).to_be_bytes());
        put(body, 36, &[1, 0, 0x02, 0xc9]);
    }

    fn port_info(&self, body: &mut [u8]) {
        let identity = &self.config.identity;
        put(body, 8, &(0xfe80_u64 << 48).to_be_bytes());
        put(body, 16, &identity.lid.to_be_bytes());
        put(body, 18, &MANAGER.to_be_bytes());
        put(body, 20, &CAPABILITIES.to_be_bytes());
        let (state, physical) = if self.core.port_is_up { (4, 5) } else { (2, 5) };
        // Local port; widths enabled, supported and active: 1x or 4x, and 4x.
        put(body, 28, &[1, 3, 3, 2]);
        // Speeds supported up to QDR, and the state; physical state; no further path bits.
        put(body, 32, &[7 << 4 | state, physical << 4 | 2, 0]);
        // Active and enabled speed of QDR; MTU of 4096 active; virtual lanes; MTU of 4096 supported.
        put(body, 35, &[4 << 4 | 7, 5 << 4, 3 << 4]);
        body[41] = 5;
        body[43] = 3 << 4;
        // Entries of the GID table; timeout of the subnet and of answers.
        put(body, 50, &[16, 18, 16]);
        // Extended speed: active and supported; enabled.
        let extended = identity.speed.code();
        put(body, 62, &[extended << 4 | 3, 3]);
    }

    fn performance(&self, attribute: u16, body: &mut [u8]) -> Result<(), u16> {
        let counters = &self.core.counters;
        // In units of four bytes.
        let (sent, received) = (counters.sent_bytes / 4, counters.received_bytes / 4);
        let low = |count: u64| u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
        match attribute {
            0x0001 => put(body, 0, &[1, 1, 0x02, 0]),
            0x0012 => {
                body[1] = 1;
                let fields = [sent, received, counters.sent, counters.received];
                for (place, count) in fields.into_iter().enumerate() {
                    put(body, 24 + 4 * place, &low(count));
                }
            }
            0x001d => {
                body[1] = 1;
                let packets = [counters.sent, counters.received];
                let fields = [[sent, received], packets, packets].concat();
                for (place, count) in fields.into_iter().enumerate() {
                    put(body, 8 + 8 * place, &count.to_be_bytes());
                }
            }
            _ => return Err(UNSUPPORTED_ATTRIBUTE),
        }
        Ok(())
    }

    /// A packet of subnet management from another node: the agent answers it.
    pub(crate) fn manage(&mut self, packet: &Packet) {
        let request = &packet.payload;
        if request.len() != MAD || !matches!(u8_at(request, 3), GET | SET) {
            self.core.counters.dropped += 1;
            return;
        }
        let extensions = Extensions {
            source: 0,
            ..packet.extensions
        };
        let payload = self.answer_management(request);
        self.reply(packet, extensions, payload);
    }

    /// Sends an answer to the pair that a request came from.
    fn reply(&mut self, request: &Packet, extensions: Extensions, payload: Vec<u8>) {
        let answer = Packet {
            to: request.from,
            from: self.config.identity.lid,
            queue_pair: request.extensions.source,
            extensions,
            payload,
            ..request.clone()
        };
        let at = self.now + self.config.delays.answer;
        self.put_on_link(answer, at);
    }

    /// Sends a packet of pair 0 or 1, whose headers the driver wrote.
    pub(crate) fn send_management(
        &mut self,
        pair: &mut QueuePair,
        bytes: &[u8],
        counter: u16,
        at: belljar_sim::Time,
    ) {
        let flags = u32_at(bytes, 8);
        let work = Work {
            counter,
            opcode: op::SEND,
            wants_completion: flags >> 2 & 3 == 3,
            ..Work::default()
        };
        let written = data(bytes.get(16..).unwrap_or_default());
        let gathered = written.and_then(|written| {
            let length: u64 = written.iter().map(crate::work::Data::bytes).sum();
            let length = usize::try_from(length).ok()?;
            let fits = length <= belljar_verbs::LONGEST_PACKET;
            let all = fits.then(|| self.gather(pair.domain(), &written, 0, length));
            Packet::of_bytes(&all.flatten()?)
        });
        let Some(mut packet) = gathered else {
            return self.fail(pair, &work, Failure::LocalOperation);
        };
        packet.from = self.config.identity.lid;
        packet.is_management = flags & LANE_15 != 0;
        if packet.to == 0xffff {
            // A directed route that ends here.
            packet.to = packet.from;
        }
        self.emit(pair, packet, at);
        self.complete_when_sent(pair, &work, at);
    }
}
