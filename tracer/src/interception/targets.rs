//! Addresses of probes: the functions of MPI libraries in their files.
//!
//! [`Targets`](targets::Targets) are read from the files of a guest (its image's libraries, the workload's own programs). Each
//! function gets a probe at its first instruction, under both of its names, which every caller reaches independent of name and
//! binding. So does the first instruction of every process: dynamic loaders get a probe, and programs without a loader. This
//! module maps a probe's number to its meaning, for [`NodeTracer::probe`](crate::NodeTracer::probe).
//!
//! Files are untrusted: invalid parts are ignored.

/// The parts of an ELF file that probes need.
mod elf;
/// Functions by name, for the user's probes.
pub(crate) mod function;

use std::collections::BTreeMap;
use std::ops::Range;

use belljar_abi::{OPEN_MPI_OBJECTS, STANDARD_ABI_NAME};
use belljar_mpi::FUNCTIONS;
use belljar_trace::{Implementation, MpiLibrary};
use object::read::ReadRef;

use elf::Elf;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// A function that only MPI libraries, and programs with one linked in, define: profiling layers define MPI functions, too, but
/// not the profiling names.
const MARK: &str = "PMPI_Init";

/// A function that only MPICH's standard ABI defines; marks static programs.
const STATIC_STANDARD_ABI: &str = "ABI_init_builtins";

/// Most files that are searched for functions.
const MOST_FILES: usize = 1 << 10;

/// A page of a file with probes in it.
#[derive(Clone, Debug)]
pub struct TargetPage {
    /// The page's contents in the file.
    pub bytes: Box<[u8; PAGE]>,
    /// Each probe's offset in the page and its number.
    pub places: Vec<(u16, u32)>,
}

/// The target of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The first instruction of a process.
    Start,
    /// The first instruction of a function.
    Call {
        /// The number of its file.
        file: usize,
        /// Its operation number.
        function: u16,
        /// Its address in the file.
        value: u64,
    },
    /// The first instruction of a function by which a library's lower layer receives.
    Receive(ReceiveHook),
    /// The kernel's function that ends a process, with its status as the argument.
    ProcessEnd,
    /// A location with only the user's probes.
    Own,
}

/// Functions by which the lower layers of MPI libraries receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveHook {
    /// `ucp_tag_recv_nbx` of UCX.
    UcxReceive,
    /// `ucp_tag_msg_recv_nbx` of UCX, which receives a message that a matched probe removed from the queue.
    UcxReceiveProbed,
    /// `mca_pml_ob1_recv_req_start` of Open MPI.
    Ob1Start,
    /// `mca_pml_ob1_mrecv` and `mca_pml_ob1_imrecv` of Open MPI, which receive a message that a matched probe removed from the
    /// queue.
    Ob1ReceiveProbed,
}

/// The names of these functions.
const RECEIVE_HOOKS: [(&str, ReceiveHook); 5] = [
    ("ucp_tag_recv_nbx", ReceiveHook::UcxReceive),
    ("ucp_tag_msg_recv_nbx", ReceiveHook::UcxReceiveProbed),
    ("mca_pml_ob1_recv_req_start", ReceiveHook::Ob1Start),
    ("mca_pml_ob1_mrecv", ReceiveHook::Ob1ReceiveProbed),
    ("mca_pml_ob1_imrecv", ReceiveHook::Ob1ReceiveProbed),
];

/// An MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    pub(crate) implementation: Implementation,
    /// The address range of its own code, relative to its file.
    pub(crate) code: Range<u64>,
    /// Addresses of its data.
    pub(crate) data: Range<u64>,
    /// The locations of the addresses of [`OPEN_MPI_OBJECTS`], for Open MPI.
    pub(crate) objects: Vec<ObjectLocation>,
}

/// The location of an object, by addresses relative to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectLocation {
    /// It does not exist.
    Missing,
    /// The object is at this address.
    At(u64),
    /// The loader writes its address here: a program may have the object in place of the library.
    Slot(u64),
}

