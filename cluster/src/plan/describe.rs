//! A plan in words.
//!
//! Describes the run, including defaults, from the plan alone. Printed by `belljar check`.

use std::collections::BTreeSet;
use std::{fmt, iter};

use belljar_sim::figures::counted;

use super::{NodeKind, Plan, network};
use crate::plan::kinds::time_model;
use crate::scenario::engine::Engine;
use crate::scenario::quantity::{Bytes, Rate};
use crate::scenario::{Polls, Trace, TraceBy};

/// The plan as `belljar check` prints it.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scenario   {}", self.name)?;
        if !self.description.is_empty() {
            writeln!(f, "           {}", self.description)?;
        }
        writeln!(f, "seed       {}", self.seed)?;
        for (head, of) in heads("image").zip(&self.images) {
            writeln!(f, "{head:<10} {}", of.image.dir.display())?;
        }
        if let Some(slurm) = &self.slurm {
            writeln!(
                f,
                "slurm      {}, partitions {}",
                slurm.image.dir.display(),
                slurm.partitions.join(", ")
            )?;
        }
        for (head, kind) in heads("nodes").zip(self.kinds()) {
            write!(f, "{head:<10} ")?;
            self.describe_kind(kind, f)?;
        }
        for noise in &self.noise {
            writeln!(f, "noise      {noise}")?;
        }
        for delay in &self.delays.all {
            writeln!(f, "delay      {}", delay.words)?;
        }
        let network = network::describe(
            &self.network_words,
            &self.topology,
            &self.network,
            &self.network_warnings,
        );
        f.write_str(&network)?;
        if let Some(infiniband) = &self.infiniband {
            f.write_str(&infiniband.line())?;
        }
        f.write_str(&self.describe_background())?;
        for &link in &self.pcap {
            writeln!(f, "pcap       {}", self.topology.link_name(link))?;
        }
        for line in self.command.lines() {
            writeln!(f, "workload   {line}")?;
        }
        if self.shared_folder {
            writeln!(f, "shared     /root of node 0, on all nodes over NFS")?;
        }
        self.describe_environment(f)?;
        for kind in self.kinds().iter().filter(|kind| kind.ranks > 1) {
            write!(f, "ranks      up to {} on each node", kind.ranks)?;
            match &kind.group {
                Some(group) => writeln!(f, " of group {group}")?,
                None => writeln!(f)?,
            }
        }
        self.describe_files(f)?;
        for program in &self.programs {
            writeln!(f, "program    {program}")?;
        }
        writeln!(f, "limit      {} of virtual time", self.limit)?;
        if let Some(every) = self.checkpoint_every {
            writeln!(f, "checkpoint every {every} of virtual time")?;
        }
        if let Some(profile) = self.profile {
            let (every, frames) = (profile.every, profile.frames);
            writeln!(
                f,
                "profile    every {every} of virtual time, {} each",
                counted(frames.into(), "frame")
            )?;
        }
        write!(f, "trace      {}", self.describe_trace())?;
        for own in &self.probes {
            // Several images have most files in common.
            let places: BTreeSet<_> = own.places.iter().flatten().collect();
            for (path, places) in places {
                let places: Vec<String> = places.iter().map(|at| format!("{at:#x}")).collect();
                let (name, places) = (&own.probe.name, places.join(", "));
                write!(f, "\nprobe      {name}: {path} at {places}")?;
            }
        }
        Ok(())
    }
}

impl Plan {
    fn describe_files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, content) in &self.files {
            let bytes = counted(content.len() as u64, "byte");
            writeln!(f, "file       {name}, {bytes}")?;
        }
        for (name, file) in self.large_files.iter() {
            writeln!(
                f,
                "file       {name}, {}, read from a disk",
                counted(file.size, "byte")
            )?;
        }
        Ok(())
    }

    /// Variables of all nodes, then variables of single images.
    fn describe_environment(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_all = |name: &String, value: &String| {
            let mut images = self.images.iter();
            images.all(|image| image.environment.get(name) == Some(value))
        };
        for (number, image) in self.images.iter().enumerate() {
            for (name, value) in &image.environment {
                match of_all(name, value) {
                    true if number > 0 => {}
                    true => writeln!(f, "           {name}={value}")?,
                    false => writeln!(
                        f,
                        "           {name}={value} on {}",
                        image.image.manifest.recipe
                    )?,
                }
            }
        }
        Ok(())
    }

    fn describe_kind(&self, kind: &NodeKind, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(group) = &kind.group {
            write!(f, "group {group}: ")?;
        }
        if self.images.len() > 1 {
            write!(
                f,
                "image {}: ",
                self.image_of_kind(kind).image.manifest.recipe
            )?;
        }
        write!(
            f,
            "{} x {} at {}, {}, ",
            kind.count,
            Bytes(kind.memory),
            Rate(kind.clock),
            kind.instruction_set,
        )?;
        if kind.vcpus > 1 {
            write!(f, "{} vCPUs in turns of {}, ", kind.vcpus, self.slice)?;
        }
        match &kind.timing {
            None if self.engine == Engine::Kvm => writeln!(f, "engine {}", self.engine),
            None => writeln!(
                f,
                "{} per {}, engine {}",
                counted(kind.ratio.cycles.into(), "cycle"),
                counted(kind.ratio.instructions.into(), "instruction"),
                self.engine
            ),
            Some(timing) => {
                writeln!(f, "engine {}", self.engine)?;
                f.write_str(&time_model::describe(timing))
            }
        }
    }

    fn describe_background(&self) -> String {
        let jobs = self.background.iter().map(|own| {
            let (ranks, hosts) = (own.job.ranks(), &own.hosts);
            let last = hosts.end.saturating_sub(1);
            format!(
                "background {}: {} on hosts {} to {last}, from {} on\n",
                own.name,
                counted(ranks.into(), "rank"),
                hosts.start,
                own.start
            )
        });
        jobs.collect()
    }

    fn describe_trace(&self) -> String {
        match (self.traced_by(), self.preloads_library()) {
            (Some(TraceBy::Probes), _) => format!("{}, by probes", describe_selection(&self.trace)),
            (Some(TraceBy::Library), _) => {
                format!("{}, by the library", describe_selection(&self.trace))
            }
            (None, true) => "off, library preloaded".to_owned(),
            (None, false) => "off, library not preloaded".to_owned(),
        }
    }
}

/// Prefixes of several lines: `head`, then the empty text.
fn heads(head: &str) -> impl Iterator<Item = &str> {
    iter::once(head).chain(iter::repeat(""))
}

fn describe_selection(trace: &Trace) -> String {
    let mut text = if trace.functions.is_empty() {
        "all functions".to_owned()
    } else {
        trace.functions.join(", ")
    };
    if let Some(from) = trace.from {
        text.push_str(&format!(", from {}", from.0));
    }
    if let Some(until) = trace.until {
        text.push_str(&format!(", until {}", until.0));
    }
    for (function, every) in &trace.sample {
        text.push_str(&format!(", every {every}th {function}"));
    }
    if trace.polls == Polls::Each {
        text.push_str(", each poll by itself");
    }
    if let Some(collect) = trace.collect {
        text.push_str(&format!(", {collect} of the main loop"));
    }
    match trace.frames {
        0 => {}
        frames => text.push_str(&format!(", {} each", counted(frames.into(), "frame"))),
    }
    if trace.datatypes {
        text.push_str(", contents of datatypes");
    }
    if trace.messages {
        text.push_str(", the library's messages");
    }
    text
}
