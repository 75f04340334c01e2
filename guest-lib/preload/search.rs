//! Looks up symbols in loaded objects, in load order: the program, the objects it was started with,
//! and the objects it opened since, in any scope (`RTLD_LOCAL`).
//!
//! Functions are looked up after this library first, objects everywhere. The dynamic linker has
//! checked all objects in its list; formats are those of the System V ABI and, for the hash table,
//! of GNU's linker.

use crate::{NAME_STARTS, NAMES, OBJECT_NAMES, STANDARD_ABI_NAME};

/// A symbol that an object of the list defines.
#[derive(Clone, Copy)]
pub(crate) struct DefinedSymbol {
    /// Zero if there is none.
    pub(crate) address: u64,
    /// The first address of the defining object's code, and the one after the last.
    pub(crate) code: [u64; 2],
    /// True if that object is named as a library of the standard ABI.
    pub(crate) is_standard: bool,
}

const NOTHING: DefinedSymbol = DefinedSymbol {
    address: 0,
    code: [0; 2],
    is_standard: false,
};

/// Targets of an MPI function.
pub(crate) struct FunctionTargets {
    /// By its name.
    pub(crate) named: DefinedSymbol,
    /// By its name in the profiling interface.
    pub(crate) profiling: DefinedSymbol,
}

impl FunctionTargets {
    /// True if the first is a layer before the second.
    pub(crate) fn is_layered(&self) -> bool {
        let profiling = &self.profiling;
        profiling.address != 0 && self.named.code[0] != profiling.code[0]
    }
}

/// Looks up the function with this number. If no object after this library defines it, the program
/// may contain MPI itself.
pub(crate) fn function(number: usize) -> FunctionTargets {
    // SAFETY: `number` is less than there are names, and each begins within them.
    let name = unsafe {
        let start = *NAME_STARTS.as_ptr().add(number);
        NAMES.as_ptr().add(usize::from(start))
    };
    let mut profiling = find(name, true);
    if profiling.address == 0 {
        profiling = find(name, false);
    }
    // SAFETY: the name is longer than its first letter, `P`.
    let mut named = find(unsafe { name.add(1) }, true);
    if named.address == 0 {
        named = profiling;
    }
    FunctionTargets { named, profiling }
}

/// True if a loaded object defines `name`, which ends with a zero byte.
pub(crate) fn is_defined(name: &[u8]) -> bool {
    find(name.as_ptr(), false).address != 0
}

/// Writes the addresses of Open MPI's predefined objects, zero for missing ones; if the first
/// exists, all do.
pub(crate) fn objects(into: *mut u64) {
    let mut name = OBJECT_NAMES.as_ptr();
    let mut place = into;
    // SAFETY: the names end with an empty one; `into` has room for all.
    unsafe {
        while *name != 0 {
            let address = find(name, false).address;
            if place == into && address == 0 {
                return;
            }
            place.write(address);
            place = place.add(1);
            while *name != 0 {
                name = name.add(1);
            }
            name = name.add(1);
        }
    }
}

/// An object, as `dl_iterate_phdr` passes it.
#[repr(C)]
struct Loaded {
    base: u64,
    name: *const u8,
    headers: *const Header,
    count: u16,
}

#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    size: u64,
    align: u64,
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const EXECUTE: u32 = 1;

struct Search {
    name: *const u8,
    /// True if the objects from here on may define it.
    begun: bool,
    found: DefinedSymbol,
}

type Visit = unsafe extern "C" fn(*const Loaded, usize, *mut Search) -> i32;

unsafe extern "C" {
    /// The address of `dl_iterate_phdr`, zero if there is no such function.
    static belljar_iterate: Option<unsafe extern "C" fn(Visit, *mut Search) -> i32>;
}

fn find(name: *const u8, after_us: bool) -> DefinedSymbol {
    let mut search = Search {
        name,
        begun: !after_us,
        found: NOTHING,
    };
    // SAFETY: the C library's function, with a visitor of the correct type.
    unsafe {
        if let Some(iterate) = belljar_iterate {
            iterate(visit, &raw mut search);
        }
    }
    search.found
}

unsafe extern "C" fn visit(loaded: *const Loaded, _: usize, search: *mut Search) -> i32 {
    // SAFETY: `dl_iterate_phdr` passes loaded objects, and `find` its own search.
    unsafe {
        let (loaded, search) = (&*loaded, &mut *search);
        let (dynamic, code) = parts(loaded);
        let here = visit as *const () as u64;
        if code[0] <= here && here < code[1] {
            search.begun = true;
            return 0;
        }
        if !search.begun || dynamic.is_null() {
            return 0;
        }
        let symbols = Symbols::new(loaded.base, dynamic);
        let address = symbols.find(search.name);
        if address == 0 {
            return 0;
        }
        search.found = DefinedSymbol {
            address,
            code,
            is_standard: symbols.is_standard(),
        };
    }
    1
}

