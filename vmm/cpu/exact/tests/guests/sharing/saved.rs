//! Translated code that was saved and restored, as between two runs.
//!
//! Guests behave with it as with code of their own, also where they change their code; code that was
//! damaged, or that another user or build saved, is not used.

use belljar_cpu::Exit;
use belljar_exact::{CodeKey, CodePool, SavedCodeError, SealedCode};
use proptest::prelude::*;

use super::pool::{NEVER, Node, ROOM, by_turns, outcomes, program};

const BUILD: &str = "this build";

fn key() -> CodeKey {
    CodeKey::new([7; 32])
}

/// An empty pool, whose code can be saved.
fn fresh() -> CodePool {
    CodePool::with_room(ROOM).beginning_with(|| None, BUILD)
}

/// The pool that was saved as `sealed`, in a process of this `build`.
fn restored(sealed: Vec<u8>, build: &str) -> CodePool {
    let open = move || SealedCode::open(sealed, &key()).ok();
    CodePool::with_room(ROOM).beginning_with(open, build)
}

/// The saved code of a node that ran `code` to its end.
fn saved(code: &[u8]) -> Vec<u8> {
    let pool = fresh();
    by_turns(code, 1, &[1 << 30], Some(&pool));
    pool.sealed(&key()).expect("there is code to save")
}

#[test]
fn a_second_run_translates_nothing() {
    let code = program(5_000, NEVER);
    let pool = restored(saved(&code), BUILD);
    let mut node = Node::new(&code, 1, Some(&pool));
    assert_eq!(node.run(1 << 30), Exit::Halt);
    assert_eq!(pool.refusal(), None);
    let statistics = node.vcpu.statistics();
    assert_eq!((statistics.translated, statistics.promoted), (0, 0));
    assert_eq!(statistics.pages_shared, 1);
    let mut alone = Node::new(&code, 1, None);
    assert_eq!(alone.run(1 << 30), Exit::Halt);
    assert!(alone.vcpu.statistics().promoted > 0);
    assert_eq!(node.outcome(), alone.outcome());
    // Nothing was added.
    assert!(pool.sealed(&key()).is_none());
}

#[test]
fn a_pool_is_saved_with_everything_restored_in_it() {
    let [first, second] = [5_000, 5_001].map(|rounds| program(rounds, NEVER));
    let pool = restored(saved(&first), BUILD);
    by_turns(&second, 1, &[1 << 30], Some(&pool));
    let both = pool.sealed(&key()).expect("half of it is new");
    for code in [first, second] {
        let pool = restored(both.clone(), BUILD);
        let nodes = by_turns(&code, 1, &[1 << 30], Some(&pool));
        assert_eq!(nodes[0].vcpu.statistics().translated, 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Nodes that stop anywhere and change their code run what another run saved.
    #[test]
    fn nodes_with_restored_code_end_as_if_alone(
        turns in proptest::collection::vec(1u64..3000, 1..20),
        period in 6u32..11,
    ) {
        let code = program(6_000, 1 << period);
        let first = fresh();
        let cold = by_turns(&code, 3, &[1500, 700], Some(&first));
        let pool = restored(first.sealed(&key()).expect("new code"), BUILD);
        let warm = by_turns(&code, 3, &turns, Some(&pool));
        prop_assert_eq!(pool.refusal(), None);
        let alone = by_turns(&code, 3, &turns, None);
        prop_assert_eq!(outcomes(&warm), outcomes(&alone));
        prop_assert_eq!(outcomes(&cold), outcomes(&alone));
    }
}

#[test]
fn code_with_any_change_is_refused() {
    let sealed = saved(&program(300, NEVER));
    let refused = |bytes: &[u8]| SealedCode::open(bytes.to_vec(), &key()).err();
    assert_eq!(refused(&sealed), None);
    for at in (0..sealed.len()).step_by(sealed.len() / 200).chain(0..60) {
        let mut changed = sealed.clone();
        changed[at] ^= 1 << (at % 8);
        assert_eq!(refused(&changed), Some(SavedCodeError::Seal), "byte {at}");
    }
    for length in [0, 7, 8, 39, 40, 56, sealed.len() / 2, sealed.len() - 1] {
        assert_eq!(refused(&sealed[..length]), Some(SavedCodeError::Seal));
    }
    let longer = [&sealed[..], &[0]].concat();
    assert_eq!(refused(&longer), Some(SavedCodeError::Seal));
    let other = CodeKey::new([8; 32]);
    let foreign = SealedCode::open(sealed, &other).err();
    assert_eq!(foreign, Some(SavedCodeError::Seal));
}

#[test]
fn code_of_another_build_or_size_is_translated_anew() {
    let code = program(2_000, NEVER);
    let sealed = saved(&code);
    let larger = sealed.clone();
    let open = move || SealedCode::open(larger, &key()).ok();
    let larger = CodePool::with_room(2 * ROOM).beginning_with(open, BUILD);
    for pool in [restored(sealed, "another build"), larger] {
        let nodes = by_turns(&code, 1, &[1 << 30], Some(&pool));
        assert_eq!(pool.refusal(), Some(SavedCodeError::Identity));
        assert!(nodes[0].vcpu.statistics().translated > 0);
        let alone = by_turns(&code, 1, &[1 << 30], None);
        assert_eq!(outcomes(&nodes), outcomes(&alone));
        assert!(pool.sealed(&key()).is_some(), "it replaces the other");
    }
}
