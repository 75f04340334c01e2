//! The vCPU: entering and leaving the guest.
//!
//! Each entry has a timer that ends the turn, and the guest's counter shows virtual time while it
//! runs. An exit that needs an answer gets it before the next entry. Nodes call it through
//! `interface`; it belongs to one thread at a time.

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;

use belljar_cpu::{CpuError, CpuidTable, Cycles, Exit, InstructionSet, ShutdownCause};
use kvm_bindings::{CpuId, kvm_sregs};
use kvm_ioctls::{SyncReg, VcpuFd};

use crate::exits::decode::{Io, Meaning, RawExit, decode};
use crate::exits::history::{ExitRecord, History};
use crate::exits::page;
use crate::host::ioctl;
use crate::host::machine::{Machine, failed};
use crate::host::means::Means;
use crate::state::cpuid;
use crate::state::xstate;
use crate::vcpu::clock::{Clock, HostTime, TransitionCosts};

/// Handling of magic instructions.
mod calls;
/// A clock that runs while the guest runs.
pub(crate) mod clock;
/// The `Vcpu` trait, which nodes call.
pub(crate) mod interface;
/// The timer that ends a turn.
pub(crate) mod preempt;
/// A vCPU's whole state.
pub(crate) mod saved;

/// The configuration of a [`KvmVcpu`].
pub struct KvmConfig {
    /// The machine whose processor it is.
    pub machine: Arc<Machine>,
    /// Its number, from 0.
    pub index: u32,
    /// The answers of CPUID.
    pub cpuid: CpuidTable,
    /// The instruction set that CPUID reports.
    pub instruction_set: InstructionSet,
    /// The mechanisms by which it is run.
    pub means: Means,
}

/// The answer that KVM waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    None,
    /// A transfer, possibly of several items.
    Io(Io),
    Mmio,
    ReadMsr,
    /// Only whether the register exists.
    WriteMsr,
}

/// A virtual processor of KVM's.
pub struct KvmVcpu {
    pub(crate) fd: VcpuFd,
    pub(crate) machine: Arc<Machine>,
    pub(crate) clock: Clock,
    pub(crate) signature: u32,
    pub(crate) instruction_set: InstructionSet,
    /// System registers, if they were read since the last run.
    pub(crate) system: OnceCell<kvm_sregs>,
    pub(crate) question: Question,
    /// True if KVM completes an instruction when the guest continues.
    pub(crate) unfinished: bool,
    /// The exit that follows the one returned last.
    pub(crate) deferred: Option<Exit>,
    pub(crate) interruptible: bool,
    pub(crate) window_wanted: bool,
    /// An interrupt to inject when the guest continues.
    pub(crate) vector: Option<u8>,
    pub(crate) task_priority: u8,
    pub(crate) halted: bool,
    pub(crate) shutdown: Option<ShutdownCause>,
    /// A refusal of the host since the last run.
    pub(crate) failure: Option<CpuError>,
    pub(crate) history: History,
    /// Number of entries into the guest.
    pub(crate) entries: u64,
    pub(crate) means: Means,
    /// Number of breakpoints outside the library.
    pub(crate) strangers: u64,
    /// True if the guest had breakpoints of its own, which do not work.
    pub(crate) missed_breakpoints: bool,
    /// True if programs of the guest call by CPUID, which requires hardware breakpoints.
    pub(crate) calls_by_cpuid: bool,
}

impl KvmVcpu {
    /// Makes a vCPU. Set its registers before the first run.
    ///
    /// # Errors
    /// If KVM refuses it, or lacks its instructions.
    pub fn new(config: KvmConfig) -> Result<Self, CpuError> {
        let costs = config.machine.host.costs(config.means)?;
        Self::with_costs(config, costs)
    }

