//! A processor for the tests: it executes a script, one operation per instruction, with interrupts,
//! shadows and overshoot like a real engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use belljar_cpu::*;
use belljar_sim::Seed;
use vm_memory::{Bytes, GuestAddress};

/// One instruction.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Work,
    Out(u16, u8, u32),
    In(u16, u8),
    Store(u64, u8, u64),
    Load(u64, u8),
    WriteMsr(u32, u64),
    ReadMsr(u32),
    /// `WRMSR` of the TSC deadline, this many cycles from now.
    Arm(u64),
    Poke(u64, Vec<u8>),
    EnableInterrupts,
    DisableInterrupts,
    Halt,
    TaskPriority(u8),
    Magic,
    /// An address with the probe of this number.
    Probe(u32),
    Return,
    Jump(usize),
    Fail,
}

/// An observation of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Interrupt(u8),
    Value(u64),
    Fault,
    Target(u64),
}

pub(super) type Log = Arc<Mutex<Vec<(Cycles, Seen)>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Ready,
    Asked,
    Answered,
    AtMagic,
}

/// The cache time that each processor reports.
pub(super) const CACHES: u64 = 7;

pub(super) struct Fake {
    pub(super) ram: GuestRam,
    pub(super) log: Log,
    pub(super) main: Vec<Op>,
    pub(super) handlers: BTreeMap<u8, Vec<Op>>,
    /// Cycles per instruction.
    pub(super) pace: u64,
    /// Linear address of the script's only mapping that is not the identity, to `0`.
    pub(super) alias: u64,
    place: (Option<u8>, usize),
    return_to: usize,
    now: Cycles,
    retired: u64,
    stop_at: u64,
    enabled: bool,
    shadow: bool,
    window: bool,
    phase: Phase,
    class: u8,
    registers: Registers,
    system: SystemRegisters,
    probed: Option<Probed>,
}

impl Fake {
    pub(super) fn new(parts: VcpuParts, main: Vec<Op>, log: Log) -> Self {
        Self {
            ram: parts.ram,
            log,
            main,
            handlers: BTreeMap::new(),
            pace: 1,
            alias: 0xffff_8000_0000_0000,
            place: (None, 0),
            return_to: 0,
            now: 0,
            retired: 0,
            stop_at: u64::MAX,
            enabled: false,
            shadow: false,
            window: false,
            phase: Phase::Ready,
            class: 0,
            registers: Registers::default(),
            system: SystemRegisters::default(),
            probed: None,
        }
    }

    fn see(&self, seen: Seen) {
        self.log.lock().unwrap().push((self.now, seen));
    }

    fn retire(&mut self) {
        self.now += self.pace;
        self.retired += 1;
        self.place.1 += 1;
    }

    fn fetch(&self) -> Op {
        let end_of_interrupt = [Op::WriteMsr(0x80b, 0), Op::Return];
        match self.place {
            (None, at) => self.main[at].clone(),
            (Some(vector), at) => match self.handlers.get(&vector) {
                Some(handler) => handler[at].clone(),
                None => end_of_interrupt[at].clone(),
            },
        }
    }

    fn ask(&mut self, exit: Exit) -> Option<Exit> {
        self.phase = Phase::Asked;
        Some(exit)
    }

    fn done(&mut self, exit: Exit) -> Option<Exit> {
        self.retire();
        Some(exit)
    }

    fn step(&mut self) -> Option<Exit> {
        let op = self.fetch();
        self.shadow = false;
        match op {
            Op::In(port, len) => return self.ask(Exit::PioRead { port, len }),
            Op::Load(addr, len) => return self.ask(Exit::MmioRead { addr, len }),
            Op::ReadMsr(index) => return self.ask(Exit::MsrRead { index }),
            Op::Out(port, len, data) => return self.done(Exit::PioWrite { port, len, data }),
            Op::Store(addr, len, data) => return self.done(Exit::MmioWrite { addr, len, data }),
            Op::WriteMsr(index, value) => return self.done(Exit::MsrWrite { index, value }),
            Op::Arm(after) => {
                let value = self.now + after;
                return self.done(Exit::MsrWrite {
                    index: 0x6e0,
                    value,
                });
            }
            Op::Halt => return self.done(Exit::Halt),
            Op::TaskPriority(class) => {
                self.class = class;
                return self.done(Exit::TaskPriority);
            }
            Op::Magic => {
                self.phase = Phase::AtMagic;
                return Some(Exit::Magic { at: self.now });
            }
            Op::Probe(probe) => {
                self.probed = Some(Probed {
                    registers: self.registers(),
                    scalars: self.scalars(),
                    account: self.account(),
                    at: self.now,
                });
                return self.done(Exit::Probe { probe });
            }
            Op::Fail => {
                let cause = ShutdownCause::TripleFault { vector: 14, rip: 0 };
                return Some(Exit::Shutdown(cause));
            }
            Op::EnableInterrupts => {
                self.shadow = !self.enabled;
                self.enabled = true;
            }
            Op::DisableInterrupts => self.enabled = false,
            Op::Poke(addr, ref bytes) => self.ram.write_slice(bytes, GuestAddress(addr)).unwrap(),
            Op::Work | Op::Return | Op::Jump(_) => {}
        }
        self.retire();
        match op {
            Op::Jump(to) => self.place.1 = to,
            Op::Return => {
                self.place = (None, self.return_to);
                self.enabled = true;
            }
            _ => {}
        }
        None
    }
}

