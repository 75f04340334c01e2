//! Mutations of inputs, for use without coverage feedback.
//!
//! The same generator and seeds give the same inputs, so a failure is reproducible. Called by this
//! crate's tests; libFuzzer has mutations of its own.

use belljar_sim::Random;

/// Boundary values of comparisons and sums.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

fn below(random: &mut Random, bound: usize) -> usize {
    (random.next_u64() % bound.max(1) as u64) as usize
}

/// A mutation of `seeds`, of at most `longest` bytes.
pub fn mutated(random: &mut Random, seeds: &[Vec<u8>], longest: usize) -> Vec<u8> {
    let mut data = seeds[below(random, seeds.len())].clone();
    for _ in 0..1 + below(random, 6) {
        let at = below(random, data.len() + 1);
        match below(random, 8) {
            0 => flip(random, &mut data),
            1 | 2 => put(&mut data, at, &[random.next_u64() as u8]),
            3 => {
                let edge = EDGES[below(random, EDGES.len())].to_le_bytes();
                put(&mut data, at, &edge[..1 << below(random, 4)]);
            }
            4 => {
                let noise = random.next_u64().to_le_bytes();
                data.splice(at..at, noise[..1 + below(random, 8)].iter().copied());
            }
            5 => {
                let end = (at + 1 + below(random, 16)).min(data.len());
                data.drain(at.min(end)..end);
            }
            6 => {
                let from = below(random, data.len() + 1);
                let end = (from + below(random, 32)).min(data.len());
                let piece = data[from..end].to_vec();
                data.splice(at..at, piece);
            }
            _ => {
                let other = &seeds[below(random, seeds.len())];
                let from = below(random, other.len() + 1);
                data.truncate(at);
                data.extend_from_slice(&other[from..]);
            }
        }
    }
    data.truncate(longest);
    data
}

fn flip(random: &mut Random, data: &mut [u8]) {
    let at = below(random, data.len());
    if let Some(byte) = data.get_mut(at) {
        *byte ^= 1 << below(random, 8);
    }
}

fn put(data: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in data.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}