    pub(crate) fn with_costs(config: KvmConfig, costs: TransitionCosts) -> Result<Self, CpuError> {
        let machine = config.machine;
        let missing = cpuid::missing(&config.instruction_set, &machine.host.supported);
        if !missing.is_empty() {
            return Err(CpuError::HostLevel {
                set: config.instruction_set.to_string(),
                missing: missing.join(", "),
            });
        }
        let states = config.instruction_set.state_components();
        if !xstate::has_our_layout(&machine.host.supported, states) {
            return Err(CpuError::Unusable(
                "this host's processor keeps AVX-512 registers in another order than guests are told; set a lower nodes.level, or use engine = \"exact\"".to_owned(),
            ));
        }
        let mut fd = machine.vcpu(config.index)?;
        let entries = cpuid::entries(
            &config.cpuid,
            config.means.breakpoints,
            &machine.host.supported,
        );
        let list = CpuId::from_entries(&entries)
            .map_err(|_| CpuError::Internal("too many CPUID leaves".to_owned()))?;
        fd.set_cpuid2(&list)
            .map_err(failed("set what CPUID answers"))?;
        config.means.breakpoints.watch(&fd)?;
        fd.set_sync_valid_reg(SyncReg::Register);
        let registers = fd.get_regs().map_err(failed("read registers"))?;
        fd.sync_regs_mut().regs = registers;
        let khz = fd
            .get_tsc_khz()
            .map_err(failed("learn the rate of the time stamp counter"))?;
        let [signature, ..] = config.cpuid.answer(1, 0);
        Ok(Self {
            fd,
            machine,
            clock: Clock::new(khz.into(), costs),
            signature,
            instruction_set: config.instruction_set,
            system: OnceCell::new(),
            question: Question::None,
            unfinished: false,
            deferred: None,
            interruptible: false,
            window_wanted: false,
            vector: None,
            task_priority: 0,
            halted: false,
            shutdown: None,
            failure: None,
            history: History::default(),
            entries: 0,
            means: config.means,
            strangers: 0,
            missed_breakpoints: false,
            calls_by_cpuid: false,
        })
    }

    /// Runs the guest until `until` or until an exit needs the caller.
    pub(crate) fn go(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Some(exit) = self.next_item().or_else(|| self.deferred.take()) {
            return Ok(exit);
        }
        if let Some(cause) = self.shutdown {
            return Ok(Exit::Shutdown(cause));
        }
        let mut ran = false;
        loop {
            if self.window_wanted && self.interruptible && !self.unfinished {
                return Ok(Exit::InterruptWindow);
            }
            let left = until.saturating_sub(self.clock.now());
            if left == 0 && !self.unfinished {
                if ran {
                    self.clock.count_stop(until);
                }
                return Ok(Exit::Deadline);
            }
            if !self.unfinished
                && let Some(exit) = self.call_ahead()?
            {
                return Ok(exit);
            }
            ran |= left > 0;
            let raw = if left > 0 {
                self.enter(left)?
            } else {
                self.end_instruction()?
            };
            if let Some(exit) = self.take(&raw)? {
                return Ok(exit);
            }
        }
    }

    /// Enters the guest for at most `left` cycles.
    fn enter(&mut self, left: u64) -> Result<RawExit, CpuError> {
        let vector = self.vector.take();
        if let Some(vector) = vector {
            ioctl::interrupt(&self.fd, vector).map_err(failed("interrupt the guest"))?;
        }
        self.prepare_page();
        self.halted = false;
        self.entries += 1;
        let (most, granted) = self.clock.grant(left);
        let (clock, control) = (&mut self.clock, self.means.tsc);
        let result = preempt::with_alarm(&mut self.fd, most, |fd| {
            let thread = ioctl::thread_time();
            let host = HostTime {
                tsc: ioctl::host_tsc(),
                thread,
            };
            let offset = clock.start(host, granted);
            control.set(fd, offset)?;
            let result = run_once(fd);
            let tsc = ioctl::host_tsc();
            clock.stop(HostTime {
                tsc,
                thread: ioctl::thread_time(),
            });
            result
        });
        let raw = result.map_err(failed("set a timer"))??;
        self.note_exit(raw, vector);
        Ok(raw)
    }

    /// Completes the instruction that KVM has begun, and executes no other.
    pub(crate) fn end_instruction(&mut self) -> Result<RawExit, CpuError> {
        self.prepare_page();
        self.fd.set_kvm_immediate_exit(1);
        let result = run_once(&mut self.fd);
        self.fd.set_kvm_immediate_exit(0);
        let raw = result?;
        self.note_exit(raw, None);
        Ok(raw)
    }

    fn prepare_page(&mut self) {
        let window = self.window_wanted && self.vector.is_none();
        let task_priority = self.task_priority;
        let page = self.fd.get_kvm_run();
        page.request_interrupt_window = window.into();
        page.cr8 = task_priority.into();
    }

