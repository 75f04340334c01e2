//! Sequences of known loops.

use proptest::prelude::*;

use super::*;

/// Formats a structure: calls by their tokens, loops in brackets.
fn words(nodes: &[StructureNode]) -> String {
    let word = |node: &StructureNode| match node {
        StructureNode::Call { token, .. } => token.to_string(),
        StructureNode::Loop { body, .. } => format!("[{}]", words(body)),
    };
    nodes.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn folded(tokens: &[u32]) -> String {
    let structure = Structure::fold(tokens);
    assert!(structure.is_sound());
    assert!(
        structure.parse(tokens).is_some(),
        "{tokens:?}: {}",
        words(&structure.nodes)
    );
    words(&structure.nodes)
}

#[test]
fn loops_are_found_however_often_inner_ones_turn() {
    assert_eq!(folded(&[1, 2, 3]), "1 2 3");
    assert_eq!(folded(&[9, 1, 2, 1, 2, 1, 2, 8]), "9 [1 2] 8");
    assert_eq!(folded(&[1, 1, 1, 2, 1, 1, 2, 1, 2, 3]), "[[1] 2] 3");
    assert_eq!(
        folded(&[5, 1, 2, 2, 7, 1, 2, 7, 1, 2, 2, 2, 7]),
        "5 [1 [2] 7]"
    );
    let nested: Vec<u32> = (0..5)
        .flat_map(|_| [1, 2, 3, 2, 3, 4].repeat(3).into_iter().chain([9]))
        .collect();
    assert_eq!(folded(&nested), "[[1 [2 3] 4] 9]");
}

#[test]
fn a_sequence_is_read_by_the_loops_of_another() {
    let structure = Structure::fold(&[9, 1, 2, 2, 3, 1, 2, 2, 3, 8]);
    assert_eq!(words(&structure.nodes), "9 [1 [2] 3] 8");
    let reading = structure
        .parse(&[9, 1, 2, 3, 1, 2, 2, 2, 3, 1, 3, 8])
        .unwrap();
    assert_eq!(reading.turns, [vec![3], vec![1, 3, 0]]);
    let of_two: Vec<u32> = reading
        .calls
        .iter()
        .filter(|it| it.0 == 2)
        .map(|it| it.1)
        .collect();
    assert_eq!(of_two, [0, 0, 1, 2]);
    let of_three: Vec<u32> = reading
        .calls
        .iter()
        .filter(|it| it.0 == 3)
        .map(|it| it.1)
        .collect();
    assert_eq!(of_three, [0, 1, 2]);
    for other in [&[9, 1, 2, 3][..], &[9, 1, 2, 8], &[1, 2, 3, 8], &[9, 8, 8]] {
        assert_eq!(structure.parse(other), None, "{other:?}");
    }
    assert_eq!(structure.parse(&[9, 8]).unwrap().turns, [vec![0], vec![]]);
}

proptest! {
    #[test]
    fn whatever_is_folded_is_read_again(tokens in prop::collection::vec(0u32..4, 0..200)) {
        let structure = Structure::fold(&tokens);
        prop_assert!(structure.is_sound());
        let reading = structure.parse(&tokens);
        prop_assert!(reading.is_some_and(|it| it.calls.len() == tokens.len()), "{}", words(&structure.nodes));
    }
}

#[test]
fn a_call_that_is_every_so_often_made_is_in_the_loop() {
    let step = |report: bool| {
        let mut step = vec![1, 1, 2, 2, 3, 4, 4];
        if report {
            step.push(5);
        }
        step
    };
    for steps in [20, 40] {
        let all = (0..steps).flat_map(|it| step(it % 10 == 0));
        let tokens: Vec<u32> = [0].into_iter().chain(all).chain([6]).collect();
        let structure = Structure::fold(&tokens);
        let reading = structure.parse(&tokens).unwrap();
        let read = |call: u32| reading.calls.iter().any(|it| it.0 == call);
        let words = words(&structure.nodes);
        assert!(
            (0..structure.calls).all(read),
            "{words}: {:?}",
            reading.turns
        );
    }
}
