//! Type signatures against expansions element by element, and layouts against blocks one by one.

use super::*;
use crate::check::signature::DataClass;

const PROCESS: ProcessKey = (0, 0);

/// The number of a predefined datatype.
fn index(name: &str) -> u16 {
    let at = PREDEFINED.iter().position(|row| row.name == name);
    u16::try_from(at.unwrap()).unwrap()
}

fn predefined(name: &str) -> Datatype {
    Datatype::Predefined(index(name))
}

/// A sequence of random numbers, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Datatypes, and each with its elements one by one; `None` is a byte.
#[derive(Default)]
struct Expanded {
    table: TypeTable,
    elements: Vec<(Datatype, Vec<Option<BasicType>>)>,
}

impl Expanded {
    /// The basic datatypes, and pairs.
    fn new(with_bytes: bool) -> Self {
        let basic = |class, bytes| Some(BasicType { class, bytes });
        let int = basic(DataClass::Integer, 4);
        let double = basic(DataClass::Floating, 8);
        let mut elements = vec![
            (predefined("MPI_INT"), vec![int]),
            (predefined("MPI_DOUBLE"), vec![double]),
            (predefined("MPI_CHAR"), vec![basic(DataClass::Character, 1)]),
            (predefined("MPI_DOUBLE_INT"), vec![double, int]),
            (predefined("MPI_2INT"), vec![int, int]),
        ];
        if with_bytes {
            elements.push((predefined("MPI_BYTE"), vec![None]));
        }
        Self {
            table: TypeTable::default(),
            elements,
        }
    }

    /// Adds a datatype of these parts.
    fn make(&mut self, parts: &[(usize, u64)]) -> Datatype {
        let number = u32::try_from(self.elements.len()).unwrap();
        let mut elements = Vec::new();
        for (part, count) in parts {
            for _ in 0..*count {
                elements.extend_from_slice(&self.elements[*part].1);
            }
        }
        let bytes = elements
            .iter()
            .map(|it| it.map_or(1, |it| u64::from(it.bytes)));
        let datatype = Datatype::Derived {
            number,
            size: bytes.sum(),
        };
        let parts = parts
            .iter()
            .map(|(part, count)| (self.elements[*part].0, *count));
        let made = DatatypeContents {
            parts: Some(parts.collect()),
            blocks: None,
        };
        self.table.add(PROCESS, number, &made, None);
        self.elements.push((datatype, elements));
        datatype
    }

    fn make_some(&mut self, random: &mut Random, number: u64) {
        for _ in 0..number {
            let known = self.elements.len() as u64;
            let parts = (0..=random.below(3)).map(|_| {
                let part = random.below(known);
                (usize::try_from(part).unwrap(), random.below(4))
            });
            let parts: Vec<(usize, u64)> = parts.collect();
            let length: u64 = parts
                .iter()
                .map(|(part, count)| self.elements[*part].1.len() as u64 * count)
                .sum();
            if length <= 400 {
                self.make(&parts);
            }
        }
    }

    fn data(&self, at: usize, count: u64) -> TypedData {
        TypedData {
            process: PROCESS,
            datatype: self.elements[at].0,
            count,
        }
    }

    /// All bytes of data, each with its basic datatype.
    fn bytes(&self, at: usize, count: u64) -> Vec<Option<BasicType>> {
        let mut all = Vec::new();
        for _ in 0..count {
            for element in &self.elements[at].1 {
                let bytes = element.map_or(1, |element| element.bytes);
                all.extend((0..bytes).map(|_| *element));
            }
        }
        all
    }
}

/// The first byte of data at which both differ.
fn first_difference(
    sent: &[Option<BasicType>],
    received: &[Option<BasicType>],
) -> Option<(u64, BasicType, BasicType)> {
    let mut both = (0..).zip(sent.iter().zip(received));
    both.find_map(|(at, (one, other))| {
        let (one, other) = one.zip(*other)?;
        (one != other).then_some((at, one, other))
    })
}

