//! The local APIC: a register file that is accessible by the xAPIC page and by the x2APIC MSRs
//! (Intel SDM volume 3, chapter "Advanced Programmable Interrupt Controller").
//!
//! State changes only by the guest's accesses, by messages, and by the timer in `advance`; the
//! caller passes times in the processor's cycles. `interrupts` has one for each processor; the
//! node's run loop gets the vector to deliver from it.

/// The guest's reads and writes of the local APIC's registers.
mod access;
/// A set of interrupt vectors: the contents of IRR, ISR or TMR.
mod bits;
/// Interrupt messages between local APICs, and from the IO-APIC to them.
mod message;
/// The local APIC's timer: one-shot, periodic and TSC-deadline, in virtual cycles.
mod timer;

use belljar_cpu::Cycles;
use bits::VectorSet;
use message::Inbox;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use timer::{Mode, Timer};

pub use access::{Effect, NoSuchRegister};
pub(crate) use message::Signal;
pub use message::{Delivery, InterruptCommand, InterruptMessage, Shorthand, StartSignal};

/// Guest-physical address of the xAPIC page; a guest cannot move it.
pub const APIC_BASE: u64 = 0xfee0_0000;
/// Bytes of the xAPIC page.
pub const APIC_SIZE: u64 = 0x1000;

const SOFTWARE_ENABLE: u32 = 1 << 8;
const LVT_MASKED: u32 = 1 << 16;
const ESR_SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
const ESR_RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;
const ESR_ILLEGAL_REGISTER: u32 = 1 << 7;

/// The LVT entries that this file uses by name, by their index in `LocalApic::lvt`; 1 and 2 are
/// thermal and performance monitoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lvt {
    Timer = 0,
    Lint0 = 3,
    Lint1 = 4,
    Error = 5,
}

const LVT_COUNT: usize = 6;

/// The mode set in `IA32_APIC_BASE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ApicMode {
    Disabled,
    XApic,
    X2Apic,
}

/// One processor's local APIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LocalApic {
    id: u32,
    bootstrap: bool,
    mode: ApicMode,
    requested: VectorSet,
    in_service: VectorSet,
    level: VectorSet,
    task_priority: u8,
    spurious: u32,
    errors: u32,
    errors_latched: u32,
    lvt: [u32; LVT_COUNT],
    command: u64,
    logical_destination: u32,
    destination_format: u32,
    timer: Timer,
    /// A non-maskable interrupt that is pending for the processor.
    nmi: bool,
    /// Start signals that the processor has not handled yet.
    starts: VecDeque<StartSignal>,
    inbox: Inbox,
    /// Level interrupts that arrived while the APIC was disabled.
    refused: Vec<u8>,
}

impl LocalApic {
    /// The local APIC with id `id` after reset, enabled in xAPIC mode. Its timer counts once every
    /// `cycles_per_tick` cycles (at least 1), before the guest's own divider.
    pub fn new(id: u32, bootstrap: bool, cycles_per_tick: u64) -> Self {
        let mut apic = Self {
            id,
            bootstrap,
            mode: ApicMode::XApic,
            requested: VectorSet::default(),
            in_service: VectorSet::default(),
            level: VectorSet::default(),
            task_priority: 0,
            spurious: 0,
            errors: 0,
            errors_latched: 0,
            lvt: [0; LVT_COUNT],
            command: 0,
            logical_destination: 0,
            destination_format: 0,
            timer: Timer::new(cycles_per_tick),
            nmi: false,
            starts: VecDeque::new(),
            inbox: Inbox::default(),
            refused: Vec::new(),
        };
        apic.reset();
        apic
    }

    /// Resets the registers; the mode stays.
    fn reset(&mut self) {
        self.requested = VectorSet::default();
        self.in_service = VectorSet::default();
        self.level = VectorSet::default();
        self.nmi = false;
        self.task_priority = 0;
        self.spurious = 0xff;
        self.errors = 0;
        self.errors_latched = 0;
        self.lvt = [LVT_MASKED; LVT_COUNT];
        self.command = 0;
        self.logical_destination = 0;
        self.destination_format = u32::MAX;
        self.timer.reset();
    }

    /// The vector to deliver now: the highest requested one whose class is above the processor
    /// priority.
    pub fn pending(&self) -> Option<u8> {
        if !self.accepts() {
            return None;
        }
        self.requested
            .highest()
            .filter(|vector| vector >> 4 > self.processor_priority() >> 4)
    }

    /// True if a non-maskable interrupt is pending for the processor.
    pub fn has_nmi(&self) -> bool {
        self.nmi
    }

    /// Records that the processor takes the non-maskable interrupt.
    pub fn accept_nmi(&mut self) {
        self.nmi = false;
    }

    /// Records that the processor takes `vector`, which is in service until its EOI.
    pub fn accept(&mut self, vector: u8) {
        self.requested.clear(vector);
        self.in_service.set(vector);
    }

