use belljar_cpu::InstructionSet;
use belljar_translate::guest::decode::{Decoded, decode};
use belljar_translate::guest::features::Features;
use belljar_translate::guest::mode::Pace;
use belljar_translate::guest::size::{CodeSize, Nulls};
use belljar_translate::host::block::Incoming;
use belljar_translate::host::shared::{Character, Counter};
use iced_x86::code_asm::*;
use proptest::prelude::*;

use super::*;
use crate::code::form::{Form, Sought};
use crate::code::pool::PageBytes;

const ROOM: usize = 1 << 20;
const RIP: u64 = 0x40_1000;
const MODE: Mode = Mode {
    user: true,
    fpu: true,
    pace: Pace::Full,
    free_stubs: false,
    size: CodeSize::Long,
    nulls: Nulls::NONE,
    skew: 0,
    features: 0,
    relative: false,
    apart: false,
};

fn empty() -> Pool {
    let character = Character {
        counter: Counter::Memory,
        prices: None,
        follows_path: false,
        host_results: false,
    };
    Pool::new(character, ROOM).unwrap()
}

/// A pool with two linked blocks: accesses, an instruction in Rust, and a jump to the beginning.
fn pool() -> Pool {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut head = a.create_label();
    a.set_label(&mut head).unwrap();
    a.mov(rax, qword_ptr(rbx)).unwrap();
    a.add(qword_ptr(rbx + 8), rax).unwrap();
    a.cpuid().unwrap();
    a.dec(ecx).unwrap();
    a.jne(head).unwrap();
    a.push(rax).unwrap();
    a.ret().unwrap();
    let code = a.assemble(RIP).unwrap();
    let mut page: PageBytes = [0x90; PAGE_SIZE as usize];
    page[..code.len()].copy_from_slice(&code);
    let pool = empty();
    let id = pool.page_of(&page, RIP).unwrap();
    let features = Features::new(&InstructionSet::default());
    assert_eq!(pool.number_of(&features), Some(0));
    let mut rip = RIP;
    let mut ids = Vec::new();
    for form in [Form::Block, Form::Block, Form::Block] {
        let at = (rip % PAGE_SIZE) as usize;
        let Decoded::Block(run) = decode(rip, &page[at..], 64, &features) else {
            panic!("it does not cross");
        };
        let address = super::super::address_in(id, rip);
        ids.push(pool.add(&run, address, MODE, form).unwrap().id);
        rip = run.end;
    }
    let jump = (0..pool.sites.count()).find_map(|id| {
        let stub = pool.site(id as u32);
        match stub.kind {
            belljar_translate::host::exit_stub::ExitStubKind::Link {
                hole, stub, plain, ..
            } => Some(Incoming {
                hole,
                stub,
                plain,
                wide: false,
            }),
            _ => None,
        }
    });
    pool.link(jump.expect("a jump within the page"), ids[1], ids[0]);
    pool
}

fn encoded(pool: &Pool) -> Vec<u8> {
    let mut bytes = Vec::new();
    SavedPool::append(pool, &mut bytes).expect("its instructions are in its page");
    bytes
}

fn filled(bytes: &[u8]) -> Result<Pool, SavedCodeError> {
    let mut pool = empty();
    SavedPool::decode(bytes.to_vec(), 0)?.fill(&mut pool)?;
    Ok(pool)
}

#[test]
fn a_restored_pool_is_the_saved_one() {
    let before = pool();
    let bytes = encoded(&before);
    let after = filled(&bytes).unwrap();
    let sizes = |pool: &Pool| (pool.block_count(), pool.site_count(), pool.contents.pages());
    assert_eq!(sizes(&after), sizes(&before));
    assert!(sizes(&before).0 == 3 && sizes(&before).1 > 6);
    // Host addresses differ, and nothing else does.
    assert_ne!(after.range, before.range);
    assert_eq!(encoded(&after), bytes);
    for id in 0..before.block_count() as u32 {
        let (one, other) = (before.block(id), after.block(id));
        let distance = after.range.start.wrapping_sub(before.range.start);
        assert_eq!(one.entry.wrapping_add(distance), other.entry);
        assert_eq!(after.block_at(other.entry), Some(POOLED | id));
        let found = after.find(one.origin.first, one.rip, one.mode, Sought::Best);
        assert_eq!(found.unwrap().id, POOLED | id);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// No number in a saved pool makes its reader panic, whatever comes of it.
    #[test]
    fn changed_numbers_are_refused_or_possible(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        from_end in any::<bool>(),
    ) {
        let mut bytes = encoded(&pool());
        // Records and tables follow the code and the page, which may have any bytes.
        let tables = 1500.min(bytes.len());
        for (place, value) in changes {
            let at = match from_end {
                true => bytes.len() - 1 - place.index(tables),
                false => place.index(bytes.len()),
            };
            bytes[at] = value;
        }
        if let Ok(pool) = filled(&bytes) {
            for number in 0..pool.block_count() {
                let id = POOLED | number as u32;
                let Ok((block, _)) = pool.restored.decoded(number) else {
                    continue;
                };
                block.instruction_at(block.indirect_entry);
                block.charge_from(0);
                prop_assert_eq!(pool.mode_of(id), pool.restored.mode(id).unwrap());
            }
        }
    }
}
