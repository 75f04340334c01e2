//! Temporal labels: visits at which something happened, as (first, last, stride, block).
//!
//! Visits count from 1. A label stands for blocks of consecutive visits, one block every stride; the last block may be
//! truncated. Labels are updated visit by visit and keep no other data, so a regular program's memory does not grow with its
//! run time. Beyond `MOST` labels the visits are called irregular, and their labels are dropped. The notation is from X.
//! Aguilar, K. Fürlinger and E. Laure, "MPI trace compression using event flow graphs" (Euro-Par 2014). Used by event flow
//! graphs for edges and nodes, and by loops for iterations.

use serde::Serialize;

/// Most labels of one edge: visits that need more are irregular, and labels would grow with the number of calls.
const MOST: usize = 32;

/// Visits at regular distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// The first visit, counted from 1.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// The distance between the first visits of two blocks; 0 for a single block.
    pub stride: u64,
    /// The number of consecutive visits.
    pub block: u64,
}

impl Label {
    /// True if it includes this visit.
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

    /// Formats a label: `3`, `1-9`, `1-9 step 2`, `1-94 (4 of each 10)`.
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

/// Formats all labels.
pub(crate) fn words(labels: &[Label]) -> String {
    const SHOWN: usize = 6;
    let shown = labels.iter().take(SHOWN).map(Label::words);
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if labels.len() > SHOWN {
        text += ", ...";
    }
    text
}

/// Labels under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labels {
    list: Vec<Label>,
    /// The first visit of the last label's last block, and its number of visits.
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

    /// Adds `count` consecutive visits, the first of them later than all before.
    pub(crate) fn push_run(&mut self, first: u64, count: u64) {
        let (mut visit, mut left) = (first, count);
        while left > 0 && !self.irregular {
            self.push(visit);
            left -= 1;
            let Some(label) = self.list.last_mut() else {
                return;
            };
            // Visits that fit into the block, or that extend it.
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

    /// Extends the last label by one more visit, if possible.
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

    /// Returns the labels. `None` if there are too many, so that the visits are irregular.
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
