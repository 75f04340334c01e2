//! Type signatures and layouts of the datatypes that programs create.
//!
//! A datatype is a list of other datatypes with numbers of elements, so its type signature is a tree: a billion elements cost
//! as much as one. The size of the tables, of lists and of nesting is bounded; datatypes beyond the bounds are unknown, and
//! comparisons with them are counted as not made. Filled from calls, and used by checks of messages, collective operations and
//! buffers.

/// Comparison of type signatures.
mod compare;
/// Digests of sequences of basic datatypes.
mod digest;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::ProcessKey;
use belljar_trace::datatypes::PREDEFINED;
use belljar_trace::{Datatype, DatatypeContents, Event, Fact};

use super::{BasicType, Element, elements_of};
pub(in crate::check) use compare::{Comparison, difference};
use digest::Digest;

/// Most datatypes in memory.
const MOST_DATATYPES: usize = 1 << 16;
/// Most parts and blocks of all of them.
const MOST_LISTED: usize = 1 << 22;
/// Deepest nesting of datatypes.
const MOST_DEPTH: u32 = 256;
/// Most ranges of a buffer.
const MOST_RANGES: u64 = 1 << 10;

/// A part of a type signature.
#[derive(Clone, Debug)]
enum Part {
    /// A basic datatype; `None` for a byte that agrees with all of them.
    Basic(Option<BasicType>),
    Derived(Rc<TypeNode>),
}

/// The type signature of an element of a datatype: its parts, each with its number.
#[derive(Clone, Debug, Default)]
struct TypeNode {
    parts: Vec<(Part, u64)>,
    /// Of its sequence of basic datatypes.
    digest: Digest,
    /// Bytes that agree with all datatypes.
    wild: u64,
    depth: u32,
}

impl TypeNode {
    /// Adds `count` of a part; `None` if the signature gets too long or too deep.
    fn add(&mut self, part: Part, count: u64) -> Option<()> {
        let (digest, wild, depth) = match &part {
            Part::Basic(Some(basic)) => (Digest::of(basic.code()), 0, 0),
            Part::Basic(None) => (Digest::of(0), 1, 0),
            Part::Derived(node) => (node.digest, node.wild, node.depth),
        };
        if count == 0 || digest.length == 0 {
            return Some(());
        }
        self.digest = self.digest.then(digest.times(count)?)?;
        self.wild = self.wild.checked_add(wild.checked_mul(count)?)?;
        // A repeated part of repeated parts is one.
        let (part, count) = match part {
            Part::Derived(node) if node.parts.len() == 1 => {
                let (inner, number) = node.parts[0].clone();
                (inner, number.checked_mul(count)?)
            }
            part => (part, count),
        };
        if matches!(part, Part::Derived(_)) {
            self.depth = self.depth.max(depth.checked_add(1)?);
        }
        match (self.parts.last_mut(), &part) {
            (Some((Part::Basic(last), number)), Part::Basic(own)) if last == own => {
                *number = number.checked_add(count)?;
            }
            _ => self.parts.push((part, count)),
        }
        (self.depth <= MOST_DEPTH).then_some(())
    }
}

/// The memory of an element of a datatype.
#[derive(Clone, Debug)]
struct ElementLayout {
    blocks: Rc<[(i64, u64)]>,
    extent: i64,
}

/// Data in a buffer: elements of a datatype of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) struct TypedData {
    pub(in crate::check) process: ProcessKey,
    pub(in crate::check) datatype: Datatype,
    pub(in crate::check) count: u64,
}

/// A datatype that was not compared, and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) struct UncheckedType {
    pub(in crate::check) process: ProcessKey,
    pub(in crate::check) datatype: Datatype,
}

impl From<TypedData> for UncheckedType {
    fn from(data: TypedData) -> Self {
        Self {
            process: data.process,
            datatype: data.datatype,
        }
    }
}

/// The datatypes of all processes.
#[derive(Debug, Default)]
pub(in crate::check) struct TypeTable {
    signatures: BTreeMap<(ProcessKey, u32), Rc<TypeNode>>,
    layouts: BTreeMap<(ProcessKey, u32), ElementLayout>,
    listed: usize,
    /// The first datatype whose signature was not compared, if any.
    pub(in crate::check) lacks_signature: Cell<Option<UncheckedType>>,
    /// The first datatype whose buffer was not compared, if any.
    pub(in crate::check) lacks_layout: Cell<Option<UncheckedType>>,
}

impl TypeTable {
    /// Takes a call that may have created a datatype.
    pub(in crate::check) fn take(&mut self, call: &Event) {
        let Some(Fact::Datatype(Datatype::Derived { number, .. })) = call.fact else {
            return;
        };
        let details = call.details.0.as_deref();
        let made = details.and_then(|details| details.datatypes.as_deref()?.made.as_ref());
        let Some(made) = made else {
            return;
        };
        let process = (call.node, call.process);
        let extent = details.and_then(|details| Some(details.bounds?.extent));
        self.add(process, number, made, extent);
    }

