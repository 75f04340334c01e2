//! The Open Trace Format 2, as Score-P writes it.
//!
//! An archive has an anchor file, `NAME.otf2`; global definitions, `NAME.def`; and for each location, which is a thread, events and mappings of its
//! numbers, `NAME/L.evt` and `NAME/L.def`. Locations are read one after the other, chunk by chunk. Archives in SIONlib's container and compressed ones are
//! refused. Records have the format of OTF2 3.x; earlier versions have the beginning of each record. Used by `import`.

/// The anchor file.
mod anchor;
/// Events that belong to one call.
mod call;
/// Communicators and windows in processes' numbers.
mod communicators;
/// Counts of skipped records.
mod counts;
/// Global definitions.
mod definitions;
/// Mappings of a location's numbers and clock.
mod local;
/// The events of a location.
mod location;
/// Files of records in chunks.
mod records;
/// Functions of MPI by the names of regions.
mod regions;

use std::collections::BTreeMap;
use std::path::Path;

use belljar_sim::Frequency;
use belljar_sim::figures::counted_as;

use self::anchor::Anchor;
use self::communicators::Communicators;
use self::counts::Counts;
use self::definitions::Definitions;
use self::local::Local;
use self::location::LocationReader;
use self::regions::Regions;
use crate::builder::amounts::Counting;
use crate::builder::calls::{Functions, ImportedThread};
use crate::builder::spool::Spool;
use crate::builder::{ImportError, Imported};
use crate::format::Format;

pub(crate) use anchor::{anchor_in, is_anchor};

/// The parts of an archive that are needed to read locations.
#[derive(Debug)]
struct Archive {
    anchor: Anchor,
    definitions: Definitions,
    communicators: Communicators,
    functions: Functions,
    regions: Regions,
    counting: Counting,
}

/// Imports the archive of the anchor at `path`, or of the one in that folder.
pub(crate) fn import(path: &Path, out: &Path, name: &str) -> Result<Imported, ImportError> {
    let found = path.is_dir().then(|| anchor_in(path)).flatten();
    let path = found.as_deref().unwrap_or(path);
    let anchor = Anchor::read(path)?;
    let definitions = Definitions::read(&path.with_extension("def"), anchor.definition_chunk)?;
    let clock = Frequency::from_hz(definitions.clock.ticks_per_second);
    let clock = clock.ok_or_else(|| ImportError::Damaged {
        path: path.with_extension("def"),
        offset: 0,
        reason: "its clock has no ticks".to_owned(),
    })?;
    let functions = Functions::new();
    let archive = Archive {
        counting: match anchor.creator.starts_with("Belljar") {
            true => Counting::Buffers,
            false => Counting::Members,
        },
        communicators: Communicators::of(&definitions),
        regions: Regions::of(&definitions, &functions),
        functions,
        definitions,
        anchor,
    };
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut spool = Spool::new(folder.unwrap_or(Path::new(".")))?;
    let mut counts = Counts::default();
    archive.locations(&path.with_extension(""), &mut spool, &mut counts)?;
    let nodes = archive.definitions.nodes();
    let mut notes = notes(&archive);
    notes.extend(counts.notes(archive.counting));
    notes.extend(archive.regions.notes(&counts.unnamed));
    crate::builder::write::write(spool, out, name, Format::Otf2, notes, nodes, clock)
}

/// Returns notes on data missing from every archive.
fn notes(archive: &Archive) -> Vec<String> {
    let mut notes = vec![format!(
        "imported from an OTF2 archive that {} wrote: it tells neither arguments, datatypes and results of calls, nor where they were made, nor the frames on \
         the wire, nor consoles; its times are as the clocks of its processes had them",
        archive.anchor.writer()
    )];
    if archive.communicators.unknown > 0 {
        notes.push(counted_as(
            archive.communicators.unknown,
            "communicator is left out with what is on it: its members do not fit, or there are too many",
            "communicators are left out with what is on them: their members do not fit, or there are too many",
        ));
    }
    notes
}

impl Archive {
    /// Reads the events of all locations, process by process in the order of ranks.
    fn locations(
        &self,
        folder: &Path,
        spool: &mut Spool,
        counts: &mut Counts,
    ) -> Result<(), ImportError> {
        let processes = self.definitions.processes();
        let mut on_node: BTreeMap<u32, u32> = BTreeMap::new();
        for (rank, process) in (0u32..).zip(processes) {
            let number = on_node.entry(process.node).or_default();
            for (thread, location) in (0u32..).zip(&process.locations) {
                let place = ImportedThread {
                    node: process.node,
                    process: *number,
                    thread,
                    rank,
                };
                spool.begin_thread();
                let file = |end| folder.join(format!("{location}.{end}"));
                let local = Local::read(&file("def"), self.anchor.definition_chunk)?;
                match local.there {
                    true => counts.defined += 1,
                    false => counts.undefined.push(*location),
                }
                let mut reading = LocationReader::new(self, place, &local, spool, counts);
                let events = self.definitions.events(*location);
                reading.read(&file("evt"), *location, events)?;
            }
            *number += 1;
        }
        Ok(())
    }
}
