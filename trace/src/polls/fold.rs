//! Folds consecutive, equal and unsuccessful polls into one record.
//!
//! It takes calls in the order of a trace and passes them on in that order, with one exception. Polls are held until their thread's next other call, and
//! are passed on as one record directly before it; at the end, in the order of threads. The output depends only on the calls and their order. It holds at
//! most one record for each of `MOST` threads; with more threads, the record of the first is passed on. Used by the run's recorder.

use std::collections::BTreeMap;

use super::{Folded, MOST_POLLS};
use crate::event::Event;

/// Most threads with held records.
const MOST: usize = 1 << 16;

/// Output parameters, which are not compared.
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
    /// Creates a folder that holds `held`, as returned by [`held`](Self::held).
    pub fn holding(held: Vec<Event>) -> Self {
        let held = held.into_iter().map(|event| (thread(&event), event));
        Self {
            held: held.collect(),
        }
    }

    /// Returns the held records, in the order of threads.
    pub fn held(&self) -> Vec<Event> {
        self.held.values().cloned().collect()
    }

    /// Takes a call, and passes to `next` the records that cannot grow any more.
    ///
    /// # Errors
    /// Returns the error of `next`.
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

    /// Ends the input: passes on the held records.
    ///
    /// # Errors
    /// Returns the error of `next`.
    pub fn finish<E>(&mut self, next: &mut impl FnMut(Event) -> Result<(), E>) -> Result<(), E> {
        let held = std::mem::take(&mut self.held);
        held.into_values().try_for_each(next)
    }
}

/// True if a poll asked for the same as the one before it, from the same call site.
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

/// True if the arguments of two calls of a function are equal, output parameters apart.
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

/// Adds a poll to the record before it.
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
