//! The shared libraries of processes, from the list that their dynamic loaders keep for debuggers.
//!
//! With a breakpoint in the loader, gdb would stop hundreds of times while an MPI library starts or ends: the list
//! changes with each of its components. A session therefore omits that breakpoint, compares the list at each
//! stop, and then reports a change to gdb. Source: glibc's `<link.h>`, System V ABI for dynamic sections.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Component, Path, PathBuf};

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
/// Longest path of a library.
const LONGEST: usize = 4096;
/// Most program headers, entries of a dynamic section, and libraries.
const MOST: u64 = 4096;

/// The folder with copies of programs and libraries for the debugger.
#[derive(Debug)]
pub(crate) struct Copies {
    folder: PathBuf,
    /// Paths on nodes that are there, or that nodes do not have.
    known: BTreeSet<String>,
}

/// The address range of a process's dynamic loader, and its list of libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoaderState {
    /// First and last address of the loader.
    loader: (u64, u64),
    /// The list; `None` while the loader changes it.
    list: Option<LibraryList>,
}

/// The libraries of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LibraryList {
    /// A hash of their addresses.
    addresses: u64,
    paths: Vec<String>,
}

impl Copies {
    /// Writes a file; paths come from the guest, and lead nowhere else.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let within = Path::new(path).strip_prefix("/").unwrap_or(Path::new(""));
        let mut parts = within.components();
        if !parts.all(|part| matches!(part, Component::Normal(_))) {
            return Ok(());
        }
        let copy = self.folder.join(within);
        if let Some(folder) = copy.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(copy, content)
    }
}

impl LoaderState {
    /// True if `address` is in the loader.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.loader.0..self.loader.1).contains(&address)
    }

    /// True if the list is another one than `before`.
    pub(crate) fn differs(&self, before: &Self) -> bool {
        let addresses = |state: &Self| state.list.as_ref().map(|list| list.addresses);
        self.list.is_some() && addresses(self) != addresses(before)
    }
}

impl Session {
    /// Keeps copies of the programs and libraries of ranks in `folder`, from now on.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn copy_files_to(&mut self, folder: &Path) -> io::Result<()> {
        self.copies = Some(Copies {
            folder: folder.to_owned(),
            known: BTreeSet::new(),
        });
        self.copy_kernels()?;
        self.copy_files()
    }

    /// Copies the files that ranks have come to use.
    pub(crate) fn copy_files(&mut self) -> io::Result<()> {
        let Some(mut copies) = self.copies.take() else {
            return Ok(());
        };
        for process in self.processes() {
            let program =
                self.with_kernel(process.node, |kernel, _| kernel.program(&process.process));
            let list = self.loader_of(&process).and_then(|loader| loader.list);
            let libraries = list.map_or_else(Vec::new, |list| list.paths);
            for path in program.into_iter().chain(libraries) {
                if copies.known.insert(path.clone())
                    && let Some(content) = self.guest_file(&path)
                {
                    copies.write(&path, &content)?;
                }
            }
        }
        self.copies = Some(copies);
        Ok(())
    }

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

/// The list of libraries; `None` if there is no list, or while it changes.
fn list(space: &Space<'_>, auxiliary: &[u8]) -> Option<LibraryList> {
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
    let mut paths = Vec::new();
    for _ in 0..MOST {
        if library == 0 {
            break;
        }
        // `l_addr` and `l_ld`.
        space.word(library)?.hash(&mut hasher);
        space.word(library.wrapping_add(16))?.hash(&mut hasher);
        let path = space.text(space.word(library.wrapping_add(8))?, LONGEST);
        paths.extend(path.filter(|path| path.starts_with('/')));
        library = space.word(library.wrapping_add(24))?;
    }
    Some(LibraryList {
        addresses: hasher.finish(),
        paths,
    })
}
