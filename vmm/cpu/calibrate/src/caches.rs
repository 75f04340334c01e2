//! Caches, translation buffers, bandwidth and the window: sizes by CPUID, and cycles by size.
//!
//! Lists visit each line of a buffer once, in a random order, by pointers; streams and independent misses compute their
//! addresses. `measure` is the caller.

use std::arch::x86_64::__cpuid_count;

use iced_x86::code_asm::{
    qword_ptr, r8, r9, r12, r13, r14, rax, rbp, rbx, rcx, rdx, rsi, xmm0, xmmword_ptr,
};

use crate::CalibrateError;
use crate::clock::{Clock, function};
use crate::code::{Buffer, Function, Pages};
use crate::measure::Curve;

/// Words of a line.
const LINE: usize = 8;
/// Words of a small page.
const PAGE: usize = 512;
/// KiB of the largest buffer.
const MOST_KIB: u32 = 96 << 10;
/// Steps of a list, at least.
const STEPS: u64 = 100_000;
/// Loads of a round of independent misses.
const MISSES: u32 = 9;

/// A level of data caches, as CPUID describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its size.
    pub kib: u32,
    /// Its associativity.
    pub ways: u32,
}

/// A generator of reproducible numbers: xorshift64.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The data caches of this host, from the first level on.
pub(crate) fn sizes() -> Vec<Cache> {
    let vendor = __cpuid_count(0, 0);
    // AMD's leaf has the form of Intel's.
    let leaf = match vendor.ebx {
        0x6874_7541 => 0x8000_001d,
        _ => 4,
    };
    let mut all = Vec::new();
    for number in 0..8 {
        let found = __cpuid_count(leaf, number);
        match found.eax & 0x1f {
            0 => break,
            2 => continue,
            _ => {}
        }
        let ways = (found.ebx >> 22) + 1;
        let partitions = (found.ebx >> 12 & 0x3ff) + 1;
        let line = (found.ebx & 0xfff) + 1;
        let bytes =
            u64::from(ways) * u64::from(partitions) * u64::from(line) * (u64::from(found.ecx) + 1);
        all.push(Cache {
            kib: u32::try_from(bytes >> 10).unwrap_or(u32::MAX),
            ways,
        });
    }
    all
}

