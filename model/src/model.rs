//! A traced program as a function of ranks and size.
//!
//! Ranks whose calls have the same loops are a class. Each call of a class has a traced template and the differing parts: peers as relations; amounts and times as
//! values. A model only contains data: `generate` evaluates it for a size. The bytes of a model are untrusted; an inconsistent model is refused.

/// Differences between the instances of a call.
mod call;
/// Warnings about a model's answers.
mod doubts;
/// Creation of models from runs.
mod learn;
/// Assignment of ranks to classes.
mod roles;

use belljar_mpi::CallKind;
use belljar_sim::figures::significant;
use belljar_trace::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fit::{DIGITS, Fitted};
use crate::structure::{Structure, StructureNode};
use crate::values::Values;

pub(crate) use call::phase;
pub use call::{
    CallModel, CallTimeModel, CollectiveModel, Completes, Counter, Shape, Tags, TransferModel,
};
pub use learn::LearnError;
pub(crate) use learn::{Distinction, learn, read};
pub use roles::{Role, Roles};

/// The version of the format that is written.
const VERSION: u32 = 4;

/// A model of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    /// The version of this form.
    version: u32,
    /// The name of the runs.
    pub name: String,
    /// The runs that it is learned from: ranks and size of each.
    pub runs: Vec<(u32, f64)>,
    /// The processors' clock, in Hz.
    pub clock_hz: u64,
    /// Ranks on each node.
    pub per_node: u32,
    /// The begin of the first call, in picoseconds.
    pub start_ps: u64,
    /// Assignment of ranks to classes.
    pub roles: Roles,
    /// The classes.
    pub classes: Vec<Class>,
    /// The scenario of the largest run, if known.
    pub scenario: Option<String>,
    /// Warnings about its runs.
    pub warnings: Vec<String>,
    /// One traced call of each kind: events in hexadecimal digits.
    templates: String,
}

/// Ranks with the same calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Class {
    /// Their loops.
    pub structure: Structure,
    /// The turns of each loop, by its number.
    pub turns: Vec<Values>,
    /// Their calls, by number.
    pub calls: Vec<CallModel>,
}

/// A function in a model.
#[derive(Clone, Debug)]
pub struct ModelFunction<'m> {
    /// The class of ranks.
    pub class: usize,
    /// The function of MPI, or `loop`.
    pub function: String,
    /// The value: `turns`, `time before`, `own time`, `bytes`, `bytes sent` or `bytes received`.
    pub what: &'static str,
    /// Its call or loop in the class, in words: `call 3 after call 2`, `loop 0`.
    pub place: String,
    /// True for `MPI_Init` and similar functions: the start-up time of launchers depends on the number of nodes differently from programs.
    pub start_up: bool,
    /// The value of its instances.
    pub values: &'m Values,
}

/// Bytes that are not a model.
#[derive(Debug, thiserror::Error)]
#[error("no model of Belljar's: {0}")]
pub struct ModelError(String);

/// Rounds non-integer numbers in a value to the 12 significant digits of a fit.
pub fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let number = number.as_f64().map(|number| significant(number, DIGITS));
            number.map_or(Value::Null, Value::from)
        }
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            Value::Object(members.map(|(key, value)| (key, rounded(value))).collect())
        }
        value => value,
    }
}

impl Model {
    /// Returns the model as text. Numbers have the 12 significant digits of a fit.
    ///
    /// # Errors
    /// Never fails for a learned model.
    pub fn save(&self) -> Result<String, ModelError> {
        let value = serde_json::to_value(self).map(rounded);
        value
            .map(|value| value.to_string())
            .map_err(|error| ModelError(error.to_string()))
    }

    /// Parses the text of a model.
    ///
    /// # Errors
    /// Returns [`ModelError`] if it is not a model, or is inconsistent.
    pub fn load(text: &str) -> Result<Self, ModelError> {
        let model: Self =
            serde_json::from_str(text).map_err(|error| ModelError(error.to_string()))?;
        if model.version != VERSION {
            let version = model.version;
            let why = format!(
                "its version is {version}, this program reads {VERSION}: fit it to its runs again"
            );
            return Err(ModelError(why));
        }
        let templates = model.templates()?.len();
        let fits = |class: &Class| {
            let structure = &class.structure;
            structure.is_sound()
                && structure.loops as usize == class.turns.len()
                && structure.calls as usize == class.calls.len()
                && class
                    .calls
                    .iter()
                    .all(|call| (call.template as usize) < templates)
        };
        let classes = model.classes.len();
        let known = model.roles.classes().all(|class| class < classes);
        let sound = model.functions().iter().all(|of| {
            let mut functions = of.values.functions().iter();
            functions.all(Fitted::is_sound) && of.values.is_sound()
        });
        match known && sound && model.clock_hz > 0 && model.classes.iter().all(fits) {
            true => Ok(model),
            false => Err(ModelError("its parts do not fit together".to_owned())),
        }
    }

    /// Returns the templates of calls.
    pub fn templates(&self) -> Result<Vec<Event>, ModelError> {
        let digits = self.templates.as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|it| it as u8);
        let pairs = digits.chunks(2).map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        });
        let bytes: Option<Vec<u8>> = pairs.collect();
        let bytes = bytes.ok_or_else(|| ModelError("its calls are no digits".to_owned()))?;
        belljar_trace::load_events(&bytes).map_err(|error| ModelError(error.to_string()))
    }

    /// Returns all fitted functions.
    pub fn functions(&self) -> Vec<ModelFunction<'_>> {
        let Ok(templates) = self.templates() else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for (number, class) in self.classes.iter().enumerate() {
            let of = |function: &str, place, start_up, what, values| ModelFunction {
                class: number,
                function: function.to_owned(),
                what,
                place,
                start_up,
                values,
            };
            let turns = class.turns.iter().enumerate();
            all.extend(
                turns.map(|(at, turns)| of("loop", format!("loop {at}"), false, "turns", turns)),
            );
            for (at, call) in class.calls.iter().enumerate() {
                let event = templates.get(call.template as usize);
                let name = event.map_or("", Event::name);
                let start_up = event.is_some_and(|event| event.meaning().kind == CallKind::Init);
                for times in &call.times {
                    let place = match times.after {
                        Some(after) => format!("call {at} after call {after}"),
                        None => format!("call {at}"),
                    };
                    let before = of(name, place.clone(), start_up, "time before", &times.before);
                    let own = of(name, place, start_up, "own time", &times.own);
                    all.extend([before, own]);
                }
                let place = format!("call {at}");
                let mut push =
                    |what, values| all.push(of(name, place.clone(), start_up, what, values));
                for transfer in &call.transfers {
                    push("bytes", &transfer.bytes);
                }
                for collective in &call.collectives {
                    push("bytes sent", &collective.sent);
                    push("bytes received", &collective.received);
                }
            }
        }
        all
    }

    /// Returns the numbers of calls and loops of its classes together.
    pub fn extent(&self) -> (u32, u32) {
        let classes = self.classes.iter().map(|class| &class.structure);
        classes.fold((0, 0), |(calls, loops), it| {
            (calls + it.calls, loops + it.loops)
        })
    }
}

/// Returns the calls of a structure, in the order of its text.
pub(crate) fn calls_of(nodes: &[StructureNode]) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    for node in nodes {
        match node {
            StructureNode::Call { token, number } => all.push((*number, *token)),
            StructureNode::Loop { body, .. } => all.extend(calls_of(body)),
        }
    }
    all
}
