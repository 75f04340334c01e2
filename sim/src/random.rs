//! The only random generator.
//!
//! Every consumer draws from a stream of its own, so that the number of draws of one consumer does
//! not affect another. A stream's position can be saved. Used wherever a simulation needs random
//! numbers.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

/// The scenario's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed(pub u64);

/// A deterministic stream of random numbers (ChaCha8, by seed and stream number).
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Position", into = "Position")]
pub struct Random {
    seed: Seed,
    rng: ChaCha8Rng,
}

/// Position of a stream, from which it continues.
#[derive(Serialize, Deserialize)]
struct Position {
    seed: Seed,
    stream: u64,
    words: u128,
}

impl From<Random> for Position {
    fn from(random: Random) -> Self {
        Self {
            seed: random.seed,
            stream: random.rng.get_stream(),
            words: random.rng.get_word_pos(),
        }
    }
}

impl From<Position> for Random {
    fn from(position: Position) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(position.seed.0);
        rng.set_stream(position.stream);
        rng.set_word_pos(position.words);
        Self {
            seed: position.seed,
            rng,
        }
    }
}

impl Random {
    /// The stream for `purpose` (a fixed word such as `"rdrand"`) of the `index`th
    /// owner (a node number, say).
    pub fn new(seed: Seed, purpose: &str, index: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed.0);
        rng.set_stream(fnv1a(purpose) ^ index.rotate_left(32));
        Self { seed, rng }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Sets the position to that after `draws` calls of [`next_u64`](Self::next_u64).
    pub fn seek(&mut self, draws: u64) {
        // A word of ChaCha has 32 bits.
        self.rng.set_word_pos(u128::from(draws) * 2);
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.rng.fill_bytes(bytes);
    }
}

/// FNV-1a (Fowler, Noll, Vo), 64 bits: spreads the purpose's name over stream numbers.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_distinct() {
        let draw = |purpose, index| Random::new(Seed(7), purpose, index).next_u64();
        assert_eq!(draw("rdrand", 0), draw("rdrand", 0));
        assert_ne!(draw("rdrand", 0), draw("rdrand", 1));
        assert_ne!(draw("rdrand", 0), draw("virtio-rng", 0));
    }

    #[test]
    fn a_saved_stream_goes_on_where_it_was() {
        let mut random = Random::new(Seed(7), "rdrand", 3);
        random.fill(&mut [0; 13]);
        random.next_u64();
        let saved = crate::encode(&random).unwrap();
        let mut restored: Random = crate::decode(&saved).unwrap();
        assert_eq!(random.next_u64(), restored.next_u64());
    }

    #[test]
    fn seeking_leads_where_drawing_does() {
        let mut drawn = Random::new(Seed(3), "link", 5);
        let draws: Vec<u64> = (0..100).map(|_| drawn.next_u64()).collect();
        for at in [0, 1, 7, 8, 31, 32, 99] {
            let mut sought = Random::new(Seed(3), "link", 5);
            sought.next_u64();
            sought.seek(at);
            assert_eq!(sought.next_u64(), draws[at as usize]);
        }
    }
}
