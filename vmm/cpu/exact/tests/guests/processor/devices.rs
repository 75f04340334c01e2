//! Instructions on device memory: each register is read or written once, in the order of the
//! instruction, for any width.

use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, FAR, Guest, STACK};
use iced_x86::IcedError;
use iced_x86::code_asm::*;

const DEVICE: u64 = 0xd000_0000;

/// An access to a device: read or write, offset, size.
type Access = (char, u64, u8);

/// A device that acts as memory, and records accesses.
struct Device {
    bytes: [u8; 256],
    log: Vec<Access>,
}

impl Device {
    /// Each byte's value is its own offset.
    fn new() -> Self {
        Self {
            bytes: std::array::from_fn(|at| at as u8),
            log: Vec::new(),
        }
    }

    fn read(&mut self, addr: u64, len: u8) -> u64 {
        let at = addr - DEVICE;
        self.log.push(('r', at, len));
        let part = &self.bytes[at as usize..][..usize::from(len)];
        part.iter()
            .rev()
            .fold(0, |all, &byte| all << 8 | u64::from(byte))
    }

    fn write(&mut self, addr: u64, len: u8, data: u64) {
        let at = addr - DEVICE;
        self.log.push(('w', at, len));
        let part = &mut self.bytes[at as usize..][..usize::from(len)];
        part.copy_from_slice(&data.to_le_bytes()[..usize::from(len)]);
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }
}

/// Runs `build`'s code to a halt with RDI at the device, at most `step` cycles at a time, and on
/// another processor after each exit if it `moves`.
fn run_by(
    build: fn(&mut CodeAssembler) -> Result<(), IcedError>,
    step: u64,
    moves: bool,
) -> (Guest, Device) {
    let mut assembler = CodeAssembler::new(64).unwrap();
    assembler.mov(rdi, FAR).unwrap();
    build(&mut assembler).unwrap();
    assembler.hlt().unwrap();
    let mut guest = Guest::new(&assembler.assemble(CODE).unwrap());
    guest.map_far(FAR, DEVICE);
    let mut device = Device::new();
    for _ in 0..1000 {
        match guest.run(step) {
            Exit::MmioRead { addr, len } => {
                let value = device.read(addr, len);
                guest.vcpu.complete_read(value);
            }
            Exit::MmioWrite { addr, len, data } => device.write(addr, len, data),
            Exit::Deadline => {}
            Exit::Halt => return (guest, device),
            other => panic!("{other:?}"),
        }
        if moves {
            guest = guest.moved();
        }
    }
    panic!("it never ends: {:?}", device.log)
}

/// The same, in one run and in several ones, which must give the same results.
fn run(build: fn(&mut CodeAssembler) -> Result<(), IcedError>) -> (Guest, Device) {
    let (whole, device) = run_by(build, 1_000_000, false);
    for how in [(1, false), (1_000_000, true)] {
        let (other, same) = run_by(build, how.0, how.1);
        assert_eq!(same.log, device.log, "{how:?}");
        assert_eq!(same.bytes, device.bytes, "{how:?}");
        assert_eq!(other.vcpu.registers(), whole.vcpu.registers(), "{how:?}");
        assert_eq!(other.vcpu.retired(), whole.vcpu.retired(), "{how:?}");
    }
    (whole, device)
}

#[test]
fn what_is_read_and_written_is_read_first() {
    let (guest, device) = run(|a| {
        a.mov(eax, 0x100)?;
        a.add(dword_ptr(rdi), eax)?;
        a.lock().inc(byte_ptr(rdi + 0x10))?;
        a.not(qword_ptr(rdi + 0x20))?;
        a.shl(word_ptr(rdi + 0x30), 4)
    });
    let expected = [(0, 4), (0x10, 1), (0x20, 8), (0x30, 2)];
    let expected: Vec<Access> = expected
        .into_iter()
        .flat_map(|(at, len)| [('r', at, len), ('w', at, len)])
        .collect();
    assert_eq!(device.log, expected);
    assert_eq!(device.word(0) as u32, 0x0302_0200);
    assert_eq!(device.bytes[0x10], 0x11);
    assert_eq!(device.word(0x20), !0x2726_2524_2322_2120);
    assert_eq!(device.word(0x30) as u16, 0x1300);
    assert_eq!(guest.vcpu.retired(), 7);
}

