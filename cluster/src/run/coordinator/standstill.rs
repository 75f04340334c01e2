//! Runs in which nobody gets anywhere.
//!
//! Every round lets at least the node that acts first do something, and where hosts wait for each
//! other, one of them can continue. Where that fails, by a fault of this program, the run ends and tells who
//! waits for whom, in place of running for ever. On one host rounds are counted; on several, each
//! host tells host 0 when it has waited for long, and that ends the run when all have.

use belljar_sim::Time;

use super::{Run, RunError};
use crate::hosts::{HEAD, Message};
use crate::run::ending::Ending;

/// Rounds in a row in which nobody gets anywhere, after which a run on one host stands still. One would
/// do, but for turns that tests cut at random.
const ROUNDS: u32 = 100_000;
/// Times in a row that a host hears nothing when it waits for news, after which it tells that:
/// 15 s.
const WAITS: u32 = 750;

/// What is known of hosts that wait.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    /// Rounds, or times that this host waited, in a row.
    count: u32,
    /// Virtual time after the last round.
    now: Time,
    /// What hosts said that wait: by their numbers, this one's, too.
    waiting: Vec<Option<String>>,
}

impl Standstill {
    /// Somebody got on here, or something was heard.
    pub(super) fn is_over(&mut self, own: usize) {
        self.count = 0;
        self.got_on(own);
    }

    /// Host `host` got on.
    pub(super) fn got_on(&mut self, host: usize) {
        if let Some(waiting) = self.waiting.get_mut(host) {
            *waiting = None;
        }
    }

    /// Host `host` waits, as it says.
    pub(super) fn waits(&mut self, host: usize, who: String) {
        if self.waiting.len() <= host {
            self.waiting.resize(host + 1, None);
        }
        self.waiting[host] = Some(who);
    }

    /// What all of `hosts` hosts say that wait, if all do.
    fn all(&self, hosts: usize) -> Option<String> {
        let said: Option<Vec<&str>> = (0..hosts)
            .map(|host| self.waiting.get(host)?.as_deref())
            .collect();
        Some(said?.join(" | "))
    }
}

impl Run {
    /// A round is over in which no node got anywhere if not `moved`; the network may have.
    pub(super) fn note_round(&mut self, moved: bool) -> Result<Option<Ending>, RunError> {
        let before = std::mem::replace(&mut self.standstill.now, self.now);
        if moved || self.now > before {
            let own = self.own_host();
            self.standstill.is_over(own);
        } else if self.others.is_some() {
            // Others may have what it takes, and may need to hear of this host for that.
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

    /// Nothing was heard when this host waited for news. How the run ends, if everybody waits.
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
                others.exchange.tell(HEAD, &Message::Waiting(who.clone()))?;
            }
            self.standstill.waits(own as usize, who);
        }
        // What was on its way when the last of them said so has come by now.
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