impl Vcpu for Fake {
    fn save(&mut self) -> Result<CpuState, CpuError> {
        Err(CpuError::State("a scripted processor has none".to_owned()))
    }

    fn load(&mut self, _: &CpuState) -> Result<(), CpuError> {
        self.save().map(|_| ())
    }

    fn reseed(&mut self, _: Seed, _: u64) {}

    fn run(&mut self, until: Cycles) -> Result<Exit, CpuError> {
        assert!(
            !matches!(self.phase, Phase::Asked | Phase::AtMagic),
            "run with a question open"
        );
        if self.phase == Phase::Answered {
            self.phase = Phase::Ready;
            self.retire();
        }
        loop {
            if self.window && self.interruptible() {
                return Ok(Exit::InterruptWindow);
            }
            if self.now >= until || self.retired >= self.stop_at {
                return Ok(Exit::Deadline);
            }
            if let Some(exit) = self.step() {
                return Ok(exit);
            }
        }
    }

    fn now(&self) -> Cycles {
        self.now
    }

    fn skip_to(&mut self, to: Cycles) {
        self.now = self.now.max(to);
    }

    fn retired(&self) -> u64 {
        self.retired
    }

    fn account(&self) -> Option<TimeAccount> {
        Some(TimeAccount {
            instructions: self.retired,
            caches: CACHES,
            ..TimeAccount::default()
        })
    }

    fn probed(&self) -> Option<Probed> {
        self.probed
    }

    fn complete_read(&mut self, data: u64) {
        assert_eq!(self.phase, Phase::Asked);
        self.see(Seen::Value(data));
        self.phase = Phase::Answered;
    }

    fn refuse_msr(&mut self) {
        self.see(Seen::Fault);
        if self.phase == Phase::Asked {
            self.phase = Phase::Answered;
        }
    }

    fn interruptible(&self) -> bool {
        self.enabled && !self.shadow
    }

    fn interrupt(&mut self, vector: u8) {
        assert!(self.interruptible(), "interrupted while it cannot be");
        assert_eq!(
            self.phase,
            Phase::Ready,
            "interrupted within an instruction"
        );
        self.see(Seen::Interrupt(vector));
        self.return_to = self.place.1;
        self.place = (Some(vector), 0);
        self.enabled = false;
    }

    fn takes_nmi(&self) -> bool {
        false
    }

    fn nmi(&mut self) {
        unreachable!("this processor takes none");
    }

    fn request_nmi_window(&mut self, _: bool) {}

    fn request_interrupt_window(&mut self, wanted: bool) {
        self.window = wanted;
    }

    fn task_priority(&self) -> u8 {
        self.class
    }

    fn set_task_priority(&mut self, class: u8) {
        self.class = class;
    }

    fn registers(&self) -> Registers {
        Registers {
            rflags: 2 | u64::from(self.enabled) << 9,
            ..self.registers
        }
    }

    fn set_registers(&mut self, registers: &Registers) {
        self.registers = *registers;
    }

    fn init(&mut self) {
        self.enabled = false;
        self.shadow = false;
        self.phase = Phase::Ready;
        self.place = (None, 0);
        self.system = SystemRegisters::initial();
        self.registers = Registers::initial(0);
    }

    fn system(&self) -> SystemRegisters {
        self.system
    }

    fn set_system(&mut self, system: &SystemRegisters) {
        self.system = *system;
    }

    /// The alias page maps to page 0x5000, and the page after it, read-only, to 0x3000.
    fn translate(&self, linear: u64, access: Access) -> Option<u64> {
        match linear.checked_sub(self.alias)? {
            offset @ 0..0x1000 => Some(0x5000 + offset),
            offset @ 0x1000..0x2000 if access != Access::Write => Some(0x2000 + offset),
            _ => None,
        }
    }

    fn complete_magic(&mut self, target: u64) {
        assert_eq!(self.phase, Phase::AtMagic);
        self.phase = Phase::Ready;
        self.see(Seen::Target(target));
        self.retire();
    }

    fn stop_at(&mut self, instructions: u64) {
        self.stop_at = instructions;
    }

    fn state(&self) -> Vec<belljar_cpu::StateItem> {
        belljar_cpu::register_items(&self.registers(), &self.system())
    }

    fn report(&self) -> belljar_cpu::EngineReport {
        belljar_cpu::EngineReport::default()
    }
}

use super::super::VcpuParts;
