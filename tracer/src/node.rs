//! The tracer of one node: its processes, their open calls, and their events.
//!
//! Calls come from probes (`probe`) or through the preloaded library (`library`); both begin and end here. A hostile guest can
//! only harm itself.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use belljar_mpi::{Base, FUNCTIONS};
use belljar_trace::{
    Accounts, Counters, Event, Fact, GivenUp, Implementation, NodeSummary, Probe, ProcessInfo,
};
use belljar_unwind::Files;

use crate::calls::sites::CallSites;
use crate::calls::{OpenCall, OpenCalls, Space};
use crate::guest::memory::{GuestMemory, Reader};
use crate::guest::registers::{
    ARGUMENT_REGISTERS, MAX_PROCESSES, MagicRegisters, RAX, RSP, SPACE_MASK,
};
use crate::interception::replaced;
use crate::interception::targets::Targets;
use crate::launch::Launched;
use crate::own::OwnProbes;
use crate::own::buffers::NodeBuffers;
use crate::process::Process;
use crate::selection::{CompiledSelection, Selection};

/// Most processes that the summary lists.
const MAX_LISTED: usize = 1 << 16;

/// Follows the MPI calls of one node.
#[derive(Debug)]
pub struct NodeTracer {
    pub(crate) node: u32,
    pub(crate) selection: CompiledSelection,
    pub(crate) processes: BTreeMap<Space, Process>,
    pub(crate) started: u32,
    pub(crate) known: Vec<ProcessInfo>,
    pub(crate) open: OpenCalls,
    /// Processes whose page tables others have got: numbers, and statuses as far as they were observed.
    pub(crate) gone: BTreeMap<u32, Option<u32>>,
    /// The cycle at which a call last began or ended.
    pub(crate) changed: u64,
    pub(crate) events: Vec<Event>,
    pub(crate) counters: Counters,
    /// The targets of probes.
    pub(crate) targets: Arc<Targets>,
    /// Launched processes that have made no call yet.
    pub(crate) launched: BTreeMap<Space, Launched>,
    /// Programs and ranks of launched processes that ended without a call.
    pub(crate) silent: BTreeMap<(String, u32), u64>,
    /// The location of the job's name in the data of each MPI library, by the number of the library's file.
    pub(crate) job_names: BTreeMap<u32, u64>,
    /// The address ranges of Open MPI's bindings for Fortran in processes, as far as they were found.
    pub(crate) bindings: BTreeMap<Space, Range<u64>>,
    /// True if returns are observed without a change of the guest's stack.
    pub(crate) watches_returns: bool,
    /// Addresses to watch next, of returns and of callbacks.
    pub(crate) to_watch: Vec<u64>,
    /// The latest call that was sent through the library to get a private copy of its process's table of return addresses, by
    /// address space and stack pointer.
    pub(crate) detoured: Option<(Space, u64)>,
    /// The call sites.
    pub(crate) sites: CallSites,
    /// The user's probes.
    pub(crate) probes: Arc<[Probe]>,
    /// Records of the user's probes.
    pub(crate) own: OwnProbes,
    /// Buffers of operations in progress, in runs that watch them.
    pub(crate) buffers: NodeBuffers,
}

impl NodeTracer {
    /// Creates the tracer of node number `node`. Patterns of `selection` that match nothing select nothing; [`Selection::check`]
    /// finds them.
    pub fn new(node: u32, selection: &Selection) -> Self {
        Self {
            node,
            selection: selection.compile(),
            processes: BTreeMap::new(),
            started: 0,
            known: Vec::new(),
            open: OpenCalls::default(),
            gone: BTreeMap::new(),
            changed: 0,
            events: Vec::new(),
            counters: Counters::default(),
            targets: Arc::default(),
            launched: BTreeMap::new(),
            silent: BTreeMap::new(),
            job_names: BTreeMap::new(),
            bindings: BTreeMap::new(),
            watches_returns: false,
            to_watch: Vec::new(),
            detoured: None,
            sites: CallSites::default(),
            probes: Arc::default(),
            own: OwnProbes::default(),
            buffers: NodeBuffers::default(),
        }
    }

    /// Intercepts calls by probes, which are at `targets`.
    pub fn set_targets(&mut self, targets: Arc<Targets>) {
        self.targets = targets;
    }

    /// Records call sites, of at most `frames` frames in code of `files`.
    pub fn record_frames(&mut self, frames: u8, files: Arc<Files>) {
        self.sites.begin(frames, files);
    }

