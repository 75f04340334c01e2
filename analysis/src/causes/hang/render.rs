//! Stuck ranks as text and as JSON.
//!
//! Used by the command.

use std::io;

use belljar_trace::LostProcess;

use super::{Hang, HangVerdict, HungRank, JobRank, OneSided, RankState};
use crate::dump::frames::lines;
use crate::table::Table;
use crate::time_words;

/// Most ranks of a chain, partners of a rank, and rows of messages that the text has.
const LONGEST_CHAIN: usize = 8;
const MOST_PARTNERS: usize = 4;
const MOST_ROWS: usize = 20;

impl Hang {
    /// True if no rank can go on: all of them are stuck or have ended, and at least one is stuck.
    pub fn is_total(&self) -> bool {
        let is_over = |rank: &HungRank| match rank.state {
            RankState::Ended | RankState::Lost | RankState::Finalizing => true,
            RankState::InCall | RankState::Outside => rank.stuck,
        };
        self.ranks.iter().all(is_over) && self.ranks.iter().any(|rank| rank.stuck)
    }

    /// Says in a line why the job came to no end; `None` if no rank is stuck.
    pub fn sentence(&self) -> Option<String> {
        let link = |of: &JobRank| {
            let call = self.rank(*of).map_or("a call", |rank| rank.function);
            format!("{} in {call} waits for", self.name(*of))
        };
        let shown = self.chain.len().min(LONGEST_CHAIN);
        match self.verdict {
            HangVerdict::NotStuck => None,
            HangVerdict::Deadlock if self.has_mismatch() => Some(self.mismatch()),
            HangVerdict::Deadlock => {
                let mut text: Vec<String> = self.chain[..shown].iter().map(link).collect();
                if shown < self.chain.len() {
                    text.push(format!(
                        "{} more, of which the last waits for",
                        self.chain.len() - shown
                    ));
                }
                let first = self.chain.first()?;
                Some(format!(
                    "deadlock: {} {}",
                    text.join(" "),
                    self.name(*first)
                ))
            }
            HangVerdict::WaitsForEnded => {
                let (last, others) = self.chain.split_last()?;
                let text: Vec<String> = others.iter().take(LONGEST_CHAIN).map(link).collect();
                let end = match self.rank(*last) {
                    Some(rank) if rank.state == RankState::Lost => {
                        format!("{} without ending MPI", LostProcess::describe(rank.exit))
                    }
                    Some(rank) if rank.state == RankState::Finalizing => {
                        format!("is in {}", rank.function)
                    }
                    _ => "has ended MPI".to_owned(),
                };
                Some(format!(
                    "{} {}, which {end}",
                    text.join(" "),
                    self.name(*last)
                ))
            }
        }
    }

    /// True if ranks of the chain are in different collective operations of one communicator.
    pub(crate) fn has_mismatch(&self) -> bool {
        let mut ranks = self.chain.iter().filter_map(|of| self.rank(*of));
        ranks.any(|rank| rank.mismatched)
    }

    /// Names the ranks in each of the different collective operations.
    fn mismatch(&self) -> String {
        let mut groups: Vec<(String, Vec<JobRank>)> = Vec::new();
        let in_chain = |rank: &&HungRank| rank.mismatched || self.chain.contains(&rank.of);
        // A rank of the chain may wait for a nonblocking operation that it began earlier.
        for rank in self.ranks.iter().filter(in_chain) {
            // Handles that are addresses differ between processes.
            let arguments = rank.arguments.split(", ");
            let arguments: Vec<&str> = arguments.filter(|it| !it.contains("=0x")).collect();
            let call = format!("{}({})", rank.function, arguments.join(", "));
            match groups.iter_mut().find(|(other, _)| *other == call) {
                Some((_, ranks)) => ranks.push(rank.of),
                None => groups.push((call, vec![rank.of])),
            }
        }
        let shown = groups.len().min(LONGEST_CHAIN);
        let mut text: Vec<String> = Vec::new();
        for (call, ranks) in &groups[..shown] {
            text.push(format!("{} in {call}", self.names(ranks)));
        }
        if shown < groups.len() {
            text.push(format!("{} more calls", groups.len() - shown));
        }
        format!(
            "deadlock: different collective operations: {}",
            text.join("; ")
        )
    }

