//! The operations of a process, in order.
//!
//! A process with one thread has its thread's operations, in order. A process with several has all their calls in the order of the trace. Operations are
//! begun at a call's entry and awaited at its return, so no operation waits for a later one of the process. Used by `messages`.

use belljar_program::{Call, Operation, Program, Thread};

/// The next item of a process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'p> {
    /// Works by itself for this many picoseconds.
    Work(u64),
    /// An operation.
    Operation {
        /// The operation, of its calls.
        operation: &'p Operation,
        /// The thread, by its index in the program.
        thread: u32,
        /// True if the process does nothing else until it is complete.
        blocking: bool,
    },
}

/// Passes the operations of a process with these threads to `to`.
///
/// # Errors
/// Returns the first error of `to`.
pub(super) fn in_order<'p, E>(
    program: &'p Program,
    threads: &[u32],
    mut to: impl FnMut(Item<'p>) -> Result<(), E>,
) -> Result<(), E> {
    match threads {
        [thread] => one(&program.threads[*thread as usize], *thread, &mut to),
        _ => several(program, threads, &mut to),
    }
}

/// Returns the operations of a thread's calls, call by call.
fn calls(thread: &Thread) -> impl Iterator<Item = (&Call, &[Operation])> {
    let mut rest = thread.operations.as_slice();
    thread.calls.iter().map(move |call| {
        let (own, others) = rest.split_at((call.operations as usize).min(rest.len()));
        rest = others;
        (call, own)
    })
}

/// True if the call with these operations waits for the one at `at`.
fn is_blocking(operations: &[Operation], at: usize) -> bool {
    let Operation::Collective { slot, .. } = operations[at] else {
        return false;
    };
    operations[at..].contains(&Operation::Wait { slot })
}

fn one<'p, E>(
    thread: &'p Thread,
    number: u32,
    to: &mut impl FnMut(Item<'p>) -> Result<(), E>,
) -> Result<(), E> {
    for (call, operations) in calls(thread) {
        to(Item::Work(call.before))?;
        // A call without operations is treated as work.
        if operations.is_empty() {
            to(Item::Work(call.inside))?;
        }
        for (at, operation) in operations.iter().enumerate() {
            to(Item::Operation {
                operation,
                thread: number,
                blocking: is_blocking(operations, at),
            })?;
        }
    }
    Ok(())
}

/// Calls of a thread: entry and exit of each, and its operations.
type Calls<'p> = Box<dyn Iterator<Item = ((u64, u64), &'p [Operation])> + 'p>;

/// The position of a thread in its program.
struct ThreadPosition<'p> {
    number: u32,
    calls: Calls<'p>,
    /// The current call's entry and exit, its operations, and whether it was entered.
    present: Option<((u64, u64), &'p [Operation], bool)>,
}

impl ThreadPosition<'_> {
    /// Returns the time of its next entry or exit.
    fn next(&self) -> Option<u64> {
        let ((entry, exit), _, entered) = self.present?;
        Some(if entered { exit } else { entry })
    }
}

fn several<'p, E>(
    program: &'p Program,
    threads: &[u32],
    to: &mut impl FnMut(Item<'p>) -> Result<(), E>,
) -> Result<(), E> {
    let mut places: Vec<ThreadPosition<'p>> = threads
        .iter()
        .map(|number| {
            let thread = &program.threads[*number as usize];
            let calls = calls(thread).map(|(_, operations)| operations);
            let mut calls = thread.traced().zip(calls);
            let first = calls.next();
            ThreadPosition {
                number: *number,
                calls: Box::new(calls),
                present: first.map(|(times, operations)| (times, operations, false)),
            }
        })
        .collect();
    let mut now: Option<u64> = None;
    loop {
        let next = places.iter().enumerate().filter_map(|(at, place)| {
            let waiting = place.present.is_some_and(|(.., entered)| entered);
            Some((place.next()?, waiting, at))
        });
        let Some((time, _, at)) = next.min() else {
            return Ok(());
        };
        let all_in = places
            .iter()
            .filter_map(|place| place.present)
            .all(|(.., entered)| entered);
        if let Some(before) = now.filter(|_| !all_in) {
            to(Item::Work(time.saturating_sub(before)))?;
        }
        now = Some(time);
        let place = &mut places[at];
        let Some((times, operations, entered)) = place.present else {
            return Ok(());
        };
        for operation in operations {
            if matches!(operation, Operation::Wait { .. }) == entered {
                to(Item::Operation {
                    operation,
                    thread: place.number,
                    blocking: false,
                })?;
            }
        }
        place.present = match entered {
            false => Some((times, operations, true)),
            true => place
                .calls
                .next()
                .map(|(times, operations)| (times, operations, false)),
        };
    }
}
