//! A timeline at every scale: time in buckets of equal length, then in buckets of twice the length, and so on to a single one.
//!
//! Each bucket of each row has the function with most of the time in MPI, the share of MPI, and the longest wait. All values are exact at each scale, and not
//! computed from the rounded values of the scale below. Memory only holds the result: calls come one by one, those of a row in the order of time. Filled by
//! `timeline`.

use crate::pack::{Packed, PackedNumbers};

/// Most buckets of all rows at the finest scale together.
const MOST: usize = 1 << 21;
/// Least and most buckets of one row at the finest scale, as powers of two.
const LEAST_POWER: u32 = 6;
const MOST_POWER: u32 = 13;

/// Time that a row spends in functions during one bucket.
#[derive(Clone, Debug, Default)]
struct OpenBucket {
    bucket: usize,
    times: Vec<(u8, u64)>,
}

/// One scale.
#[derive(Clone, Debug)]
struct TimelineScale {
    buckets: usize,
    /// Values row by row.
    dominant: Vec<u8>,
    share: Vec<u8>,
    wait: Vec<u64>,
    open: Vec<OpenBucket>,
}

/// Buckets of all scales.
#[derive(Clone, Debug)]
pub(crate) struct Levels {
    from: u64,
    /// Length of a bucket at the finest scale, in picoseconds.
    width: u64,
    rows: usize,
    levels: Vec<TimelineScale>,
}

impl Levels {
    /// Creates empty levels from one time to another.
    pub(crate) fn new(rows: usize, from: u64, to: u64) -> Self {
        let power = (MOST / rows.max(1)).max(1).ilog2();
        let power = power.clamp(LEAST_POWER, MOST_POWER);
        let level = |power: u32| TimelineScale {
            buckets: 1 << power,
            dominant: vec![0; rows << power],
            share: vec![0; rows << power],
            wait: vec![0; rows << power],
            open: vec![OpenBucket::default(); rows],
        };
        Self {
            from,
            width: to.saturating_sub(from).div_ceil(1 << power).max(1),
            rows,
            levels: (0..=power).rev().map(level).collect(),
        }
    }

    /// Returns the length of a bucket at the finest scale, in picoseconds.
    pub(crate) fn width(&self) -> u64 {
        self.width
    }

    /// Returns the number of scales.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    fn bucket(&self, at: u64) -> usize {
        let bucket = at.saturating_sub(self.from) / self.width;
        (bucket as usize).min(self.levels[0].buckets - 1)
    }

    /// Adds a row's call of a function, whose number is above 0, from one time to another.
    pub(crate) fn call(&mut self, row: usize, function: u8, from: u64, to: u64) {
        let (first, last) = (self.bucket(from), self.bucket(to));
        for bucket in first..=last {
            // Times near the end of the range occur only in a damaged trace.
            let begin = self
                .from
                .saturating_add((bucket as u64).saturating_mul(self.width));
            let end = begin.saturating_add(self.width);
            let time = to.min(end).saturating_sub(from.max(begin));
            if time > 0 || first == last {
                self.add(0, row, bucket, &[(function, time)]);
            }
        }
    }

    fn add(&mut self, level: usize, row: usize, bucket: usize, times: &[(u8, u64)]) {
        let open = &mut self.levels[level].open[row];
        if open.bucket != bucket && !open.times.is_empty() {
            self.close(level, row);
        }
        let open = &mut self.levels[level].open[row];
        open.bucket = bucket;
        for (function, time) in times {
            match open.times.iter_mut().find(|(own, _)| own == function) {
                Some((_, sum)) => *sum = sum.saturating_add(*time),
                None => open.times.push((*function, *time)),
            }
        }
    }

    /// Ends a row's bucket: its sums are added to the bucket of the next scale.
    fn close(&mut self, level: usize, row: usize) {
        let own = &mut self.levels[level];
        let OpenBucket { bucket, times } = std::mem::take(&mut own.open[row]);
        let Some((function, _)) = times
            .iter()
            .max_by_key(|(function, time)| (*time, 255 - function))
        else {
            return;
        };
        let all = times
            .iter()
            .fold(0u64, |sum, (_, time)| sum.saturating_add(*time));
        let at = row * own.buckets + bucket;
        let length = u128::from(self.width) << level;
        own.dominant[at] = *function;
        // Any nonzero share remains visible.
        own.share[at] = (u128::from(all) * 255).div_ceil(length).min(255) as u8;
        if level + 1 < self.levels.len() {
            self.add(level + 1, row, bucket / 2, &times);
        }
    }

    /// Adds a wait of a row.
    pub(crate) fn wait(&mut self, row: usize, from: u64, time: u64) {
        for bucket in self.bucket(from)..=self.bucket(from.saturating_add(time)) {
            let level = &mut self.levels[0];
            let own = &mut level.wait[row * level.buckets + bucket];
            *own = (*own).max(time);
        }
    }

    /// Ends the input.
    pub(crate) fn end(&mut self) {
        for level in 0..self.levels.len() {
            for row in 0..self.rows {
                self.close(level, row);
            }
        }
        for level in 1..self.levels.len() {
            let (below, own) = self.levels.split_at_mut(level);
            for (pair, longest) in below[level - 1].wait.chunks(2).zip(&mut own[0].wait) {
                *longest = pair.iter().copied().max().unwrap_or(0);
            }
        }
    }

    /// Returns all scales for the page, the finest first: its buckets' functions, shares and waits, row by row. Waits are binary logarithms, times four and
    /// rounded up, so they are at most a fifth too long.
    pub(crate) fn packed(&self) -> Packed {
        let mut numbers = PackedNumbers::default();
        for level in &self.levels {
            numbers.push(level.buckets as u64);
            numbers.bytes(&level.dominant);
            numbers.bytes(&level.share);
            let waits = level.wait.iter().map(|wait| logarithm(*wait));
            numbers.bytes(&waits.collect::<Vec<u8>>());
        }
        numbers.packed()
    }
}

