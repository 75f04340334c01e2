//! Events as bytes: for runs that continue later.
//!
//! Loading returns exactly the saved data. The bytes are untrusted: invalid or contradictory ones are refused. Used for
//! checkpoints and for messages between the hosts of a run.

use crate::account::Account;
use crate::codec;
use crate::counters::NodeSummary;
use crate::event::details::{Detailed, Details};
use crate::event::{Event, GivenUp};
use crate::polls::{Folded, Polls};
use crate::probe::{ProbeRecord, ProbesEnd, Recorded};
use crate::site::{NewSites, Site, SiteNumbers, Sites};

/// Data that cannot be saved, or bytes that are not saved data.
#[derive(Debug, thiserror::Error)]
#[error("the state of a tracer: {0}")]
pub struct StateError(String);

impl StateError {
    /// Creates the error for bytes that can be decoded, but contradict each other.
    pub fn contradiction() -> Self {
        Self("its parts do not fit together".to_owned())
    }
}

impl From<codec::CodecError> for StateError {
    fn from(error: codec::CodecError) -> Self {
        Self(error.to_string())
    }
}

/// The parts that are not encoded with an event, except for its site.
pub type Unencoded = (
    Option<[Account; 2]>,
    Option<Box<Details>>,
    Option<Box<Polls>>,
    Option<u64>,
);

type SavedEvents = (Vec<Event>, Vec<Unencoded>, SavedSites);

/// Sites of calls: the table, and each call's site number; both empty if no call has a site.
pub type SavedSites = (NewSites, Vec<u32>);

/// Returns the sites of calls, in their order, for [`load_sites`].
pub fn save_sites<'a>(events: impl Iterator<Item = &'a Event>) -> SavedSites {
    save_sites_of(events.map(|event| &event.site))
}

/// The same for sites alone.
pub(crate) fn save_sites_of<'a>(sites: impl Iterator<Item = &'a Site>) -> SavedSites {
    let mut table = SiteNumbers::default();
    let numbers: Vec<u32> = sites.map(|site| table.number(site)).collect();
    match numbers.iter().any(|number| *number != 0) {
        true => (table.take_new(), numbers),
        false => SavedSites::default(),
    }
}

/// Restores the [saved](save_sites) sites of calls, in their order.
///
/// # Errors
/// Fails if the sites contradict each other, or belong to other calls.
pub fn load_sites<'a>(
    events: impl Iterator<Item = &'a mut Event>,
    saved: &SavedSites,
) -> Result<(), StateError> {
    load_sites_of(events.map(|event| &mut event.site), saved)
}

/// The same for sites alone.
pub(crate) fn load_sites_of<'a>(
    places: impl Iterator<Item = &'a mut Site>,
    (table, numbers): &SavedSites,
) -> Result<(), StateError> {
    let mut sites = Sites::default();
    sites.add(table).ok_or_else(StateError::contradiction)?;
    if numbers.is_empty() {
        return Ok(());
    }
    let mut numbers = numbers.iter();
    for place in places {
        let site = numbers.next().and_then(|number| sites.get(*number));
        *place = site.ok_or_else(StateError::contradiction)?;
    }
    match numbers.next() {
        None => Ok(()),
        Some(_) => Err(StateError::contradiction()),
    }
}

/// Returns the parts not encoded with `event`, except for its site.
pub fn unencoded(event: &Event) -> Unencoded {
    let folded = event.folded.0.clone();
    let details = event.details.0.clone();
    (event.accounts.0, details, folded, event.given_up.0)
}

/// Restores the [separated](unencoded) parts of `event`.
pub fn give_back(event: &mut Event, (accounts, details, folded, given_up): Unencoded) {
    event.given_up = GivenUp(given_up);
    event.accounts.0 = accounts;
    event.folded = Folded(folded);
    event.details = Detailed(details);
}

/// Encodes events as bytes, with their nodes' accounts and their call sites.
///
/// # Errors
/// Fails if there are more than can be read again.
pub fn save_events(events: &[Event]) -> Result<Vec<u8>, StateError> {
    let mut bytes = Vec::new();
    codec::encode(&events, &mut bytes)?;
    let sums: Vec<Unencoded> = events.iter().map(unencoded).collect();
    codec::encode(&sums, &mut bytes)?;
    codec::encode(&save_sites(events.iter()), &mut bytes)?;
    codec::check::<SavedEvents>(&bytes)?;
    Ok(bytes)
}

/// Decodes events [saved](save_events) before.
///
/// # Errors
/// Fails if the bytes are not saved events.
pub fn load_events(saved: &[u8]) -> Result<Vec<Event>, StateError> {
    let (mut events, sums, sites): SavedEvents = codec::decode(saved)?;
    if events.len() != sums.len() {
        return Err(StateError::contradiction());
    }
    for (event, sums) in events.iter_mut().zip(sums) {
        give_back(event, sums);
    }
    load_sites(events.iter_mut(), &sites)?;
    Ok(events)
}

/// Encodes the records of the user's probes and their counters as bytes.
///
/// # Errors
/// Fails if there are more than can be read again.
pub fn save_probes(records: &[ProbeRecord], end: ProbesEnd) -> Result<Vec<u8>, StateError> {
    let mut bytes = Vec::new();
    codec::encode(&Recorded(records.to_vec()), &mut bytes)?;
    codec::encode(&end, &mut bytes)?;
    codec::check::<(Recorded, ProbesEnd)>(&bytes)?;
    Ok(bytes)
}

/// Decodes records of probes [saved](save_probes) before.
///
/// # Errors
/// Fails if the bytes are not saved records.
pub fn load_probes(saved: &[u8]) -> Result<(Vec<ProbeRecord>, ProbesEnd), StateError> {
    let (Recorded(records), end) = codec::decode(saved)?;
    Ok((records, end))
}

/// Encodes the tracers' summaries as bytes.
///
/// # Errors
/// Fails if there are more than can be read again.
pub fn save_summaries(summaries: &[NodeSummary]) -> Result<Vec<u8>, StateError> {
    let mut bytes = Vec::new();
    codec::encode(&summaries, &mut bytes)?;
    codec::check::<Vec<NodeSummary>>(&bytes)?;
    Ok(bytes)
}

/// Decodes summaries [saved](save_summaries) before.
///
/// # Errors
/// Fails if the bytes are not saved summaries.
pub fn load_summaries(saved: &[u8]) -> Result<Vec<NodeSummary>, StateError> {
    Ok(codec::decode(saved)?)
}

#[cfg(test)]
mod tests;
