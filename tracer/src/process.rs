//! The tracer's state of one MPI process.
//!
//! Tracks the objects that its calls create and free, whether the calls are recorded or not. All tables are bounded: a
//! hostile program loses names of its own objects, nothing else. Used by `node` at entry and return of each call.

/// The memory that a call's operations own.
pub(crate) mod buffers;
/// Completions by the `Wait` and `Test` families.
mod completion;
/// Calls that create or query datatypes.
mod datatypes;
/// A call's arguments at its entry.
mod entry;
/// A call's outputs at its return.
mod leave;

use std::collections::BTreeMap;
use std::ops::Range;

use belljar_abi::OPEN_MPI_OBJECTS;
use belljar_mpi::{Base, FUNCTIONS};
use belljar_trace::{Accounts, Detailed, Event, Fact, Folded, Implementation, Launch, Peer, Site};
use bincode::{Decode, Encode};

use crate::calls::thread_number;
use crate::decode::action::Action;
use crate::decode::arguments::Arguments;
use crate::decode::implementation::constants;
use crate::guest::memory::{BadAddress, Reader};
use crate::objects::communicators::{Communicator, Communicators};
use crate::objects::datatypes::Datatypes;
use crate::objects::registry::Registry;
use crate::objects::requests::Requests;
use crate::receives::posted::LibraryReceives;

/// A message that a matched probe removed from the queue.
#[derive(Clone, Copy, Debug, Encode, Decode)]
struct Matched {
    communicator: Option<u32>,
    source: Peer,
    tag: Option<i32>,
}

/// Memory that others access by one-sided operations.
#[derive(Clone, Copy, Debug, Encode, Decode)]
struct Window {
    /// Its number among the process's windows.
    number: u32,
    /// Its communicator, if known.
    communicator: Option<u32>,
}

/// One MPI process: its objects and the counters of its calls.
#[derive(Debug, Encode, Decode)]
pub(crate) struct Process {
    /// Its number on the node.
    pub(crate) number: u32,
    implementation: Implementation,
    rank: u32,
    /// True if the launcher set the rank; otherwise it is learned from the program's query.
    rank_is_told: bool,
    calls: BTreeMap<u16, u64>,
    threads: BTreeMap<u64, u32>,
    communicators: Communicators,
    datatypes: Datatypes,
    requests: Requests,
    /// Receives posted by its MPI library.
    pub(crate) receives: LibraryReceives,
    messages: Registry<Matched>,
    windows: Registry<Window>,
    /// The number of windows created.
    windows_made: u32,
    /// The handle of `MPI_NO_OP`, zero if unknown.
    no_op: u64,
    /// The launcher's job, until an event contains it.
    launch: Option<Launch>,
    /// The same, while the name of the job must still be read from the library.
    pub(crate) unnamed: Option<Launch>,
    /// The number of its MPI library's file, and the address at which it is mapped.
    pub(crate) library: Option<(u32, u64)>,
    /// The status with which it ends, if the kernel has begun to end it.
    pub(crate) end: Option<u32>,
    /// The address range of its MPI library's code, if the preloaded library reported it.
    pub(crate) code: Range<u64>,
}

impl Process {
    /// The thread pointers of its threads that have called MPI.
    pub(crate) fn threads(&self) -> impl Iterator<Item = u64> {
        self.threads.keys().copied()
    }

    pub(crate) fn new(number: u32, rank: Option<u32>, implementation: Implementation) -> Self {
        let mut communicators = Communicators::new();
        let constants = constants(implementation);
        if let Some(constants) = &constants {
            let [world, alone, null] = constants.communicators;
            communicators.learn_predefined(world, alone, null, rank);
        }
        Self {
            number,
            implementation,
            rank: rank.unwrap_or(0),
            rank_is_told: rank.is_some(),
            calls: BTreeMap::new(),
            threads: BTreeMap::new(),
            communicators,
            datatypes: Datatypes::new(implementation),
            requests: Requests::default(),
            receives: LibraryReceives::default(),
            messages: Registry::default(),
            windows: Registry::default(),
            windows_made: 0,
            no_op: constants.map_or(0, |constants| constants.no_op),
            launch: None,
            unnamed: None,
            library: None,
            end: None,
            code: 0..0,
        }
    }

    /// Reads the addresses of Open MPI's predefined objects from the array of `count` at `at`, in the order of
    /// [`OPEN_MPI_OBJECTS`].
    pub(crate) fn learn_objects(
        &mut self,
        at: u64,
        count: u64,
        memory: Reader<'_>,
    ) -> Result<(), BadAddress> {
        let count = count.min(OPEN_MPI_OBJECTS.len() as u64);
        let addresses = memory.handles(at, count, 8)?;
        self.learn_addresses(addresses);
        Ok(())
    }

