//! Entry and exit times of a chunk's calls, their vCPUs, and their order in the file.
//!
//! A call's gap is the time from the exit of its thread's previous call, and is coded in the context of the two calls' signatures. Its duration is coded in the context
//! of its signature. Both use `Column`s that all threads share. Accounts are coded likewise. The file's order is by exit and node, as a run writes calls. At deviations,
//! the thread of the next call is stored; a record of several calls directly precedes its thread's next call. The same code writes and reads. Used by the writer and the
//! reader.

use belljar_trace::{Account, Polls};
use bincode::{Decode, Encode};

use crate::calls::signature::Signature;
use crate::coding::coder::{Bit, Coder, Decoder, Encoder, Number};
use crate::coding::column::{Column, Context, mix};

/// The times of a call, and its vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct CallTimestamps {
    pub(crate) vcpu: u32,
    pub(crate) entry: u64,
    /// Equal to `entry` for a call that did not return.
    pub(crate) exit: u64,
    pub(crate) accounts: Option<[Account; 2]>,
}

/// A call's signature and function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Called {
    pub(crate) signature: u32,
    pub(crate) function: u16,
    pub(crate) left: bool,
    pub(crate) folded: bool,
}

impl Called {
    pub(crate) fn of(number: u32, signature: &Signature) -> Self {
        Self {
            signature: number,
            function: signature.context(),
            left: signature.event.exit.is_some(),
            folded: signature.folded,
        }
    }
}

impl CallTimestamps {
    /// Returns the key by which a run orders such a call of this node in its file.
    pub(crate) fn key(&self, called: Called, node: u32) -> OrderKey {
        (if called.left { self.exit } else { u64::MAX }, node)
    }
}

/// The state of a thread's clocks after its last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Clocks {
    vcpu: u32,
    exit: u64,
    account: Account,
    called: Called,
    /// The latest coded numbers.
    gap: u64,
    duration: u64,
}

/// Coders of the parts of the section, which are stored separately.
pub(crate) struct SectionCoders<C> {
    pub(crate) gaps: C,
    pub(crate) durations: C,
    /// vCPUs, accounts, order.
    pub(crate) rest: C,
}

impl SectionCoders<Encoder> {
    pub(crate) fn for_writing() -> Self {
        Self {
            gaps: Encoder::new(),
            durations: Encoder::new(),
            rest: Encoder::new(),
        }
    }

    /// Returns the section: the lengths of the first two parts (32 bits each, little endian), then the parts. Also returns the lengths of all three.
    pub(crate) fn finish(self) -> (Vec<u8>, [usize; 3]) {
        let parts = [self.gaps, self.durations, self.rest].map(Encoder::finish);
        let mut section = (parts[0].len() as u32).to_le_bytes().to_vec();
        section.extend((parts[1].len() as u32).to_le_bytes());
        parts.iter().for_each(|part| section.extend(part));
        (section, parts.map(|part| part.len()))
    }
}

impl<'a> SectionCoders<Decoder<'a>> {
    /// Splits a section; `None` if it is shorter than it declares.
    pub(crate) fn of(section: &'a [u8]) -> Option<Self> {
        let (gaps, section) = section.split_first_chunk()?;
        let (durations, section) = section.split_first_chunk()?;
        let (gaps, section) = section.split_at_checked(u32::from_le_bytes(*gaps) as usize)?;
        let split = section.split_at_checked(u32::from_le_bytes(*durations) as usize);
        let (durations, rest) = split?;
        Some(Self {
            gaps: Decoder::new(gaps),
            durations: Decoder::new(durations),
            rest: Decoder::new(rest),
        })
    }
}

/// The columns of a chunk.
#[derive(Debug)]
pub(crate) struct TimesModel {
    same_vcpu: Bit,
    vcpus: Number,
    gaps: Column,
    durations: Column,
    accounted: Bit,
    account_gaps: Vec<Column>,
    account_durations: Vec<Column>,
    /// For records of several calls: the number of calls, total cycles, cycles of the shortest and the longest, and accounts.
    folds: Vec<Column>,
}

impl TimesModel {
    /// Creates columns for a chunk of `count` calls.
    pub(crate) fn new(count: usize) -> Self {
        Self {
            same_vcpu: Bit::default(),
            vcpus: Number::default(),
            gaps: Column::new(count, false),
            durations: Column::new(count, false),
            accounted: Bit::default(),
            account_gaps: Vec::new(),
            account_durations: Vec::new(),
            folds: Vec::new(),
        }
    }

