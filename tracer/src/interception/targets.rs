//! Where MPI calls come to be seen: the functions of MPI libraries, as their files have them.
//!
//! [`Targets`](targets::Targets) are read from the files of a guest (its image's libraries, the workload's own
//! programs). Each function gets a probe at its first instruction, under both of its names:
//! whoever calls it, from wherever, by whatever name and however it was bound, comes there.
//! So does the first instruction of every process: dynamic loaders get a probe, and programs that
//! need none. What a probe's number means is
//! here; [`NodeTracer::probe`](crate::NodeTracer::probe) asks.
//!
//! Files are hostile: what does not fit together is left out.

/// An ELF file as far as probes need it.
mod elf;
/// Functions by name, for probes of the user's.
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

/// What tells that a file is an MPI library, or a program with one linked in: profiling layers
/// define MPI functions, too, but not those by which they call the library's.
const MARK: &str = "PMPI_Init";

/// Function of MPICH's standard ABI alone; marks static programs.
const STATIC_STANDARD_ABI: &str = "ABI_init_builtins";

/// Files whose functions are looked for at most.
const MOST_FILES: usize = 1 << 10;

/// A page of a file with probes in it.
#[derive(Clone, Debug)]
pub struct TargetPage {
    /// What the page holds, as the file has it.
    pub bytes: Box<[u8; PAGE]>,
    /// Each probe's offset in the page and its number.
    pub places: Vec<(u16, u32)>,
}

/// What a probe is at.
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
    /// A place of the user's alone.
    Own,
}

/// Functions by which the lower layers of MPI libraries receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveHook {
    /// `ucp_tag_recv_nbx` of UCX.
    UcxReceive,
    /// `ucp_tag_msg_recv_nbx` of UCX, which receives a message that a probe took off the queue.
    UcxReceiveProbed,
    /// `mca_pml_ob1_recv_req_start` of Open MPI.
    Ob1Start,
    /// `mca_pml_ob1_mrecv` and `mca_pml_ob1_imrecv` of Open MPI, which receive a message that a probe took off the queue.
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
    /// Addresses between which its own code is, as its file has them.
    pub(crate) code: Range<u64>,
    /// Addresses of its data.
    pub(crate) data: Range<u64>,
    /// Where to read the addresses of [`OPEN_MPI_OBJECTS`], for Open MPI's.
    pub(crate) objects: Vec<Place>,
}

/// Where an object is found, by addresses as its file has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere.
    Missing,
    /// It stands there.
    At(u64),
    /// The loader writes its address there: a program may hold the object in the library's
    /// place.
    Slot(u64),
}

/// The functions of a guest's MPI libraries.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    targets: Vec<Target>,
    libraries: Vec<Library>,
    names: Vec<String>,
    pages: Vec<TargetPage>,
    /// The user's probes at places, by the places' numbers.
    own: BTreeMap<u32, Vec<u32>>,
    /// Numbers of places in the kernel, by linear address.
    kernel: BTreeMap<u64, u32>,
}

impl Targets {
    /// Looks for functions and the beginnings of processes in the file called `path` and holding
    /// `data`. What is no 64-bit ELF file, or has none, adds nothing.
    pub fn add<'data>(&mut self, path: &str, data: impl ReadRef<'data>) {
        if self.libraries.len() >= MOST_FILES {
            return;
        }
        let Some(elf) = Elf::parse(data) else {
            return;
        };
        let is_library = elf.defines(MARK);
        let name = path.rsplit('/').next().unwrap_or_default();
        // musl's is its C library, too.
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

    /// Looks in the file holding `data` for functions by which the lower layers of MPI libraries receive, and for nothing else.
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

    /// Has the user's probe number `own` at address `value` of the file that holds `data`, besides what else is seen
    /// there. `false` where the file has no code.
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

    /// Has the user's probe number `own` at linear address `address` of the kernel.
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

    /// The places in the kernel: linear addresses and numbers.
    pub fn kernel(&self) -> impl Iterator<Item = (u64, u32)> {
        self.kernel
            .iter()
            .map(|(address, place)| (*address, *place))
    }

    /// Puts a probe at address `value` of a file; the number of the place, which may be another target's already.
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
                // A copy of a file that is there already, and known by the first one's name.
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

    /// These, for tests.
    #[cfg(test)]
    pub(crate) fn of(targets: Vec<Target>, libraries: Vec<Library>) -> Self {
        Self {
            targets,
            libraries,
            ..Self::default()
        }
    }

    /// These, each with the user's probe of its number, for tests.
    #[cfg(test)]
    pub(crate) fn with_own(targets: Vec<Target>) -> Self {
        Self {
            own: (0..targets.len() as u32)
                .map(|number| (number, vec![number]))
                .collect(),
            ..Self::of(targets, Vec::new())
        }
    }

    /// The pages with probes in them.
    pub fn pages(&self) -> &[TargetPage] {
        &self.pages
    }

    /// The paths of the libraries and programs whose functions are seen.
    pub fn files(&self) -> &[String] {
        &self.names
    }

    /// The user's probes at the place of this number.
    pub(crate) fn own(&self, probe: u32) -> &[u32] {
        self.own.get(&probe).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn get(&self, probe: u32) -> Option<Target> {
        self.targets.get(probe as usize).copied()
    }

    pub(crate) fn find_library(&self, file: usize) -> Option<&Library> {
        self.libraries.get(file)
    }

    pub(crate) fn library(&self, file: usize) -> &Library {
        &self.libraries[file]
    }
}

/// The binary interface that a library offers, by its name and its symbols.
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