    /// The processor priority: the higher of the task priority and the class in service.
    pub fn processor_priority(&self) -> u8 {
        let serving = self.in_service.highest().unwrap_or(0) & 0xf0;
        if self.task_priority & 0xf0 >= serving {
            self.task_priority
        } else {
            serving
        }
    }

    /// Records that the guest moved CR8: the task priority's class is `class` (0 to 15).
    pub fn set_task_class(&mut self, class: u8) {
        self.task_priority = (class & 0xf) << 4;
    }

    /// The cycle of the timer's next interrupt or of the next message's arrival.
    pub fn next_deadline(&self) -> Option<Cycles> {
        self.timer
            .deadline()
            .into_iter()
            .chain(self.inbox.next())
            .min()
    }

    /// True if messages to this APIC are in flight.
    pub fn expects_messages(&self) -> bool {
        self.inbox.next().is_some()
    }

    /// Requests the timer's interrupt if its deadline is at or before `now`, then accepts the
    /// messages that have arrived by then.
    pub fn advance(&mut self, now: Cycles) {
        if self.timer.expire(now) {
            self.raise_local(Lvt::Timer);
        }
        while let Some(signal) = self.inbox.pop_due(now) {
            match signal {
                signal if self.takes(signal) => self.receive(signal),
                Signal::Vector {
                    vector,
                    level: true,
                } => self.refused.push(vector),
                _ => {}
            }
        }
    }

    /// Takes the vectors of level interrupts that arrived and were refused.
    pub(crate) fn take_refused(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.refused)
    }

    /// Takes the processor's next start signal, which it must handle before it continues.
    pub fn take_start(&mut self) -> Option<StartSignal> {
        self.starts.pop_front()
    }

    /// True if this APIC accepts such a message now. A software-disabled one refuses only
    /// interrupts.
    pub(crate) fn takes(&self, signal: Signal) -> bool {
        self.accepts() || !matches!(signal, Signal::Vector { .. })
    }

    /// Accepts a message that has arrived.
    pub(crate) fn receive(&mut self, signal: Signal) {
        match signal {
            Signal::Vector { vector, level } => self.request(vector, level),
            Signal::Nmi => self.nmi = true,
            Signal::Start(start) => {
                if start == StartSignal::Init {
                    self.reset();
                    // A reset discards earlier signals.
                    self.starts.clear();
                }
                self.starts.push_back(start);
            }
        }
    }

    /// Adds a message that arrives at `at` by this processor's clock.
    pub(crate) fn expect(&mut self, at: Cycles, signal: Signal) {
        self.inbox.push(at, signal);
    }

    /// True if the guest accesses the registers through the xAPIC page.
    pub fn is_memory_mapped(&self) -> bool {
        self.mode == ApicMode::XApic
    }

    fn accepts(&self) -> bool {
        self.mode != ApicMode::Disabled && self.spurious & SOFTWARE_ENABLE != 0
    }

    fn request(&mut self, vector: u8, level: bool) {
        if vector < 16 {
            self.raise_error(ESR_RECEIVE_ILLEGAL_VECTOR);
            return;
        }
        self.requested.set(vector);
        self.level.assign(vector, level);
    }

    fn raise_error(&mut self, error: u32) {
        self.errors |= error;
        // An error entry with an illegal vector must not raise itself forever.
        if self.lvt[Lvt::Error as usize] & 0xff >= 16 {
            self.raise_local(Lvt::Error);
        }
    }

    fn raise_local(&mut self, entry: Lvt) {
        let value = self.lvt[entry as usize];
        if self.accepts() && value & LVT_MASKED == 0 {
            self.request(value as u8, false);
        }
    }

    /// Ends the interrupt in service with the highest priority. Returns its vector if the IO-APIC
    /// needs the EOI.
    fn end_of_interrupt(&mut self) -> Option<u8> {
        let vector = self.in_service.highest()?;
        self.in_service.clear(vector);
        self.level.contains(vector).then_some(vector)
    }

    /// True if a message to `destination` is addressed to this APIC.
    pub(crate) fn is_destination(&self, destination: u32, logical: bool) -> bool {
        let broadcast = destination == u32::MAX || destination == 0xff;
        if broadcast || !logical {
            return broadcast || destination == self.id;
        }
        if self.mode == ApicMode::X2Apic {
            let own = self.x2apic_logical_id();
            return own >> 16 == destination >> 16 && own & destination & 0xffff != 0;
        }
        let own = self.logical_destination >> 24;
        if self.destination_format >> 28 == 0xf {
            own & destination & 0xff != 0
        } else {
            own >> 4 == (destination >> 4) & 0xf && own & destination & 0xf != 0
        }
    }

    /// The logical id that x2APIC mode derives from the APIC id: cluster in the
    /// upper half, one bit of sixteen in the lower.
    fn x2apic_logical_id(&self) -> u32 {
        (self.id >> 4) << 16 | 1 << (self.id & 0xf)
    }

    fn timer_mode(&self) -> Mode {
        Mode::from_lvt(self.lvt[Lvt::Timer as usize])
    }
}

#[cfg(test)]
mod tests;
