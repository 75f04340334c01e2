//! The registers of an x86-64 thread, in gdb's order, and their description for gdb.
//!
//! Source: gdb's manual, appendix "Target Descriptions", features `org.gnu.gdb.i386.*`.

use std::fmt::Write;

use crate::fields::to_hex;

/// Bytes of an x87 register.
const X87: usize = 10;
/// Bytes of an SSE register.
const SSE: usize = 16;

/// The registers of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers {
    /// In the processor's order: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    pub general: [u64; 16],
    /// RIP.
    pub rip: u64,
    /// RFLAGS.
    pub flags: u64,
    /// Selectors: CS, SS, DS, ES, FS, GS.
    pub selectors: [u16; 6],
    /// Bases of FS and GS.
    pub bases: [u64; 2],
    /// The number of the system call that the thread is in; all ones outside of one.
    pub system_call: u64,
    /// x87 and SSE registers in the format of FXSAVE; `None` if they are not known.
    pub vectors: Option<Box<[u8; 512]>>,
}

/// Order of the general registers in gdb, as indexes into the processor's order.
const ORDER: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// Offset and bytes of each x87 control register in FXSAVE. FISEG, FIOFF, FOSEG, FOOFF and FOP are not kept.
const CONTROLS: [(usize, usize); 2] = [(0, 2), (2, 2)];

impl Registers {
    /// The registers as `g` returns them: digits, or `x` where a register is unknown.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        for index in ORDER {
            push(&mut text, &self.general[index].to_le_bytes());
        }
        push(&mut text, &self.rip.to_le_bytes());
        push(&mut text, &(self.flags as u32).to_le_bytes());
        for selector in self.selectors {
            push(&mut text, &u32::from(selector).to_le_bytes());
        }
        self.encode_vectors(&mut text);
        push(&mut text, &self.system_call.to_le_bytes());
        for base in self.bases {
            push(&mut text, &base.to_le_bytes());
        }
        text
    }

    fn encode_vectors(&self, text: &mut String) {
        let Some(area) = self.vectors.as_deref() else {
            let unknown = 8 * X87 + 8 * 4 + 16 * SSE + 4;
            text.push_str(&"xx".repeat(unknown));
            return;
        };
        for number in 0..8 {
            push(text, &area[32 + 16 * number..][..X87]);
        }
        for (offset, bytes) in CONTROLS {
            let mut value = [0; 4];
            value[..bytes].copy_from_slice(&area[offset..][..bytes]);
            push(text, &value);
        }
        push(text, &tags(area).to_le_bytes());
        // FISEG to FOP.
        for _ in 0..5 {
            text.push_str("xxxxxxxx");
        }
        for number in 0..16 {
            push(text, &area[160 + SSE * number..][..SSE]);
        }
        push(text, &area[24..28]);
    }
}

/// The full tag word, from the abridged one: empty or valid.
fn tags(area: &[u8; 512]) -> u32 {
    let tags = (0..8).map(|number| match area[4] >> number & 1 {
        1 => 0,
        _ => 3 << (2 * number),
    });
    tags.sum()
}

fn push(text: &mut String, bytes: &[u8]) {
    text.push_str(&to_hex(bytes));
}

/// The description of the registers for `qXfer:features:read:target.xml`.
pub(crate) fn target() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target><architecture>i386:x86-64</architecture><osabi>GNU/Linux</osabi>",
    );
    let register = |text: &mut String, name: &str, bits: u32, kind: &str| {
        let _ = write!(
            text,
            "<reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>"
        );
    };
    text.push_str("<feature name=\"org.gnu.gdb.i386.core\">");
    for name in ["rax", "rbx", "rcx", "rdx", "rsi", "rdi"] {
        register(&mut text, name, 64, "int64");
    }
    register(&mut text, "rbp", 64, "data_ptr");
    register(&mut text, "rsp", 64, "data_ptr");
    for number in 8..16 {
        register(&mut text, &format!("r{number}"), 64, "int64");
    }
    register(&mut text, "rip", 64, "code_ptr");
    for name in ["eflags", "cs", "ss", "ds", "es", "fs", "gs"] {
        register(&mut text, name, 32, "int32");
    }
    for number in 0..8 {
        register(&mut text, &format!("st{number}"), 80, "i387_ext");
    }
    for name in [
        "fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop",
    ] {
        let _ = write!(
            text,
            "<reg name=\"{name}\" bitsize=\"32\" type=\"int\" group=\"float\"/>"
        );
    }
    text.push_str("</feature><feature name=\"org.gnu.gdb.i386.sse\">");
    text.push_str(
        "<vector id=\"v4f\" type=\"ieee_single\" count=\"4\"/><vector id=\"v2d\" type=\"ieee_double\" count=\"2\"/><vector id=\"v16i8\" type=\"int8\" count=\"16\"/><vector id=\"v8i16\" type=\"int16\" count=\"8\"/><vector id=\"v4i32\" type=\"int32\" count=\"4\"/><vector id=\"v2i64\" type=\"int64\" count=\"2\"/><union id=\"vec128\"><field name=\"v4_float\" type=\"v4f\"/><field name=\"v2_double\" type=\"v2d\"/><field name=\"v16_int8\" type=\"v16i8\"/><field name=\"v8_int16\" type=\"v8i16\"/><field name=\"v4_int32\" type=\"v4i32\"/><field name=\"v2_int64\" type=\"v2i64\"/><field name=\"uint128\" type=\"uint128\"/></union>",
    );
    for number in 0..16 {
        register(&mut text, &format!("xmm{number}"), 128, "vec128");
    }
    register(&mut text, "mxcsr", 32, "int");
    text.push_str("</feature><feature name=\"org.gnu.gdb.i386.linux\">");
    register(&mut text, "orig_rax", 64, "int");
    text.push_str("</feature><feature name=\"org.gnu.gdb.i386.segments\">");
    register(&mut text, "fs_base", 64, "int");
    register(&mut text, "gs_base", 64, "int");
    text.push_str("</feature></target>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Registers {
        Registers {
            general: std::array::from_fn(|index| index as u64),
            rip: 0x10,
            flags: 0x246,
            selectors: [0x33, 0x2b, 0, 0, 0, 0],
            bases: [0x100, 0x200],
            system_call: u64::MAX,
            vectors: None,
        }
    }

    #[test]
    fn registers_have_the_sizes_that_the_description_gives() {
        let description = target();
        let bits = description.split("bitsize=\"").skip(1).map(|rest| {
            let (bits, _) = rest.split_once('"').unwrap();
            bits.parse::<usize>().unwrap()
        });
        let digits: usize = bits.map(|bits| bits / 4).sum();
        let mut registers = sample();
        assert_eq!(registers.encode().len(), digits);
        registers.vectors = Some(Box::new([7; 512]));
        assert_eq!(registers.encode().len(), digits);
    }

    #[test]
    fn general_registers_are_in_the_order_of_gdb() {
        let text = sample().encode();
        let register = |number: usize| &text[16 * number..][..2];
        // RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, R8.
        let numbers: Vec<&str> = (0..9).map(register).collect();
        assert_eq!(
            numbers,
            ["00", "03", "01", "02", "06", "07", "05", "04", "08"]
        );
        assert_eq!(register(16), "10");
    }

    #[test]
    fn an_abridged_tag_word_is_expanded() {
        let mut area = [0; 512];
        area[4] = 0b1000_0001;
        assert_eq!(tags(&area), 0b0011_1111_1111_1100);
    }
}
