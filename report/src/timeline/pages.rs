//! Single calls, messages and waits, in pages that a reader's browser unpacks for display.
//!
//! A page has some thousand consecutive calls, and the messages and waits that became known meanwhile. All pages together have a limit:
//! beyond it, every second page is dropped, and later every second of the rest, so that the remaining ones are spread over the run.
//! Filled by `timeline`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::pack::{Packed, PackedNumbers};

/// Number of calls of a page.
const CALLS: usize = 8192;
/// Most messages and waits of a page.
const MOST_BESIDES: usize = 4 * CALLS;

/// A single call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneCall<'a> {
    pub(crate) row: usize,
    pub(crate) function: u8,
    pub(crate) entry: u64,
    /// `None` if it never returned.
    pub(crate) exit: Option<u64>,
    /// Its arguments, and its other details.
    pub(crate) words: &'a str,
}

/// A message with both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimelineMessage {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The entry of the call that sent it.
    pub(crate) sent: u64,
    /// The return of the call that received it.
    pub(crate) received: u64,
    pub(crate) bytes: u64,
}

/// A call that waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) row: usize,
    pub(crate) at: u64,
    pub(crate) time: u64,
    /// The index of its cause among all of them.
    pub(crate) kind: usize,
    pub(crate) row_waited_for: usize,
}

/// The description of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PageIndex {
    /// Its number, which names its element.
    pub(crate) page: usize,
    /// The earliest time in it, in picoseconds, and the latest.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Number of calls.
    pub(crate) calls: usize,
}

/// All pages.
#[derive(Debug)]
pub(crate) struct TimelinePages {
    /// Most bytes of the pages in the file.
    budget: usize,
    /// One of this many pages is kept.
    stride: usize,
    size: usize,
    kept: Vec<(PageIndex, Packed)>,
    next: usize,
    open: OpenPage,
}

/// Marks a number in words whose numbers are stored separately.
const NUMBER: char = '\u{1}';
/// Most digits of a number that is stored separately: the page's script represents all of these exactly.
const MOST_DIGITS: usize = 15;

/// Splits words into a template without numbers, which calls share more often than the complete words, and the numbers.
fn apart(words: &str) -> (String, Vec<u64>) {
    let (mut template, mut numbers) = (String::new(), Vec::new());
    let mut rest = words;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|letter: char| !letter.is_ascii_digit());
        let (digits, after) = from.split_at(end.unwrap_or(from.len()));
        template.push_str(before);
        let whole = digits.len() <= MOST_DIGITS && (digits == "0" || !digits.starts_with('0'));
        match digits.parse().ok().filter(|_| whole) {
            Some(number) => {
                template.push(NUMBER);
                numbers.push(number);
            }
            None => template.push_str(digits),
        }
        rest = after;
    }
    template.push_str(rest);
    (template, numbers)
}

/// The page that is currently filled.
#[derive(Debug, Default)]
struct OpenPage {
    from: u64,
    to: u64,
    calls: usize,
    columns: [PackedNumbers; 6],
    /// The end of the row's last call.
    ends: BTreeMap<usize, u64>,
    words: BTreeMap<String, u64>,
    in_order: Vec<String>,
    messages: Vec<TimelineMessage>,
    waits: Vec<Wait>,
}

impl OpenPage {
    fn spans(&mut self, from: u64, to: u64) {
        let empty = self.calls == 0 && self.messages.is_empty() && self.waits.is_empty();
        self.from = if empty { from } else { self.from.min(from) };
        self.to = self.to.max(to);
    }
}