    /// Restarts for a chunk of `count` calls.
    pub(crate) fn restart(&mut self, count: usize) {
        self.same_vcpu = Bit::default();
        self.vcpus = Number::default();
        self.accounted = Bit::default();
        let accounts = self
            .account_gaps
            .iter_mut()
            .chain(&mut self.account_durations)
            .chain(&mut self.folds);
        for column in accounts.chain([&mut self.gaps, &mut self.durations]) {
            column.restart(count);
        }
    }

    /// Codes the times of a thread's next call.
    pub(crate) fn code<C: Coder>(
        &mut self,
        coders: &mut SectionCoders<C>,
        clocks: &mut Clocks,
        called: Called,
        times: &CallTimestamps,
    ) -> CallTimestamps {
        let mut told = CallTimestamps::default();
        let same = coders
            .rest
            .bit(&mut self.same_vcpu, times.vcpu == clocks.vcpu);
        told.vcpu = if same {
            clocks.vcpu
        } else {
            self.vcpus.code(&mut coders.rest, times.vcpu.into()) as u32
        };
        let contexts = contexts(clocks, called);
        let gap = times.entry.wrapping_sub(clocks.exit);
        let gap = self.gaps.code(&mut coders.gaps, contexts[0], gap);
        told.entry = clocks.exit.wrapping_add(gap);
        let mut duration = 0;
        if called.left {
            let context = Context {
                before: mix(gap, clocks.duration),
                ..contexts[1]
            };
            duration = times.exit.wrapping_sub(times.entry);
            duration = self
                .durations
                .code(&mut coders.durations, context, duration);
        }
        told.exit = told.entry.wrapping_add(duration);
        let accounted = coders
            .rest
            .bit(&mut self.accounted, times.accounts.is_some());
        if accounted {
            let accounts = times.accounts.unwrap_or_default();
            let accounts =
                self.code_accounts(&mut coders.rest, &clocks.account, contexts, &accounts);
            clocks.account = accounts[1];
            told.accounts = Some(accounts);
        }
        (clocks.vcpu, clocks.exit, clocks.called) = (told.vcpu, told.exit, called);
        (clocks.gap, clocks.duration) = (gap, duration);
        told
    }

    /// Codes the sums that the thread's latest record stands for; `counted` is the number of calls if the operands contain it.
    pub(crate) fn code_folded<C: Coder>(
        &mut self,
        coder: &mut C,
        clocks: &Clocks,
        polls: &Polls,
        accounted: bool,
        counted: Option<u64>,
    ) -> Polls {
        const NUMBERS: usize = 8;
        if self.folds.is_empty() {
            let count = self.gaps.capacity();
            let fresh = || Column::new(count, false);
            self.folds = std::iter::repeat_with(fresh).take(NUMBERS).collect();
        }
        let Polls {
            calls,
            inside,
            shortest,
            longest,
            ..
        } = *polls;
        let [instructions, caches, memory, idle] = sums(&polls.account);
        let [context, _] = contexts(clocks, clocks.called);
        let all = [
            calls,
            inside,
            shortest,
            longest,
            instructions,
            caches,
            memory,
            idle,
        ];
        let told = if accounted { NUMBERS } else { NUMBERS / 2 };
        let mut before = 0;
        let mut numbers = [0; NUMBERS];
        for (column, number) in (0..told).zip(&mut numbers) {
            let context = Context { before, ..context };
            *number = match counted.filter(|_| column == 0) {
                Some(counted) => counted,
                None => self.folds[column].code(coder, context, all[column]),
            };
            before = mix(before, *number);
        }
        let [calls, inside, shortest, longest, sums @ ..] = numbers;
        Polls {
            calls,
            inside,
            shortest,
            longest,
            account: account(sums),
            subject: 0,
        }
    }

    fn code_accounts<C: Coder>(
        &mut self,
        coder: &mut C,
        before: &Account,
        contexts: [Context; 2],
        accounts: &[Account; 2],
    ) -> [Account; 2] {
        let count = self.gaps.capacity();
        let fresh = || (0..4).map(|_| Column::new(count, false)).collect();
        if self.account_gaps.is_empty() {
            (self.account_gaps, self.account_durations) = (fresh(), fresh());
        }
        let (before, entry, exit) = (sums(before), sums(&accounts[0]), sums(&accounts[1]));
        let mut told = [[0; 4]; 2];
        for sum in 0..4 {
            let gap = entry[sum].wrapping_sub(before[sum]);
            let gap = self.account_gaps[sum].code(coder, contexts[0], gap);
            told[0][sum] = before[sum].wrapping_add(gap);
            let duration = exit[sum].wrapping_sub(entry[sum]);
            let duration = self.account_durations[sum].code(coder, contexts[1], duration);
            told[1][sum] = told[0][sum].wrapping_add(duration);
        }
        told.map(account)
    }
}

