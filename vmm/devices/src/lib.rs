//! The devices of a node: interrupt controllers, timers, the serial port, the
//! clock, power and virtio-mmio.
//!
//! Every device is a plain state machine. It has no thread and no host clock; time-dependent functions take the
//! node's [`Cycles`](belljar_cpu::Cycles), and requests to the caller are returned as values. All guest input is
//! checked.
//!
//! `interrupts` joins `apic` and `ioapic`; the other devices are independent of each other. In [`virtio`], each
//! device imports `queue` and `chain`, and `mmio` gives each a register window.

/// The local APIC, with its xAPIC page and its x2APIC MSRs.
pub mod apic;
/// The node's interrupt controllers together, and the messages between them.
mod interrupts;
/// The IO-APIC (Intel 82093AA, with the EOI register of later versions).
mod ioapic;
/// A PCI bus: configuration mechanism #1, configuration spaces, MSI-X.
pub mod pci;
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
