//! The shared libraries of processes, from the list that their dynamic loaders keep for debuggers.
//!
//! gdb would stop at the loader's own breakpoint for each change of the list, hundreds of times while an MPI
//! library starts or ends. So these breakpoints are not placed; the list is compared at each stop, and gdb
//! is told of a change then. Source: glibc's `<link.h>`, System V ABI for dynamic sections.

use std::hash::{DefaultHasher, Hash, Hasher};

use belljar_linux::Space;

use crate::processes::NodeProcess;
use crate::session::Session;

/// Entries of the auxiliary vector: the program's headers and their number, the loader's base.
const HEADERS: u64 = 3;
const HEADER_COUNT: u64 = 5;
const LOADER: u64 = 7;
/// Bytes of a program header, and kinds of segments.
const HEADER: u64 = 56;
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const OWN: u32 = 6;
/// The entry of a dynamic section with the address of `struct r_debug`.
const DEBUG: u64 = 21;
/// Most program headers, entries of a dynamic section, and libraries.
const MOST: u64 = 4096;

/// Where a process's dynamic loader is, and its list of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoaderState {
    /// First and last address of the loader.
    loader: (u64, u64),
    /// A hash of the list; `None` while the loader changes it.
    list: Option<u64>,
}

impl LoaderState {
    /// True if `address` is in the loader.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.loader.0..self.loader.1).contains(&address)
    }

    /// True if the list is another one than `before`.
    pub(crate) fn differs(&self, before: &Self) -> bool {
        self.list.is_some() && self.list != before.list
    }
}

impl Session {
    /// The state of a process's loader; `None` for a static program.
    pub(crate) fn loader_of(&self, process: &NodeProcess) -> Option<LoaderState> {
        self.with_kernel(process.node, |kernel, _| {
            let auxiliary = kernel.auxiliary_vector(&process.process)?;
            let space = kernel.space_of(&process.process);
            let base = entry(&auxiliary, LOADER).filter(|base| *base != 0)?;
            let headers = base.wrapping_add(space.word(base.wrapping_add(32))?);
            let count = u64::from(space.half(base.wrapping_add(56))? & 0xffff);
            let ends = segments(&space, headers, count).filter(|it| it.kind == LOAD);
            let end = ends.map(|it| it.address.wrapping_add(it.size)).max()?;
            Some(LoaderState {
                loader: (base, base.wrapping_add(end)),
                list: list(&space, &auxiliary),
            })
        })
    }
}

/// A segment of a program.
struct Segment {
    kind: u32,
    address: u64,
    size: u64,
}

fn segments<'s>(
    space: &'s Space<'_>,
    headers: u64,
    count: u64,
) -> impl Iterator<Item = Segment> + 's {
    (0..count.min(MOST)).map_while(move |number| {
        let at = headers.wrapping_add(HEADER * number);
        Some(Segment {
            kind: space.half(at)?,
            address: space.word(at.wrapping_add(16))?,
            size: space.word(at.wrapping_add(40))?,
        })
    })
}

fn entry(auxiliary: &[u8], kind: u64) -> Option<u64> {
    let pairs = auxiliary.chunks_exact(16);
    let mut own = pairs.filter(|pair| pair[..8] == kind.to_le_bytes());
    let value = own.next()?[8..].try_into().ok()?;
    Some(u64::from_le_bytes(value))
}

/// A hash of the addresses of all libraries; `None` if there is no list, or while it changes.
fn list(space: &Space<'_>, auxiliary: &[u8]) -> Option<u64> {
    let headers = entry(auxiliary, HEADERS)?;
    let count = entry(auxiliary, HEADER_COUNT)?;
    let all: Vec<Segment> = segments(space, headers, count).collect();
    let of = |kind| all.iter().find(|it| it.kind == kind);
    let base = of(OWN).map_or(0, |own| headers.wrapping_sub(own.address));
    let dynamic = base.wrapping_add(of(DYNAMIC)?.address);
    let mut entries = (0..MOST).map_while(|number| {
        let at = dynamic.wrapping_add(16 * number);
        let kind = space.word(at).filter(|kind| *kind != 0)?;
        Some((kind, space.word(at.wrapping_add(8))?))
    });
    let (_, debug) = entries.find(|(kind, _)| *kind == DEBUG)?;
    // `r_state`, which is zero when the list is consistent.
    space
        .half(debug.wrapping_add(24))
        .filter(|state| *state == 0)?;
    let mut library = space.word(debug.wrapping_add(8))?;
    let mut hasher = DefaultHasher::new();
    for _ in 0..MOST {
        if library == 0 {
            break;
        }
        // `l_addr` and `l_ld`.
        space.word(library)?.hash(&mut hasher);
        space.word(library.wrapping_add(16))?.hash(&mut hasher);
        library = space.word(library.wrapping_add(24))?;
    }
    Some(hasher.finish())
}
