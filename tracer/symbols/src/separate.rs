//! Separate files with debug information: their locations, and checks that they match.
//!
//! Locations follow GDB's manual ("Debugging Information in Separate Files"). A file found by its build ID must have that
//! ID; one found by its name must have the checksum in the link. Used by `module`.

use object::Object;

use crate::FileSource;
use crate::sections::{parse, section};

/// The folder of debug files.
const FOLDER: &str = "/usr/lib/debug";

/// Returns the file with the debug information of the file at `path` with contents `data`.
pub(crate) fn debug_file(path: &str, data: &[u8], files: &dyn FileSource) -> Option<Vec<u8>> {
    let elf = parse(data)?;
    let by_id = elf.build_id().ok().flatten();
    if let Some(found) = by_id.and_then(|id| by_build_id(id, files)) {
        return Some(found);
    }
    let (name, checksum) = elf.gnu_debuglink().ok()??;
    let name = std::str::from_utf8(name).ok()?;
    if name.contains('/') {
        return None;
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let candidates = [
        format!("{folder}/{name}"),
        format!("{folder}/.debug/{name}"),
        format!("{FOLDER}{folder}/{name}"),
    ];
    let mut others = candidates.iter().filter(|candidate| *candidate != path);
    others.find_map(|candidate| {
        let mut is_right = |found: &[u8]| crc32fast::hash(found) == checksum;
        files.find(candidate, &mut is_right)
    })
}

/// Returns the file with the common part of several debug files, for the debug file `data`.
pub(crate) fn common_file(data: &[u8], files: &dyn FileSource) -> Option<Vec<u8>> {
    let elf = parse(data)?;
    // The path, a zero, and the build ID.
    let link = section(&elf, ".gnu_debugaltlink");
    let (path, id) = link.split_at(link.iter().position(|byte| *byte == 0)?);
    let path = std::str::from_utf8(path).ok()?;
    let id = id.get(1..)?;
    let by_path = || files.find(path, &mut |found| has_build_id(found, id));
    let by_path = path.starts_with('/').then(by_path).flatten();
    by_path.or_else(|| by_build_id(id, files))
}

fn by_build_id(id: &[u8], files: &dyn FileSource) -> Option<Vec<u8>> {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = digits.split_at_checked(2)?;
    let path = format!("{FOLDER}/.build-id/{first}/{rest}.debug");
    files.find(&path, &mut |found| has_build_id(found, id))
}

fn has_build_id(data: &[u8], id: &[u8]) -> bool {
    parse(data).is_some_and(|elf| elf.build_id().ok().flatten() == Some(id))
}
