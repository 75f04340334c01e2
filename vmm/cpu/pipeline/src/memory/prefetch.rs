//! Prefetchers: streams of neighbouring lines, and strides of an instruction.
//!
//! Both are trained by misses of the first level, with linear addresses, and prefetch within the page of the guest's
//! tables, whose lines are contiguous. A stream or stride that continues in the next page is expected there: its first
//! line counts as prefetched. `memory` calls `train`.

use serde::{Deserialize, Serialize};

use super::{LINE_BYTES, LineAccess};
use crate::processor::PrefetchParameters;

/// Followed streams, by page, and instructions; powers of two.
const STREAMS: usize = 64;
const STRIDES: usize = 256;
/// Lines of the part of memory that a stream's entry describes.
const STREAM_LINES: u64 = 64;
/// Largest distance between two misses of a stream, in lines.
const NEAR: i64 = 3;
/// Misses in the same direction, or with the same stride, after which lines are prefetched.
const SURE_STREAM: u8 = 2;
const SURE_STRIDE: u8 = 2;
/// Largest confidence.
const MOST_SURE: u8 = 8;
/// Bytes of the smallest stride that streams do not cover, and of the largest one.
const LEAST_STRIDE: u64 = 256;
const MOST_STRIDE: u64 = 1 << 17;

/// A stream within 64 lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StreamEntry {
    /// Number of the 64 lines, plus one.
    group: u64,
    /// The last miss, and the last line that was prefetched.
    last: u64,
    ahead: u64,
    upwards: bool,
    sure: u8,
}

/// The stride of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StrideEntry {
    site: u64,
    last: u64,
    stride: i64,
    sure: u8,
}

/// Lines to prefetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// True if the missed line itself continues a stream or stride.
    pub expected: bool,
    /// Physical address of the first line, the distance between lines in bytes and their number, of both prefetchers.
    parts: [(u64, i64, u32); 2],
}

impl Wanted {
    /// Physical numbers of the stream's lines.
    pub(super) fn streamed(&self) -> impl Iterator<Item = u64> + use<> {
        lines_of(self.parts[0])
    }

    /// Physical numbers of the stride's lines.
    pub(super) fn strided(&self) -> impl Iterator<Item = u64> + use<> {
        lines_of(self.parts[1])
    }
}

fn lines_of((first, step, count): (u64, i64, u32)) -> impl Iterator<Item = u64> + use<> {
    (0..i64::from(count)).map(move |number| first.wrapping_add_signed(number * step) / LINE_BYTES)
}

/// The state of both prefetchers.
#[derive(Debug)]
pub(super) struct Prefetchers {
    pub(super) streams: Box<[StreamEntry]>,
    pub(super) strides: Box<[StrideEntry]>,
    /// Instructions with a stream and its direction, by their addresses: where not all pages are modelled, their streams
    /// continue in any page. Empty otherwise.
    pub(super) leads: Box<[(u64, bool)]>,
    lines: u64,
    steps: u32,
}

fn hashed(value: u64, entries: usize) -> usize {
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - entries.ilog2())) as usize
}

impl Prefetchers {
    /// No streams yet; `skips` if not all pages are modelled.
    pub(super) fn new(parameters: &PrefetchParameters, skips: bool) -> Self {
        Self {
            streams: vec![StreamEntry::default(); STREAMS].into(),
            strides: vec![StrideEntry::default(); STRIDES].into(),
            leads: vec![(0, false); if skips { STRIDES } else { 0 }].into(),
            lines: parameters.lines.into(),
            steps: parameters.strides,
        }
    }

    /// Trains both with a miss by the instruction at `site`.
    pub(super) fn train(&mut self, access: &LineAccess, site: u64) -> Wanted {
        let (streams, streamed) = self.stream(access, site);
        let (mut strides, strided) = self.stride(access, site);
        // Several loads of an unrolled loop have a stride, and make a stream together.
        if streamed {
            strides = (0, 0, 0);
        }
        Wanted {
            expected: streamed || strided,
            parts: [streams, strides],
        }
    }

    fn stream(&mut self, access: &LineAccess, site: u64) -> ((u64, i64, u32), bool) {
        let line = access.linear / LINE_BYTES;
        let group = line / STREAM_LINES + 1;
        let known = self.streams[hashed(group, STREAMS)];
        let mut stream = match known.group == group {
            true => known.after(line),
            false => self.continued(group, line, site),
        };
        let expected = self.lines > 0 && stream.sure > SURE_STREAM;
        let mut part = (0, 0, 0);
        if stream.sure >= SURE_STREAM {
            let (first, count, last) = self.bounds(access, line, &stream);
            if count > 0 {
                let distance = first.wrapping_sub(line).wrapping_mul(LINE_BYTES);
                let start = access.physical.wrapping_add(distance);
                let step = if stream.upwards { 1 } else { -1 };
                part = (start, step * LINE_BYTES as i64, count as u32);
                stream.ahead = last;
            }
        }
        self.streams[hashed(group, STREAMS)] = stream;
        if stream.sure >= SURE_STREAM
            && let Some(lead) = self.lead(site)
        {
            self.leads[lead] = (site, stream.upwards);
        }
        (part, expected)
    }

