//! Devices that have only registers: interrupt controllers, serial port, clock, power.
//!
//! Invariants are checked after each step. The input controls the passage of time. Called by name from
//! `lib.rs`.

use arbitrary::{Result, Unstructured};
use belljar_devices::{
    InterruptController, Moment, PINS, POWER_PORTS, Power, Rtc, Serial, TestDevice,
};

const STEPS: usize = 300;
const PROCESSORS: usize = 3;
/// MSRs of the local APIC: its base, the deadline, and x2APIC's registers.
const APIC_BASE: u32 = 0x1b;
const TSC_DEADLINE: u32 = 0x6e0;
const X2APIC: u32 = 0x800;

struct Board {
    interrupts: InterruptController,
    serial: Serial,
    rtc: Rtc,
    power: Power,
    test: TestDevice,
    /// Each processor's clock.
    clocks: [u64; PROCESSORS],
    /// The current processor.
    current: usize,
}

/// Writes and reads registers and advances time, as `data` describes.
pub(crate) fn target(data: &[u8]) {
    let mut board = Board {
        interrupts: InterruptController::new(PROCESSORS as u32, 100),
        serial: Serial::default(),
        rtc: Rtc::new(1_704_067_200),
        power: Power::default(),
        test: TestDevice::default(),
        clocks: [0; PROCESSORS],
        current: 0,
    };
    let mut u = Unstructured::new(data);
    for _ in 0..STEPS {
        if u.is_empty() || board.step(&mut u).is_err() {
            break;
        }
        board.check();
    }
}

impl Board {
    fn now(&self) -> u64 {
        self.clocks[self.current]
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let choice: u8 = u.arbitrary()?;
        let high = choice >> 4;
        let len = 1 << (high & 3);
        let at = Moment {
            processor: self.current,
            now: self.now(),
        };
        match choice & 15 {
            0..=2 => {
                // Mostly registers, sometimes any byte of the page.
                let offset = u64::from(u.arbitrary::<u8>()? & 0x3f) << 4;
                let within = if high & 8 == 0 { 0 } else { u64::from(high) };
                let value = self.value(u)?;
                let local = self.interrupts.local_mut(at.processor);
                let effect = local.write_page(offset + within, 4, value, at.now);
                if let Some(class) = self.interrupts.apply(effect, at) {
                    assert!(class < 16, "task class {class}");
                }
            }
            3 => {
                let offset = u64::from(u.arbitrary::<u16>()?);
                let local = self.interrupts.local_mut(at.processor);
                local.read_page(offset, len, at.now);
            }
            4 => {
                let index = self.msr(u, high)?;
                let value = self.value(u)?;
                let local = self.interrupts.local_mut(at.processor);
                if let Ok(effect) = local.write_msr(index, value, at.now) {
                    self.interrupts.apply(effect, at);
                }
            }
            5 => {
                let index = self.msr(u, high)?;
                // A missing register is a valid result, too.
                let local = self.interrupts.local_mut(at.processor);
                let _ = local.read_msr(index, at.now);
            }
            6 => {
                let value: u32 = u.arbitrary()?;
                self.interrupts.io.write(u64::from(high & 1) << 4, value);
                self.interrupts.settle(at);
                self.interrupts.io.read(u64::from(high & 2) << 3);
            }
            7 => {
                let pin = usize::from(u.arbitrary::<u8>()? & 31);
                self.interrupts.set_line(pin, high & 1 != 0, at);
            }
            8 => self.pass(u, usize::from(high))?,
            9 | 10 => {
                let local = self.interrupts.local_mut(at.processor);
                if let Some(vector) = local.pending() {
                    local.accept(vector);
                }
                while local.take_start().is_some() {}
            }
            11 => self.interrupts.local_mut(at.processor).set_task_class(high),
            12 => self.serial(u, high)?,
            13 => {
                self.rtc.select(u.arbitrary()?);
                self.rtc.read(self.value(u)?);
            }
            14 => {
                let port = POWER_PORTS[usize::from(high) % POWER_PORTS.len()];
                self.power.write(port, u.arbitrary()?);
                self.power.read(port);
            }
            _ => {
                let address = u.arbitrary::<u64>()?;
                self.test.store(address, len, address);
                self.test.load(address, len);
                self.test.port(address as u16);
            }
        }
        Ok(())
    }

