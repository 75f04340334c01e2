//! The local APIC: one register file seen through the xAPIC page and through the
//! x2APIC MSRs (Intel SDM volume 3, chapter "Advanced Programmable Interrupt Controller").

mod access;
mod bits;
mod timer;

use belljar_cpu::Cycles;
use bits::VectorSet;
use timer::{Mode, Timer};

pub use access::{Effect, NoSuchRegister};

/// Guest-physical address of the xAPIC page; a guest cannot move it.
pub const APIC_BASE: u64 = 0xfee0_0000;
/// Bytes of the xAPIC page.
pub const APIC_SIZE: u64 = 0x1000;

const SOFTWARE_ENABLE: u32 = 1 << 8;
const LVT_MASKED: u32 = 1 << 16;
const ESR_SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
const ESR_RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;
const ESR_ILLEGAL_REGISTER: u32 = 1 << 7;

/// An interrupt message on its way to local APICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The vector.
    pub vector: u8,
    /// How it is delivered.
    pub delivery: Delivery,
    /// Level rather than edge triggered: its EOI is broadcast to the IO-APIC.
    pub level: bool,
    /// The destination, physical APIC id or logical mask.
    pub destination: u32,
    /// Whether `destination` is logical.
    pub logical: bool,
}

/// Delivery modes that this machine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// To the vector.
    Fixed,
    /// To the vector, at the least busy destination.
    LowestPriority,
    /// As a non-maskable interrupt, whatever the vector.
    Nmi,
    /// SMI, INIT, start-up or ExtINT: nothing on this machine sends or takes them.
    Other(u8),
}

impl Delivery {
    /// Decodes the three delivery-mode bits of LVT, ICR and redirection entries.
    pub fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            0 => Self::Fixed,
            1 => Self::LowestPriority,
            4 => Self::Nmi,
            other => Self::Other(other),
        }
    }
}

/// The LVT entries that this file knows by name, by their place in
/// `LocalApic::lvt`; 1 and 2 are thermal and performance monitoring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lvt {
    Timer = 0,
    Lint0 = 3,
    Lint1 = 4,
    Error = 5,
}

const LVT_COUNT: usize = 6;

/// How the local APIC is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApicMode {
    Disabled,
    XApic,
    X2Apic,
}

/// One processor's local APIC.
#[derive(Clone, Debug)]
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
    /// A non-maskable interrupt that the processor has yet to take.
    nmi: bool,
    undeliverable: u64,
}

impl LocalApic {
    /// The local APIC with id `id` after reset, switched on in xAPIC mode. Its
    /// timer counts once every `cycles_per_tick` cycles (at least 1), before the
    /// guest's own divider.
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
            undeliverable: 0,
        };
        apic.reset();
        apic
    }

    /// The registers' state after reset; the mode stays.
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

    /// The vector that the processor should take now: the highest requested one
    /// whose class is above the processor priority.
    pub fn pending(&self) -> Option<u8> {
        if !self.accepts() {
            return None;
        }
        self.requested
            .highest()
            .filter(|vector| vector >> 4 > self.processor_priority() >> 4)
    }

    /// Whether a non-maskable interrupt waits for the processor.
    pub fn has_nmi(&self) -> bool {
        self.nmi
    }

    /// The processor takes the non-maskable interrupt.
    pub fn accept_nmi(&mut self) {
        self.nmi = false;
    }

    /// The processor takes `vector`: it is in service until its EOI.
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

    /// The guest moved CR8: the task priority's class is `class` (0 to 15).
    pub fn set_task_class(&mut self, class: u8) {
        self.task_priority = (class & 0xf) << 4;
    }

    /// The cycle at which the timer fires next.
    pub fn next_deadline(&self) -> Option<Cycles> {
        self.timer.deadline()
    }

    /// Requests the timer's interrupt when its deadline is at or before `now`.
    pub fn advance(&mut self, now: Cycles) {
        if self.timer.expire(now) {
            self.raise_local(Lvt::Timer);
        }
    }

    /// Takes `message` when it is meant for this APIC. `false` when it is not, or
    /// when the APIC cannot take it; a level interrupt then keeps asking.
    pub fn deliver(&mut self, message: &Message) -> bool {
        if !self.is_destination(message.destination, message.logical) {
            return false;
        }
        match message.delivery {
            // Software that switches the APIC off does not keep these out.
            Delivery::Nmi => self.nmi = true,
            _ if !self.accepts() => return false,
            Delivery::Fixed | Delivery::LowestPriority => {
                self.request(message.vector, message.level);
            }
            Delivery::Other(_) => {
                self.undeliverable += 1;
                return false;
            }
        }
        true
    }

    /// Messages of kinds that this machine does not deliver (SMI, INIT, start-up).
    pub fn undeliverable(&self) -> u64 {
        self.undeliverable
    }

    /// Whether the guest reaches the registers through the xAPIC page.
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
        // An error entry with an illegal vector must not raise itself for ever.
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

    /// Ends the interrupt in service with the highest priority. Its vector when
    /// the IO-APIC must be told.
    fn end_of_interrupt(&mut self) -> Option<u8> {
        let vector = self.in_service.highest()?;
        self.in_service.clear(vector);
        self.level.contains(vector).then_some(vector)
    }

    fn is_destination(&self, destination: u32, logical: bool) -> bool {
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
