//! The devices of a node: interrupt controllers, timers, the serial port, the
//! clock, power and virtio-mmio.
//!
//! Every device is a plain state machine. It has no thread and no host clock; what
//! depends on time takes the node's [`Cycles`](belljar_cpu::Cycles), and what it
//! wants done comes back as a value. Everything a guest can write is checked.
//!
//! `interrupts` joins `apic` and `ioapic`; the other devices import no one else's. In [`virtio`], each device imports
//! `queue` and `chain`, and `mmio` shows any of them to the guest.

/// The local APIC, seen through the xAPIC page and the x2APIC MSRs.
pub mod apic;
/// The node's interrupt controllers together, and the messages between them.
mod interrupts;
/// The IO-APIC (Intel 82093AA, with the EOI register of later versions).
mod ioapic;
/// Power-off and reset.
mod power;
/// The CMOS clock (MC146818).
mod rtc;
/// The serial port: vm-superio's 16550A, with its output collected.
mod serial;
/// A device for tests of processors.
mod test_device;
/// virtio-mmio, version 2, and its devices: block, net, entropy, console.
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
