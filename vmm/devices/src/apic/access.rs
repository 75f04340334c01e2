//! The guest's reads and writes of the local APIC's registers.
//!
//! Unsupported accesses are ignored, noted in the error register or refused, as the manual
//! specifies for the mode; no write of a guest panics. A write's consequences outside this APIC are
//! returned as an `Effect`, which `interrupts` performs. The node's buses and exits call these
//! functions.

use belljar_cpu::Cycles;

use super::timer::Mode;
use super::{
    APIC_BASE, ApicMode, Delivery, ESR_ILLEGAL_REGISTER, ESR_SEND_ILLEGAL_VECTOR, InterruptCommand,
    LVT_COUNT, LVT_MASKED, LocalApic, Lvt, SOFTWARE_ENABLE,
};

const MSR_APIC_BASE: u32 = 0x1b;
const MSR_TSC_DEADLINE: u32 = 0x6e0;
const MSR_X2APIC: std::ops::RangeInclusive<u32> = 0x800..=0x8ff;

const BASE_BOOTSTRAP: u64 = 1 << 8;
const BASE_X2APIC: u64 = 1 << 10;
const BASE_ENABLE: u64 = 1 << 11;

/// Register numbers: xAPIC offset divided by 16, x2APIC MSR less 0x800.
mod register {
    pub(super) const ID: u8 = 0x02;
    pub(super) const VERSION: u8 = 0x03;
    pub(super) const TASK_PRIORITY: u8 = 0x08;
    pub(super) const ARBITRATION_PRIORITY: u8 = 0x09;
    pub(super) const PROCESSOR_PRIORITY: u8 = 0x0a;
    pub(super) const END_OF_INTERRUPT: u8 = 0x0b;
    pub(super) const LOGICAL_DESTINATION: u8 = 0x0d;
    pub(super) const DESTINATION_FORMAT: u8 = 0x0e;
    pub(super) const SPURIOUS: u8 = 0x0f;
    pub(super) const IN_SERVICE: u8 = 0x10;
    pub(super) const LEVEL: u8 = 0x18;
    pub(super) const REQUESTED: u8 = 0x20;
    pub(super) const ERROR: u8 = 0x28;
    pub(super) const COMMAND_LOW: u8 = 0x30;
    pub(super) const COMMAND_HIGH: u8 = 0x31;
    pub(super) const LVT: u8 = 0x32;
    pub(super) const LVT_LAST: u8 = 0x37;
    pub(super) const INITIAL_COUNT: u8 = 0x38;
    pub(super) const CURRENT_COUNT: u8 = 0x39;
    pub(super) const DIVIDE: u8 = 0x3e;
    pub(super) const SELF_IPI: u8 = 0x3f;
}

/// The caller's action after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Signal the end of the level interrupt with this vector to the IO-APIC.
    EndOfLevel(u8),
    /// The guest set the task priority: set the processor's CR8 to this class.
    TaskClass(u8),
    /// Send a message.
    Send(InterruptCommand),
}

/// The register does not exist, or the value is invalid: the guest gets a general-protection fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("MSR {0:#x} does not exist in the local APIC's present mode, or refuses this value")]
pub struct NoSuchRegister(pub u32);

impl LocalApic {
    /// A load of `len` bytes at `offset` of the xAPIC page. Registers are the first four of each 16
    /// bytes; other bytes read zero.
    pub fn read_page(&mut self, offset: u64, len: u8, now: Cycles) -> u64 {
        let within = offset & 0xf;
        if within >= 4 || offset >= super::APIC_SIZE {
            return 0;
        }
        let value = u64::from(self.read((offset >> 4) as u8, now)) >> (within * 8);
        value & (u64::MAX >> (64 - 8 * u32::from(len.clamp(1, 8))))
    }

    /// A store of `len` bytes at `offset` of the xAPIC page. Only aligned stores of whole registers
    /// have an effect.
    pub fn write_page(&mut self, offset: u64, len: u8, value: u64, now: Cycles) -> Effect {
        if offset & 0xf != 0 || len < 4 || offset >= super::APIC_SIZE {
            return Effect::None;
        }
        let value = value as u32;
        match (offset >> 4) as u8 {
            register::COMMAND_HIGH => {
                self.command = self.command & 0xffff_ffff | u64::from(value) << 32;
                Effect::None
            }
            register::COMMAND_LOW => {
                self.command = self.command & !0xffff_ffff | u64::from(value & !0x1000);
                self.send_command(self.command, (self.command >> 56) as u32)
            }
            register::LOGICAL_DESTINATION => {
                self.logical_destination = value & 0xff00_0000;
                Effect::None
            }
            register::DESTINATION_FORMAT => {
                self.destination_format = value | 0x0fff_ffff;
                Effect::None
            }
            register::ID => Effect::None,
            register::SELF_IPI => self.illegal_register(),
            number => self.write(number, value, now),
        }
    }

