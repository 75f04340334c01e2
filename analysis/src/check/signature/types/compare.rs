//! Comparison of type signatures.
//!
//! Digests decide whether two signatures agree. A walk over runs of equal basic datatypes finds the first difference; its
//! steps are limited. Signatures with bytes that agree with all datatypes are compared by the walk alone.

use super::digest::Digest;
use super::{Part, TypeNode};
use crate::check::signature::BasicType;

/// Most steps of a walk.
const MOST_STEPS: u32 = 1 << 16;

/// The result of a comparison of two signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) enum Comparison {
    Agree,
    /// They differ; the byte of data at which they do, and both basic datatypes there, if the walk found it.
    Differ(Option<(u64, BasicType, BasicType)>),
    /// They were not compared.
    Unknown,
}

/// Describes a difference after a sentence that names both sides, sender first.
pub(in crate::check) fn difference(at: Option<(u64, BasicType, BasicType)>) -> String {
    at.map_or_else(String::new, |(byte, sent, received)| {
        format!(
            ": after {byte} B of data, {} and {}",
            sent.words(),
            received.words()
        )
    })
}

/// Compares two signatures as far as both reach.
pub(super) fn compare(sent: &TypeNode, received: &TypeNode) -> Comparison {
    let is_wild = |node: &TypeNode| node.wild == node.digest.length;
    if is_wild(sent) || is_wild(received) {
        return Comparison::Agree;
    }
    if sent.wild == 0 && received.wild == 0 {
        let length = sent.digest.length.min(received.digest.length);
        match prefix(sent, length).zip(prefix(received, length)) {
            Some((one, other)) if one == other => return Comparison::Agree,
            Some(_) => {}
            None => return Comparison::Unknown,
        }
        return match walk(sent, received) {
            Comparison::Differ(at) => Comparison::Differ(at),
            _ => Comparison::Differ(None),
        };
    }
    walk(sent, received)
}

/// The digest of the first `length` elements.
fn prefix(node: &TypeNode, length: u64) -> Option<Digest> {
    let (mut node, mut left, mut digest) = (node, length, Digest::default());
    loop {
        let mut inner = None;
        for (part, count) in &node.parts {
            let own = match part {
                Part::Basic(basic) => Digest::of(basic.map_or(0, BasicType::code)),
                Part::Derived(node) => node.digest,
            };
            // Parts are not empty.
            let whole = (left / own.length.max(1)).min(*count);
            digest = digest.then(own.times(whole)?)?;
            left -= own.length * whole;
            if whole < *count {
                inner = match part {
                    Part::Derived(node) if left > 0 => Some(node),
                    _ => None,
                };
                break;
            }
        }
        match inner {
            Some(inner) => node = inner,
            None => return (left == 0).then_some(digest),
        }
    }
}

/// A run of equal basic datatypes.
#[derive(Clone, Copy)]
struct TypeRun {
    /// `None` for bytes that agree with all datatypes.
    basic: Option<BasicType>,
    bytes: u64,
}

/// A walk over the runs of a signature.
struct Walk<'a> {
    /// Nodes from the outermost to the innermost, each with the next part and its elements that are left.
    stack: Vec<(&'a TypeNode, usize, u64)>,
}

impl<'a> Walk<'a> {
    fn over(node: &'a TypeNode) -> Self {
        let left = node.parts.first().map_or(0, |(_, count)| *count);
        Self {
            stack: vec![(node, 0, left)],
        }
    }

    /// The next run. Each call takes at most as many steps as datatypes are nested.
    fn next(&mut self) -> Option<TypeRun> {
        loop {
            let (node, part, left) = self.stack.last_mut()?;
            let Some((kind, _)) = node.parts.get(*part) else {
                self.stack.pop();
                continue;
            };
            if *left == 0 {
                *part += 1;
                *left = node.parts.get(*part).map_or(0, |(_, count)| *count);
                continue;
            }
            match kind {
                Part::Basic(basic) => {
                    let number = std::mem::take(left);
                    let size = basic.map_or(1, |basic| u64::from(basic.bytes));
                    return Some(TypeRun {
                        basic: *basic,
                        bytes: number.saturating_mul(size),
                    });
                }
                Part::Derived(inner) => {
                    *left -= 1;
                    self.stack
                        .push((inner, 0, inner.parts.first().map_or(0, |it| it.1)));
                }
            }
        }
    }
}

/// Compares run by run: the first difference, or [`Comparison::Unknown`] after too many steps.
fn walk(sent: &TypeNode, received: &TypeNode) -> Comparison {
    let (mut sent, mut received) = (Walk::over(sent), Walk::over(received));
    let (mut one, mut other) = (sent.next(), received.next());
    let mut at = 0_u64;
    for _ in 0..MOST_STEPS {
        let Some((mine, theirs)) = one.as_mut().zip(other.as_mut()) else {
            return Comparison::Agree;
        };
        if let Some((a, b)) = mine.basic.zip(theirs.basic)
            && a != b
        {
            return Comparison::Differ(Some((at, a, b)));
        }
        let both = mine.bytes.min(theirs.bytes);
        at = at.saturating_add(both);
        (mine.bytes, theirs.bytes) = (mine.bytes - both, theirs.bytes - both);
        let (mine, theirs) = (mine.bytes, theirs.bytes);
        if mine == 0 {
            one = sent.next();
        }
        if theirs == 0 {
            other = received.next();
        }
    }
    Comparison::Unknown
}
