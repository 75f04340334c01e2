//! Digests of whole runs, stored in the tree: the same on every host.
//!
//! `tests/digests.txt` has a line for each run: its name, a hash of the image that it ran on, and a
//! digest of its traces and consoles. A run on another image differs, so its digest is not
//! comparable: the check is skipped with a message. The first line lists the processors on which
//! the digests were verified, as `maker:family:model`. On others a difference is reported, and
//! fails only with `BELLJAR_STRICT=1`. `BELLJAR_BLESS=1` writes the lines of the repeated runs.

use std::arch::x86_64::__cpuid;
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use twox_hash::XxHash3_64;

use crate::{Dir, Outcome, root};

/// One test at a time writes to the file.
static TURN: Mutex<()> = Mutex::new(());

/// This host's processor: its maker, its family and its model (CPUID leaves 0 and 1).
fn processor() -> String {
    let (maker, version) = (__cpuid(0), __cpuid(1).eax);
    let words = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
    let maker = String::from_utf8_lossy(words.as_flattened()).into_owned();
    let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
    let model = version >> 4 & 0xf | version >> 12 & 0xf0;
    format!("{maker}:{family}:{model}")
}

fn file() -> PathBuf {
    root().join("tests/digests.txt")
}

impl Dir {
    /// Compares `run`, on the image of `recipe`, with the stored digest of the run `name`.
    ///
    /// # Panics
    /// If they differ, on a processor for which the digest was verified.
    pub fn holds(&self, name: &str, run: &Outcome, recipe: &str) {
        let image = self.image_hash(recipe);
        let digest = format!("{:016x}", XxHash3_64::oneshot(&run.told()));
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let text = fs::read_to_string(file()).unwrap_or_default();
        let (processors, lines) = text.split_once('\n').unwrap_or_default();
        let line = lines
            .lines()
            .find(|line| line.split(' ').next() == Some(name));
        if std::env::var_os("BELLJAR_BLESS").is_some() {
            return write(name, &format!("{name} {image} {digest}"), lines);
        }
        let Some([_, of, expected]) = line.map(words) else {
            panic!("no digest of the run {name} is written down; BELLJAR_BLESS=1 does it");
        };
        if of != image {
            eprintln!(
                "SKIPPED: the digest of the run {name} is of another image ({of}) than {recipe} is now ({image}): the distribution has moved on"
            );
        } else if digest != expected {
            let here = processor();
            let told = format!("the run {name} has digest {digest} on {here}, and not {expected}");
            let seen = processors.split(' ').any(|known| known == here);
            assert!(
                !seen && std::env::var_os("BELLJAR_STRICT").is_none(),
                "{told}"
            );
            eprintln!("REPORTED: {told}, which was seen on {processors}");
        }
    }

    /// A hash of the image of `recipe`.
    fn image_hash(&self, recipe: &str) -> String {
        let manifest = self.image(recipe).join("manifest.toml");
        let text = fs::read_to_string(&manifest)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", manifest.display()));
        // Of the kernel, the initial RAM disk, and the root file system, which come first.
        let hashes = text
            .lines()
            .filter(|line| line.starts_with("sha256"))
            .take(3);
        let hashes: String = hashes.collect();
        format!("{:016x}", XxHash3_64::oneshot(hashes.as_bytes()))
    }
}

fn words(line: &str) -> [&str; 3] {
    let mut words = line.split(' ');
    std::array::from_fn(|_| words.next().unwrap_or_default())
}

/// Replaces the line of the run `name` with `line`.
fn write(name: &str, line: &str, lines: &str) {
    let others = lines
        .lines()
        .filter(|line| line.split(' ').next() != Some(name));
    let mut all: Vec<&str> = others.chain([line]).collect();
    all.sort_unstable();
    let text = format!("# {}\n{}\n", processor(), all.join("\n"));
    fs::write(file(), text).expect("the tree can be written to");
}