    /// Advances time, and sometimes switches to the next processor.
    fn pass(&mut self, u: &mut Unstructured<'_>, high: usize) -> Result<()> {
        if high >= 8 {
            self.current = high % PROCESSORS;
        }
        let processor = self.current;
        let now = self.now().saturating_add(self.value(u)?);
        self.clocks[processor] = now;
        self.interrupts.advance(Moment { processor, now });
        Ok(())
    }

    /// A value that is small, large, or near the present time.
    fn value(&self, u: &mut Unstructured<'_>) -> Result<u64> {
        let byte: u8 = u.arbitrary()?;
        Ok(match byte >> 6 {
            0 => u64::from(byte),
            1 => u.arbitrary::<u32>()?.into(),
            2 => self.now().wrapping_add(u64::from(byte & 0x3f)),
            _ => u.arbitrary()?,
        })
    }

    fn msr(&self, u: &mut Unstructured<'_>, high: u8) -> Result<u32> {
        Ok(match high {
            0..=2 => APIC_BASE,
            3..=5 => TSC_DEADLINE,
            _ => X2APIC + u32::from(u.arbitrary::<u8>()? & 0x3f),
        })
    }

    fn serial(&mut self, u: &mut Unstructured<'_>, high: u8) -> Result<()> {
        let byte: u8 = u.arbitrary()?;
        match high {
            0..=9 => self.serial.write(byte >> 4, byte),
            10..=12 => {
                self.serial.read(byte);
            }
            13 => self.serial.receive(&[byte; 40]),
            _ => {
                self.serial.take_interrupt();
                self.serial.take_output();
            }
        }
        Ok(())
    }

    /// Checks invariants that hold for all guest writes.
    fn check(&self) {
        for processor in 0..PROCESSORS {
            let local = self.interrupts.local(processor);
            if let Some(vector) = local.pending() {
                assert!(vector >= 16, "vector {vector} is an exception's");
                assert!(vector >> 4 > local.processor_priority() >> 4);
            }
        }
        assert!(self.interrupts.io.requests() >> PINS == 0);
    }
}

/// A timer in each mode, a level interrupt, characters.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let write = |register: u8, value: u32| {
        let mut bytes = vec![0, register, 0x40];
        bytes.extend(value.to_le_bytes());
        bytes
    };
    let io = |register: u32, value: u32| {
        let mut bytes = vec![6];
        bytes.extend(register.to_le_bytes());
        bytes.push(0x16);
        bytes.extend(value.to_le_bytes());
        bytes
    };
    let wait = [8, 0x41, 0, 0, 16, 0, 9];
    let end = write(0x0b, 0);
    let mut seeds = Vec::new();
    for mode in 0..3u32 {
        let timer = [
            write(0x0f, 0x1ff),
            write(0x32, 0x40 | mode << 17),
            write(0x3e, 0xb),
            write(0x38, 1000),
        ]
        .concat();
        let deadline = [vec![0x34, 0x85], wait.to_vec(), end.clone()].concat();
        seeds.push([timer, wait.to_vec(), deadline].concat());
    }
    let lines = [
        write(0x0f, 0x1ff),
        io(0x18, 0x8050),
        vec![0x17, 4, 9, 0x07, 4],
        end,
        vec![0x17, 4, 9],
        write(0x30, 0x4_0060),
    ];
    seeds.push(lines.concat());
    seeds.push(vec![
        12, 0x10, 12, 0x41, 0xdc, 0x61, 0xac, 0, 0xec, 0, 13, 4, 2, 14, 0x34,
    ]);
    // x2APIC mode, and its registers.
    let base = [vec![4, 0xc0], 0xfee0_0d00u64.to_le_bytes().to_vec()].concat();
    seeds.push([base, vec![0x64, 0x30, 0x41, 0x45, 0, 0, 0, 0x65, 8]].concat());
    seeds
}
