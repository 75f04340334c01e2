//! Power-off and reset: the registers in the ACPI tables, and the two reset ports of the PC that
//! kernels try when ACPI fails.
//!
//! A write returns the guest's request, and the caller performs it; the node's buses call it. Other
//! writes have no effect.

use serde::{Deserialize, Serialize};

/// ACPI sleep control register (hardware-reduced), one byte.
pub const SLEEP_CONTROL_PORT: u16 = 0x600;
/// ACPI sleep status register, one byte.
pub const SLEEP_STATUS_PORT: u16 = 0x601;
/// ACPI reset register, one byte.
pub const RESET_PORT: u16 = 0x602;
/// The value that resets at [`RESET_PORT`].
pub const RESET_VALUE: u8 = 0x06;
/// The sleep type in the DSDT's `_S5`.
pub const SLEEP_TYPE_S5: u8 = 5;
/// All ports of [`Power`].
pub const POWER_PORTS: [u16; 5] = [
    SLEEP_CONTROL_PORT,
    SLEEP_STATUS_PORT,
    RESET_PORT,
    KEYBOARD_PORT,
    CHIPSET_RESET_PORT,
];

const KEYBOARD_PORT: u16 = 0x64;
const KEYBOARD_PULSE_RESET: u8 = 0xfe;
const CHIPSET_RESET_PORT: u16 = 0xcf9;
const CHIPSET_RESET_CPU: u8 = 1 << 2;

const SLEEP_ENABLE: u8 = 1 << 5;
const WAKE_STATUS: u8 = 1 << 7;

/// A guest's request to the power registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerEvent {
    /// Sleep state S5: off.
    Off,
    /// Reset.
    Reset,
    /// This value was written to the exit device.
    Exit(u32),
}

/// The registers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Power {
    status: u8,
}

impl Power {
    /// A byte written to one of [`POWER_PORTS`].
    pub fn write(&mut self, port: u16, value: u8) -> Option<PowerEvent> {
        match port {
            SLEEP_CONTROL_PORT if value & SLEEP_ENABLE != 0 => {
                (value >> 2 & 7 == SLEEP_TYPE_S5).then_some(PowerEvent::Off)
            }
            SLEEP_STATUS_PORT => {
                self.status &= !(value & WAKE_STATUS);
                None
            }
            RESET_PORT => (value == RESET_VALUE).then_some(PowerEvent::Reset),
            KEYBOARD_PORT => (value == KEYBOARD_PULSE_RESET).then_some(PowerEvent::Reset),
            CHIPSET_RESET_PORT => (value & CHIPSET_RESET_CPU != 0).then_some(PowerEvent::Reset),
            _ => None,
        }
    }

    /// A byte read from one of [`POWER_PORTS`].
    pub fn read(&self, port: u16) -> u8 {
        if port == SLEEP_STATUS_PORT {
            self.status
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_values_act() {
        let mut power = Power::default();
        assert_eq!(power.write(SLEEP_CONTROL_PORT, 5 << 2), None);
        assert_eq!(power.write(SLEEP_CONTROL_PORT, 3 << 2 | SLEEP_ENABLE), None);
        assert_eq!(
            power.write(SLEEP_CONTROL_PORT, 5 << 2 | SLEEP_ENABLE),
            Some(PowerEvent::Off)
        );
        assert_eq!(
            power.write(RESET_PORT, RESET_VALUE),
            Some(PowerEvent::Reset)
        );
        assert_eq!(power.write(RESET_PORT, 1), None);
        assert_eq!(power.write(0x64, 0xfe), Some(PowerEvent::Reset));
        assert_eq!(power.write(0xcf9, 0x02), None);
        assert_eq!(power.write(0xcf9, 0x06), Some(PowerEvent::Reset));
    }
}