impl TimelinePages {
    /// Creates an empty set with this many bytes in the file.
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            budget,
            stride: 1,
            size: 0,
            kept: Vec::new(),
            next: 0,
            open: OpenPage::default(),
        }
    }

    /// True if the following calls may be kept; otherwise, their words need not be computed.
    pub(crate) fn wanted(&self) -> bool {
        self.next.is_multiple_of(self.stride)
    }

    /// Adds a call.
    pub(crate) fn call(&mut self, call: OneCall<'_>) {
        if self.wanted() {
            let open = &mut self.open;
            open.spans(call.entry, call.exit.unwrap_or(call.entry));
            // The text's own marker would be taken for a number.
            let (template, told) = apart(&call.words.replace(NUMBER, " "));
            let number = open.words.get(&template).copied().unwrap_or_else(|| {
                let number = open.in_order.len() as u64;
                open.words.insert(template.clone(), number);
                open.in_order.push(template);
                number
            });
            let [rows, functions, gaps, times, words, numbers] = &mut open.columns;
            told.into_iter().for_each(|number| numbers.push(number));
            rows.push(call.row as u64);
            functions.push(call.function.into());
            let before = open.ends.get(&call.row).copied().unwrap_or(0);
            gaps.push(call.entry.saturating_sub(before));
            // 0 means that it never returned.
            times.push(
                call.exit
                    .map_or(0, |exit| exit.saturating_sub(call.entry).saturating_add(1)),
            );
            words.push(number);
            open.ends.insert(call.row, call.exit.unwrap_or(call.entry));
        }
        self.open.calls += 1;
        if self.open.calls >= CALLS {
            self.close();
        }
    }

    /// Adds a message.
    pub(crate) fn message(&mut self, message: TimelineMessage) {
        if self.wanted() && self.open.messages.len() < MOST_BESIDES {
            self.open
                .spans(message.sent.min(message.received), message.received);
            self.open.messages.push(message);
        }
    }

    /// Adds a call that waited.
    pub(crate) fn wait(&mut self, wait: Wait) {
        if self.wanted() && self.open.waits.len() < MOST_BESIDES {
            self.open.spans(wait.at, wait.at.saturating_add(wait.time));
            self.open.waits.push(wait);
        }
    }

    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        let page = self.next;
        self.next += 1;
        if !page.is_multiple_of(self.stride) {
            return;
        }
        let packed = open.packed();
        self.size += packed.size();
        let index = PageIndex {
            page,
            from: open.from,
            to: open.to,
            calls: open.calls,
        };
        self.kept.push((index, packed));
        while self.size > self.budget && self.kept.len() > 1 {
            self.stride *= 2;
            let stride = self.stride;
            self.kept
                .retain(|(index, _)| index.page.is_multiple_of(stride));
            self.size = self.kept.iter().map(|(_, packed)| packed.size()).sum();
        }
    }

    /// Ends the input, and returns the kept pages, and the stride: one of this many pages is kept.
    pub(crate) fn finish(mut self) -> (Vec<(PageIndex, Packed)>, usize) {
        if self.open.calls > 0 || !self.open.messages.is_empty() || !self.open.waits.is_empty() {
            self.close();
        }
        (self.kept, self.stride)
    }
}

impl OpenPage {
    fn packed(&self) -> Packed {
        let mut numbers = PackedNumbers::default();
        numbers.push(self.calls as u64);
        let [columns @ .., in_words] = &self.columns;
        columns.iter().for_each(|column| numbers.append(column));
        numbers.push(self.in_order.len() as u64);
        self.in_order.iter().for_each(|words| numbers.text(words));
        numbers.append(in_words);
        numbers.push(self.messages.len() as u64);
        // Stored by columns, as numbers of one kind pack better.
        let messages = &self.messages;
        messages.iter().for_each(|it| numbers.push(it.from as u64));
        messages.iter().for_each(|it| numbers.push(it.to as u64));
        messages
            .iter()
            .for_each(|it| numbers.push(it.sent.saturating_sub(self.from)));
        messages
            .iter()
            .for_each(|it| numbers.push_signed(it.received.wrapping_sub(it.sent).cast_signed()));
        messages.iter().for_each(|it| numbers.push(it.bytes));
        let waits = &self.waits;
        numbers.push(waits.len() as u64);
        waits.iter().for_each(|it| numbers.push(it.row as u64));
        waits
            .iter()
            .for_each(|it| numbers.push(it.at.saturating_sub(self.from)));
        waits.iter().for_each(|it| numbers.push(it.time));
        waits.iter().for_each(|it| numbers.push(it.kind as u64));
        waits
            .iter()
            .for_each(|it| numbers.push(it.row_waited_for as u64));
        numbers.packed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(calls: usize, budget: usize) -> (Vec<(PageIndex, Packed)>, usize) {
        let mut pages = TimelinePages::new(budget);
        for number in 0..calls {
            // Times that do not pack well.
            let entry = number as u64 * 1_000_000;
            let time = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 45;
            pages.call(OneCall {
                row: number % 3,
                function: 1,
                entry,
                exit: Some(entry + time),
                words: "dest=1",
            });
        }
        pages.finish()
    }

    #[test]
    fn all_calls_are_there_while_there_is_room() {
        let (pages, stride) = filled(3 * CALLS + 5, usize::MAX);
        assert_eq!(stride, 1);
        let calls: Vec<usize> = pages.iter().map(|(index, _)| index.calls).collect();
        assert_eq!(calls, [CALLS, CALLS, CALLS, 5]);
        assert_eq!(pages[1].0.from, CALLS as u64 * 1_000_000);
    }

    #[test]
    fn numbers_in_words_are_kept_apart() {
        let (template, numbers) = apart("dest=12, tag=0, name=\"a007\", big=1234567890123456");
        assert_eq!(numbers, [12, 0]);
        assert_eq!(
            template,
            "dest=\u{1}, tag=\u{1}, name=\"a007\", big=1234567890123456"
        );
    }

    #[test]
    fn pages_that_are_kept_are_spread_evenly() {
        let (all, _) = filled(64 * CALLS, usize::MAX);
        let one = all[0].1.size();
        let (pages, stride) = filled(64 * CALLS, 10 * one);
        assert_eq!(stride, 8);
        let kept: Vec<usize> = pages.iter().map(|(index, _)| index.page).collect();
        assert_eq!(kept, [0, 8, 16, 24, 32, 40, 48, 56]);
        let size: usize = pages.iter().map(|(_, packed)| packed.size()).sum();
        assert!(size <= 10 * one);
    }
}
