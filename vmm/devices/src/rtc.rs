//! The CMOS clock (MC146818), which starts at the scenario's date and runs in virtual time.
//!
//! The values follow from the start date and the caller's virtual seconds, never from the host's
//! clock; the guest cannot set them. The node's buses map ports 0x70 and 0x71 to it.

use serde::{Deserialize, Serialize};

/// The two ports' state: index at 0x70, data at 0x71.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rtc {
    start: u64,
    index: u8,
}

const REGISTER_A: u8 = 0x0a;
const REGISTER_B: u8 = 0x0b;
const REGISTER_D: u8 = 0x0d;
const CENTURY: u8 = 0x32;

const DIVIDER_32768_HZ: u8 = 0x26;
const HOURS_24: u8 = 0x02;
const BATTERY_GOOD: u8 = 0x80;

/// A civil date and time.
struct Date {
    year: u64,
    month: u64,
    day: u64,
    seconds: u64,
    weekday: u64,
}

impl Rtc {
    /// Index port; the data port follows it.
    pub const PORT: u16 = 0x70;

    /// A clock that shows `start` (seconds since 1970-01-01, UTC) at virtual time zero.
    pub fn new(start: u64) -> Self {
        Self { start, index: 0 }
    }

    /// Selects a register. The top bit masks NMIs, which this machine does not have.
    pub fn select(&mut self, index: u8) {
        self.index = index & 0x7f;
    }

    /// Reads the selected register `seconds` of virtual time after the start.
    pub fn read(&self, seconds: u64) -> u8 {
        let date = Date::of(self.start.saturating_add(seconds));
        match self.index {
            0 => bcd(date.seconds % 60),
            2 => bcd(date.seconds / 60 % 60),
            4 => bcd(date.seconds / 3600),
            6 => bcd(date.weekday),
            7 => bcd(date.day),
            8 => bcd(date.month),
            9 => bcd(date.year % 100),
            CENTURY => bcd(date.year / 100 % 100),
            REGISTER_A => DIVIDER_32768_HZ,
            REGISTER_B => HOURS_24,
            REGISTER_D => BATTERY_GOOD,
            _ => 0,
        }
    }
}

impl Date {
    /// Days to civil date by Howard Hinnant's algorithm, for dates after 1970.
    fn of(unix: u64) -> Self {
        let days = unix / 86_400;
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            seconds: unix % 86_400,
            weekday: (days + 4) % 7 + 1,
        }
    }
}

fn bcd(value: u64) -> u8 {
    (value / 10 % 10 * 16 + value % 10) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(start: u64, seconds: u64) -> Vec<u8> {
        let mut rtc = Rtc::new(start);
        [CENTURY, 9, 8, 7, 4, 2, 0, 6]
            .iter()
            .map(|index| {
                rtc.select(*index | 0x80);
                rtc.read(seconds)
            })
            .collect()
    }

    #[test]
    fn dates_come_out_in_bcd() {
        // date -u -d @1709251199: Thu 2024-02-29 23:59:59
        assert_eq!(
            show(1_709_251_199, 0),
            [0x20, 0x24, 2, 0x29, 0x23, 0x59, 0x59, 5]
        );
        assert_eq!(show(1_709_251_199, 1), [0x20, 0x24, 3, 1, 0, 0, 0, 6]);
        assert_eq!(show(0, 0), [0x19, 0x70, 1, 1, 0, 0, 0, 5]);
        assert_eq!(show(u64::MAX, u64::MAX).len(), 8);
    }
}
