//! Instructions above the length limit: they raise #GP, not #UD (Intel SDM, volume 3, 6.15,
//! "Interrupt 13"; AMD64 manual, volume 2, 8.2.14).
//!
//! Called by the decoder for invalid bytes.

use iced_x86::{Decoder, DecoderError, Instruction};

use super::{MAX_BYTES, options};
use crate::guest::features::Features;

/// Segment prefixes, and all other one-byte prefixes that exist in every mode.
const SEGMENTS: [u8; 6] = [0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65];
const OTHERS: [u8; 5] = [0x66, 0x67, LOCK, 0xf2, 0xf3];
const LOCK: u8 = 0xf0;

/// True if an instruction is invalid because it exceeds the length limit. For undefined
/// instructions, only the bytes up to the opcode count.
pub(crate) fn is_too_long(instruction: &Instruction, bytes: &[u8], features: &Features) -> bool {
    let Some(bytes) = bytes.get(..MAX_BYTES).filter(|_| instruction.is_invalid()) else {
        return false;
    };
    let is_prefix = |byte: &u8| SEGMENTS.contains(byte) || OTHERS.contains(byte);
    let count = bytes.iter().take_while(|byte| is_prefix(byte)).count();
    let (prefixes, body) = bytes.split_at(count);
    if body.is_empty() {
        return true;
    }
    // Keep each prefix once, but drop prefixes that only make an instruction undefined. The decoder
    // distinguishes a truncated instruction from an undefined one only if it gets fewer bytes.
    let mut fewer = effective(prefixes, body[0]);
    let kept = fewer.len();
    fewer.extend_from_slice(body);
    fewer.resize(MAX_BYTES - 1, 0);
    let mut decoder = Decoder::new(features.size.bits(), &fewer, options(features));
    let found = decoder.decode();
    let length = if !found.is_invalid() {
        found.len() - kept
    } else if decoder.last_error() == DecoderError::NoMoreBytes {
        MAX_BYTES
    } else {
        opcode_bytes(body)
    };
    count + length > MAX_BYTES
}

/// The subset of `prefixes` that affects the length of an instruction with the opcode `first`.
fn effective(prefixes: &[u8], first: u8) -> Vec<u8> {
    let encodes_its_own = matches!(first, 0x62 | 0xc4 | 0xc5);
    let mut kept = Vec::new();
    for &prefix in prefixes {
        let clashes = prefix == LOCK || (encodes_its_own && matches!(prefix, 0x66 | 0xf2 | 0xf3));
        if !clashes && !SEGMENTS.contains(&prefix) && !kept.contains(&prefix) {
            kept.push(prefix);
        }
    }
    kept
}

/// Number of bytes up to the opcode's last one.
fn opcode_bytes(body: &[u8]) -> usize {
    match body {
        [0x62, ..] => 5,
        [0xc4, ..] => 4,
        [0x0f, 0x38 | 0x3a, ..] | [0xc5, ..] => 3,
        [0x0f, ..] => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_on_after_15_bytes_is_too_long() {
        let features = Features::new(&belljar_cpu::InstructionSet::default());
        for (prefixes, body, expected) in [
            (14, &[0x90][..], false),
            (15, &[0x90], true),
            (16, &[0x90], true),
            (13, &[0x0f, 0x04], false),
            (14, &[0x0f, 0x04], true),
            (14, &[0x0f, 0x57, 0xc1], true),
            (13, &[0x0f, 0x57, 0xc1], true),
            (12, &[0x0f, 0x57, 0xc1], false),
            (11, &[0xc5, 0xf8, 0x57, 0xc1], false),
            (12, &[0xc5, 0xf8, 0x57, 0xc1], true),
            (13, &[0xc5, 0xf8, 0x57, 0xc1], true),
            (13, &[0xf0, 0x90], false),
            (14, &[0xf0, 0x90], true),
            (5, &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], false),
            (6, &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], true),
        ] {
            for prefix in [0x66, 0x2e] {
                let mut bytes = vec![prefix; prefixes];
                bytes.extend_from_slice(body);
                bytes.resize(32, 0xcc);
                let instruction = Decoder::new(64, &bytes, options(&features)).decode();
                let found = is_too_long(&instruction, &bytes, &features);
                assert_eq!(found, expected, "{prefixes} of {prefix:#x} and {body:02x?}");
            }
        }
    }
}
