//! Changes of shared code that a paused vCPU must process.
//!
//! The latest changes are kept and numbered; a vCPU that missed more assumes that everything changed. The
//! store has the log; code that changes translations appends to it, and every vCPU processes it before it
//! runs.

use std::collections::VecDeque;

/// A change that other vCPUs must process before they run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The code at that host address, for that RIP, is invalid.
    Forgotten { rip: u64, code: u64, user: bool },
    /// The page of RAM at that host address now contains code: writes to it must be detected.
    Watched(u64),
    /// A page is not shared with other nodes any more: its code may be in jump caches.
    Left,
    /// All code is invalid, and numbering starts over.
    Flushed,
}

/// The latest changes, numbered.
#[derive(Debug, Default)]
pub(crate) struct NewsLog {
    pub(crate) dropped: u64,
    pub(crate) kept: VecDeque<News>,
}

impl NewsLog {
    /// Number of changes kept. A vCPU that missed more assumes that everything changed.
    pub(crate) const KEPT: usize = 256;

    pub(crate) fn push(&mut self, news: News) {
        if self.kept.len() == Self::KEPT {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.kept.push_back(news);
    }

    pub(crate) fn end(&self) -> u64 {
        self.dropped + self.kept.len() as u64
    }

    /// The changes after the first `heard`; `None` if some of them are not kept.
    pub(crate) fn since(&self, heard: u64) -> Option<Vec<News>> {
        let skipped = heard.checked_sub(self.dropped)?;
        Some(self.kept.iter().skip(skipped as usize).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_kept_for_who_is_not_far_behind() {
        let mut log = NewsLog::default();
        assert_eq!(log.since(0), Some(Vec::new()));
        for page in 0..300 {
            log.push(News::Watched(page));
        }
        assert_eq!(log.end(), 300);
        assert_eq!(log.since(298).unwrap(), [298, 299].map(News::Watched));
        assert_eq!(log.since(300), Some(Vec::new()));
        assert_eq!(log.since(44).unwrap().len(), NewsLog::KEPT);
        assert_eq!(log.since(43), None);
    }
}
