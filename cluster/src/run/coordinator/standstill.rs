//! Detection of runs in which no node advances.
//!
//! In every round at least the first node to act advances, and among waiting hosts at least one can
//! continue. If a defect of this program breaks this, the run ends with a description of the waiting nodes,
//! instead of running for ever. On one host rounds are counted. On several, each host reports a long wait to
//! host 0, which ends the run when all of them wait.

use belljar_sim::Time;

use super::{Run, RunError};
use crate::hosts::{HEAD, HostMessage};
use crate::run::ending::Ending;

/// Maximum number of consecutive rounds without an advance on one host. One would suffice, except for turns
/// that tests cut at random.
const ROUNDS: u32 = 100_000;
/// Consecutive waits without news, after which a host reports it: 15 s.
const WAITS: u32 = 750;

/// The state of waiting hosts.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// Consecutive rounds without an advance, or waits of this host.
    count: u32,
    /// Virtual time after the last round.
    now: Time,
    /// Descriptions by waiting hosts, by their numbers, including this one.
    waiting: Vec<Option<String>>,
}

impl Standstill {
    /// A node advanced here, or a message was received.
    pub(super) fn is_over(&mut self, own: usize) {
        self.count = 0;
        self.got_on(own);
    }

    /// Host `host` advanced.
    pub(super) fn got_on(&mut self, host: usize) {
        if let Some(waiting) = self.waiting.get_mut(host) {
            *waiting = None;
        }
    }

    /// Host `host` reports that it waits.
    pub(super) fn waits(&mut self, host: usize, who: String) {
        if self.waiting.len() <= host {
            self.waiting.resize(host + 1, None);
        }
        self.waiting[host] = Some(who);
    }

    /// The descriptions by all `hosts` hosts, if all wait.
    fn all(&self, hosts: usize) -> Option<String> {
        let said: Option<Vec<&str>> = (0..hosts)
            .map(|host| self.waiting.get(host)?.as_deref())
            .collect();
        Some(said?.join(" | "))
    }
}

impl Run {
    /// Counts a round; `moved` is true if a node advanced. The network may have advanced, too.
    pub(super) fn note_round(&mut self, moved: bool) -> Result<Option<Ending>, RunError> {
        let before = std::mem::replace(&mut self.standstill.now, self.now);
        if moved || self.now > before {
            let own = self.own_host();
            self.standstill.is_over(own);
        } else if self.others.is_some() {
            // Others may let this host continue, and may need its progress for that.
            return self.wait();
        } else {
            self.standstill.count += 1;
            if self.standstill.count >= ROUNDS {
                let who = format!("at {}, {}", self.now, self.bounds.who_waits());
                return Ok(Some(Ending::Standstill { who }));
            }
        }
        Ok(None)
    }

    /// Counts a wait without news. Returns the ending if all hosts wait.
    pub(super) fn note_silence(&mut self) -> Result<Option<Ending>, RunError> {
        self.standstill.count += 1;
        let Some(others) = &self.others else {
            return Ok(None);
        };
        let hosts = others.exchange.partition().names().len();
        let own = others.exchange.own();
        if self.standstill.count == WAITS {
            let name = others.exchange.partition().name(own);
            let who = format!("host {name} at {}: {}", self.now, self.bounds.who_waits());
            if !others.exchange.is_head() {
                others
                    .exchange
                    .tell(HEAD, &HostMessage::Waiting(who.clone()))?;
            }
            self.standstill.waits(own as usize, who);
        }
        // Messages in flight at the last report have arrived by now.
        let long = others.exchange.is_head() && self.standstill.count >= 2 * WAITS;
        let all = self.standstill.all(hosts).filter(|_| long);
        Ok(all.map(|who| Ending::Standstill { who }))
    }

    fn own_host(&self) -> usize {
        let others = self.others.as_ref();
        others.map_or(0, |others| others.exchange.own() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_stand_still_when_all_say_so_and_none_got_on_since() {
        let mut standstill = Standstill::default();
        standstill.waits(2, "c".to_owned());
        standstill.waits(0, "a".to_owned());
        assert_eq!(standstill.all(3), None);
        standstill.waits(1, "b".to_owned());
        assert_eq!(standstill.all(3).as_deref(), Some("a | b | c"));
        standstill.got_on(2);
        standstill.got_on(7);
        assert_eq!(standstill.all(3), None);
        standstill.waits(2, "c".to_owned());
        standstill.is_over(0);
        assert_eq!(standstill.all(3), None);
    }
}