/// An object's dynamic section, and its code range.
unsafe fn parts(loaded: &Loaded) -> (*const [u64; 2], [u64; 2]) {
    let (mut dynamic, mut code) = (core::ptr::null(), [u64::MAX, 0]);
    for index in 0..usize::from(loaded.count) {
        // SAFETY: the index is less than the number of headers.
        let header = unsafe { &*loaded.headers.add(index) };
        let start = loaded.base.wrapping_add(header.address);
        if header.kind == DYNAMIC {
            dynamic = start as *const [u64; 2];
        }
        if header.kind == LOAD && header.flags & EXECUTE != 0 {
            code = [
                code[0].min(start),
                code[1].max(start.wrapping_add(header.size)),
            ];
        }
    }
    (dynamic, code)
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

const INDIRECT: u8 = 10;

/// The dynamic symbols of an object.
struct Symbols {
    base: u64,
    names: u64,
    symbols: u64,
    gnu_hash: u64,
    hash: u64,
    /// Offset of the object's own name among the names; zero if it has none.
    own_name: u64,
}

impl Symbols {
    unsafe fn new(base: u64, mut dynamic: *const [u64; 2]) -> Self {
        let (mut names, mut symbols, mut gnu_hash, mut hash) = (0, 0, 0, 0);
        let mut own_name = 0;
        // SAFETY: the section ends with an entry of tag 0.
        unsafe {
            while (*dynamic)[0] != 0 {
                let [tag, value] = *dynamic;
                // Some linkers do not relocate these addresses in place.
                let address = if value < base { value + base } else { value };
                match tag {
                    4 => hash = address,
                    5 => names = address,
                    6 => symbols = address,
                    14 => own_name = value,
                    0x6fff_fef5 => gnu_hash = address,
                    _ => {}
                }
                dynamic = dynamic.add(1);
            }
        }
        Self {
            base,
            names,
            symbols,
            gnu_hash,
            hash,
            own_name,
        }
    }

    /// True if the object is named as a library of the standard ABI.
    unsafe fn is_standard(&self) -> bool {
        if self.names == 0 || self.own_name == 0 {
            return false;
        }
        // SAFETY: a name ends with a zero byte, which differs from all bytes compared with it.
        unsafe {
            let name = (self.names + self.own_name) as *const u8;
            let mut wanted = STANDARD_ABI_NAME.iter().enumerate();
            wanted.all(|(at, byte)| *name.add(at) == *byte)
        }
    }

    /// The address of this object's symbol with this name; zero if there is none.
    unsafe fn find(&self, name: *const u8) -> u64 {
        if self.names == 0 || self.symbols == 0 {
            return 0;
        }
        // SAFETY: they are the object's tables.
        unsafe {
            if self.gnu_hash != 0 {
                self.find_by_gnu_hash(name)
            } else if self.hash != 0 {
                self.find_among(name, word(self.hash, 1))
            } else {
                0
            }
        }
    }

    unsafe fn find_by_gnu_hash(&self, name: *const u8) -> u64 {
        // SAFETY: the table has its parts' lengths; a list of hashes ends with an odd one.
        unsafe {
            let table = self.gnu_hash;
            let (buckets, first) = (word(table, 0), word(table, 1));
            let (filters, shift) = (word(table, 2), word(table, 3));
            let wanted = gnu_hash(name);
            if buckets == 0 || filters == 0 {
                return 0;
            }
            let filter = (table as *const u64).add(2 + (wanted / 64 & (filters - 1)) as usize);
            let bits = 1 << (wanted % 64) | 1 << ((wanted >> (shift & 31)) % 64);
            if *filter & bits != bits {
                return 0;
            }
            let lists = table + 16 + 8 * u64::from(filters);
            let chains = lists + 4 * u64::from(buckets);
            let mut index = word(lists, wanted % buckets);
            while index >= first {
                let hash = word(chains, index - first);
                if hash | 1 == wanted | 1 {
                    let address = self.address(index, name);
                    if address != 0 {
                        return address;
                    }
                }
                if hash & 1 != 0 {
                    break;
                }
                index += 1;
            }
        }
        0
    }

    unsafe fn find_among(&self, name: *const u8, count: u32) -> u64 {
        for index in 0..count {
            // SAFETY: the index is less than the number of symbols.
            let address = unsafe { self.address(index, name) };
            if address != 0 {
                return address;
            }
        }
        0
    }

    /// The address of the symbol with this index if it is defined here and has this name.
    unsafe fn address(&self, index: u32, name: *const u8) -> u64 {
        // SAFETY: the caller's index is within the table; a resolver takes no arguments.
        unsafe {
            let symbol = &*(self.symbols as *const Symbol).add(index as usize);
            let own = (self.names + u64::from(symbol.name)) as *const u8;
            if symbol.section == 0 || symbol.info >> 4 == 0 || !same(own, name) {
                return 0;
            }
            let address = self.base.wrapping_add(symbol.value);
            if symbol.info & 15 != INDIRECT {
                return address;
            }
            let pick: extern "C" fn() -> u64 = core::mem::transmute(address);
            pick()
        }
    }
}

unsafe fn word(table: u64, index: u32) -> u32 {
    // SAFETY: the caller's index is within the table.
    unsafe { *(table as *const u32).add(index as usize) }
}

unsafe fn gnu_hash(mut name: *const u8) -> u32 {
    let mut hash = 5381u32;
    // SAFETY: names end with a zero byte.
    unsafe {
        while *name != 0 {
            hash = hash.wrapping_mul(33).wrapping_add(u32::from(*name));
            name = name.add(1);
        }
    }
    hash
}

unsafe fn same(mut first: *const u8, mut second: *const u8) -> bool {
    // SAFETY: names end with a zero byte.
    unsafe {
        while *first == *second {
            if *first == 0 {
                return true;
            }
            (first, second) = (first.add(1), second.add(1));
        }
    }
    false
}
