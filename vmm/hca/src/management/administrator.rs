//! The subnet administrator: paths and multicast groups.
//!
//! The card whose local identifier is the subnet manager's answers for it. Kernels ask for the path to a port, and join groups, by datagrams to
//! pair 1 of this identifier: IP over InfiniBand and connection management (`rdma_cm`) need both. A group of all nodes with IP version 4 exists
//! from the start, as subnet managers make one. InfiniBand Architecture Specification volume 1, chapter 15; the group's identifier is of RFC 4391.
//!
//! Requests are hostile: groups are bounded, and all fields are read from a datagram of fixed length.

use std::collections::{BTreeMap, BTreeSet};

use belljar_verbs::{Extensions, Packet};
use serde::{Deserialize, Serialize};

use super::{GET, MAD, MANAGER, PARTITION, SET, UNSUPPORTED_ATTRIBUTE, UNSUPPORTED_METHOD};
use crate::Step;
use crate::fields::{put, u8_at, u16_at, u64_at};

const ADMINISTRATION: u8 = 0x03;
const DELETE: u8 = 0x15;
/// The bit of an answer's method.
const RESPONSE: u8 = 0x80;
/// Offsets in a datagram: the mask of given fields, and the record.
const MASK: usize = 48;
const RECORD: usize = 56;
const INVALID: u16 = 0x0200;
const NO_RECORDS: u16 = 0x0300;
const NO_RESOURCES: u16 = 0x0100;
/// The queue key of pair 1.
const PAIR_KEY: u32 = 0x8001_0000;
/// Maximum number of groups.
const MOST_GROUPS: u16 = 1 << 10;
/// Bytes of a group's record, and of a path's.
const GROUP_RECORD: usize = 52;
const PATH_RECORD: usize = 64;
/// The local identifier of the first group.
const FIRST_GROUP: u16 = belljar_verbs::FIRST_MULTICAST;
/// The group of all nodes with IP version 4 in the default partition, within the subnet.
const BROADCAST: [u8; 16] = [
    0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
];
/// Its queue key, as subnet managers choose it.
const BROADCAST_KEY: u32 = 0x0b1b;
/// Selects exactly the value.
const EXACTLY: u8 = 2 << 6;
/// 2048 bytes, as subnet managers choose for the group of all nodes; 4096 bytes.
const MTU_2048: u8 = 4;
const MTU_4096: u8 = 5;
/// 4.096 us times two to the power of this: the life of a packet.
const LIFE: u8 = 18;
/// Bits of a group's mask: identifier of the group; those that make one (queue key, partition, service level).
const HAS_GROUP: u64 = 1;
const MAKES_GROUP: u64 = 1 << 2 | 1 << 7 | 1 << 12;
/// Bits of a path's mask: global and local identifiers of the destination and of the source.
const HAS_TO: u64 = 1 << 2;
const HAS_FROM: u64 = 1 << 3;
const HAS_TO_LID: u64 = 1 << 4;
const HAS_FROM_LID: u64 = 1 << 5;

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    /// Its record, without a member.
    #[serde(with = "serde_bytes")]
    record: Vec<u8>,
    /// States of its members, by local identifier: full member, and kinds of those that only send.
    members: BTreeMap<u16, u8>,
}

/// The groups of a subnet, by identifier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Administrator {
    groups: BTreeMap<[u8; 16], Group>,
}

impl Administrator {
    /// The lowest free local identifier of a group. The first one is that of all nodes.
    fn free(&self) -> Option<u16> {
        let of = |group: &Group| u16_at(&group.record, 36);
        let taken: BTreeSet<u16> = self.groups.values().map(of).collect();
        (FIRST_GROUP + 1..FIRST_GROUP + MOST_GROUPS).find(|lid| !taken.contains(lid))
    }
}