fn sums(account: &Account) -> [u64; 4] {
    let Account {
        instructions,
        caches,
        memory,
        idle,
    } = *account;
    [instructions, caches, memory, idle]
}

fn account([instructions, caches, memory, idle]: [u64; 4]) -> Account {
    Account {
        instructions,
        caches,
        memory,
        idle,
    }
}

/// Returns the contexts of a call's gap and of its duration.
fn contexts(clocks: &Clocks, called: Called) -> [Context; 2] {
    let pair = |before: u64, own: u64| mix(before << 32 | own, 0x67);
    let last = clocks.called;
    [
        Context {
            fine: pair(last.signature.into(), called.signature.into()),
            coarse: pair(last.function.into(), called.function.into()),
            before: mix(clocks.duration, clocks.gap),
        },
        Context {
            fine: mix(called.signature.into(), 0x64),
            coarse: mix(called.function.into(), 0x64),
            before: 0,
        },
    ]
}

/// The sort key of the file's order: a call's exit, and its node.
pub(crate) type OrderKey = (u64, u32);

/// Gives records of several calls, at these positions of a thread, the keys of the calls after them.
pub(crate) fn put_before_next(keys: &mut [OrderKey], folded: &[usize]) {
    for place in folded.iter().rev() {
        let last = keys.get(*place).map_or(0, |key| key.1);
        let next = keys.get(*place + 1).copied().unwrap_or((u64::MAX, last));
        if let Some(key) = keys.get_mut(*place) {
            *key = next;
        }
    }
}

/// Merges the calls of a chunk's threads. `threads` has the keys of each thread's calls in order; `take` is called with the thread of each next call.
///
/// When writing, `actual` has the thread of each call in the file's order; when reading, it is empty.
pub(crate) fn merge<C: Coder>(
    coder: &mut C,
    threads: &[Vec<OrderKey>],
    actual: &[u32],
    mut take: impl FnMut(u32),
) {
    let mut likely = Bit::default();
    let mut number = Number::default();
    let mut heads = Heads::of(threads);
    let mut step = 0;
    while let Some(first) = heads.first() {
        let told = actual.get(step).copied().unwrap_or(0);
        let mut thread = first;
        if !coder.bit(&mut likely, told == thread) {
            let last = threads.len() as u64 - 1;
            thread = number.code(coder, told.into()).min(last) as u32;
        }
        // A thread without remaining calls, in a damaged file. The likely thread is used instead.
        let thread = match heads.has(thread) {
            true => thread,
            false => first,
        };
        take(thread);
        heads.advance(thread);
        step += 1;
    }
}

/// The next call of each thread, and the first of all, in a tournament tree; advancing a thread replays only the rounds of that thread.
struct Heads<'a> {
    threads: &'a [Vec<OrderKey>],
    next: Vec<u32>,
    /// Winners: the root at 1, the children of `n` at `2 n` and `2 n + 1`, threads in the second half.
    winners: Vec<Head>,
}

/// A thread's next call, in the order of the file. `None`, for a thread without remaining calls, is after all others.
type Head = Option<std::cmp::Reverse<(OrderKey, u32)>>;

impl<'a> Heads<'a> {
    fn of(threads: &'a [Vec<OrderKey>]) -> Self {
        let places = threads.len().next_power_of_two();
        let mut heads = Self {
            threads,
            next: vec![0; threads.len()],
            winners: vec![None; 2 * places],
        };
        for thread in 0..threads.len() {
            heads.winners[places + thread] = heads.head(thread);
        }
        for place in (1..places).rev() {
            heads.play(place);
        }
        heads
    }

    fn head(&self, thread: usize) -> Head {
        let key = self.threads[thread].get(self.next[thread] as usize)?;
        Some(std::cmp::Reverse((*key, thread as u32)))
    }

    fn play(&mut self, place: usize) {
        self.winners[place] = self.winners[2 * place].max(self.winners[2 * place + 1]);
    }

    /// Returns the thread with the first call, if any call remains.
    fn first(&self) -> Option<u32> {
        self.winners.get(1).copied().flatten().map(|head| head.0.1)
    }

    /// True if a thread has a call left.
    fn has(&self, thread: u32) -> bool {
        self.winners[self.winners.len() / 2 + thread as usize].is_some()
    }

    /// Advances past a thread's next call.
    fn advance(&mut self, thread: u32) {
        self.next[thread as usize] += 1;
        let mut place = self.winners.len() / 2 + thread as usize;
        self.winners[place] = self.head(thread as usize);
        while place > 1 {
            place /= 2;
            self.play(place);
        }
    }
}
