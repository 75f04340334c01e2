//! A run directory with two small checkpoints that no run made: for tests, and for fuzzing to begin
//! with.
//!
//! Its two nodes have 64 pages of RAM each and are clones of a snapshot. The first checkpoint speaks
//! of the first pack, the second of both.

use std::borrow::Cow;
use std::fs::{self, File};
use std::path::Path;

use belljar_cpu::{GuestRam, PAGE_SIZE, guest_ram};
use belljar_fabric::{Fabric, LinkSpec, SwitchSpec, Topology};
use belljar_sim::{Span, Time};
use belljar_vmm::{KeptPages, PackWriter, Snapshot};
use vm_memory::{Bytes, GuestAddress};

use super::{
    CheckpointError, CheckpointRecord, FOLDER, NodeRecord, PACK, RECORD, RunRecord, base_name,
};
use crate::results::stream::Stream;
use crate::run::ending::Closing;
use crate::run::recorder::RecorderState;
use crate::run::runner::RunnerState;

/// Pages of a node's RAM.
const PAGES: u64 = 64;
/// Bytes of a node's console.
const CONSOLE: u64 = 100;

/// Fills `directory`, which has the name of an interrupted run.
///
/// # Errors
/// If the host refuses a file.
pub fn write(directory: &Path) -> Result<(), CheckpointError> {
    let failed = |source| CheckpointError::Io {
        action: "write the sample",
        path: directory.to_owned(),
        source,
    };
    let folder = directory.join(FOLDER);
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::create_dir_all(directory.join("console")).map_err(failed)?;
    for node in 0..2 {
        let names = Stream::ALL
            .into_iter()
            .filter(|stream| stream.is_of(false))
            .filter_map(|stream| stream.file(node));
        for name in names {
            fs::write(directory.join(name), [b'.'; CONSOLE as usize]).map_err(failed)?;
        }
    }
    let base = folder.join(base_name(0));
    Snapshot::write(&base, &Vec::new(), b"state", b"log", &ram(b"base", 0)?)?;
    let mut nodes = [KeptPages::default(), KeptPages::default()];
    let mut packs = Vec::new();
    for number in 1..=2 {
        let pack = File::create(folder.join(format!("{number}.{PACK}"))).map_err(failed)?;
        let mut pack = PackWriter::new(number, pack);
        for kept in &mut nodes {
            let ram = ram(b"node", number)?;
            kept.update(&ram, None, &mut pack).map_err(failed)?;
        }
        packs.push((number, u64::from(pack.pages())));
        pack.finish().map_err(failed)?;
        let mut record = CheckpointRecord::new(&run(number, packs.clone()))?;
        for kept in &nodes {
            let node = NodeRecord {
                runner: RunnerState::with_console(CONSOLE / 2 * u64::from(number)),
                pages: Cow::Borrowed(kept),
            };
            record.add(node.encode()?);
        }
        let file = File::create(folder.join(format!("{number}.{RECORD}"))).map_err(failed)?;
        record.write(&file).map_err(failed)?;
    }
    Ok(())
}

/// RAM with `word` in some pages and, up to `numbered`, their numbers.
fn ram(word: &[u8], numbered: u32) -> Result<GuestRam, CheckpointError> {
    let lacking = |error: &dyn std::fmt::Display| CheckpointError::Failed(error.to_string());
    let ram = guest_ram(&[(0, (PAGES * PAGE_SIZE) as usize)]).map_err(|error| lacking(&error))?;
    let put = |page: u32, bytes: &[u8]| {
        let at = GuestAddress(u64::from(page) * PAGE_SIZE + 7);
        ram.write_slice(bytes, at).map_err(|error| lacking(&error))
    };
    for page in (0..PAGES as u32).step_by(9) {
        put(page, word)?;
    }
    for page in 0..numbered * 5 {
        put(page, &(page + numbered).to_le_bytes())?;
    }
    Ok(ram)
}

fn run(number: u32, packs: Vec<(u32, u64)>) -> RunRecord {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 4096,
    };
    // Two hosts and a switch are a valid network with any links.
    let topology = Topology::star(2, link, switch).expect("a network");
    RunRecord {
        number,
        identity: vec![("nobody's".to_owned(), "at all".to_owned())],
        bases: 1,
        packs,
        now: Time::from_ps(u64::from(number)),
        rounds: 1,
        typed: 0,
        input: 0,
        closing: Closing::at_limit(Time::MAX, None),
        fabric: Fabric::new(topology).save(),
        infiniband: None,
        stuck: None,
        backgrounds: Vec::new(),
        recorder: RecorderState::default(),
        captures: Vec::new(),
        links: None,
    }
}