impl Step<'_> {
    /// True if a datagram is a request to the administrator, and this card answers for it.
    pub(crate) fn administers(&self, packet: &Packet) -> bool {
        let request = &packet.payload;
        self.config.identity.lid == MANAGER
            && packet.queue_pair == 1
            && request.len() == MAD
            && u8_at(request, 1) == ADMINISTRATION
            && u8_at(request, 3) & RESPONSE == 0
    }

    /// Answers a request to the administrator.
    pub(crate) fn administer(&mut self, packet: &Packet) {
        let mut answer = packet.payload.clone();
        let (method, attribute) = (u8_at(&answer, 3), u16_at(&answer, 16));
        answer[3] = match method {
            SET => GET | RESPONSE,
            other => other | RESPONSE,
        };
        let found = match (attribute, method) {
            (0x0001, GET) => Ok(description()),
            (0x0035, GET) => self.path(&packet.payload),
            (0x0038, GET) => self.group(&packet.payload),
            (0x0038, SET) => self.join(&packet.payload),
            (0x0038, DELETE) => self.leave(&packet.payload),
            (0x0001 | 0x0035 | 0x0038, _) => Err(UNSUPPORTED_METHOD),
            _ => Err(UNSUPPORTED_ATTRIBUTE),
        };
        match found {
            Ok(record) => {
                answer[RECORD..].fill(0);
                put(&mut answer, RECORD, &record);
            }
            Err(status) => put(&mut answer, 4, &status.to_be_bytes()),
        }
        let extensions = Extensions {
            source: 1,
            queue_key: PAIR_KEY,
            ..packet.extensions
        };
        self.reply(packet, extensions, answer);
    }

    /// The local identifier of a port of the subnet.
    fn lid_of(&self, gid: &[u8]) -> Option<u16> {
        let own = self.config.identity.gid();
        let lid = u64_at(gid, 8).wrapping_sub(self.guid_of(0));
        let lid = u16::try_from(lid).ok()?;
        let is_here = (1..=self.config.identity.ports).contains(&lid);
        (gid.get(..8) == Some(&own[..8]) && is_here).then_some(lid)
    }

    /// The GUID of the port with this local identifier.
    fn guid_of(&self, lid: u16) -> u64 {
        let identity = &self.config.identity;
        let first = identity.guid.wrapping_sub(identity.lid.into());
        first.wrapping_add(lid.into())
    }

    /// The global identifier of a port of the subnet.
    fn gid_of(&self, lid: u16) -> Option<[u8; 16]> {
        let identity = &self.config.identity;
        if !(1..=identity.ports).contains(&lid) {
            return None;
        }
        let mut gid = identity.gid();
        put(&mut gid, 8, &self.guid_of(lid).to_be_bytes());
        Some(gid)
    }

    /// The end of a path that a request names by global or local identifier.
    fn end(&self, request: &[u8], gid: (u64, usize), lid: (u64, usize)) -> Option<u16> {
        let mask = u64_at(request, MASK);
        match (mask & gid.0 != 0, mask & lid.0 != 0) {
            (true, _) => self.lid_of(&request[RECORD + gid.1..][..16]),
            (_, true) => {
                let lid = u16_at(request, RECORD + lid.1);
                self.gid_of(lid).map(|_| lid)
            }
            _ => None,
        }
    }

    /// The path between two ports.
    fn path(&self, request: &[u8]) -> Result<Vec<u8>, u16> {
        let to = self.end(request, (HAS_TO, 8), (HAS_TO_LID, 40));
        let from = self.end(request, (HAS_FROM, 24), (HAS_FROM_LID, 42));
        let ends = to.zip(from);
        let ends =
            ends.and_then(|(to, from)| Some((to, from, self.gid_of(to)?, self.gid_of(from)?)));
        let (to, from, to_gid, from_gid) = ends.ok_or(NO_RECORDS)?;
        let mut record = vec![0; PATH_RECORD];
        put(&mut record, 8, &to_gid);
        put(&mut record, 24, &from_gid);
        put(&mut record, 40, &to.to_be_bytes());
        put(&mut record, 42, &from.to_be_bytes());
        // Reversible, and one path.
        put(&mut record, 49, &[0x80 | 1]);
        put(&mut record, 50, &PARTITION.to_be_bytes());
        let limits = [EXACTLY | MTU_4096, EXACTLY | self.rate(), EXACTLY | LIFE];
        put(&mut record, 54, &limits);
        Ok(record)
    }

    /// The code of the ports' rate.
    fn rate(&self) -> u8 {
        match self.config.identity.speed {
            crate::Speed::Fdr => 12,
            crate::Speed::Edr => 16,
        }
    }

    /// The group of all nodes.
    fn broadcast(&self) -> Group {
        let mut record = vec![0; GROUP_RECORD];
        put(&mut record, 0, &BROADCAST);
        put(&mut record, 32, &BROADCAST_KEY.to_be_bytes());
        put(&mut record, 36, &FIRST_GROUP.to_be_bytes());
        put(&mut record, 38, &[EXACTLY | MTU_2048]);
        put(&mut record, 40, &PARTITION.to_be_bytes());
        put(&mut record, 42, &[EXACTLY | self.rate(), EXACTLY | LIFE]);
        record[48] = 2 << 4;
        let members = BTreeMap::new();
        Group { record, members }
    }

    /// The group that a request names, if there is one.
    fn known(&self, request: &[u8]) -> Option<([u8; 16], Group)> {
        let name: [u8; 16] = request.get(RECORD..RECORD + 16)?.try_into().ok()?;
        let group = self.core.administrator.groups.get(&name).cloned();
        let group = group.or_else(|| (name == BROADCAST).then(|| self.broadcast()));
        group.map(|group| (name, group))
    }

    /// The record of a group, without a member.
    fn group(&self, request: &[u8]) -> Result<Vec<u8>, u16> {
        let found = (u64_at(request, MASK) & HAS_GROUP != 0).then(|| self.known(request));
        let (_, group) = found.flatten().ok_or(NO_RECORDS)?;
        Ok(group.record)
    }

    /// A port joins a group, which is made if the request has all that makes one.
    fn join(&mut self, request: &[u8]) -> Result<Vec<u8>, u16> {
        let port = self.lid_of(&request[RECORD + 16..][..16]).ok_or(INVALID)?;
        let (name, mut group) = match self.known(request) {
            Some(known) => known,
            None => self.made(request)?,
        };
        let state = u8_at(request, RECORD + 48) & 0xf;
        if state == 0 {
            return Err(INVALID);
        }
        let joined = group.members.entry(port).or_default();
        *joined |= state;
        let record = member(&group.record, request, *joined);
        self.core.administrator.groups.insert(name, group);
        Ok(record)
    }

    /// A new group with a request's properties.
    fn made(&self, request: &[u8]) -> Result<([u8; 16], Group), u16> {
        let name: [u8; 16] = request[RECORD..RECORD + 16].try_into().unwrap_or_default();
        if name[0] != 0xff || u64_at(request, MASK) & MAKES_GROUP != MAKES_GROUP {
            return Err(INVALID);
        }
        let free = self.core.administrator.free().ok_or(NO_RESOURCES)?;
        let mut record = request[RECORD..RECORD + GROUP_RECORD].to_vec();
        put(&mut record, 16, &[0; 16]);
        put(&mut record, 36, &free.to_be_bytes());
        if u8_at(&record, 38) & 0x3f == 0 {
            record[38] = MTU_2048;
        }
        if u8_at(&record, 42) & 0x3f == 0 {
            record[42] = self.rate();
        }
        if u8_at(&record, 43) & 0x3f == 0 {
            record[43] = LIFE;
        }
        for at in [38, 42, 43] {
            record[at] = record[at] & 0x3f | EXACTLY;
        }
        record[48] &= 0xf0;
        record[49] = 0;
        let members = BTreeMap::new();
        Ok((name, Group { record, members }))
    }

    /// A port leaves a group, which ends with its last member.
    fn leave(&mut self, request: &[u8]) -> Result<Vec<u8>, u16> {
        let port = self.lid_of(&request[RECORD + 16..][..16]).ok_or(INVALID)?;
        let (name, mut group) = self.known(request).ok_or(NO_RECORDS)?;
        let state = u8_at(request, RECORD + 48) & 0xf;
        let joined = group.members.get_mut(&port).ok_or(INVALID)?;
        *joined &= !state;
        let left = *joined;
        if left == 0 {
            group.members.remove(&port);
        }
        let record = member(&group.record, request, left);
        match group.members.is_empty() {
            true => self.core.administrator.groups.remove(&name),
            false => self.core.administrator.groups.insert(name, group),
        };
        Ok(record)
    }
}

/// A group's record with the member that a request names, and its state.
fn member(record: &[u8], request: &[u8], state: u8) -> Vec<u8> {
    let mut record = record.to_vec();
    let port = &request[RECORD + 16..RECORD + 32];
    put(&mut record, 16, port);
    record[48] = record[48] & 0xf0 | state;
    record
}

/// The administrator's versions and the time in which it answers.
fn description() -> Vec<u8> {
    let mut record = vec![0; 72];
    put(&mut record, 0, &[1, 2]);
    put(&mut record, 4, &u32::from(LIFE).to_be_bytes());
    record
}
