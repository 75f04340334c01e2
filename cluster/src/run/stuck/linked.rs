//! Objects of a process, by the list of its dynamic linker.
//!
//! The program's dynamic section points to the list (`r_debug`, `link_map` of `<link.h>`), whose entries have the path and the base
//! of each object. Guest memory is untrusted: the list is bounded. Used to recognise threads of the image's own library.

use belljar_linux::{Kernel, Process, Space};

/// The image's library whose thread moves messages of MPICH before 4.2 in `MPI_Finalize`.
const FINISH: &str = "/usr/lib/belljar/finish-mpi.so";
/// Most program headers, entries of a dynamic section, and objects.
const MOST: u64 = 512;
/// Longest path of an object, in bytes.
const LONGEST: usize = 256;
/// Size of a program header.
const HEADER: u64 = 56;
/// Types of entries in the auxiliary vector: the address and the number of program headers.
const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
/// Types of program headers.
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
/// The entry of a dynamic section with the address of `r_debug`.
const DT_DEBUG: u64 = 21;

/// True if the code at `address` is in the image's own library.
pub(super) fn is_of_image(kernel: &Kernel<'_>, process: &Process, address: u64) -> bool {
    let space = kernel.space_of(process);
    let map = debug(kernel, process).and_then(|debug| space.word(debug.wrapping_add(8)));
    let Some(first) = map else {
        return false;
    };
    let (mut object, mut nearest) = (first, None);
    for _ in 0..MOST {
        if object == 0 {
            break;
        }
        let word = |offset: u64| space.word(object.wrapping_add(offset));
        let (Some(base), Some(name), Some(next)) = (word(0), word(8), word(24)) else {
            return false;
        };
        if base <= address && nearest.is_none_or(|(nearest, _)| nearest < base) {
            nearest = Some((base, name));
        }
        object = next;
    }
    let name = nearest.and_then(|(_, name)| space.text(name, LONGEST));
    name.is_some_and(|name| name == FINISH)
}

/// The address of `r_debug`.
fn debug(kernel: &Kernel<'_>, process: &Process) -> Option<u64> {
    let space = kernel.space_of(process);
    let vector = kernel.auxiliary_vector(process)?;
    let words = vector.chunks_exact(8).map(|word| {
        let word = word.try_into().ok();
        word.map_or(0, u64::from_le_bytes)
    });
    let words: Vec<u64> = words.collect();
    let value = |kind: u64| {
        let mut pairs = words.chunks_exact(2);
        pairs.find(|pair| pair[0] == kind).map(|pair| pair[1])
    };
    let (headers, count) = value(AT_PHDR).zip(value(AT_PHNUM))?;
    let address_of = |kind: u32| {
        let mut all = (0..count.min(MOST)).map(|index| headers.wrapping_add(index * HEADER));
        let header = all.find(|at| space.half(*at) == Some(kind))?;
        space.word(header.wrapping_add(16))
    };
    let bias = address_of(PT_PHDR).map_or(0, |at| headers.wrapping_sub(at));
    let dynamic = bias.wrapping_add(address_of(PT_DYNAMIC)?);
    entry(&space, dynamic, DT_DEBUG).filter(|debug| *debug != 0)
}

/// The value of an entry of a dynamic section.
fn entry(space: &Space<'_>, dynamic: u64, kind: u64) -> Option<u64> {
    for index in 0..MOST {
        let at = dynamic.wrapping_add(16 * index);
        match space.word(at)? {
            0 => return None,
            own if own == kind => return space.word(at.wrapping_add(8)),
            _ => {}
        }
    }
    None
}
