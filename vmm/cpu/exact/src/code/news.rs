//! What a vCPU that did not run has to hear of the code that it shares.
//!
//! The latest news are kept and numbered; who missed more does as if everything had changed. The store has the
//! log; whoever changes code writes it, and every vCPU reads it before it runs.

use std::collections::VecDeque;

/// What other vCPUs must know before they run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The code at that host address, for that RIP, is void.
    Forgotten { rip: u64, code: u64, user: bool },
    /// The page of RAM at that host address holds code now: writes must be seen.
    Watched(u64),
    /// A page is not shared with other nodes any more: jumps may lead to its code.
    Left,
    /// All code is void, and what was numbered starts over.
    Flushed,
}

/// The latest news, numbered.
#[derive(Debug, Default)]
pub(crate) struct NewsLog {
    pub(crate) dropped: u64,
    pub(crate) kept: VecDeque<News>,
}

impl NewsLog {
    /// News that are kept. Who missed more does as if everything had changed.
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

    /// What came after the first `heard`; `None` when some of it is not kept.
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