    fn add(
        &mut self,
        process: ProcessKey,
        number: u32,
        made: &DatatypeContents,
        extent: Option<i64>,
    ) {
        let key = (process, number);
        let lists = [
            made.parts.as_ref().map(Vec::len),
            made.blocks.as_ref().map(Vec::len),
        ];
        let length: usize = lists.into_iter().flatten().sum();
        if self.signatures.len().max(self.layouts.len()) >= MOST_DATATYPES
            || self.listed.saturating_add(length) > MOST_LISTED
        {
            return;
        }
        self.listed += length;
        let parts = made.parts.as_ref();
        if let Some(node) = parts.and_then(|parts| self.node(process, parts)) {
            self.signatures.insert(key, Rc::new(node));
        }
        if let Some((blocks, extent)) = made.blocks.as_ref().zip(extent) {
            let blocks = Rc::from(blocks.as_slice());
            self.layouts.insert(key, ElementLayout { blocks, extent });
        }
    }

    /// The signature of some elements, one datatype after the other.
    fn node(&self, process: ProcessKey, parts: &[(Datatype, u64)]) -> Option<TypeNode> {
        let mut node = TypeNode::default();
        for (datatype, count) in parts {
            match datatype {
                Datatype::Predefined(index) => match elements_of(*index)? {
                    Element::One(basic) => node.add(Part::Basic(Some(basic)), *count)?,
                    Element::Bytes(bytes) => {
                        node.add(Part::Basic(None), count.checked_mul(bytes.into())?)?;
                    }
                    Element::Two(first, second) => {
                        let mut pair = TypeNode::default();
                        pair.add(Part::Basic(Some(first)), 1)?;
                        pair.add(Part::Basic(Some(second)), 1)?;
                        node.add(Part::Derived(Rc::new(pair)), *count)?;
                    }
                },
                Datatype::Derived { number, .. } => {
                    let own = self.signatures.get(&(process, *number))?;
                    node.add(Part::Derived(Rc::clone(own)), *count)?;
                }
                Datatype::Unknown => return None,
            }
        }
        Some(node)
    }

    /// Compares the type signatures of sent and received data, as far as both reach.
    pub(in crate::check) fn compare(&self, sent: TypedData, received: TypedData) -> Comparison {
        let node = |data: TypedData| self.node(data.process, &[(data.datatype, data.count)]);
        let is_derived = |data: &TypedData| !matches!(data.datatype, Datatype::Predefined(_));
        let both = node(sent).zip(node(received));
        let compared = both.map(|(sent, received)| compare::compare(&sent, &received));
        match compared {
            Some(Comparison::Unknown) | None => {
                let sides = [sent, received].into_iter().filter(is_derived);
                let without = sides.clone().find(|side| node(*side).is_none());
                let first = self.lacks_signature.get();
                let lacking = without.or_else(|| sides.clone().next());
                self.lacks_signature
                    .set(first.or(lacking.map(UncheckedType::from)));
                Comparison::Unknown
            }
            Some(known) => known,
        }
    }

    /// Returns the ranges of memory of a buffer at `start`, each with its first and its last address plus one; `None` if they
    /// are unknown, or too many.
    pub(in crate::check) fn ranges(&self, data: TypedData, start: u64) -> Option<Vec<(u64, u64)>> {
        let ranges = self.known_ranges(data, start);
        if ranges.is_none() {
            let first = self.lacks_layout.get();
            self.lacks_layout.set(first.or(Some(data.into())));
        }
        ranges
    }

    fn known_ranges(&self, data: TypedData, start: u64) -> Option<Vec<(u64, u64)>> {
        if data.count == 0 || data.datatype.size() == Some(0) {
            return Some(Vec::new());
        }
        let ElementLayout { blocks, extent } = match data.datatype {
            Datatype::Predefined(index) => {
                let row = PREDEFINED.get(usize::from(index))?;
                ElementLayout {
                    blocks: Rc::from([(0, row.extent())]),
                    extent: i64::try_from(row.extent()).ok()?,
                }
            }
            Datatype::Derived { number, .. } => self.layouts.get(&(data.process, number))?.clone(),
            Datatype::Unknown => return None,
        };
        let range = |at: i64, bytes: u64| {
            let first = start.checked_add_signed(at)?;
            Some((first, first.checked_add(bytes)?))
        };
        if let [(at, bytes)] = blocks[..]
            && i64::try_from(bytes) == Ok(extent)
        {
            return Some(vec![range(at, bytes.checked_mul(data.count)?)?]);
        }
        let number = data.count.checked_mul(blocks.len() as u64)?;
        if number > MOST_RANGES {
            return None;
        }
        let elements = 0..i64::try_from(data.count).ok()?;
        let all = elements.flat_map(|element| {
            let each = blocks.iter();
            each.map(move |(at, bytes)| {
                range(element.checked_mul(extent)?.checked_add(*at)?, *bytes)
            })
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests;
