//! The devices of a node: interrupt controllers, timers, the serial port, the
//! clock, power and virtio-mmio.
//!
//! Every device is a plain state machine. It has no thread and no host clock; what
//! depends on time takes the node's [`Cycles`](belljar_cpu::Cycles), and what it
//! wants done comes back as a value. Everything a guest can write is checked.

pub mod apic;
mod interrupts;
mod ioapic;
mod power;
mod rtc;
mod serial;
mod test_device;
pub mod virtio;

pub use interrupts::{InterruptController, Moment};
pub use ioapic::{IoApic, PINS};
pub use power::{
    POWER_PORTS, Power, PowerEvent, RESET_PORT, RESET_VALUE, SLEEP_CONTROL_PORT, SLEEP_STATUS_PORT,
    SLEEP_TYPE_S5,
};
pub use rtc::Rtc;
pub use serial::{SERIAL_PIN, SERIAL_PORT, Serial, SerialState};
pub use test_device::{EXIT_PORT, TestDevice};
