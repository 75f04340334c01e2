//! The samples: short blocks that are typical of guests.
//!
//! Each sample is guest code, its mode, and its requirement on the host. They are few and fixed, so
//! that a change of the emitter appears in readable listings. `golden` translates all of `FILES`.

/// Loops that become hot.
mod hot;
/// Code with addresses relative to its page.
mod relative;

use belljar_abi::STUB_BASE;
use belljar_cpu::Level;
use iced_x86::IcedError;
use iced_x86::code_asm::*;

use super::bare::CODE;
use belljar_translate::guest::size::CodeSize;
use belljar_translate::host::shared::Counter;

/// Guest code and its mode.
pub(super) struct CodeSample {
    pub(super) name: &'static str,
    code: Vec<u8>,
    pub(super) size: CodeSize,
    pub(super) user: bool,
    pub(super) counter: Counter,
    /// Stub instructions, which do not count.
    pub(super) free: bool,
    pub(super) hot: bool,
    /// The level that a host needs to make it hot.
    pub(super) level: Level,
    /// The beginning of a hot one's trace.
    pub(super) head: u64,
    /// True if its addresses are relative to its page.
    pub(super) relative: bool,
}

impl CodeSample {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.code.clone()
    }

    pub(super) fn rip(&self) -> u64 {
        match (self.free, self.relative) {
            (true, _) => STUB_BASE,
            (_, true) => 0,
            _ => CODE,
        }
    }

    fn relative(self) -> Self {
        Self {
            relative: true,
            user: true,
            ..self
        }
    }

    fn user(self) -> Self {
        Self { user: true, ..self }
    }

    fn in_memory(self) -> Self {
        Self {
            counter: Counter::Memory,
            ..self
        }
    }

    fn apart(self) -> Self {
        Self {
            counter: Counter::Mm7,
            ..self
        }
    }

    fn free(self) -> Self {
        Self {
            free: true,
            user: true,
            ..self
        }
    }

    fn from(self, head: u64) -> Self {
        Self { head, ..self }
    }

    fn needs(self, level: Level) -> Self {
        Self { level, ..self }
    }
}

fn raw(name: &'static str, size: CodeSize, code: &[u8]) -> CodeSample {
    CodeSample {
        name,
        code: code.to_vec(),
        size,
        user: false,
        counter: Counter::Xmm31,
        free: false,
        hot: false,
        level: Level::V2,
        head: 0,
        relative: false,
    }
}

type Build = fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// A block; if it does not end itself, a jump to itself is added.
fn block(name: &'static str, build: Build) -> CodeSample {
    let mut a = CodeAssembler::new(64).expect("64 bits are a bitness");
    build(&mut a).expect("the sample can be encoded");
    let code = a.assemble(CODE).expect("the sample can be encoded");
    let mut code = code;
    // jmp $, which ends other blocks.
    code.extend_from_slice(&[0xeb, 0xfe]);
    raw(name, CodeSize::Long, &code)
}

/// A loop that runs until it is hot: the body, repeatedly.
fn looped(name: &'static str, build: Build) -> CodeSample {
    let mut a = CodeAssembler::new(64).expect("64 bits are a bitness");
    let mut head = a.create_label();
    let result = a.set_label(&mut head).and_then(|()| build(&mut a));
    result
        .and_then(|()| a.jmp(head))
        .expect("the sample can be encoded");
    let code = a.assemble(CODE).expect("the sample can be encoded");
    CodeSample {
        hot: true,
        ..raw(name, CodeSize::Long, &code)
    }
}

