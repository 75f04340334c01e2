//! A motif's tables: steps, calls, messages, relations, values.
//!
//! Calls are numbered across all classes; these numbers from 1 are the call sites of parameter files. Used by `ember`.

use std::fmt::Write;

use belljar_model::{CallModel, Class, Completes, Model, Shape, StructureNode, Tags, Values};
use belljar_mpi::CallKind;
use belljar_trace::{Amount, Collective, Direction, Event, Fact, Making, Share, WORLD};

use crate::MotifError;
use crate::operations::{becomes_allreduce, named};
use crate::parameters::Parameters;
use rules::{by_instance, relation_line, role};

/// Lines of rules: roles of ranks, and relations of peers.
mod rules;

/// The tag of messages that replace a gather.
const GATHER_TAG: i32 = 32_000;

/// Reason for the refusal of a call whose peers a motif cannot compute.
const NO_RULE: &str = "its peers follow a rule that motifs do not have";

/// Lines of each table.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) text: String,
    pub(super) warnings: Vec<String>,
    steps: Vec<String>,
    values: Vec<String>,
    profiles: Vec<String>,
    relations: Vec<String>,
    transfers: Vec<String>,
    tags: Vec<String>,
    calls: Vec<String>,
    times: Vec<String>,
    classes: Vec<String>,
    loop_values: Vec<String>,
    completions: Vec<String>,
    completion_starts: Vec<String>,
}

impl Tables {
    /// Creates the tables of a model, and writes its functions to `parameters`.
    pub(super) fn of(model: &Model, parameters: &mut Parameters) -> Result<Self, MotifError> {
        let templates = model.templates()?;
        let mut tables = Self::default();
        tables.completion_starts.push("0".to_owned());
        for class in &model.classes {
            tables.class(class, &templates, parameters)?;
        }
        let (role, grid) = role(model.roles.role);
        let roles: Vec<String> = model
            .roles
            .kinds()
            .map(|(kind, class)| format!("{{ {kind}ULL, {class} }}"))
            .collect();
        let mut text = String::new();
        let _ = writeln!(text, "const int role = {role}, roleGrid = {};", grid.0);
        let _ = writeln!(text, "const bool roleAscending = {};", grid.1);
        let _ = writeln!(text, "const int roleCount = {};", roles.len());
        let _ = writeln!(
            text,
            "const int worldNumber = {WORLD}, gatherTag = {GATHER_TAG};"
        );
        let all: [(&str, &str, &[String]); 13] = [
            ("Role", "roles", &roles),
            ("Step", "steps", &tables.steps),
            ("Values", "values", &tables.values),
            ("double", "profiles", &tables.profiles),
            ("Relation", "relations", &tables.relations),
            ("Transfer", "transfers_", &tables.transfers),
            ("int", "tags", &tables.tags),
            ("Call", "calls", &tables.calls),
            ("Time", "times", &tables.times),
            ("Class", "classes", &tables.classes),
            ("int", "loopValues", &tables.loop_values),
            ("int", "completions", &tables.completions),
            ("int", "completionStarts", &tables.completion_starts),
        ];
        for (kind, name, lines) in all {
            // C++ has no empty arrays.
            let lines = match lines {
                [] => "{}".to_owned(),
                lines => lines.join(",\n    "),
            };
            let _ = writeln!(text, "const {kind} {name}[] = {{\n    {lines}\n}};");
        }
        tables.text = text.trim_end().to_owned();
        tables.warnings.sort();
        tables.warnings.dedup();
        Ok(tables)
    }

    fn class(
        &mut self,
        class: &Class,
        templates: &[Event],
        parameters: &mut Parameters,
    ) -> Result<(), MotifError> {
        let steps = self.steps.len();
        self.nodes(&class.structure.nodes);
        self.steps.push("{ END, 0, 0 }".to_owned());
        let first_loop = self.loop_values.len();
        for turns in &class.turns {
            let values = self.values(turns, parameters.bytes(turns));
            self.loop_values.push(values.to_string());
        }
        let first = self.calls.len();
        for (number, call) in (first..).zip(&class.calls) {
            let event = &templates[call.template as usize];
            self.call(first, number, call, event, parameters)?;
        }
        self.classes.push(format!(
            "{{ {steps}, {}, {first_loop}, {}, {first} }}",
            class.turns.len(),
            class.calls.len()
        ));
        Ok(())
    }