/// Returns four times the binary logarithm, rounded up, plus one; 0 for 0.
fn logarithm(value: u64) -> u8 {
    match value {
        0 => 0,
        value => (((value as f64).log2() * 4.0).ceil() as u8).saturating_add(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 buckets of 100 ps.
    fn levels() -> Levels {
        let mut levels = Levels::new(MOST >> LEAST_POWER, 1000, 7400);
        // Unused rows slow down the test.
        levels.rows = 2;
        levels
    }

    #[test]
    fn buckets_tell_what_is_in_them_at_each_scale() {
        let mut levels = levels();
        assert_eq!((levels.width(), levels.depth()), (100, 7));
        // Row 1: function 3 from 1050 to 1250, function 2 for 30 ps after it.
        levels.call(1, 3, 1050, 1250);
        levels.call(1, 2, 1255, 1285);
        levels.wait(1, 1150, 80);
        levels.end();
        let cell = |level: usize, bucket: usize| {
            let own = &levels.levels[level];
            let at = own.buckets + bucket;
            (own.dominant[at], own.share[at], own.wait[at])
        };
        assert_eq!(cell(0, 0), (3, 128, 0));
        assert_eq!(cell(0, 1), (3, 255, 80));
        // 50 ps of function 3, 30 ps of function 2.
        assert_eq!(cell(0, 2), (3, 204, 80));
        assert_eq!(cell(0, 3), (0, 0, 0));
        assert_eq!(cell(1, 0), (3, 192, 80));
        assert_eq!(cell(1, 1), (3, 102, 80));
        // All 230 ps of 6400 ps.
        assert_eq!(cell(6, 0), (3, 10, 80));
        assert_eq!(levels.levels[0].dominant[0], 0);
    }

    #[test]
    fn the_function_with_most_time_wins_at_each_scale_by_itself() {
        let mut levels = levels();
        // In three of four buckets function 1 is just ahead, in the fourth function 2 has all.
        for bucket in 0..3 {
            let begin = 1000 + bucket * 100;
            levels.call(0, 1, begin, begin + 30);
            levels.call(0, 2, begin + 30, begin + 55);
        }
        levels.call(0, 2, 1300, 1400);
        levels.end();
        let dominant = |level: usize, bucket: usize| levels.levels[level].dominant[bucket];
        assert_eq!([0, 1, 2, 3].map(|bucket| dominant(0, bucket)), [1, 1, 1, 2]);
        assert_eq!(dominant(2, 0), 2);
    }

    #[test]
    fn times_outside_are_put_at_the_ends() {
        let mut levels = levels();
        levels.call(0, 1, 0, u64::MAX / 2);
        levels.call(0, 1, u64::MAX - 1, u64::MAX);
        levels.wait(0, 7399, u64::MAX);
        levels.end();
        assert_eq!(levels.levels[6].dominant[0], 1);
    }

    #[test]
    fn times_at_the_end_of_all_times_are_no_overflow() {
        let mut levels = Levels::new(1, 5, u64::MAX);
        levels.call(0, 1, 5, u64::MAX);
        levels.wait(0, 6, u64::MAX);
        levels.end();
        assert!(levels.levels[0].dominant.iter().all(|own| *own == 1));
    }

    #[test]
    fn waits_are_a_fifth_too_long_at_most() {
        for wait in [1u64, 2, 3, 1000, 123_456_789, u64::MAX / 2] {
            let shown = 2f64.powf((f64::from(logarithm(wait)) - 1.0) / 4.0);
            assert!(
                shown >= wait as f64 && shown <= wait as f64 * 1.2,
                "{wait}: {shown}"
            );
        }
    }
}
