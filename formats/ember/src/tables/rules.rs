//! Lines of rules: roles of ranks, and relations of peers.
//!
//! A motif has a fixed set of kinds of rules; others have no line. Called by `tables`.

use belljar_model::{Counter, Grid, Relation, Role};

pub(super) fn role(role: Role) -> (&'static str, (u8, bool)) {
    let of = |grid: Grid| (grid.dimensions, grid.ascending);
    match role {
        Role::All => ("ALL", (1, false)),
        Role::First => ("FIRST", (1, false)),
        Role::Ends => ("BOTHENDS", (1, false)),
        Role::Parity => ("PARITY", (1, false)),
        Role::ParityAndEnds => ("PARITYANDENDS", (1, false)),
        Role::Borders(grid) => ("BORDERS", of(grid)),
        Role::BordersAndFirst(grid) => ("BORDERSANDFIRST", of(grid)),
        Role::Half => ("SECONDHALF", (1, false)),
        // The number is in place of the number of dimensions of a grid.
        Role::Multiple(of) => (
            "MULTIPLE",
            (u8::try_from(of.max(1)).unwrap_or(u8::MAX), false),
        ),
        Role::Level => ("LEVEL", (1, false)),
        Role::Rank => ("RANK", (1, false)),
    }
}

/// True if a relation's turn is the instance's number. `None` for turns of outer loops.
pub(super) fn by_instance(by: Counter) -> Option<i32> {
    match by {
        Counter::Turn => Some(0),
        Counter::Instance => Some(1),
        Counter::Outer(_) | Counter::Last => None,
    }
}

/// Formats a relation as a line of the motif's table, with its kind, a grid, whether that ascends, and three numbers; `None` for a rule that motifs
/// do not have.
pub(super) fn relation_line(relation: &Relation) -> Option<String> {
    let none = Grid {
        dimensions: 1,
        ascending: false,
    };
    let (kind, grid, [a, b, c]) = match *relation {
        Relation::Nobody => ("NOBODY", none, [0; 3]),
        Relation::Fixed(rank) => ("FIXED", none, [i64::from(rank), 0, 0]),
        Relation::FromEnd(by) => ("FROMEND", none, [i64::from(by), 0, 0]),
        Relation::Shift { by, wraps } => ("SHIFT", none, [by, i64::from(wraps), 0]),
        Relation::Neighbor {
            grid,
            dimension,
            by,
            wraps,
        } => {
            let numbers = [dimension.into(), by.into(), wraps.into()];
            ("NEIGHBOR", grid, numbers)
        }
        Relation::Doubling { back, wraps } => ("DOUBLING", none, [back.into(), wraps.into(), 0]),
        Relation::Stepping { back, from, wraps } => {
            ("STEPPING", none, [back.into(), from.into(), wraps.into()])
        }
        Relation::Flip(bits) => ("FLIP", none, [bits.into(), 0, 0]),
        Relation::FlipTurn => ("FLIPTURN", none, [0; 3]),
        Relation::FlipHalves => ("FLIPHALVES", none, [0; 3]),
        Relation::FlipStep(from) => ("FLIPSTEP", none, [from.into(), 0, 0]),
        Relation::Half => ("HALF", none, [0; 3]),
        Relation::Transpose => ("TRANSPOSE", none, [0; 3]),
        Relation::Coordinate { grid, dimension } => ("COORDINATE", grid, [dimension.into(), 0, 0]),
        Relation::Others { grid, dimension } => ("OTHERS", grid, [dimension.into(), 0, 0]),
        Relation::Quotient(by) => ("QUOTIENT", none, [i64::from(by.max(1)), 0, 0]),
        Relation::Remainder(by) => ("REMAINDER", none, [i64::from(by.max(1)), 0, 0]),
        Relation::Parent(of) => ("PARENT", none, [i64::from(of.max(1)), 0, 0]),
        Relation::Child { of, which } => ("CHILD", none, [of.into(), which.into(), 0]),
        Relation::Turn(from) => ("TURN", none, [from.into(), 0, 0]),
        Relation::Floor(of) => ("FLOOR", none, [i64::from(of.max(1)), 0, 0]),
        Relation::Along { grid, dimension } => ("ALONG", grid, [dimension.into(), 0, 0]),
        Relation::PartStart(of) => ("PARTSTART", none, [i64::from(of.max(1)), 0, 0]),
        Relation::Offset { .. }
        | Relation::DoublingAlong { .. }
        | Relation::FlipAlong { .. }
        | Relation::Share { .. }
        | Relation::FlipShare(_)
        | Relation::TurnBack(_)
        | Relation::TurnOfOthers(_) => return None,
        Relation::Part(of) => ("PART", none, [i64::from(of.max(1)), 0, 0]),
    };
    let (dimensions, ascending) = (grid.dimensions, i32::from(grid.ascending));
    Some(format!(
        "{{ {kind}, {dimensions}, {ascending}, {a}, {b}, {c} }}"
    ))
}
