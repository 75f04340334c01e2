//! A static Linux program in a bare guest's user mode, without a kernel: its system calls are
//! handled here, and are reproducible.

use belljar_cpu::{Exit, InstructionSet, Registers, StateItem, Vcpu};
use belljar_exact::Statistics;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};

use crate::bare::{BEYOND, CODE, Guest, HANDLERS, RAM_BYTES};

const PAGE: u64 = 4096;
/// Pages that are contiguous in memory; the following ones are elsewhere.
const CHUNK: u64 = 16 * PAGE;
const STACK_TOP: u64 = 0x0800_0000;
/// The address of a position-independent program; it is also mapped at distance [`BEYOND`], where
/// it runs.
const PLACE: u64 = 0x40_0000;
const STACK_BYTES: u64 = 256 << 10;
const ANONYMOUS: u64 = 0x0900_0000;
/// The kernel's entry: `out 0x80, al; sysretq`.
const SYSTEM_CALL: u64 = CODE + 0x1000;
const SYSTEM_CALL_CODE: [u8; 5] = [0xe6, 0x80, 0x48, 0x0f, 0x07];
/// Address of exceptions' frames.
const FRAMES: u64 = 0x38_0000;
const NO_SUCH_CALL: u64 = -38i64 as u64;

/// The results of a program.
pub struct Ended {
    /// Its output, to all descriptors.
    pub output: String,
    pub retired: u64,
    pub state: Vec<StateItem>,
    pub memory: Vec<u8>,
    pub statistics: Statistics,
    /// The states at the requested stops.
    pub stops: Vec<(u64, Vec<StateItem>)>,
}

/// A loaded program.
pub struct Process {
    guest: Guest,
    ram_bytes: usize,
    chunks: u64,
    break_at: u64,
    break_mapped: u64,
    anonymous: u64,
    output: Vec<u8>,
}

impl Process {
    /// Loads an ELF file and puts `arguments` on its stack.
    pub fn new(file: &[u8], arguments: &[&str], set: &InstructionSet, ram_bytes: usize) -> Self {
        let mut process = Self {
            guest: Guest::with_ram(set, ram_bytes),
            ram_bytes,
            chunks: 0,
            break_at: 0,
            break_mapped: 0,
            anonymous: ANONYMOUS,
            output: Vec::new(),
        };
        process.prepare_kernel();
        let header = elf::FileHeader64::<Endianness>::parse(file).unwrap();
        let little = Endianness::Little;
        let segments = header.program_headers(little, file).unwrap();
        let loaded = || segments.iter().filter(|s| s.p_type(little) == elf::PT_LOAD);
        // A position-independent program is placed beyond 4 GiB.
        let moves = header.e_type(little) == elf::ET_DYN;
        let place = if moves { PLACE } else { 0 };
        let first = place + loaded().next().unwrap().p_vaddr(little);
        let end = loaded()
            .map(|s| place + s.p_vaddr(little) + s.p_memsz(little))
            .max();
        process.break_mapped = end.unwrap().next_multiple_of(PAGE);
        process.break_at = process.break_mapped;
        process.map(first, process.break_mapped - first);
        for segment in loaded() {
            let bytes = segment.data(little, file).unwrap();
            process.put(place + segment.p_vaddr(little), bytes);
        }
        let beyond = if moves { BEYOND } else { 0 };
        let first = beyond + first;
        let entry = beyond + place + header.e_entry(little);
        let auxiliary = [
            (3, first + header.e_phoff(little)),
            (4, header.e_phentsize(little).into()),
            (5, header.e_phnum(little).into()),
            (6, PAGE),
            (9, entry),
            (25, STACK_TOP - 16),
            (0, 0),
        ];
        process.guest.map_all_far();
        process.start(entry, arguments, &auxiliary);
        process
    }

    /// Makes SYSCALL enter [`SYSTEM_CALL`], and exceptions their HLTs.
    fn prepare_kernel(&mut self) {
        self.guest.allow_user();
        for vector in 0..32 {
            let handler = HANDLERS + vector * 16;
            self.guest.use_interrupt_stack(vector, handler, FRAMES);
        }
        self.guest.write(SYSTEM_CALL, &SYSTEM_CALL_CODE);
        let mut code = Vec::new();
        for (index, value) in [
            (0xc000_0081u32, 0x0023_0010u64 << 32),
            (0xc000_0082, SYSTEM_CALL),
        ] {
            // mov ecx, index; mov eax, low; mov edx, high; wrmsr
            for (opcode, word) in [
                (0xb9, index),
                (0xb8, value as u32),
                (0xba, (value >> 32) as u32),
            ] {
                code.push(opcode);
                code.extend_from_slice(&word.to_le_bytes());
            }
            code.extend_from_slice(&[0x0f, 0x30]);
        }
        code.extend_from_slice(&[0xe6, 0x80]);
        self.guest.write(CODE, &code);
        let mut registers = self.guest.vcpu.registers();
        registers.rip = CODE;
        self.guest.vcpu.set_registers(&registers);
        let exit = self.guest.run(100);
        assert!(matches!(exit, Exit::PioWrite { .. }), "{exit:?}");
    }

