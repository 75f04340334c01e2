//! Names of addresses in this program itself, and in damaged files.

use std::collections::BTreeMap;

use object::{Object, ObjectSection, ObjectSymbol};
use proptest::prelude::*;

use crate::sections::parse;
use crate::{FileSource, SourceLocation, Symbols};

/// Files by their paths.
#[derive(Default)]
struct Folder(BTreeMap<String, Vec<u8>>);

impl FileSource for Folder {
    fn find(&self, path: &str, fits: &mut dyn FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
        self.0.get(path).filter(|data| fits(data)).cloned()
    }
}

/// A function for the test to find.
#[inline(never)]
fn belljar_symbols_landmark(number: u64) -> u64 {
    std::hint::black_box(number).wrapping_mul(3)
}

fn own_file() -> Vec<u8> {
    assert_eq!(belljar_symbols_landmark(2), 6);
    std::fs::read(std::env::current_exe().unwrap()).unwrap()
}

fn address_of(file: &[u8], name: &str) -> u64 {
    let elf = parse(file).unwrap();
    let mut symbols = elf.symbols();
    let symbol = symbols.find(|symbol| symbol.name().is_ok_and(|own| own.contains(name)));
    symbol.expect("a symbol").address()
}

#[test]
fn functions_have_names_and_lines() {
    let file = own_file();
    let address = address_of(&file, "belljar_symbols_landmark");
    let build_id = parse(&file)
        .unwrap()
        .build_id()
        .unwrap()
        .map(<[u8]>::to_vec);
    let build_id = build_id.unwrap_or_default();
    let folder = Folder([("/bin/it".to_owned(), file)].into());
    let mut symbols = Symbols::new(&folder);
    let places = symbols.places("/bin/it", &build_id, address + 1);
    let last = places.last().unwrap();
    let name = last.function.as_deref().unwrap();
    assert!(name.ends_with("belljar_symbols_landmark"), "{places:?}");
    let source = last.file.as_deref().unwrap();
    assert!(source.ends_with("tracer/symbols/src/tests.rs"), "{source}");
    let text = include_str!("tests.rs");
    let mut lines = text.lines();
    let line = 1 + lines
        .position(|it| it.contains("fn belljar_symbols_landmark"))
        .unwrap();
    assert!(last.line.unwrap().abs_diff(line as u32) <= 2, "{last:?}");
    // A file of another build yields nothing, nor does a missing one.
    let nothing = vec![SourceLocation::default()];
    assert_eq!(symbols.places("/bin/it", &[1, 2, 3], address), nothing);
    assert_eq!(symbols.places("/bin/no", &[], address), nothing);
    assert_eq!(symbols.places("/bin/it", &[], u64::MAX), nothing);
}

/// Returns this program without debug information, with its sections renamed.
fn stripped(whole: &[u8]) -> Vec<u8> {
    let mut file = whole.to_vec();
    let elf = parse(whole).unwrap();
    let names = elf.section_by_name(".shstrtab").expect("names");
    let (start, length) = names.file_range().unwrap();
    let names = &mut file[start as usize..(start + length) as usize];
    for taken in [&b".debug_info\0"[..], b".debug_line\0"] {
        let at = names.windows(taken.len()).position(|it| it == taken);
        names[at.unwrap() + 1] = b'x';
    }
    file
}

#[test]
fn debug_files_are_found_by_their_build_ids() {
    let whole = own_file();
    let file = stripped(&whole);
    let address = address_of(&whole, "belljar_symbols_landmark");
    let elf = parse(&whole).unwrap();
    let Some(id) = elf.build_id().unwrap() else {
        // This host's linker creates none, so there is nothing to check.
        return;
    };
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = digits.split_at(2);
    let path = format!("/usr/lib/debug/.build-id/{first}/{rest}.debug");
    let mut folder = Folder([("/bin/it".to_owned(), file)].into());
    let alone = Symbols::new(&folder).places("/bin/it", id, address + 1);
    assert_eq!(alone.last().unwrap().line, None, "{alone:?}");
    assert!(alone.last().unwrap().function.is_some());
    folder.0.insert(path.clone(), b"something else".to_vec());
    assert_eq!(
        Symbols::new(&folder).places("/bin/it", id, address + 1),
        alone
    );
    folder.0.insert(path, whole.clone());
    let both = Symbols::new(&folder).places("/bin/it", id, address + 1);
    assert!(both.last().unwrap().line.is_some(), "{both:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn damaged_files_name_something_or_nothing(
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..6usize), 1..200),
    ) {
        let whole = own_file();
        let address = address_of(&whole, "belljar_symbols_landmark");
        let elf = parse(&whole).unwrap();
        let names = [".debug_info", ".debug_abbrev", ".debug_line", ".debug_ranges", ".debug_str", ".symtab"];
        let range = |name: &str| elf.section_by_name(name).and_then(|it| it.file_range());
        let mut file = whole.clone();
        for (place, byte, section) in damages {
            let (start, length) = range(names[section]).unwrap_or((0, 4096));
            if length > 0 {
                file[start as usize + place.index(length as usize)] = byte;
            }
        }
        let folder = Folder([("/bin/it".to_owned(), file)].into());
        let mut symbols = Symbols::new(&folder);
        for address in [0, address, address + 5, address + 500, u64::MAX] {
            prop_assert!(!symbols.places("/bin/it", &[], address).is_empty());
        }
    }
}