#[test]
fn random_nested_datatypes_compare_as_their_expansions() {
    let (mut agreeing, mut differing) = (0, 0);
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut types = Expanded::new(seed % 3 == 0);
        types.make_some(&mut random, 12);
        for _ in 0..400 {
            let known = types.elements.len() as u64;
            let [one, other] = [0, 0].map(|_| usize::try_from(random.below(known)).unwrap());
            let (sent, received) = (random.below(4), random.below(4));
            let expected = first_difference(&types.bytes(one, sent), &types.bytes(other, received));
            let compared = types
                .table
                .compare(types.data(one, sent), types.data(other, received));
            match expected {
                None => agreeing += usize::from(one != other),
                Some(_) => differing += 1,
            }
            let expected = match expected {
                None => Comparison::Agree,
                Some(at) => Comparison::Differ(Some(at)),
            };
            assert_eq!(
                compared, expected,
                "{:?} {:?}",
                types.elements[one], types.elements[other]
            );
        }
    }
    assert!(
        agreeing > 1000 && differing > 1000,
        "{agreeing} {differing}"
    );
}

#[test]
fn a_billion_elements_cost_as_much_as_one() {
    let mut types = Expanded::new(false);
    let structure = types.make(&[(0, 1), (1, 1)]);
    let twice = types.make(&[(0, 1), (1, 1), (0, 1), (1, 1)]);
    let other = types.make(&[(0, 1), (1, 2)]);
    let data = |datatype, count| TypedData {
        process: PROCESS,
        datatype,
        count,
    };
    let billion = 1_000_000_000;
    let compare = |one, other| types.table.compare(one, other);
    let halves = data(twice, billion / 2);
    assert_eq!(compare(data(structure, billion), halves), Comparison::Agree);
    assert_eq!(
        compare(data(structure, billion - 1), halves),
        Comparison::Agree
    );
    let different = compare(data(structure, billion), data(other, billion));
    let Comparison::Differ(Some((12, _, _))) = different else {
        panic!("{different:?}");
    };
}

#[test]
fn hostile_nesting_and_numbers_are_unknown() {
    let mut types = Expanded::new(false);
    // Each has two parts, so that none is a repetition of another one.
    let mut last = 0;
    for number in 0..400 {
        let parts = [(types.elements[last].0, 2), (predefined("MPI_CHAR"), 1)];
        let made = DatatypeContents {
            parts: Some(parts.to_vec()),
            blocks: None,
        };
        let own = 1000 + number;
        types.table.add(PROCESS, own, &made, None);
        let datatype = Datatype::Derived {
            number: own,
            size: 1,
        };
        types.elements.push((datatype, Vec::new()));
        last = types.elements.len() - 1;
    }
    let whole = types.data(last, 1);
    assert_eq!(types.table.compare(whole, whole), Comparison::Unknown);
    let first = types.table.lacks_signature.get();
    assert_eq!(first, Some(UncheckedType::from(whole)));
    let many = types.data(10, u64::MAX);
    assert_eq!(types.table.compare(many, many), Comparison::Unknown);
}

#[test]
fn buffers_have_gaps() {
    let mut table = TypeTable::default();
    let made = DatatypeContents {
        parts: None,
        blocks: Some(vec![(0, 4), (8, 4)]),
    };
    table.add(PROCESS, 7, &made, Some(16));
    let data = |count| TypedData {
        process: PROCESS,
        datatype: Datatype::Derived { number: 7, size: 8 },
        count,
    };
    let two = vec![(100, 104), (108, 112), (116, 120), (124, 128)];
    assert_eq!(table.ranges(data(2), 100), Some(two));
    assert_eq!(table.lacks_layout.get(), None);
    assert_eq!(table.ranges(data(1 << 40), 100), None);
    assert_eq!(table.lacks_layout.get(), Some(data(1).into()));
    let ints = TypedData {
        datatype: predefined("MPI_INT"),
        ..data(1 << 40)
    };
    assert_eq!(table.ranges(ints, 100), Some(vec![(100, 100 + (4 << 40))]));
    assert_eq!(table.ranges(ints, u64::MAX), None);
}
