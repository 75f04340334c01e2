//! The times of the last entries of a queue of fixed size.
//!
//! An entry is free again at the time of the entry that is its size older. `schedule` has one for the window, and one
//! for each scheduler.

/// The times of the last entries; zero before the first ones.
#[derive(Debug)]
pub(super) struct History {
    times: Box<[u64]>,
    size: u64,
    count: u64,
}

impl History {
    /// A queue of `size` entries.
    pub(super) fn new(size: u32) -> Self {
        // Some more than its size, since several entries may be asked for at once.
        let length = (size as usize + 64).next_power_of_two();
        Self {
            times: vec![0; length].into(),
            size: u64::from(size),
            count: 0,
        }
    }

    /// Empties the queue.
    pub(super) fn clear(&mut self) {
        self.times.fill(0);
        self.count = 0;
    }

    /// The first time at which `more` further entries are free.
    pub(super) fn oldest_after(&self, more: u32) -> u64 {
        let more = u64::from(more).min(self.size);
        match (self.count + more).checked_sub(self.size + 1) {
            Some(number) => self.times[number as usize & (self.times.len() - 1)],
            None => 0,
        }
    }

    /// Adds an entry that is free again at `time`.
    pub(super) fn push(&mut self, time: u64) {
        self.times[self.count as usize & (self.times.len() - 1)] = time;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_free_at_its_oldest_time() {
        let mut queue = History::new(4);
        assert_eq!(queue.oldest_after(4), 0);
        for time in [10, 20, 30, 40] {
            assert_eq!(queue.oldest_after(1), 0);
            queue.push(time);
        }
        assert_eq!(queue.oldest_after(1), 10);
        assert_eq!(queue.oldest_after(3), 30);
        queue.push(50);
        assert_eq!(queue.oldest_after(1), 20);
    }
}
