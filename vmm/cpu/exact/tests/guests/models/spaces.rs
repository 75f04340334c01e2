//! Two address spaces, global and local pages, and all events that invalidate a processor's cached
//! translations: random programs compared with a simple model of the mappings.

use belljar_cpu::{Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use belljar_sim::{Random, Seed};
use iced_x86::code_asm::*;
use vm_memory::{Bytes, GuestAddress};

/// Number of pages in the upper half, including the non-global ones in [`LOCAL`], and in the lower
/// half.
const PAGES: usize = 8;
const LOCAL: [usize; 2] = [3, 6];
const UPPER: u64 = 0xffff_8000_0000_0000;
const LOWER: u64 = 0x4000_0000_0000;
/// Each space has tables of its own, `SPACE_BYTES` apart.
const TABLES: u64 = 0x3a_0000;
const SPACE_BYTES: u64 = 0x1_0000;
const UPPER_ENTRIES: u64 = 0x3000;
const LOWER_ENTRIES: u64 = 0x6000;
/// The pool of pages that are mapped.
const POOL: u64 = 0x3c_0000;
const POOL_PAGES: u64 = 64;
const STEPS: usize = 4000;
const PGE: i32 = 1 << 7;

/// The mapped page of the pool at each address, and the values of the pool's words.
struct Model {
    /// Per space: upper half, lower half.
    maps: [[[u64; PAGES]; 2]; 2],
    space: usize,
    words: Vec<u64>,
    sums: Vec<u64>,
}

/// A page: true if in the upper half, and its number.
type Page = (bool, usize);

fn is_global((upper, number): Page) -> bool {
    upper && !LOCAL.contains(&number)
}

fn linear((upper, number): Page) -> u64 {
    (if upper { UPPER } else { LOWER }) + number as u64 * 0x1000
}

fn entry_of(space: usize, (upper, number): Page) -> u64 {
    let entries = if upper { UPPER_ENTRIES } else { LOWER_ENTRIES };
    TABLES + space as u64 * SPACE_BYTES + entries + number as u64 * 8
}

fn entry_value(page: Page, pool: u64) -> u64 {
    (POOL + pool * 0x1000) | 3 | if is_global(page) { 1 << 8 } else { 0 }
}

impl Model {
    fn new() -> Self {
        let mut maps = [[[0; PAGES]; 2]; 2];
        for (space, halves) in maps.iter_mut().enumerate() {
            for (half, pages) in halves.iter_mut().enumerate() {
                for (number, pool) in pages.iter_mut().enumerate() {
                    let own = half == 0 || LOCAL.contains(&number);
                    // Contiguous memory may be merged into one range.
                    *pool = (half * 16 + number + if own { space * 32 } else { 0 }) as u64;
                }
            }
        }
        let words = (0..POOL_PAGES * 512)
            .map(|word| word << 20 | 0x7f)
            .collect();
        Self {
            maps,
            space: 0,
            words,
            sums: Vec::new(),
        }
    }

    fn word(&mut self, (upper, number): Page, offset: u64) -> &mut u64 {
        let pool = self.maps[self.space][usize::from(upper)][number];
        &mut self.words[(pool * 512 + offset / 8) as usize]
    }

    fn sum(&mut self, page: Page, offset: u64) {
        let pair = self
            .word(page, offset)
            .wrapping_add(*self.word(page, offset + 8));
        self.sums.push(pair.wrapping_mul(8));
    }

    fn remap(&mut self, space: usize, (upper, number): Page, pool: u64) {
        self.maps[space][usize::from(upper)][number] = pool;
    }

    /// Writes tables and the pool to the guest's memory.
    fn write(&self, guest: &Guest) {
        let put = |at: u64, value: u64| guest.ram.write_obj(value, GuestAddress(at)).unwrap();
        let identity: u64 = guest.ram.read_obj(GuestAddress(0x1000)).unwrap();
        for space in 0..2 {
            let tables = TABLES + space as u64 * SPACE_BYTES;
            put(tables, identity);
            for (slot, first) in [(256, 0x1000), (128, 0x4000)] {
                put(tables + slot * 8, (tables + first) | 3);
                put(tables + first, (tables + first + 0x1000) | 3);
                put(tables + first + 0x1000, (tables + first + 0x2000) | 3);
            }
            for page in (0..PAGES).flat_map(|number| [(false, number), (true, number)]) {
                let pool = self.maps[space][usize::from(page.0)][page.1];
                put(entry_of(space, page), entry_value(page, pool));
            }
        }
        for (number, &word) in self.words.iter().enumerate() {
            put(POOL + number as u64 * 8, word);
        }
    }
}

/// Writes programs and simulates them in the model.
struct Author {
    asm: CodeAssembler,
    sum: CodeLabel,
    put: CodeLabel,
    model: Model,
    dice: Random,
}

impl Author {
    fn below(&mut self, bound: u64) -> u64 {
        self.dice.next_u64() % bound
    }

    fn page(&mut self) -> Page {
        (self.below(3) > 0, self.below(PAGES as u64) as usize)
    }

    fn load_space(&mut self) {
        let tables = TABLES + self.model.space as u64 * SPACE_BYTES;
        self.asm.mov(rax, tables).unwrap();
        self.asm.mov(cr3, rax).unwrap();
    }

    fn set_entry(&mut self, space: usize, page: Page, pool: u64) {
        self.asm.mov(rax, entry_of(space, page)).unwrap();
        self.asm.mov(rdx, entry_value(page, pool)).unwrap();
        self.asm.mov(qword_ptr(rax), rdx).unwrap();
        self.model.remap(space, page, pool);
    }

    /// Maps another page of the pool there, in both spaces if it is global.
    fn remap(&mut self, page: Page) {
        let pool = self.below(POOL_PAGES);
        let here = self.model.space;
        self.set_entry(here, page, pool);
        if is_global(page) {
            self.set_entry(1 - here, page, pool);
        }
    }

    fn step(&mut self) {
        let page = self.page();
        let offset = self.below(255) * 16;
        match self.below(16) {
            0 => {
                self.model.space = 1 - self.model.space;
                self.load_space();
            }
            1 => {
                self.remap(page);
                self.asm.mov(rax, linear(page) + offset).unwrap();
                self.asm.invlpg(byte_ptr(rax)).unwrap();
            }
            2 => {
                // In the present space, pages that a new CR3 invalidates; in the other, any page.
                let local = (page.0, LOCAL[page.1 % 2]);
                self.remap(local);
                let pool = self.below(POOL_PAGES);
                self.set_entry(1 - self.model.space, (false, page.1), pool);
                self.load_space();
            }
            3 if self.below(4) == 0 => {
                self.remap(page);
                self.remap((true, 0));
                for _ in 0..2 {
                    self.asm.mov(rax, cr4).unwrap();
                    self.asm.xor(eax, PGE).unwrap();
                    self.asm.mov(cr4, rax).unwrap();
                }
            }
            4..=6 => {
                let value = self.below(u64::MAX);
                self.asm.mov(rdi, linear(page) + offset).unwrap();
                self.asm.mov(rsi, value).unwrap();
                self.asm.call(self.put).unwrap();
                *self.model.word(page, offset) = value;
                *self.model.word(page, offset + 8) = value;
            }
            _ => {
                self.asm.mov(rdi, linear(page) + offset).unwrap();
                self.asm.call(self.sum).unwrap();
                self.model.sum(page, offset);
            }
        }
    }

    /// The two routines that access memory, and the program after them.
    fn write(seed: u64) -> (Vec<u8>, Model) {
        let mut asm = CodeAssembler::new(64).unwrap();
        let (sum, put, mut start) = (asm.create_label(), asm.create_label(), asm.create_label());
        let dice = Random::new(Seed(seed), "spaces", 0);
        asm.jmp(start).unwrap();
        let model = Model::new();
        let mut author = Self {
            asm,
            sum,
            put,
            model,
            dice,
        };
        author.routines();
        author.asm.set_label(&mut start).unwrap();
        author.asm.mov(rax, cr4).unwrap();
        author.asm.or(eax, PGE).unwrap();
        author.asm.mov(cr4, rax).unwrap();
        author.load_space();
        author.asm.mov(rbp, DATA).unwrap();
        for _ in 0..STEPS {
            author.step();
        }
        author.asm.hlt().unwrap();
        let code = author.asm.assemble(CODE).unwrap();
        (code, author.model)
    }

    /// Loops, so that they become hot and their accesses share checks.
    fn routines(&mut self) {
        let asm = &mut self.asm;
        let mut again = asm.create_label();
        asm.set_label(&mut self.sum).unwrap();
        asm.mov(ecx, 8).unwrap();
        asm.xor(eax, eax).unwrap();
        asm.set_label(&mut again).unwrap();
        asm.add(rax, qword_ptr(rdi)).unwrap();
        asm.add(rax, qword_ptr(rdi + 8)).unwrap();
        asm.dec(ecx).unwrap();
        asm.jne(again).unwrap();
        asm.mov(qword_ptr(rbp), rax).unwrap();
        asm.add(rbp, 8).unwrap();
        asm.ret().unwrap();
        let mut again = asm.create_label();
        asm.set_label(&mut self.put).unwrap();
        asm.mov(ecx, 4).unwrap();
        asm.set_label(&mut again).unwrap();
        asm.mov(qword_ptr(rdi), rsi).unwrap();
        asm.mov(qword_ptr(rdi + 8), rsi).unwrap();
        asm.dec(ecx).unwrap();
        asm.jne(again).unwrap();
        asm.ret().unwrap();
    }
}

#[test]
fn what_is_forgotten_of_address_spaces_is_what_must_be() {
    for seed in 1..=6 {
        let (code, model) = Author::write(seed);
        assert!(code.len() < (DATA - CODE) as usize);
        let mut guest = Guest::new(&code);
        Model::new().write(&guest);
        assert_eq!(guest.run_to_halt(), None, "seed {seed}");
        let log = guest.read(DATA, model.sums.len() * 8);
        for (number, (found, &expected)) in log.chunks(8).zip(&model.sums).enumerate() {
            let found = u64::from_le_bytes(found.try_into().unwrap());
            assert_eq!(found, expected, "seed {seed}, sum {number}");
        }
        let end = guest.vcpu.registers().gpr[Registers::RBP];
        assert_eq!(end, DATA + model.sums.len() as u64 * 8);
        let pool = guest.read(POOL, model.words.len() * 8);
        for (number, (found, &expected)) in pool.chunks(8).zip(&model.words).enumerate() {
            let found = u64::from_le_bytes(found.try_into().unwrap());
            assert_eq!(found, expected, "seed {seed}, word {number}");
        }
        let statistics = guest.vcpu.statistics();
        assert!(statistics.promoted > 0 && statistics.address_spaces > 100);
    }
}
