//! Temporal labels: at which visits something happened, as (first, last, stride, block).
//!
//! Visits count from 1. A label stands for blocks of so many visits in a row, which begin every stride; the last
//! block may be cut. Labels are made visit by visit and keep nothing else, so that a regular program's take no more memory the
//! longer it runs. Past `MOST` of them the visits are called irregular, and their labels are given up. The
//! notation is that of X. Aguilar, K. Fürlinger and E. Laure, "MPI trace compression using event flow graphs"
//! (Euro-Par 2014). Used by event flow graphs for edges and nodes, and by loops for what happens in which iterations.

use serde::Serialize;

/// Labels of one edge, at most: what needs more is not regular, and would grow with the number of calls.
const MOST: usize = 32;

/// Visits at regular distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The first visit, counted from 1.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// From the first visit of a block to that of the next; 0 when there is one block.
    pub stride: u64,
    /// Visits in a row.
    pub block: u64,
}

impl Label {
    /// Whether it stands for this visit.
    pub fn contains(&self, visit: u64) -> bool {
        if visit < self.first || visit > self.last {
            return false;
        }
        let into = visit - self.first;
        match self.stride {
            0 => true,
            stride => into % stride < self.block,
        }
    }

    /// For people: `3`, `1-9`, `1-9 step 2`, `1-94 (4 of each 10)`.
    pub(crate) fn words(&self) -> String {
        let Self {
            first,
            last,
            stride,
            block,
        } = *self;
        match (stride, block) {
            _ if first == last => first.to_string(),
            (0, _) => format!("{first}-{last}"),
            (_, 1) if first + stride == last => format!("{first}, {last}"),
            (_, 1) => format!("{first}-{last} step {stride}"),
            _ => format!("{first}-{last} ({block} of each {stride})"),
        }
    }
}

/// All of them, for people.
pub(crate) fn words(labels: &[Label]) -> String {
    const SHOWN: usize = 6;
    let shown = labels.iter().take(SHOWN).map(Label::words);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if labels.len() > SHOWN {
        text += ", ...";
    }
    text
}

/// Labels in the making.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    list: Vec<Label>,
    /// Where the last label's last block begins, and how many visits it has.
    block: (u64, u64),
    irregular: bool,
}

impl Labels {
    /// Adds a visit that is later than all before.
    pub(crate) fn push(&mut self, visit: u64) {
        if self.irregular || self.extend(visit) {
            return;
        }
        if self.list.len() == MOST {
            self.irregular = true;
            self.list = Vec::new();
            return;
        }
        self.block = (visit, 1);
        self.list.push(Label {
            first: visit,
            last: visit,
            stride: 0,
            block: 1,
        });
    }

    /// Adds so many visits in a row, the first of which is later than all before.
    pub(crate) fn push_run(&mut self, first: u64, count: u64) {
        let (mut visit, mut left) = (first, count);
        while left > 0 && !self.irregular {
            self.push(visit);
            left -= 1;
            let Some(label) = self.list.last_mut() else {
                return;
            };
            // What a block has room for, or what makes it longer.
            let filled = &mut self.block.1;
            let more = match label.stride {
                0 => left,
                _ => left.min(label.block.saturating_sub(*filled)),
            };
            if label.stride == 0 {
                label.block = label.block.saturating_add(more);
            }
            *filled = filled.saturating_add(more);
            label.last = label.last.saturating_add(more);
            left -= more;
            visit = visit.saturating_add(more.saturating_add(1));
        }
    }

    /// Lets the last label stand for one more visit, if it can.
    fn extend(&mut self, visit: u64) -> bool {
        let Some(label) = self.list.last_mut() else {
            return false;
        };
        let (start, filled) = &mut self.block;
        let adjoins = visit == label.last.saturating_add(1);
        if label.stride == 0 && adjoins {
            label.block = label.block.saturating_add(1);
            *filled = filled.saturating_add(1);
        } else if label.stride == 0 {
            label.stride = visit - label.first;
            (*start, *filled) = (visit, 1);
        } else if *filled < label.block && adjoins {
            *filled += 1;
        } else if *filled == label.block && visit == start.saturating_add(label.stride) {
            (*start, *filled) = (visit, 1);
        } else {
            return false;
        }
        label.last = visit;
        true
    }

    /// The labels. `None`: too many, so irregular.
    pub(crate) fn list(&self) -> Option<&[Label]> {
        (!self.irregular).then_some(&self.list)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(visits: impl IntoIterator<Item = u64>) -> Labels {
        let mut labels = Labels::default();
        for visit in visits {
            labels.push(visit);
        }
        labels
    }

    fn told(visits: impl IntoIterator<Item = u64>) -> String {
        words(labels(visits).list().unwrap())
    }

    #[test]
    fn regular_visits_take_one_label() {
        assert_eq!(told([3]), "3");
        assert_eq!(told(1..=9), "1-9");
        assert_eq!(told([1, 3, 5, 7, 9]), "1-9 step 2");
        assert_eq!(told([2, 5]), "2, 5");
        let blocks = (1..100).filter(|visit| visit % 10 != 0 && visit % 10 < 5);
        assert_eq!(told(blocks), "1-94 (4 of each 10)");
        assert_eq!(told([1, 2, 4, 9, 10]), "1-4 (2 of each 3), 9-10");
        assert_eq!(told([]), "");
    }

    #[test]
    fn irregular_visits_take_no_memory() {
        let squares = labels((1..1000).map(|root| root * root));
        assert_eq!(squares.list(), None);
        assert_eq!(squares.list.capacity(), 0);
    }

    proptest! {
        #[test]
        fn runs_are_visits_in_a_row(runs in proptest::collection::vec((1u64..9, 1u64..9), 0..40)) {
            let (mut singly, mut together) = (Labels::default(), Labels::default());
            let mut visit = 0;
            for (apart, count) in runs {
                visit += apart;
                together.push_run(visit, count);
                for one in visit..visit + count {
                    singly.push(one);
                }
                visit += count - 1;
                prop_assert_eq!(&singly, &together);
            }
        }

        #[test]
        fn labels_stand_for_the_visits_and_no_others(visits in proptest::collection::btree_set(1u64..60, 0..40)) {
            let labels = labels(visits.iter().copied());
            if let Some(list) = labels.list() {
                for visit in 1..70 {
                    let times = list.iter().filter(|label| label.contains(visit)).count();
                    prop_assert!(times <= 1);
                    prop_assert_eq!(times == 1, visits.contains(&visit), "{} of {:?}", visit, list);
                }
            }
        }
    }
}
