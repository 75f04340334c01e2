//! The serial port: vm-superio's 16550A, with its output collected.
//!
//! Output waits for the host to take it, input for the guest to read it, and transfers take no
//! time. The node's buses map the eight ports to it and its interrupt to an edge-triggered pin.

use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;

use serde::{Deserialize, Serialize};
use vm_superio::Trigger;
use vm_superio::serial::{NoEvents, Serial as Uart, SerialState as UartState};

/// First of the eight I/O ports.
pub const SERIAL_PORT: u16 = 0x3f8;
/// IO-APIC pin, edge triggered.
pub const SERIAL_PIN: usize = 4;

/// Remembers that the UART raised its interrupt.
#[derive(Debug, Default)]
struct InterruptEdge(Cell<bool>);

impl Trigger for InterruptEdge {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        self.0.set(true);
        Ok(())
    }
}

/// The saved state of a serial port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SerialState {
    registers: [u8; 9],
    fifo: Vec<u8>,
    output: Vec<u8>,
    input: Vec<u8>,
}

/// A 16550A with an infinitely fast transmitter.
pub struct Serial {
    uart: Uart<InterruptEdge, NoEvents, Vec<u8>>,
    input: Vec<u8>,
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serial")
            .field("uart", &self.uart.state())
            .field("input", &self.input.len())
            .finish()
    }
}

impl Default for Serial {
    fn default() -> Self {
        Self {
            uart: Uart::new(InterruptEdge::default(), Vec::new()),
            input: Vec::new(),
        }
    }
}

impl Serial {
    /// The port's whole state.
    pub fn save(&self) -> SerialState {
        let uart = self.uart.state();
        SerialState {
            registers: [
                uart.baud_divisor_low,
                uart.baud_divisor_high,
                uart.interrupt_enable,
                uart.interrupt_identification,
                uart.line_control,
                uart.line_status,
                uart.modem_control,
                uart.modem_status,
                uart.scratch,
            ],
            fifo: uart.in_buffer,
            output: self.uart.writer().clone(),
            input: self.input.clone(),
        }
    }

    /// Loads the state of another port; `None` if it is invalid.
    pub fn load(&mut self, saved: SerialState) -> Option<()> {
        let [
            low,
            high,
            enable,
            identification,
            line,
            status,
            modem,
            modem_status,
            scratch,
        ] = saved.registers;
        let state = UartState {
            baud_divisor_low: low,
            baud_divisor_high: high,
            interrupt_enable: enable,
            interrupt_identification: identification,
            line_control: line,
            line_status: status,
            modem_control: modem,
            modem_status,
            scratch,
            in_buffer: saved.fifo,
        };
        self.uart =
            Uart::from_state(&state, InterruptEdge::default(), NoEvents, saved.output).ok()?;
        // Loading raises an interrupt that was already raised before.
        self.take_interrupt();
        self.input = saved.input;
        Some(())
    }

    /// Reads the register at `offset` (0 to 7) from [`SERIAL_PORT`].
    pub fn read(&mut self, offset: u8) -> u8 {
        let value = self.uart.read(offset);
        self.refill();
        value
    }

    /// Writes the register at `offset`.
    pub fn write(&mut self, offset: u8, value: u8) {
        // Writing to memory cannot fail, nor can its trigger, so this cannot fail either.
        let _ = self.uart.write(offset, value);
        self.refill();
    }

    /// Types `bytes`: the guest receives them as fast as it reads.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.refill();
    }

    /// Takes the guest's output since the last call.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(self.uart.writer_mut())
    }

    /// True if the interrupt was raised since the last call.
    pub fn take_interrupt(&mut self) -> bool {
        self.uart.interrupt_evt().0.take()
    }

    fn refill(&mut self) {
        if self.input.is_empty() {
            return;
        }
        if let Ok(taken) = self.uart.enqueue_raw_bytes(&self.input) {
            self.input.drain(..taken.min(self.input.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_collected_and_interrupts_when_asked() {
        let mut serial = Serial::default();
        serial.write(0, b'h');
        assert!(!serial.take_interrupt());
        serial.write(1, 0b10);
        assert!(serial.take_interrupt() && !serial.take_interrupt());
        serial.read(2);
        serial.write(0, b'i');
        assert!(serial.take_interrupt());
        assert_eq!(serial.take_output(), b"hi");
        assert!(serial.take_output().is_empty());
    }

    #[test]
    fn input_longer_than_the_fifo_arrives_whole() {
        let mut serial = Serial::default();
        serial.write(1, 1);
        let text: Vec<u8> = (0..=255).collect();
        serial.receive(&text);
        assert!(serial.take_interrupt());
        let mut seen = Vec::new();
        while serial.read(5) & 1 == 1 {
            seen.push(serial.read(0));
        }
        assert_eq!(seen, text);
    }
}
