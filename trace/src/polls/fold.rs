//! Makes one record of calls that polled, found nothing, and follow one another alike.
//!
//! It takes calls in the order of a trace and hands them on in that order, but for one thing: polls are held until their
//! thread's next call that is no such poll, and are handed on as one directly before it; at the end in the order of threads. What comes out depends on the
//! calls and their order alone. Of each thread one record is held at most, of `MOST` threads: where there are more, that of
//! the first is handed on. Called by the run's recorder.

use std::collections::BTreeMap;

use super::{Folded, MOST_POLLS};
use crate::event::Event;

/// Threads of which records are held, at most.
const MOST: usize = 1 << 16;

/// Parameters by which calls return what they found: where that goes is no part of what was asked for.
const OUTPUTS: [&str; 8] = [
    "array_of_indices",
    "array_of_statuses",
    "flag",
    "indx",
    "index",
    "message",
    "outcount",
    "status",
];

/// A thread: its node, its process, its number.
type Thread = (u32, u32, u32);

fn thread(event: &Event) -> Thread {
    (event.node, event.process, event.thread)
}

/// Folds polls.
#[derive(Debug, Default)]
pub struct Folder {
    held: BTreeMap<Thread, Event>,
}

impl Folder {
    /// One that holds `held`, as [`held`](Self::held) told it.
    pub fn holding(held: Vec<Event>) -> Self {
        let held = held.into_iter().map(|event| (thread(&event), event));
        Self {
            held: held.collect(),
        }
    }

    /// What is held, in the order of threads.
    pub fn held(&self) -> Vec<Event> {
        self.held.values().cloned().collect()
    }

    /// Takes a call, and hands on to `next` what cannot become more.
    ///
    /// # Errors
    /// That of `next`.
    pub fn take<E>(
        &mut self,
        event: Event,
        next: &mut impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        if event.folded.0.is_none() {
            if !self.held.is_empty()
                && let Some(before) = self.held.remove(&thread(&event))
            {
                next(before)?;
            }
            return next(event);
        }
        let key = thread(&event);
        match self.held.get_mut(&key) {
            Some(before) if alike(before, &event) => join(before, &event),
            Some(before) => next(std::mem::replace(before, event))?,
            None => {
                if self.held.len() >= MOST
                    && let Some((_, first)) = self.held.pop_first()
                {
                    next(first)?;
                }
                self.held.insert(key, event);
            }
        }
        Ok(())
    }

    /// No call follows: hands on what is held.
    ///
    /// # Errors
    /// That of `next`.
    pub fn finish<E>(&mut self, next: &mut impl FnMut(Event) -> Result<(), E>) -> Result<(), E> {
        let held = std::mem::take(&mut self.held);
        held.into_values().try_for_each(next)
    }
}

/// Whether a poll asked for the same as that before it, from the same place.
fn alike(one: &Event, other: &Event) -> bool {
    let subject = |event: &Event| event.folded.0.as_ref().map(|polls| polls.subject);
    one.function == other.function
        && one.calls().saturating_add(other.calls()) <= MOST_POLLS
        && one.depth == other.depth
        && one.selected == other.selected
        && one.rank == other.rank
        && one.implementation == other.implementation
        && one.communicator == other.communicator
        && one.result == other.result
        && one.site == other.site
        && one.accounts.0.is_some() == other.accounts.0.is_some()
        && subject(one) == subject(other)
        && asks_alike(one, other)
}

/// Whether the arguments of two calls of a function are the same, but for where what was found goes.
fn asks_alike(one: &Event, other: &Event) -> bool {
    let parameters = one.description().parameters;
    let output = |index: usize| {
        let name = parameters.get(index).map(|parameter| parameter.name);
        name.is_some_and(|name| OUTPUTS.contains(&name))
    };
    let mut pairs = one.arguments.iter().zip(&other.arguments).enumerate();
    one.arguments.len() == other.arguments.len()
        && pairs.all(|(index, (one, other))| one == other || output(index))
}

/// Adds a poll to those before it.
fn join(before: &mut Event, event: &Event) {
    before.exit = event.exit;
    if let (Some([_, left]), Some([_, last])) = (&mut before.accounts.0, &event.accounts.0) {
        *left = *last;
    }
    if let (Folded(Some(polls)), Folded(Some(next))) = (&mut before.folded, &event.folded) {
        polls.add(next);
    }
}

#[cfg(test)]
mod tests;