    /// `RDMSR` of `IA32_APIC_BASE`, `IA32_TSC_DEADLINE` or an x2APIC register.
    ///
    /// # Errors
    /// [`NoSuchRegister`]: the guest gets a general-protection fault.
    pub fn read_msr(&mut self, index: u32, now: Cycles) -> Result<u64, NoSuchRegister> {
        if index == MSR_APIC_BASE {
            return Ok(self.base_msr());
        }
        self.advance(now);
        if index == MSR_TSC_DEADLINE {
            let armed = self.timer.deadline();
            return Ok(armed
                .filter(|_| self.timer_mode() == Mode::TscDeadline)
                .unwrap_or(0));
        }
        let number = self.x2apic_register(index)?;
        match number {
            register::COMMAND_LOW => Ok(self.command),
            register::END_OF_INTERRUPT | register::SELF_IPI => Err(NoSuchRegister(index)),
            number if is_register(number) => Ok(u64::from(self.read(number, now))),
            _ => Err(NoSuchRegister(index)),
        }
    }

    /// `WRMSR` of the same registers.
    ///
    /// # Errors
    /// [`NoSuchRegister`]: the guest gets a general-protection fault.
    pub fn write_msr(
        &mut self,
        index: u32,
        value: u64,
        now: Cycles,
    ) -> Result<Effect, NoSuchRegister> {
        if index == MSR_APIC_BASE {
            return self.set_base_msr(value);
        }
        self.advance(now);
        if index == MSR_TSC_DEADLINE {
            if self.timer_mode() == Mode::TscDeadline {
                self.timer.set_tsc_deadline(value);
                self.advance(now);
            }
            return Ok(Effect::None);
        }
        let number = self.x2apic_register(index)?;
        if number == register::COMMAND_LOW {
            self.command = value & !0x1000;
            return Ok(self.send_command(value, (value >> 32) as u32));
        }
        let value = u32::try_from(value).map_err(|_| NoSuchRegister(index))?;
        match number {
            register::SELF_IPI if value > 0xff => Err(NoSuchRegister(index)),
            register::SELF_IPI => {
                self.send_to_self(value as u8);
                Ok(Effect::None)
            }
            register::END_OF_INTERRUPT | register::ERROR if value != 0 => {
                Err(NoSuchRegister(index))
            }
            number if is_writable(number) => Ok(self.write(number, value, now)),
            _ => Err(NoSuchRegister(index)),
        }
    }

    fn base_msr(&self) -> u64 {
        let mode = match self.mode {
            ApicMode::Disabled => 0,
            ApicMode::XApic => BASE_ENABLE,
            ApicMode::X2Apic => BASE_ENABLE | BASE_X2APIC,
        };
        APIC_BASE | mode | if self.bootstrap { BASE_BOOTSTRAP } else { 0 }
    }

    fn set_base_msr(&mut self, value: u64) -> Result<Effect, NoSuchRegister> {
        let refused = NoSuchRegister(MSR_APIC_BASE);
        if value & !(BASE_BOOTSTRAP | BASE_X2APIC | BASE_ENABLE) != APIC_BASE {
            return Err(refused);
        }
        let wanted = match (value & BASE_ENABLE != 0, value & BASE_X2APIC != 0) {
            (false, false) => ApicMode::Disabled,
            (true, false) => ApicMode::XApic,
            (true, true) => ApicMode::X2Apic,
            (false, true) => return Err(refused),
        };
        match (self.mode, wanted) {
            (ApicMode::X2Apic, ApicMode::XApic) | (ApicMode::Disabled, ApicMode::X2Apic) => {
                return Err(refused);
            }
            (from, ApicMode::Disabled) if from != ApicMode::Disabled => self.reset(),
            _ => {}
        }
        self.mode = wanted;
        Ok(Effect::None)
    }

    fn x2apic_register(&self, index: u32) -> Result<u8, NoSuchRegister> {
        if self.mode != ApicMode::X2Apic || !MSR_X2APIC.contains(&index) {
            return Err(NoSuchRegister(index));
        }
        Ok((index & 0xff) as u8)
    }