    fn start(&mut self, entry: u64, arguments: &[&str], auxiliary: &[(u64, u64)]) {
        self.map(STACK_TOP - STACK_BYTES, STACK_BYTES);
        let mut at = STACK_TOP - 64;
        let mut words = vec![arguments.len() as u64];
        for argument in arguments {
            at -= argument.len() as u64 + 1;
            self.put(at, argument.as_bytes());
            words.push(at);
        }
        // The end of the arguments, and an empty environment.
        words.extend([0, 0]);
        words.extend(auxiliary.iter().flat_map(|&(kind, value)| [kind, value]));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let rsp = (at - bytes.len() as u64) & !63;
        self.put(rsp, &bytes);
        self.guest.enter_user(entry);
        let mut registers = Registers {
            rip: entry,
            rflags: 2,
            ..Registers::default()
        };
        registers.gpr[Registers::RSP] = rsp;
        self.guest.vcpu.set_registers(&registers);
    }

    /// Runs to the end, stopping at each multiple of `step` instructions; records the states at
    /// multiples of `keep`.
    pub fn run(self, step: u64, keep: u64) -> Ended {
        self.run_by(keep, |guest| {
            let retired = guest.vcpu.retired();
            guest.run(step - retired % step)
        })
    }

    /// Runs to the end, stopping approximately each `step` instructions, never later.
    pub fn run_about(self, step: u64) -> Ended {
        self.run_by(u64::MAX, |guest| {
            let until = guest.vcpu.now() + step;
            let exit = guest.vcpu.run_about(until).unwrap();
            assert!(guest.vcpu.now() <= until);
            exit
        })
    }

    fn run_by(mut self, keep: u64, mut run: impl FnMut(&mut Guest) -> Exit) -> Ended {
        let mut stops = Vec::new();
        loop {
            let exit = run(&mut self.guest);
            match exit {
                Exit::Deadline => {
                    let retired = self.guest.vcpu.retired();
                    if retired.is_multiple_of(keep) {
                        stops.push((retired, self.guest.vcpu.state()));
                    }
                }
                Exit::PioWrite { port: 0x80, .. } => {
                    if self.system_call() {
                        break;
                    }
                }
                other => panic!(
                    "{other:?}: {:x?}, output {:?}",
                    self.guest.vcpu.registers(),
                    String::from_utf8_lossy(&self.output)
                ),
            }
        }
        Ended {
            output: String::from_utf8(self.output).unwrap(),
            retired: self.guest.vcpu.retired(),
            state: self.guest.vcpu.state(),
            memory: self.guest.read(0, self.ram_bytes),
            statistics: self.guest.vcpu.statistics(),
            stops,
        }
    }

    /// Handles a system call; returns true if it was the last.
    fn system_call(&mut self) -> bool {
        let mut registers = self.guest.vcpu.registers();
        let [first, second, third] = [7, 6, 2].map(|number| registers.gpr[number]);
        let answer = match registers.gpr[0] {
            // write
            1 => {
                for at in second..second + third {
                    let physical = self.physical(at);
                    self.output.extend(self.guest.read(physical, 1));
                }
                third
            }
            // mmap, only of anonymous memory
            9 => {
                let at = self.anonymous;
                self.anonymous += second.next_multiple_of(PAGE);
                self.map(at, self.anonymous - at);
                at
            }
            // mprotect, munmap
            10 | 11 => 0,
            // brk
            12 => self.set_break(first),
            // arch_prctl(ARCH_SET_FS)
            158 if first == 0x1002 => {
                let mut system = self.guest.vcpu.system();
                system.segments[4].base = second;
                self.guest.vcpu.set_system(&system);
                0
            }
            // set_tid_address
            218 => 1,
            // exit_group
            231 => return true,
            // getrandom
            318 => {
                self.put(first, &vec![0x5a; second as usize]);
                second
            }
            _ => NO_SUCH_CALL,
        };
        registers.gpr[0] = answer;
        self.guest.vcpu.set_registers(&registers);
        false
    }

    fn set_break(&mut self, at: u64) -> u64 {
        if at > self.break_at {
            let end = at.next_multiple_of(PAGE);
            self.map(self.break_mapped, end - self.break_mapped);
            self.break_mapped = end;
            self.break_at = at;
        }
        self.break_at
    }

    /// Maps fresh memory to `bytes` bytes from `linear` on: pieces of [`CHUNK`] in mixed order, so
    /// that accesses across the end of a piece continue elsewhere.
    fn map(&mut self, linear: u64, bytes: u64) {
        const STRIDE: u64 = 389;
        let first = RAM_BYTES as u64;
        let all = (self.ram_bytes as u64 - first) / CHUNK;
        let mut at = linear;
        while at < linear + bytes {
            assert!(self.chunks < all, "the test's memory is too small");
            let chunk = first + self.chunks * STRIDE % all * CHUNK;
            self.chunks += 1;
            for page in 0..CHUNK / PAGE {
                if at < linear + bytes {
                    self.guest.map_page(at, (chunk + page * PAGE) | 7);
                    at += PAGE;
                }
            }
        }
    }

    fn physical(&self, linear: u64) -> u64 {
        let access = belljar_cpu::Access::Read;
        self.guest.vcpu.translate(linear, access).unwrap()
    }

    fn put(&self, linear: u64, bytes: &[u8]) {
        let mut at = linear;
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = (PAGE - at % PAGE) as usize;
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.guest.write(self.physical(at), now);
            at += now.len() as u64;
            rest = later;
        }
    }
}