    fn names(&self, ranks: &[JobRank]) -> String {
        let shown = ranks.len().min(LONGEST_CHAIN);
        let numbers: Vec<String> = ranks[..shown].iter().map(|of| self.number(*of)).collect();
        let word = if ranks.len() == 1 { "rank" } else { "ranks" };
        let more = match ranks.len() - shown {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{word} {}{more}", numbers.join(", "))
    }

    fn rank(&self, of: JobRank) -> Option<&HungRank> {
        let place = self.ranks.binary_search_by_key(&of, |rank| rank.of);
        place.ok().map(|place| &self.ranks[place])
    }

    fn has_jobs(&self) -> bool {
        self.ranks.iter().any(|rank| rank.of.job > 0)
    }

    fn number(&self, of: JobRank) -> String {
        match self.has_jobs() {
            true => format!("{}.{}", of.job, of.rank),
            false => of.rank.to_string(),
        }
    }

    fn name(&self, of: JobRank) -> String {
        format!("rank {}", self.number(of))
    }

    /// Writes the result as text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        match self.sentence() {
            Some(sentence) => writeln!(out, "{}{}", sentence[..1].to_uppercase(), &sentence[1..])?,
            None => writeln!(out, "No rank is stuck by the calls of this trace")?,
        }
        writeln!(out, "\nRanks")?;
        self.table().write(out)?;
        self.write_sites(out)?;
        self.write_one_sided(out, "Messages that no receive took", &self.unreceived)?;
        self.write_one_sided(out, "Receives that no message reached", &self.unsent)
    }

    fn table(&self) -> Table {
        let heads = [
            "rank",
            "node",
            "stuck",
            "state",
            "since",
            "for",
            "waits for",
        ];
        let mut table = Table::new(heads);
        for rank in &self.ranks {
            let state = match rank.state {
                RankState::InCall | RankState::Finalizing => {
                    format!("in {}({})", rank.function, rank.arguments)
                }
                RankState::Outside => format!("after {}", rank.function),
                RankState::Ended => "ended MPI".to_owned(),
                RankState::Lost => format!(
                    "{} {} {}",
                    LostProcess::describe(rank.exit),
                    if rank.is_inside { "in" } else { "after" },
                    rank.function
                ),
            };
            table.row(vec![
                self.number(rank.of),
                rank.node.to_string(),
                if rank.stuck { "yes" } else { "" }.to_owned(),
                state,
                time_words(rank.since_ps),
                time_words(rank.for_ps),
                self.partners(rank),
            ]);
        }
        table
    }

    fn partners(&self, rank: &HungRank) -> String {
        let shown = rank.waits_for.iter().take(MOST_PARTNERS);
        let shown: Vec<String> = shown.map(|of| self.number(*of)).collect();
        let more = rank.waits_for.len().saturating_sub(MOST_PARTNERS);
        let between = if rank.any { " or " } else { ", " };
        match more {
            0 => shown.join(between),
            more => format!("{}{between}{more} more", shown.join(between)),
        }
    }

    fn write_sites(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let stuck = self
            .ranks
            .iter()
            .filter(|rank| rank.stuck && !rank.site.is_empty());
        for rank in stuck.take(MOST_ROWS) {
            writeln!(
                out,
                "\n{} called {} from",
                self.name(rank.of),
                rank.function
            )?;
            for line in rank.site.iter().flat_map(lines) {
                writeln!(out, "  {line}")?;
            }
        }
        Ok(())
    }

    fn write_one_sided(
        &self,
        out: &mut dyn io::Write,
        title: &str,
        messages: &[OneSided],
    ) -> io::Result<()> {
        if messages.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{title}")?;
        let mut table = Table::new(["from", "to", "tag", "number"]);
        for message in messages.iter().take(MOST_ROWS) {
            let any = || "any".to_owned();
            table.row(vec![
                message.from.map_or_else(any, |from| self.number(from)),
                self.number(message.to),
                message.tag.map_or_else(any, |tag| tag.to_string()),
                message.count.to_string(),
            ]);
        }
        table.write(out)?;
        match messages.len().saturating_sub(MOST_ROWS) {
            0 => Ok(()),
            more => writeln!(out, "  and {more} more pairs"),
        }
    }

    /// Writes the result as JSON.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}