    fn read(&mut self, number: u8, now: Cycles) -> u32 {
        self.advance(now);
        match number {
            register::ID if self.mode == ApicMode::X2Apic => self.id,
            register::ID => self.id << 24,
            // Integrated APIC, version 0x14; the highest LVT entry in bits 16 to 23.
            register::VERSION => 0x14 | (LVT_COUNT as u32 - 1) << 16,
            register::TASK_PRIORITY => u32::from(self.task_priority),
            register::ARBITRATION_PRIORITY | register::END_OF_INTERRUPT => 0,
            register::PROCESSOR_PRIORITY => u32::from(self.processor_priority()),
            register::LOGICAL_DESTINATION if self.mode == ApicMode::X2Apic => {
                self.x2apic_logical_id()
            }
            register::LOGICAL_DESTINATION => self.logical_destination,
            register::DESTINATION_FORMAT => self.destination_format,
            register::SPURIOUS => self.spurious,
            register::IN_SERVICE..register::LEVEL => self.in_service.word(number),
            register::LEVEL..register::REQUESTED => self.level.word(number),
            register::REQUESTED..register::ERROR => self.requested.word(number),
            register::ERROR => self.errors_latched,
            register::COMMAND_LOW => self.command as u32,
            register::COMMAND_HIGH => (self.command >> 32) as u32,
            register::LVT..=register::LVT_LAST => self.lvt[usize::from(number - register::LVT)],
            register::INITIAL_COUNT => self.timer.initial(),
            register::CURRENT_COUNT => self.timer.current(now),
            register::DIVIDE => self.timer.divide(),
            _ => {
                self.illegal_register();
                0
            }
        }
    }

    fn write(&mut self, number: u8, value: u32, now: Cycles) -> Effect {
        self.advance(now);
        match number {
            register::TASK_PRIORITY => {
                self.task_priority = value as u8;
                return Effect::TaskClass(self.task_priority >> 4);
            }
            register::END_OF_INTERRUPT => {
                return self
                    .end_of_interrupt()
                    .map_or(Effect::None, Effect::EndOfLevel);
            }
            register::SPURIOUS => self.set_spurious(value),
            register::ERROR => self.errors_latched = std::mem::take(&mut self.errors),
            register::LVT..=register::LVT_LAST => self.set_lvt(number - register::LVT, value),
            register::INITIAL_COUNT => self.timer.load(value, self.timer_mode(), now),
            register::DIVIDE => self.timer.set_divide(value, now),
            _ => return self.illegal_register(),
        }
        Effect::None
    }

    fn set_spurious(&mut self, value: u32) {
        self.spurious = value & 0x1ff;
        if value & SOFTWARE_ENABLE == 0 {
            for entry in &mut self.lvt {
                *entry |= LVT_MASKED;
            }
        }
    }

    fn set_lvt(&mut self, entry: u8, value: u32) {
        let entry = usize::from(entry);
        let allowed = match entry {
            index if index == Lvt::Timer as usize => 0x0007_00ff,
            index if index == Lvt::Lint0 as usize || index == Lvt::Lint1 as usize => 0x0001_a7ff,
            index if index == Lvt::Error as usize => 0x0001_00ff,
            _ => 0x0001_07ff,
        };
        let mut value = value & allowed;
        if self.spurious & SOFTWARE_ENABLE == 0 {
            value |= LVT_MASKED;
        }
        if entry == Lvt::Timer as usize {
            self.timer.switch(self.timer_mode(), Mode::from_lvt(value));
        }
        self.lvt[entry] = value;
    }

    fn send_command(&mut self, register: u64, destination: u32) -> Effect {
        let Some(command) = InterruptCommand::decode(register, destination) else {
            return Effect::None;
        };
        let has_vector = matches!(
            command.message.delivery,
            Delivery::Fixed | Delivery::LowestPriority
        );
        if has_vector && command.message.vector < 16 {
            self.raise_error(ESR_SEND_ILLEGAL_VECTOR);
            return Effect::None;
        }
        Effect::Send(command)
    }

    fn send_to_self(&mut self, vector: u8) {
        if vector < 16 {
            self.raise_error(ESR_SEND_ILLEGAL_VECTOR);
        } else if self.accepts() {
            self.request(vector, false);
        }
    }

    fn illegal_register(&mut self) -> Effect {
        self.raise_error(ESR_ILLEGAL_REGISTER);
        Effect::None
    }
}

/// True if x2APIC mode has register `number` for reading.
fn is_register(number: u8) -> bool {
    matches!(number,
        register::ID | register::VERSION | register::TASK_PRIORITY | register::PROCESSOR_PRIORITY
        | register::LOGICAL_DESTINATION | register::SPURIOUS..=register::ERROR
        | register::LVT..=register::CURRENT_COUNT | register::DIVIDE)
}

/// True if x2APIC mode has register `number` for writing, except for the command register.
fn is_writable(number: u8) -> bool {
    matches!(
        number,
        register::TASK_PRIORITY
            | register::END_OF_INTERRUPT
            | register::SPURIOUS
            | register::ERROR
            | register::LVT..=register::INITIAL_COUNT | register::DIVIDE
    )
}