/// The functions of a guest's MPI libraries.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    targets: Vec<Target>,
    libraries: Vec<Library>,
    names: Vec<String>,
    pages: Vec<TargetPage>,
    /// The user's probes at each location, by the location's number.
    own: BTreeMap<u32, Vec<u32>>,
    /// Numbers of locations in the kernel, by linear address.
    kernel: BTreeMap<u64, u32>,
}

impl Targets {
    /// Adds the functions and process starts in the file called `path` with contents `data`. A file that is not a 64-bit ELF
    /// file, or has no such functions, adds nothing.
    pub fn add<'data>(&mut self, path: &str, data: impl ReadRef<'data>) {
        if self.libraries.len() >= MOST_FILES {
            return;
        }
        let Some(elf) = Elf::parse(data) else {
            return;
        };
        let is_library = elf.defines(MARK);
        let name = path.rsplit('/').next().unwrap_or_default();
        // musl's loader is also its C library.
        let is_loader = (name.starts_with("ld-") || name == "libc.so") && elf.entry() != 0;
        let begins = is_loader || elf.is_program();
        if begins && !elf.needs_loader() {
            self.place(&elf, elf.entry(), Target::Start);
        }
        if is_library {
            self.add_library(path, &elf);
        }
        self.place_receives(&elf);
    }

    /// Adds the functions in the file with contents `data` by which the lower layers of MPI libraries receive, and no others.
    pub fn add_receives<'data>(&mut self, data: impl ReadRef<'data>) {
        if let Some(elf) = Elf::parse(data) {
            self.place_receives(&elf);
        }
    }

    fn place_receives<'data>(&mut self, elf: &Elf<'data, impl ReadRef<'data>>) {
        for (name, hook) in RECEIVE_HOOKS {
            if let Some(value) = elf.function(name) {
                self.place(elf, value, Target::Receive(hook));
            }
        }
    }

    fn add_library<'data>(&mut self, path: &str, elf: &Elf<'data, impl ReadRef<'data>>) {
        let file = self.libraries.len();
        let implementation = implementation_of(elf);
        let names = OPEN_MPI_OBJECTS.iter().map(|(name, _)| *name);
        self.libraries.push(Library {
            implementation,
            code: match elf.is_program() {
                true => elf.functions(),
                false => elf.code(),
            },
            data: elf.data(),
            objects: match implementation {
                Implementation::OpenMpi => names.map(|name| elf.place_of(name)).collect(),
                Implementation::Mpich | Implementation::StandardAbi(_) => Vec::new(),
            },
        });
        self.names.push(path.to_owned());
        for (number, function) in FUNCTIONS.iter().enumerate() {
            let own = elf.function(function.name);
            let profiled = elf.function(&format!("P{}", function.name));
            let both = [profiled, own.filter(|own| Some(*own) != profiled)];
            for value in both.into_iter().flatten() {
                let target = Target::Call {
                    file,
                    function: number as u16,
                    value,
                };
                self.place(elf, value, target);
            }
        }
    }

    /// Adds the user's probe number `own` at address `value` of the file with contents `data`, in addition to other targets
    /// there. Returns `false` if the file has no code there.
    pub fn add_own<'data>(&mut self, data: impl ReadRef<'data>, value: u64, own: u32) -> bool {
        let elf = Elf::parse(data);
        let Some(place) = elf.and_then(|elf| self.place(&elf, value, Target::Own)) else {
            return false;
        };
        let probes = self.own.entry(place).or_default();
        if !probes.contains(&own) {
            probes.push(own);
        }
        true
    }

    /// Adds the linear address of the kernel's function `do_group_exit`, which ends a process. Its argument is the status as `wait`
    /// returns it. Call it before the user's probes are added.
    pub fn add_process_end(&mut self, address: u64) {
        self.kernel.insert(address, self.targets.len() as u32);
        self.targets.push(Target::ProcessEnd);
    }

    /// Adds the user's probe number `own` at linear address `address` of the kernel.
    pub fn add_kernel(&mut self, address: u64, own: u32) {
        let next = self.targets.len() as u32;
        let place = *self.kernel.entry(address).or_insert(next);
        if place == next {
            self.targets.push(Target::Own);
        }
        let probes = self.own.entry(place).or_default();
        if !probes.contains(&own) {
            probes.push(own);
        }
    }

    /// Returns the locations in the kernel: linear addresses and numbers.
    pub fn kernel(&self) -> impl Iterator<Item = (u64, u32)> {
        self.kernel
            .iter()
            .map(|(address, place)| (*address, *place))
    }

    /// Puts a probe at address `value` of a file. Returns the location's number. An existing target may have the same one.
    fn place<'data>(
        &mut self,
        elf: &Elf<'data, impl ReadRef<'data>>,
        value: u64,
        target: Target,
    ) -> Option<u32> {
        let bytes = elf.page_of_code(value)?;
        let place = ((value % PAGE as u64) as u16, self.targets.len() as u32);
        let same = |page: &&mut TargetPage| page.bytes == bytes;
        match self.pages.iter_mut().rev().find(same) {
            Some(page) => {
                // A copy of a file that was added before, and is known by the first one's name.
                if let Some((_, there)) = page.places.iter().find(|(at, _)| *at == place.0) {
                    return Some(*there);
                }
                page.places.push(place);
            }
            None => self.pages.push(TargetPage {
                bytes,
                places: vec![place],
            }),
        }
        self.targets.push(target);
        Some(place.1)
    }

    /// Creates these targets, for tests.
    #[cfg(test)]
    pub(crate) fn of(targets: Vec<Target>, libraries: Vec<Library>) -> Self {
        Self {
            targets,
            libraries,
            ..Self::default()
        }
    }

    /// Creates these targets, each with the user's probe of its number, for tests.
    #[cfg(test)]
    pub(crate) fn with_own(targets: Vec<Target>) -> Self {
        Self {
            own: (0..targets.len() as u32)
                .map(|number| (number, vec![number]))
                .collect(),
            ..Self::of(targets, Vec::new())
        }
    }

    /// Returns the pages with probes in them.
    pub fn pages(&self) -> &[TargetPage] {
        &self.pages
    }

    /// Returns the paths of the libraries and programs whose functions have probes.
    pub fn files(&self) -> &[String] {
        &self.names
    }

    /// Returns the user's probes at the location of this number.
    pub(crate) fn own(&self, probe: u32) -> &[u32] {
        self.own.get(&probe).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn get(&self, probe: u32) -> Option<Target> {
        self.targets.get(probe as usize).copied()
    }

    /// Returns the path of a library's file.
    pub(crate) fn name(&self, file: usize) -> Option<&str> {
        self.names.get(file).map(String::as_str)
    }

    pub(crate) fn find_library(&self, file: usize) -> Option<&Library> {
        self.libraries.get(file)
    }

    pub(crate) fn library(&self, file: usize) -> &Library {
        &self.libraries[file]
    }
}

/// Returns the binary interface that a library offers, by its name and its symbols.
fn implementation_of<'data>(elf: &Elf<'data, impl ReadRef<'data>>) -> Implementation {
    let is_standard = elf
        .name()
        .is_some_and(|name| name.starts_with(STANDARD_ABI_NAME.as_bytes()));
    if is_standard || elf.defines(STATIC_STANDARD_ABI) {
        let library = match (elf.names_mpich(), elf.names_open_mpi()) {
            (true, false) => MpiLibrary::Mpich,
            (false, true) => MpiLibrary::OpenMpi,
            _ => MpiLibrary::Unknown,
        };
        return Implementation::StandardAbi(library);
    }
    match elf.defines(OPEN_MPI_OBJECTS[0].0) {
        true => Implementation::OpenMpi,
        false => Implementation::Mpich,
    }
}

#[cfg(test)]
mod tests;