    /// Records the state after a run, which began with interrupt `vector`.
    fn note_exit(&mut self, raw: RawExit, vector: Option<u8>) {
        let registers = &self.fd.sync_regs().regs;
        let step = ExitRecord::new(self.clock.now(), vector, raw, registers);
        self.history.note(step);
        self.system.take();
        self.unfinished = false;
        self.question = Question::None;
        if raw == RawExit::Interrupted {
            // A kernel loads a program's breakpoints into DR7 while that program runs.
            self.missed_breakpoints = self.misses_breakpoints();
        }
        let page = self.fd.get_kvm_run();
        let ready = page.ready_for_interrupt_injection != 0 && page.if_flag != 0;
        self.interruptible = ready && self.vector.is_none();
    }

    /// Handles `raw`; returns `None` to continue.
    fn take(&mut self, raw: &RawExit) -> Result<Option<Exit>, CpuError> {
        let exit = match decode(raw, self.fd.sync_regs().regs.rip) {
            Meaning::Exit(exit) => Some(self.ask(exit)),
            Meaning::Transfer(io) => {
                self.question = Question::Io(io);
                self.next_item()
            }
            Meaning::SetTsc(value) => {
                self.clock.set_tsc(value);
                page::put_msr(self.fd.get_kvm_run(), value);
                self.unfinished = true;
                None
            }
            Meaning::Breakpoint(at) => self.magic_exit(at)?,
            Meaning::Nothing => None,
            Meaning::Failure(failure) => {
                return Err(CpuError::Unusable(format!(
                    "{failure}; run belljar doctor, or use engine = \"exact\""
                )));
            }
        };
        Ok(self.after_task_priority(exit))
    }

    /// Returns a change of the task priority, which KVM reports only in some cases, before `exit`.
    fn after_task_priority(&mut self, exit: Option<Exit>) -> Option<Exit> {
        let now = self.fd.get_kvm_run().cr8 as u8 & 15;
        if now == self.task_priority {
            return exit;
        }
        self.task_priority = now;
        self.deferred = exit;
        Some(Exit::TaskPriority)
    }

    /// Records the answer that KVM waits for.
    fn ask(&mut self, exit: Exit) -> Exit {
        match exit {
            Exit::MmioRead { .. } => self.question = Question::Mmio,
            Exit::MsrRead { .. } => self.question = Question::ReadMsr,
            Exit::MsrWrite { .. } => {
                self.question = Question::WriteMsr;
                self.unfinished = true;
            }
            Exit::MmioWrite { .. } => self.unfinished = true,
            Exit::Halt => self.halted = true,
            Exit::Shutdown(cause) => self.shutdown = Some(cause),
            _ => {}
        }
        exit
    }

    /// The next item of a transfer that continues.
    fn next_item(&mut self) -> Option<Exit> {
        let Question::Io(io) = &mut self.question else {
            return None;
        };
        if !io.goes_on() {
            return None;
        }
        let item = *io;
        if item.input {
            return Some(item.exit(0));
        }
        io.done += 1;
        self.unfinished = true;
        let bytes = self.machine.host.page_bytes;
        let data = page::io_item(self.fd.get_kvm_run(), bytes, item.done, item.size);
        Some(item.exit(data))
    }

    /// Answers the pending exit.
    pub(crate) fn answer(&mut self, data: u64) {
        let bytes = self.machine.host.page_bytes;
        let page = self.fd.get_kvm_run();
        match &mut self.question {
            Question::Io(io) if io.input && io.goes_on() => {
                page::put_io_item(page, bytes, io.done, io.size, data as u32);
                io.done += 1;
            }
            Question::Mmio => page::put_mmio(page, data),
            Question::ReadMsr => page::put_msr(page, data),
            _ => return,
        }
        self.unfinished = true;
    }

    /// Makes the pending access to a model-specific register fault.
    pub(crate) fn refuse(&mut self) {
        if matches!(self.question, Question::ReadMsr | Question::WriteMsr) {
            page::refuse_msr(self.fd.get_kvm_run());
            self.unfinished = true;
        }
    }

    /// True if a transfer's item or an exit is still to be returned, so that no other event may
    /// precede it.
    pub(crate) fn is_amid(&self) -> bool {
        let transfers = matches!(self.question, Question::Io(io) if io.goes_on());
        transfers || self.deferred.is_some() || self.vector.is_some()
    }
}

fn run_once(fd: &mut VcpuFd) -> Result<RawExit, CpuError> {
    match fd.run() {
        Ok(_) => Ok(page::raw_exit(fd.get_kvm_run())),
        Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {
            Ok(RawExit::Interrupted)
        }
        Err(error) => Err(failed::<io::Error>("run the guest")(error.into())),
    }
}