    /// The first line to prefetch in the direction of the stream, the number of lines, and the last one.
    fn bounds(&self, access: &LineAccess, line: u64, stream: &StreamEntry) -> (u64, u64, u64) {
        let page_lines = (access.page_bytes / LINE_BYTES).max(1);
        let page = line - line % page_lines;
        if stream.upwards {
            let last = (line + self.lines).min(page + page_lines - 1);
            let first = stream.ahead.max(line).saturating_add(1);
            (first, (last + 1).saturating_sub(first), last)
        } else {
            let last = line.saturating_sub(self.lines).max(page);
            let end = stream.ahead.min(line);
            (end.wrapping_sub(1), end.saturating_sub(last), last)
        }
    }

    /// The stream of a group's first miss, which may continue the stream of the neighbouring group.
    fn continued(&self, group: u64, line: u64, site: u64) -> StreamEntry {
        let place = line % STREAM_LINES;
        let neighbour = |group: u64, upwards: bool| {
            let one = self.streams[hashed(group, STREAMS)];
            let leads = one.group == group && one.sure >= SURE_STREAM && one.upwards == upwards;
            leads.then_some(one)
        };
        let before = match place {
            0..=2 => neighbour(group - 1, true),
            _ if place >= STREAM_LINES - NEAR as u64 => neighbour(group + 1, false),
            _ => None,
        };
        let before = before.or_else(|| self.led(site, line));
        let fresh = StreamEntry {
            group,
            last: line,
            ahead: line,
            upwards: true,
            sure: 0,
        };
        before.map_or(fresh, |before| StreamEntry {
            upwards: before.upwards,
            sure: MOST_SURE,
            ahead: match before.upwards {
                true => before.ahead.max(line),
                false => before.ahead.min(line),
            },
            ..fresh
        })
    }

    /// The place of an instruction's stream in `leads`, if there are any.
    fn lead(&self, site: u64) -> Option<usize> {
        (!self.leads.is_empty()).then(|| hashed(site, STRIDES))
    }

    /// A stream by the instruction at `site` in another page, if a stream may enter its page at `line`.
    fn led(&self, site: u64, line: u64) -> Option<StreamEntry> {
        let (of, upwards) = self.leads[self.lead(site)?];
        let place = line % STREAM_LINES;
        let enters = match upwards {
            true => place <= 2,
            false => place >= STREAM_LINES - NEAR as u64,
        };
        (of == site && enters).then_some(StreamEntry {
            group: 0,
            last: line,
            ahead: line,
            upwards,
            sure: MOST_SURE,
        })
    }

    fn stride(&mut self, access: &LineAccess, site: u64) -> ((u64, i64, u32), bool) {
        let entry = &mut self.strides[hashed(site, STRIDES)];
        if entry.site != site {
            *entry = StrideEntry {
                site,
                last: access.linear,
                stride: 0,
                sure: 0,
            };
            return ((0, 0, 0), false);
        }
        let stride = access.linear.wrapping_sub(entry.last) as i64;
        entry.last = access.linear;
        if stride == entry.stride {
            entry.sure = entry.sure.saturating_add(1).min(MOST_SURE);
        } else {
            (entry.stride, entry.sure) = (stride, 0);
        }
        let far = (LEAST_STRIDE..MOST_STRIDE).contains(&stride.unsigned_abs());
        if !far || entry.sure < SURE_STRIDE {
            return ((0, 0, 0), false);
        }
        // All steps at first, then one more each time.
        let (first, count) = match entry.sure == SURE_STRIDE {
            true => (1, self.steps),
            false => (i64::from(self.steps), u32::from(self.steps > 0)),
        };
        let start = access.linear.wrapping_add_signed(first * stride);
        let within = |linear: u64| linear / access.page_bytes == access.linear / access.page_bytes;
        let fitting = (0..i64::from(count))
            .take_while(|&number| within(start.wrapping_add_signed(number * stride)))
            .count();
        let distance = start.wrapping_sub(access.linear);
        let expected = self.steps > 0 && entry.sure > SURE_STRIDE;
        let physical = access.physical.wrapping_add(distance);
        ((physical, stride, fitting as u32), expected)
    }
}

impl StreamEntry {
    /// The stream after another miss in its group.
    fn after(self, line: u64) -> Self {
        let distance = line.wrapping_sub(self.last) as i64;
        if distance == 0 || distance.abs() > NEAR {
            return Self { last: line, ..self };
        }
        let upwards = distance > 0;
        if self.sure > 0 && upwards == self.upwards {
            let sure = self.sure.saturating_add(1).min(MOST_SURE);
            return Self {
                last: line,
                sure,
                ..self
            };
        }
        Self {
            last: line,
            ahead: line,
            upwards,
            sure: 1,
            ..self
        }
    }
}