/// The processor's name.
pub(crate) fn name() -> String {
    let mut bytes = Vec::new();
    for leaf in 0x8000_0002..=0x8000_0004 {
        let part = __cpuid_count(leaf, 0);
        for word in [part.eax, part.ebx, part.ecx, part.edx] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    text.trim_matches(['\0', ' ']).to_owned()
}

/// Links words of `buffer` to one circle in a random order; `places` are their numbers. Returns the number of links.
fn link(buffer: &mut Buffer, mut places: Vec<usize>) -> u64 {
    let mut random = Random::default();
    for at in (1..places.len()).rev() {
        places.swap(at, (random.next() % (at as u64 + 1)) as usize);
    }
    let base = buffer.address();
    let words = buffer.words();
    // The walk begins at the buffer's first word.
    let first = places.iter().position(|&place| place == 0).unwrap_or(0);
    places.rotate_left(first);
    for (at, &place) in places.iter().enumerate() {
        let next = places[(at + 1) % places.len()];
        words[place] = base + next as u64 * 8;
    }
    places.len() as u64
}

/// Cycles of a step through the list of these words.
fn walk(clock: &mut Clock, buffer: &mut Buffer, places: Vec<usize>) -> Result<f64, CalibrateError> {
    let steps = link(buffer, places).max(STEPS) / 8;
    let code = function("list", &|a| a.mov(rax, rbp), &|a| {
        (0..8).try_for_each(|_| a.mov(rax, qword_ptr(rax)))
    })?;
    let function = Function::new(&code)?;
    function.call(buffer, steps);
    Ok(clock.cycles(&function, buffer, steps) / 8.0)
}

/// Lists of all lines of buffers in huge pages.
pub(crate) fn lists(clock: &mut Clock) -> Result<Curve, CalibrateError> {
    let sizes = [
        16, 128, 256, 512, 768, 1536, 2048, 2560, 3072, 4096, 8192, 16_384, 65_536,
    ];
    let mut buffer = Buffer::new(words(MOST_KIB), Pages::Huge)?;
    let mut curve = Curve::new();
    for kib in sizes {
        let places = (0..words(kib)).step_by(LINE).collect();
        curve.push((kib, walk(clock, &mut buffer, places)?));
    }
    Ok(curve)
}

/// Lists of a line in each small page, at other places in each one.
pub(crate) fn pages(clock: &mut Clock) -> Result<Curve, CalibrateError> {
    let numbers = [
        16, 32, 48, 64, 72, 96, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 12_288,
    ];
    let mut buffer = Buffer::new(PAGE * 12_288, Pages::Small)?;
    let mut curve = Curve::new();
    for number in numbers {
        let place = |page: usize| page * PAGE + page % (PAGE / LINE) * LINE;
        let places = (0..number as usize).map(place).collect();
        curve.push((number, walk(clock, &mut buffer, places)?));
    }
    Ok(curve)
}

/// Words of so many KiB.
fn words(kib: u32) -> usize {
    kib as usize * 128
}

/// Streams of vector loads through buffers.
pub(crate) fn streams(clock: &mut Clock) -> Result<Curve, CalibrateError> {
    let sizes = [16, 256, 512, 2048, 8192, 16_384, 24_576, MOST_KIB];
    let mut buffer = Buffer::new(words(MOST_KIB), Pages::Huge)?;
    buffer.words().fill(1);
    let mut curve = Curve::new();
    for kib in sizes {
        let bytes = i32::try_from(kib << 10).unwrap_or(i32::MAX);
        let setup = |a: &mut iced_x86::code_asm::CodeAssembler| {
            a.mov(rsi, rbp)?;
            a.lea(r12, qword_ptr(rbp + bytes))
        };
        // Eight lines a round; the pointer returns to the start without a jump.
        let code = function("stream", &setup, &|a| {
            (0..8).try_for_each(|line| a.movaps(xmm0, xmmword_ptr(rsi + line * 64)))?;
            a.add(rsi, 512)?;
            a.cmp(rsi, r12)?;
            a.cmove(rsi, rbp)
        })?;
        let function = Function::new(&code)?;
        let rounds = u64::from(kib) * 2;
        let rounds = rounds.max(20_000 / rounds * rounds);
        function.call(&mut buffer, rounds);
        curve.push((kib, clock.cycles(&function, &mut buffer, rounds) / 8.0));
    }
    Ok(curve)
}

/// Loads of random lines, whose addresses do not depend on loaded data.
pub(crate) fn misses(clock: &mut Clock) -> Result<Curve, CalibrateError> {
    let sizes = [512, 2048, 16_384, 65_536];
    let mut buffer = Buffer::new(words(MOST_KIB), Pages::Huge)?;
    buffer.words().fill(1);
    let mut curve = Curve::new();
    for kib in sizes {
        let mask = (u64::from(kib) << 10) - 64;
        let setup = |a: &mut iced_x86::code_asm::CodeAssembler| {
            a.mov(r8, 0x5851_f42d_4c95_7f2du64)?;
            a.mov(r9, mask)?;
            a.mov(rax, qword_ptr(rbp + 8))
        };
        // Three lines of each number of a linear congruence, which the buffer's second word keeps.
        let code = function("misses", &setup, &|a| {
            for _ in 0..MISSES / 3 {
                a.imul_2(rax, r8)?;
                a.add(rax, rbx)?;
                for low in [20, 28, 36] {
                    a.mov(rdx, rax)?;
                    a.shr(rdx, low)?;
                    a.and(rdx, r9)?;
                    a.mov(rcx, qword_ptr(rbp + rdx))?;
                }
            }
            a.mov(qword_ptr(rbp + 8), rax)
        })?;
        let function = Function::new(&code)?;
        let rounds = u64::from((kib * 16 / MISSES).max(4_000));
        function.call(&mut buffer, rounds);
        let cycles = clock.cycles(&function, &mut buffer, rounds);
        curve.push((kib, cycles / f64::from(MISSES)));
    }
    Ok(curve)
}

/// Two lists in memory, with a number of operations between a step of one and a step of the other.
pub(crate) fn windows(clock: &mut Clock) -> Result<Curve, CalibrateError> {
    let kib = 32 << 10;
    let mut buffers = Buffer::new(2 * words(kib), Pages::Huge)?;
    link(&mut buffers, (0..words(kib)).step_by(LINE).collect());
    let base = buffers.address();
    let second = words(kib);
    // The same list again, behind the first one.
    let all = buffers.words();
    for at in (0..second).step_by(LINE) {
        all[second + at] = all[at] + second as u64 * 8;
    }
    // The first line keeps the places of both walks between calls.
    (all[1], all[2]) = (base, base + second as u64 * 8);
    let mut curve = Curve::new();
    for number in (64..=640).step_by(16) {
        let setup = |a: &mut iced_x86::code_asm::CodeAssembler| {
            a.mov(r13, qword_ptr(rbp + 8))?;
            a.mov(r14, qword_ptr(rbp + 16))
        };
        let code = function("window", &setup, &|a| {
            for pointer in [r13, r14] {
                a.mov(pointer, qword_ptr(pointer))?;
                (0..number).try_for_each(|_| a.nop())?;
            }
            a.mov(qword_ptr(rbp + 8), r13)?;
            a.mov(qword_ptr(rbp + 16), r14)
        })?;
        let function = Function::new(&code)?;
        curve.push((number + 1, clock.cycles(&function, &mut buffers, 300)));
    }
    Ok(curve)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_circle_through_all_places() {
        let mut buffer = Buffer::new(PAGE, Pages::Small).unwrap();
        let places: Vec<usize> = (0..PAGE).step_by(LINE).collect();
        assert_eq!(link(&mut buffer, places), 64);
        let base = buffer.address();
        let (mut at, mut seen) = (0, Vec::new());
        loop {
            seen.push(at);
            at = ((buffer.words()[at] - base) / 8) as usize;
            if at == 0 {
                break;
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..PAGE).step_by(LINE).collect::<Vec<_>>());
    }
}