    fn nodes(&mut self, nodes: &[StructureNode]) {
        for node in nodes {
            match node {
                StructureNode::Call { number, .. } => {
                    self.steps.push(format!("{{ CALL, {number}, 0 }}"))
                }
                StructureNode::Loop { body, number } => {
                    let at = self.steps.len();
                    self.steps.push(String::new());
                    self.nodes(body);
                    let end = self.steps.len();
                    self.steps.push(format!("{{ END, {number}, 0 }}"));
                    self.steps[at] = format!("{{ LOOP, {number}, {end} }}");
                }
            }
        }
    }

    fn values(&mut self, values: &Values, site: u32) -> usize {
        let (kind, profile) = match values {
            Values::Same(_) => ("SAME", &[][..]),
            Values::Ends(_) => ("ENDS", &[][..]),
            Values::ByTurn(_) => ("BYTURN", &[][..]),
            Values::Periodic(_) => ("PERIODIC", &[][..]),
            Values::Profile(_, parts) => ("PROFILE", parts.as_slice()),
            // Refused before, as a motif has no form for it.
            Values::Divided { .. } => ("PERIODIC", &[][..]),
        };
        let (count, at, parts) = (values.functions().len(), self.profiles.len(), profile.len());
        self.profiles.extend(profile.iter().map(f64::to_string));
        self.values
            .push(format!("{{ {kind}, {site}, {count}, {at}, {parts} }}"));
        self.values.len() - 1
    }

    fn call(
        &mut self,
        first: usize,
        number: usize,
        call: &CallModel,
        event: &Event,
        parameters: &mut Parameters,
    ) -> Result<(), MotifError> {
        let transfer = self.transfers.len();
        for (own, of) in event.transfers.iter().zip(&call.transfers) {
            if own.is_access() {
                return Err(missing(event, "it has no windows"));
            }
            let relation = self.relations.len();
            for peer in &of.peer {
                let line = relation_line(peer).ok_or_else(|| missing(event, NO_RULE))?;
                self.relations.push(line);
            }
            if !of.phases.is_empty() || of.peer.is_empty() {
                return Err(missing(event, NO_RULE));
            }
            let (tag, from, count) = self.tags(&of.tag);
            let values = self.values(&of.bytes, parameters.bytes(&of.bytes));
            self.transfers.push(format!(
                "{{ {}, {}, {relation}, {}, {}, {tag}, {from}, {count}, {values} }}",
                i32::from(own.direction == Direction::Send),
                own.communicator.unwrap_or(WORLD),
                of.peer.len(),
                by_instance(of.by).ok_or_else(|| missing(event, NO_RULE))?,
            ));
        }
        let collective = self.collective(call, event, parameters)?;
        let (completes, completion, completions) = self.completes(&call.completes);
        let (makes, color, key, parent) = self.made(call, event)?;
        let time = self.times.len();
        for times in &call.times {
            let from = times.after.map_or(0, |after| first as u32 + after + 1);
            let to = number as u32 + 1;
            parameters.times(from, to, &times.before);
            let values = self.values(&times.before, to);
            self.times.push(format!("{{ {from}, {values} }}"));
        }
        let kind = match event.meaning().kind {
            CallKind::Init => "INIT",
            CallKind::Finalize => "FINALIZE",
            _ if makes >= 0 => "SPLIT",
            _ if !call.transfers.is_empty() => "TRANSFER",
            _ if !call.collectives.is_empty() => "COLLECTIVE",
            _ => "NOTHING",
        };
        let EmberCollective {
            name,
            communicator,
            root,
            by_instance,
            sent,
            received,
            shared,
        } = collective;
        let communicator = parent.unwrap_or(communicator);
        self.calls.push(format!(
            "{{ {kind}, {transfer}, {}, {}, {name}, {communicator}, {root}, {by_instance}, {sent}, {received}, {shared}, {completes}, {completion}, {completions}, {makes}, {color}, {key}, {time}, {} }}",
            call.transfers.len(),
            event.started.len(),
            call.times.len(),
        ));
        Ok(())
    }

    fn collective(
        &mut self,
        call: &CallModel,
        event: &Event,
        parameters: &mut Parameters,
    ) -> Result<EmberCollective, MotifError> {
        let Some((own, of)) = event.collectives.first().zip(call.collectives.first()) else {
            return Ok(EmberCollective::default());
        };
        if matches!(event.fact, Some(Fact::Communicator(_))) {
            return Ok(EmberCollective::default());
        }
        let root = match &of.root {
            Some(relation) => {
                let line = relation_line(relation).ok_or_else(|| missing(event, NO_RULE))?;
                self.relations.push(line);
                self.relations.len() as i64 - 1
            }
            None => -1,
        };
        let name = self.operation(event, own)?;
        Ok(EmberCollective {
            name,
            communicator: own.communicator.unwrap_or(WORLD),
            root,
            by_instance: by_instance(of.by).ok_or_else(|| missing(event, NO_RULE))?,
            sent: self.values(&of.sent, parameters.bytes(&of.sent)),
            received: self.values(&of.received, parameters.bytes(&of.received)),
            shared: i32::from(is_share(&own.sent) || is_share(&own.received)),
        })
    }