/// A file's name, and the function that makes its samples.
type File = (&'static str, fn() -> Vec<CodeSample>);

/// All files.
pub(super) const FILES: [File; 11] = [
    ("registers", registers),
    ("memory", memory),
    ("flow", flow),
    ("relative", relative::relative),
    ("vectors", vectors),
    ("system", system),
    ("counter-memory", counted_in_memory),
    ("counter-mm7", counted_in_mm7),
    ("hot", hot::hot),
    ("hot-vectors", hot::hot_vectors),
    ("legacy", legacy),
];

fn registers() -> Vec<CodeSample> {
    vec![
        block("alu, flags dead behind", |a| {
            a.add(rax, rbx)?;
            a.xor(ecx, ecx)
        }),
        block("alu, carry chained", |a| {
            a.add(rax, rbx)?;
            a.adc(rdx, rcx)
        }),
        block("flags read by setcc and cmov", |a| {
            a.cmp(rax, rbx)?;
            a.setb(cl)?;
            a.cmovl(rdx, rsi)
        }),
        block("r14 and r15", |a| {
            a.mov(r14, r15)?;
            a.add(r14, rax)?;
            a.lea(r15, ptr(r14 + rax * 4 + 8))
        }),
        block("multiplication and shifts", |a| {
            a.imul_3(rax, rbx, 100)?;
            a.shl(rax, 3)?;
            a.sar(rdx, cl)
        }),
        block("division", |a| a.div(rcx)),
        block("high bytes", |a| {
            a.mov(ah, bl)?;
            a.add(ch, dl)
        }),
        block("sixteen bits", |a| {
            a.add(ax, 0x1234)?;
            a.inc(cx)
        }),
        block("bits", |a| {
            a.bsf(rax, rcx)?;
            a.popcnt(rdx, rax)?;
            a.bswap(rdx)
        }),
        block("constants", |a| {
            a.mov(rax, 0x1234_5678_9abc_def0u64)?;
            a.mov(r15, 0x1234_5678_9abc_def0u64)?;
            a.mov(ecx, 7)
        }),
        block("lahf and sahf", |a| {
            a.lahf()?;
            a.sahf()
        }),
    ]
}

fn memory() -> Vec<CodeSample> {
    vec![
        block("load, flags dead", |a| {
            a.mov(rax, qword_ptr(rsi + 8))?;
            a.xor(ecx, ecx)
        }),
        block("load, flags live", |a| {
            a.mov(rax, qword_ptr(rsi + 8))?;
            a.adc(rcx, rax)
        }),
        block("load in user mode", |a| a.mov(rax, qword_ptr(rsi + 8))).user(),
        block("load through r14 and r15", |a| {
            a.mov(r15, qword_ptr(r14 + r15 * 8 + 0x40))
        }),
        block("load through rcx", |a| a.mov(rcx, qword_ptr(rcx + rdx * 2))),
        block("load relative to rip", |a| {
            a.mov(rax, qword_ptr(CODE + 0x200))
        }),
        block("load through fs and gs", |a| {
            a.mov(rax, qword_ptr(0x28).fs())?;
            a.mov(rdx, qword_ptr(rdi).gs())
        }),
        block("store of a byte", |a| a.mov(byte_ptr(rdi), al)),
        block("store of a constant", |a| a.mov(qword_ptr(rdi + 16), 5)),
        block("read, change, write", |a| {
            a.add(qword_ptr(rdi), rax)?;
            a.inc(dword_ptr(rdi + 8))
        }),
        block("locked", |a| {
            a.lock().xadd(qword_ptr(rdi), rax)?;
            a.lock().cmpxchg(dword_ptr(rdi), ecx)
        }),
        block("bits by registers", |a| {
            a.bt(qword_ptr(rdi), rcx)?;
            a.lock().bts(dword_ptr(rdi + 8), r14d)
        }),
        block("comparison with memory", |a| {
            a.cmp(dword_ptr(rsi), 3)?;
            a.setz(al)
        }),
        block("push and pop", |a| {
            a.push(rax)?;
            a.push(qword_ptr(rbx))?;
            a.pop(r14)?;
            a.pop(rcx)
        }),
        block("enter and leave", |a| {
            a.push(rbp)?;
            a.mov(rbp, rsp)?;
            a.leave()
        }),
        block("two neighbours", |a| {
            a.mov(rax, qword_ptr(rsi))?;
            a.mov(rdx, qword_ptr(rsi + 8))?;
            a.add(rax, rdx)
        }),
        block("strings", |a| {
            a.movsb()?;
            a.stosq()?;
            a.lodsd()
        }),
        block("repeated strings", |a| a.rep().movsb()),
        block("exchange", |a| a.xchg(qword_ptr(rdi), rax)),
    ]
}

fn flow() -> Vec<CodeSample> {
    vec![
        raw("jump within the page", CodeSize::Long, &[0xeb, 0x10]),
        raw(
            "jump to another page",
            CodeSize::Long,
            &[0xe9, 0, 0x20, 0, 0],
        ),
        raw(
            "conditional jump",
            CodeSize::Long,
            &[0x48, 0x39, 0xd8, 0x72, 0x20],
        ),
        raw("call", CodeSize::Long, &[0xe8, 0x20, 0, 0, 0]),
        raw(
            "call of another page",
            CodeSize::Long,
            &[0xe8, 0, 0x20, 0, 0],
        ),
        raw("return", CodeSize::Long, &[0xc3]),
        raw("return in user mode", CodeSize::Long, &[0xc3]).user(),
        raw("return and drop", CodeSize::Long, &[0xc2, 8, 0]),
        raw("indirect jump", CodeSize::Long, &[0xff, 0xe0]),
        raw(
            "indirect jump through memory",
            CodeSize::Long,
            &[0xff, 0x24, 0xc6],
        ),
        raw("indirect call", CodeSize::Long, &[0xff, 0xd2]),
        raw("loop", CodeSize::Long, &[0xe2, 0xfe]),
        raw("jrcxz", CodeSize::Long, &[0xe3, 0x10]),
    ]
}

fn vectors() -> Vec<CodeSample> {
    vec![
        block("sse arithmetic", |a| {
            a.addpd(xmm0, xmm1)?;
            a.mulsd(xmm2, xmm0)
        }),
        block("sse memory", |a| {
            a.movaps(xmm0, xmmword_ptr(rsi))?;
            a.movups(xmmword_ptr(rdi), xmm0)?;
            a.addsd(xmm1, qword_ptr(rsi + 16))
        }),
        block("sse comparison", |a| {
            a.ucomisd(xmm0, xmm1)?;
            a.seta(al)
        }),
        block("avx", |a| {
            a.vmovapd(ymm0, ymmword_ptr(rsi))?;
            a.vfmadd231pd(ymm1, ymm0, ymmword_ptr(rdi))?;
            a.vmovupd(ymmword_ptr(rdx), ymm1)
        }),
        block("avx-512, masked", |a| {
            a.vmovdqu32(zmm1.k1().z(), zmmword_ptr(rsi))?;
            a.vpaddd(zmm2, zmm1, zmm31)
        })
        .in_memory(),
        block("gather", |a| {
            a.vpgatherdd(xmm1.k1(), dword_ptr(rsi + xmm2 * 4))
        }),
        block("x87", |a| {
            a.fld(qword_ptr(rsi))?;
            a.faddp(st1, st0)?;
            a.fstp(qword_ptr(rdi))
        }),
    ]
}

fn system() -> Vec<CodeSample> {
    vec![
        block("time-stamp counter", |a| {
            a.nop()?;
            a.rdtsc()
        }),
        block("time-stamp counter counted in memory", |a| {
            a.nop()?;
            a.rdtsc()
        })
        .in_memory(),
        block("time-stamp counter and processor", |a| a.rdtscp()),
        block("swapgs", |a| a.swapgs()),
        block("direction flag", |a| a.cld()),
        block("cpuid", |a| a.cpuid()),
        block("port", |a| a.out(dx, al)),
        block("control register", |a| a.mov(rax, cr0)),
        raw("undefined", CodeSize::Long, &[0x0f, 0x0b]),
        raw("system call", CodeSize::Long, &[0x0f, 0x05]).user(),
        raw("return from one", CodeSize::Long, &[0x48, 0x0f, 0x07]),
        raw(
            "stub",
            CodeSize::Long,
            &[0x41, 0xbb, 7, 0, 0, 0, 0xeb, 0x10],
        )
        .free(),
    ]
}

fn counted_in_memory() -> Vec<CodeSample> {
    vec![
        block("counted with dead flags", |a| {
            a.xor(eax, eax)?;
            a.inc(rcx)
        })
        .in_memory(),
        block("counted with live flags", |a| a.adc(rax, rcx)).in_memory(),
        raw("counted before a jump", CodeSize::Long, &[0x72, 0x20]).in_memory(),
        looped("counted in a loop", |a| {
            a.add(rax, qword_ptr(rsi))?;
            a.inc(rcx)
        })
        .in_memory(),
    ]
}

fn counted_in_mm7() -> Vec<CodeSample> {
    vec![
        block("apart with dead flags", |a| {
            a.xor(eax, eax)?;
            a.inc(rcx)
        })
        .apart(),
        block("apart with live flags", |a| a.adc(rax, rcx)).apart(),
        looped("apart in a loop", |a| {
            a.add(rax, qword_ptr(rsi))?;
            a.inc(rcx)
        })
        .apart(),
        block("apart, and the x87", |a| {
            a.inc(rcx)?;
            a.fld(qword_ptr(rsi))?;
            a.inc(rcx)
        })
        .apart(),
        block("apart, and MMX", |a| a.movd(mm2, eax)).apart(),
        block("apart, and the time-stamp counter", |a| a.rdtsc()).apart(),
    ]
}

fn legacy() -> Vec<CodeSample> {
    let flat = CodeSize::Flat32;
    let (segmented, short) = (CodeSize::Segmented32, CodeSize::Segmented16);
    vec![
        raw("32-bit alu", flat, &[0x01, 0xd8, 0x40, 0xeb, 0xfe]),
        raw("32-bit load", flat, &[0x8b, 0x46, 0x08, 0xeb, 0xfe]),
        raw("32-bit push and pop", flat, &[0x50, 0x5b, 0xeb, 0xfe]),
        raw("32-bit call", flat, &[0xe8, 0x20, 0, 0, 0]),
        raw("32-bit return", flat, &[0xc3]),
        raw("32-bit pusha", flat, &[0x60, 0xeb, 0xfe]),
        raw("segmented load", segmented, &[0x8b, 0x46, 0x08, 0xeb, 0xfe]),
        raw("16-bit load", short, &[0x8b, 0x40, 0x08, 0xeb, 0xfe]),
        raw("16-bit push and loop", short, &[0x50, 0xe2, 0xfd]),
        raw("16-bit string", short, &[0xa4, 0xeb, 0xfe]),
    ]
}