#[test]
fn what_is_exchanged_is_read_once_and_written_once() {
    let (guest, device) = run(|a| {
        a.mov(eax, 0x1111)?;
        a.xchg(dword_ptr(rdi), eax)?;
        a.mov(ebx, 1)?;
        a.lock().xadd(dword_ptr(rdi + 0x10), ebx)?;
        a.mov(ecx, 7)?;
        a.lock().cmpxchg(dword_ptr(rdi + 0x20), ecx)?;
        a.lock().cmpxchg(dword_ptr(rdi + 0x20), ecx)?;
        a.mov(edx, 65)?;
        a.bts(qword_ptr(rdi + 0x40), rdx)
    });
    let once = |at, len| [('r', at, len), ('w', at, len)];
    let expected = [
        once(0, 4),
        once(0x10, 4),
        once(0x20, 4),
        once(0x20, 4),
        once(0x48, 8),
    ];
    assert_eq!(device.log, expected.concat());
    assert_eq!(device.word(0) as u32, 0x1111);
    assert_eq!(device.word(0x10) as u32, 0x1312_1111);
    assert_eq!(device.word(0x20) as u32, 7);
    assert_eq!(device.bytes[0x48], 0x4a);
    let registers = guest.vcpu.registers();
    assert_eq!(registers.gpr[Registers::RAX], 0x2322_2120);
    assert_eq!(registers.gpr[Registers::RBX], 0x1312_1110);
}

#[test]
fn wide_operands_take_eight_bytes_at_a_time() {
    let (guest, device) = run(|a| {
        a.movdqu(xmm0, xmmword_ptr(rdi))?;
        a.mov(rsi, DATA)?;
        a.movdqu(xmmword_ptr(rsi), xmm0)?;
        a.paddb(xmm0, xmmword_ptr(rdi + 0x10))?;
        a.movdqu(xmmword_ptr(rdi + 0x20), xmm0)?;
        a.fld(tword_ptr(rdi + 0x40))?;
        a.fstp(tword_ptr(rdi + 0x50))
    });
    let two = |what, at, second| [(what, at, 8), (what, at + 8, second)];
    let expected = [
        two('r', 0, 8),
        two('r', 0x10, 8),
        two('w', 0x20, 8),
        two('r', 0x40, 2),
        two('w', 0x50, 2),
    ];
    assert_eq!(device.log, expected.concat());
    let first: Vec<u8> = (0..16).collect();
    assert_eq!(guest.read(DATA, 16), first);
    assert_eq!(device.word(0x28), 0x2e2c_2a28_2624_2220);
    assert_eq!(device.bytes[0x50..0x5a], device.bytes[0x40..0x4a]);
}

/// The stack pointer has moved when the second store exits.
#[test]
fn an_instruction_that_stores_twice_does() {
    let (guest, device) = run(|a| {
        a.mov(rbp, 0x5a5a_u64)?;
        a.lea(rsp, qword_ptr(rdi + 0x80))?;
        a.enter(0x20, 1)?;
        a.mov(rsi, rsp)?;
        a.mov(rsp, STACK)?;
        a.push(0x77)?;
        a.pop(qword_ptr(rdi + 0x10))
    });
    let expected = [('w', 0x78, 8), ('w', 0x70, 8), ('w', 0x10, 8)];
    assert_eq!(device.log, expected);
    assert_eq!((device.word(0x78), device.word(0x70)), (0x5a5a, FAR + 0x78));
    assert_eq!(device.word(0x10), 0x77);
    let registers = guest.vcpu.registers();
    assert_eq!(registers.gpr[Registers::RBP], FAR + 0x78);
    assert_eq!(registers.gpr[Registers::RSI], FAR + 0x50);
    assert_eq!(registers.gpr[Registers::RSP], STACK);
}

#[test]
fn strings_go_from_device_to_device() {
    let (guest, device) = run(|a| {
        a.lea(rsi, qword_ptr(rdi + 0x40))?;
        a.mov(ecx, 2)?;
        a.rep().movsd()?;
        a.movsb()?;
        a.mov(eax, 0xee)?;
        a.stosb()
    });
    let expected = [
        [('r', 0x40, 4), ('w', 0, 4)],
        [('r', 0x44, 4), ('w', 4, 4)],
        [('r', 0x48, 1), ('w', 8, 1)],
    ];
    let mut expected = expected.concat();
    expected.push(('w', 9, 1));
    assert_eq!(device.log, expected);
    assert_eq!(device.word(0), 0x4746_4544_4342_4140);
    assert_eq!(device.bytes[8..10], [0x48, 0xee]);
    assert_eq!(guest.vcpu.retired(), 8);
}

#[test]
fn nothing_comes_between_the_stores_of_an_instruction() {
    let mut assembler = CodeAssembler::new(64).unwrap();
    assembler.mov(rdi, FAR).unwrap();
    assembler.sti().unwrap();
    assembler.nop().unwrap();
    assembler.movdqu(xmmword_ptr(rdi), xmm0).unwrap();
    assembler.hlt().unwrap();
    let mut guest = Guest::new(&assembler.assemble(CODE).unwrap());
    guest.map_far(FAR, DEVICE);
    assert!(matches!(
        guest.run(1000),
        Exit::MmioWrite { addr: DEVICE, .. }
    ));
    assert!(!guest.vcpu.interruptible());
    assert!(matches!(guest.run(0), Exit::MmioWrite { len: 8, .. }));
    assert!(guest.vcpu.interruptible());
}