    /// Returns Ember's event for a collective operation.
    fn operation(&mut self, event: &Event, own: &Collective) -> Result<&'static str, MotifError> {
        if !event.started.is_empty() {
            self.warnings.push(format!(
                "{} is done when it is begun: Ember has blocking collective operations only",
                event.name()
            ));
        }
        let known = match own.operation {
            Some(operation) => named(operation),
            // Frees of communicators and windows at most synchronise.
            None if own.sent.bytes == Some(0) && own.received.bytes == Some(0) => Some("BARRIER"),
            None => None,
        };
        let Some(known) = known else {
            return Err(missing(event, "it is none of its collective operations"));
        };
        if own.operation.is_some_and(becomes_allreduce) {
            self.warnings.push(format!(
                "{} is an allreduce of as many bytes: Ember has none",
                event.name()
            ));
        }
        if known == "GATHER" {
            self.warnings.push(format!(
                "{} is messages to the root: Ember has no gather",
                event.name()
            ));
        }
        Ok(known)
    }

    fn completes(&mut self, completes: &Completes) -> (&'static str, usize, usize) {
        let at = self.completion_starts.len() - 1;
        let mut list = |all: &[u32]| {
            self.completions.extend(all.iter().map(u32::to_string));
            self.completion_starts
                .push(self.completions.len().to_string());
        };
        match completes {
            Completes::All => ("EVERY", at, 0),
            Completes::These(all) => {
                list(all);
                ("THESE", at, 1)
            }
            Completes::InTurn(all) => {
                all.iter().for_each(|it| list(it));
                ("INTURN", at, all.len())
            }
        }
    }

    /// Returns the communicator that a call creates, -1 for none; relations of colour and key, -1 if it is like its parent; and the parent.
    fn made(
        &mut self,
        call: &CallModel,
        event: &Event,
    ) -> Result<(i64, i64, i64, Option<u32>), MotifError> {
        let Some(Fact::Communicator(new)) = &event.fact else {
            return Ok((-1, -1, -1, None));
        };
        let parent = Some(new.parent.unwrap_or(WORLD));
        let makes = new.number.map_or(-1, i64::from);
        match (&new.how, &call.shape) {
            (Making::Split { .. }, Shape::Split { color, key }) => {
                for relation in [color, key] {
                    let line = relation_line(relation).ok_or_else(|| missing(event, NO_RULE))?;
                    self.relations.push(line);
                }
                let last = self.relations.len() as i64 - 1;
                Ok((makes, last - 1, last, parent))
            }
            (Making::Duplicate | Making::Cart { .. }, _) => Ok((makes, -1, -1, parent)),
            _ => Err(missing(
                event,
                "motifs make communicators by splits, copies and grids of all",
            )),
        }
    }

    fn tags(&mut self, tags: &Tags) -> (&'static str, usize, usize) {
        let at = self.tags.len();
        let (kind, all) = match tags {
            Tags::None => ("NOTAG", Vec::new()),
            Tags::Same(tag) => ("SAMETAG", vec![*tag]),
            Tags::Turn(from) => ("TURNTAG", vec![*from]),
            Tags::Instance(from) => ("INSTANCETAG", vec![*from]),
            Tags::List(all) => ("LISTTAG", all.clone()),
        };
        self.tags.extend(all.iter().map(i32::to_string));
        (kind, at, all.len().max(1))
    }
}

/// A collective operation of a call, as numbers of tables.
struct EmberCollective {
    name: &'static str,
    communicator: u32,
    root: i64,
    by_instance: i32,
    sent: usize,
    received: usize,
    shared: i32,
}

impl Default for EmberCollective {
    fn default() -> Self {
        Self {
            name: "BARRIER",
            communicator: WORLD,
            root: -1,
            by_instance: 0,
            sent: 0,
            received: 0,
            shared: 1,
        }
    }
}

fn missing(event: &Event, why: &'static str) -> MotifError {
    MotifError::Missing {
        function: event.name().to_owned(),
        why,
    }
}

/// True if an amount is per member, and not the total.
fn is_share(amount: &Amount) -> bool {
    amount.share != Share::Whole && amount.pieces.is_empty() && amount.bytes != Some(0)
}