    /// Registers the addresses of Open MPI's predefined objects, zero for missing ones, in the order of
    /// [`OPEN_MPI_OBJECTS`].
    pub(crate) fn learn_addresses(&mut self, addresses: impl IntoIterator<Item = u64>) {
        let objects = OPEN_MPI_OBJECTS.iter().map(|(name, _)| *name);
        let told: BTreeMap<&str, u64> = objects
            .zip(addresses)
            .filter(|(_, address)| *address != 0)
            .collect();
        let address = |name| told.get(name).copied().unwrap_or(0);
        let rank = self.rank_is_told.then_some(self.rank);
        self.communicators.learn_predefined(
            address("ompi_mpi_comm_world"),
            address("ompi_mpi_comm_self"),
            address("ompi_mpi_comm_null"),
            rank,
        );
        self.no_op = address("ompi_mpi_op_no_op");
        for (name, address) in &told {
            if let Some(index) = belljar_trace::datatypes::by_open_mpi_symbol(name) {
                self.datatypes.learn_predefined(*address, index);
            }
        }
    }

    /// Records the launcher's job.
    pub(crate) fn learn_launch(&mut self, launch: Launch) {
        if let Some(size) = launch.size {
            self.communicators.learn_world_size(size);
        }
        self.launch = Some(launch).filter(|launch| !launch.is_empty());
    }

    /// Records the launcher's job without its name, which an event gets when MPI is initialized.
    pub(crate) fn hold_launch(&mut self, launch: Launch) {
        self.learn_launch(launch);
        self.unnamed = self.launch.take();
    }

    /// Returns its MPI implementation.
    pub(crate) fn implementation(&self) -> Implementation {
        self.implementation
    }

    /// Returns the process's rank in `MPI_COMM_WORLD`, as far as known.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// Counts a call, and returns the number of calls of this function including it.
    pub(crate) fn count(&mut self, function: u16) -> u64 {
        let calls = self.calls.entry(function).or_default();
        *calls += 1;
        *calls
    }

    /// True if calls of the function must be followed even if they are not selected.
    pub(crate) fn follows(function: u16) -> bool {
        Self::begins_with(function)
            || Action::of(function).changes_state(&FUNCTIONS[usize::from(function)])
    }

    /// True if a call of the function initializes MPI.
    pub(crate) fn begins_with(function: u16) -> bool {
        Action::of(function) == Action::Initialise
    }

    /// Takes the launcher's job, once, for an event of a function without another fact.
    fn take_launch(&mut self, function: u16) -> Option<Fact> {
        match Action::of(function) {
            Action::Initialise | Action::Plain => self.launch.take().map(Fact::Launch),
            _ => None,
        }
    }

    /// Returns an event of this process with its arguments' words; `None` for words that could not be read.
    pub(crate) fn event(&mut self, function: u16, thread: u64, words: Vec<Option<u64>>) -> Event {
        let bad = words.iter().position(Option::is_none);
        let parameters = FUNCTIONS[usize::from(function)].parameters;
        let arguments = words
            .into_iter()
            .zip(parameters)
            .map(|(word, parameter)| {
                let base = (parameter.pointer == 0).then_some(parameter.base);
                self.clean(word.unwrap_or(0), base)
            })
            .collect();
        Event {
            node: 0,
            vcpu: 0,
            process: self.number,
            thread: self.thread(thread),
            rank: self.rank,
            implementation: self.implementation,
            function,
            entry: 0,
            exit: None,
            result: None,
            depth: 0,
            selected: true,
            bad: bad.and_then(|index| u8::try_from(index).ok()),
            arguments,
            texts: Vec::new(),
            communicator: None,
            transfers: Vec::new(),
            collectives: Vec::new(),
            started: Vec::new(),
            completed: Vec::new(),
            status: None,
            fact: self.take_launch(function),
            accounts: Accounts::default(),
            site: Site::default(),
            details: Detailed::default(),
            folded: Folded::default(),
            given_up: Default::default(),
        }
    }

    /// Clears the bits of an argument's word that the ABI leaves undefined: the upper half of 32-bit values.
    fn clean(&self, word: u64, by_value: Option<Base>) -> u64 {
        match by_value {
            Some(Base::Int | Base::Fint) => i64::from(word as i32).cast_unsigned(),
            Some(
                Base::Comm
                | Base::Datatype
                | Base::Errhandler
                | Base::Group
                | Base::Info
                | Base::Message
                | Base::Op
                | Base::Request
                | Base::Session
                | Base::Win,
            ) if self.implementation == Implementation::Mpich => u64::from(word as u32),
            _ => word,
        }
    }

    /// Returns the number of the thread with this thread pointer, if it has called MPI.
    pub(crate) fn thread_of(&self, base: u64) -> Option<u32> {
        self.threads.get(&base).copied()
    }

    fn thread(&mut self, base: u64) -> u32 {
        thread_number(&mut self.threads, base)
    }

    /// True if restored state is consistent.
    pub(crate) fn is_sound(&self) -> bool {
        self.requests.is_sound() && self.receives.is_sound()
    }

    /// Returns the number of objects forgotten since the last call.
    pub(crate) fn take_forgotten(&mut self) -> u64 {
        self.communicators.take_forgotten()
            + self.datatypes.take_forgotten()
            + self.requests.take_forgotten()
            + self.messages.take_forgotten()
            + self.windows.take_forgotten()
    }

    /// Returns the communicator of a call.
    fn communicator(&self, arguments: &Arguments<'_>) -> Option<&Communicator> {
        let handle = arguments.first_handle(Base::Comm)?;
        self.communicators.get(handle)
    }
}