    /// Lets the caller watch the returns of calls, instead of replacing the return address on the guest's stack. The caller takes
    /// addresses with [`take_return_to_watch`](Self::take_return_to_watch) after each call and reports arrivals to
    /// [`returned`](Self::returned).
    pub fn watch_returns(&mut self) {
        self.watches_returns = true;
    }

    /// Returns an address to watch since the last stop, of a call's return or of a library's callback for a message. Call it until
    /// it returns `None`.
    pub fn take_return_to_watch(&mut self) -> Option<u64> {
        self.to_watch.pop()
    }

    /// Takes the completed calls, in the order of their ends; among them, without exit, the calls that were given up.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the calls that were entered but not left (`MPI_Abort`, for example), in the order of their entries, for the end of
    /// a run.
    pub fn open_calls(&self) -> Vec<Event> {
        let open = self.open.all().map(|call| &call.event);
        open.filter(|event| event.selected).cloned().collect()
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the node's MPI processes so far, in order of start.
    pub fn processes(&self) -> &[ProcessInfo] {
        &self.known
    }

    /// Returns the rank of the process with page tables `cr3`, if MPI has begun in it.
    pub fn rank_in(&self, cr3: u64) -> Option<u32> {
        let process = self.processes.get(&(cr3 & SPACE_MASK))?;
        Some(process.rank())
    }

    /// Returns the summary at the end of a run, with the node's clock at cycle `end`.
    pub fn summary(&self, end: u64) -> NodeSummary {
        NodeSummary {
            node: self.node,
            end,
            processes: self.known.clone(),
            counters: self.counters.clone(),
        }
    }

    /// Ends all processes at cycle `at`, because their node has lost power.
    pub fn lose_processes(&mut self, at: u64) {
        let mut spaces: BTreeSet<Space> = self.processes.keys().copied().collect();
        spaces.extend(self.open.spaces());
        for space in spaces {
            self.end_process(space, at);
        }
        self.launched.clear();
        self.detoured = None;
        self.to_watch.clear();
        self.own.end_all(at);
    }

    /// Ends the process in an address space.
    pub(crate) fn end_process(&mut self, space: Space, at: u64) {
        for call in self.open.take_space(space) {
            self.give_up(call.event, at);
        }
        if let Some(process) = self.processes.remove(&space)
            && self.gone.len() < MAX_LISTED
        {
            self.gone.insert(process.number, process.end);
        }
        self.bindings.remove(&space);
        self.sites.end_process(space);
        self.end_buffers(space, at);
    }

    /// Starts an MPI process in an address space, and ends the previous process there.
    pub(crate) fn start_process(
        &mut self,
        space: Space,
        at: u64,
        rank: Option<u32>,
        implementation: Implementation,
    ) {
        self.end_process(space, at);
        self.forget_a_process(at);
        let number = self.started;
        self.started = self.started.wrapping_add(1);
        if self.known.len() < MAX_LISTED {
            self.known.push(ProcessInfo {
                process: number,
                rank: rank.unwrap_or(0),
                implementation,
                start: at,
            });
        }
        self.processes
            .insert(space, Process::new(number, rank, implementation));
    }

    fn forget_a_process(&mut self, at: u64) {
        if self.processes.len() < MAX_PROCESSES {
            return;
        }
        let oldest = self
            .processes
            .iter()
            .min_by_key(|(_, process)| process.number)
            .map(|(space, _)| *space);
        if let Some(space) = oldest {
            self.processes.remove(&space);
            self.end_buffers(space, at);
        }
    }

    /// Begins a call of a known process, and keeps it if it is to be recorded or followed.
    pub(crate) fn begin_call(
        &mut self,
        at: u64,
        vcpu: u32,
        function: u16,
        registers: &MagicRegisters,
        memory: &mut dyn GuestMemory,
    ) {
        let space = registers.space();
        let Some(process) = self.processes.get_mut(&space) else {
            return;
        };
        self.changed = at;
        let number = process.count(function);
        let selected = self.selection.selects(function, number, at);
        if !selected && !Process::follows(function) {
            return;
        }
        let slot = registers.gpr[RSP];
        let depth = self.open.depth(space, registers.fs_base, slot);
        let arguments = arguments(function, registers, Reader(memory));
        let mut event = process.event(function, registers.fs_base, arguments);
        event.node = self.node;
        event.vcpu = vcpu;
        event.entry = at;
        event.accounts = Accounts(registers.account.map(|account| [account; 2]));
        event.depth = depth;
        event.selected = selected;
        if selected {
            event.site = self.sites.find(registers, memory);
        }
        let handles = process.enter(&mut event, Reader(memory));
        self.drop_unrecorded(&mut event);
        self.intercept(registers, event, handles, memory);
    }

    /// Arranges for the call's return to be observed, and keeps the call.
    fn intercept(
        &mut self,
        registers: &MagicRegisters,
        event: Event,
        handles: Vec<u64>,
        memory: &mut dyn GuestMemory,
    ) {
        let (at, slot) = (event.entry, registers.gpr[RSP]);
        let return_address = if self.watches_returns {
            let address = Reader(memory).u64(slot);
            self.to_watch.extend(address.ok());
            address
        } else {
            replaced::replace(slot, memory)
        };
        let Ok(return_address) = return_address else {
            self.counters.warnings.unreturnable += 1;
            self.give_up(event, at);
            return;
        };
        let space = registers.space();
        self.buffers_at_entry(space, at);
        let place = (registers.fs_base, slot);
        let displaced = self.open.insert(
            space,
            place,
            return_address,
            event,
            handles,
            registers.kept(),
        );
        if let Some(call) = displaced.abandoned {
            self.counters.warnings.abandoned += 1;
            self.give_up(call.event, at);
        }
        for call in displaced.dropped {
            self.counters.warnings.dropped += 1;
            self.give_up(call.event, at);
        }
    }

    /// Ends an open call that has returned.
    pub(crate) fn end_call(
        &mut self,
        call: OpenCall,
        at: u64,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let space = registers.space();
        self.changed = at;
        let (mut event, handles, posted) = (call.event, call.handles, call.posted);
        event.exit = Some(at);
        if let (Some([_, left]), Some(account)) = (&mut event.accounts.0, registers.account) {
            *left = account;
        }
        event.result = result(&event, registers.gpr[RAX]);
        if let Some(process) = self.processes.get_mut(&space) {
            process.leave(&mut event, &handles, &posted, Reader(memory));
            event.rank = process.rank();
            if let Some(info) = self.known.get_mut(process.number as usize) {
                info.rank = process.rank();
            }
            self.counters.warnings.forgotten_objects += process.take_forgotten();
        }
        self.drop_unrecorded(&mut event);
        self.buffers_at_return(space, &event, &handles, memory);
        if Process::begins_with(event.function)
            && event.result == Some(0)
            && let Some(launch) = self.take_unnamed_launch(space, memory)
        {
            event.fact = Some(Fact::Launch(launch));
        }
        if event.bad.is_some() {
            self.counters.warnings.bad_pointers += 1;
        }
        self.record(event);
    }

    /// Removes the datatypes of a call, unless the run records them.
    fn drop_unrecorded(&self, event: &mut Event) {
        if !self.selection.datatypes {
            event.details = std::mem::take(&mut event.details).without_datatypes();
        }
    }

    /// Records a call that was found not to return.
    fn give_up(&mut self, mut event: Event, at: u64) {
        event.given_up = GivenUp(Some(at));
        self.record(event);
    }

    pub(crate) fn record(&mut self, event: Event) {
        if event.selected {
            self.counters.recorded += 1;
            self.events.push(event);
        } else if event.exit.is_some() && event.fact.is_some() {
            self.events.push(event);
        }
    }
}

/// Returns a call's argument words.
fn arguments(function: u16, registers: &MagicRegisters, memory: Reader<'_>) -> Vec<Option<u64>> {
    let parameters = FUNCTIONS[usize::from(function)].parameters;
    let register = |index: usize| {
        let register = ARGUMENT_REGISTERS.get(index)?;
        Some(registers.gpr[*register])
    };
    let stacked = |index: usize| {
        // Skips the return address.
        let offset = 8 + 8 * (index - ARGUMENT_REGISTERS.len()) as u64;
        let address = registers.gpr[RSP].checked_add(offset)?;
        memory.u64(address).ok()
    };
    (0..parameters.len())
        .map(|index| register(index).or_else(|| stacked(index)))
        .collect()
}

/// Interprets RAX as a function's result.
fn result(event: &Event, rax: u64) -> Option<i64> {
    let wide = event.implementation.handle_width() == 8;
    match event.description().result {
        Base::Double => None,
        Base::Int | Base::Fint => Some(i64::from(rax as i32)),
        Base::Aint | Base::Count | Base::Offset => Some(rax.cast_signed()),
        _ if wide => Some(rax.cast_signed()),
        _ => Some(i64::from(rax as u32)),
    }
}
