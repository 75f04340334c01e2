//! What a traced program does, as a function of ranks and size.
//!
//! Ranks whose calls have the same loops are a class. Of each call of a class there is a template, as it was traced, and what differs: whom it reaches, as a relation; how much it moves
//! and what time it takes, as values. A model is data only: what it says of a size is made by `generate`. Bytes of a model may come from anybody; one whose parts do not fit together is refused.

/// What differs between instances of a call.
mod call;
/// Warnings about a model's own answers.
mod doubts;
/// Models made of runs.
mod learn;
/// Which class a rank belongs to.
mod roles;

use belljar_mpi::CallKind;
use belljar_sim::figures::significant;
use belljar_trace::Event;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fit::{DIGITS, Fitted};
use crate::structure::{Node, Structure};
use crate::values::Values;

pub(crate) use call::phase;
pub use call::{CallModel, CollectiveModel, Completes, Counter, Shape, Tags, Times, TransferModel};
pub use learn::LearnError;
pub(crate) use learn::{Distinction, learn, read};
pub use roles::{Role, Roles};

/// The version that is written.
const VERSION: u32 = 4;

/// A model of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Model {
    /// The version of this form.
    version: u32,
    /// What the runs are called.
    pub name: String,
    /// The runs that it is made of: ranks and size of each.
    pub runs: Vec<(u32, f64)>,
    /// The processors' clock, in Hz.
    pub clock_hz: u64,
    /// Ranks on each node.
    pub per_node: u32,
    /// When the first call begins, in picoseconds.
    pub start_ps: u64,
    /// Which class a rank belongs to.
    pub roles: Roles,
    /// The classes.
    pub classes: Vec<Class>,
    /// The scenario of the largest run, if it is known.
    pub scenario: Option<String>,
    /// Warnings about its runs.
    pub warnings: Vec<String>,
    /// One call of each kind, as it was traced: events in hexadecimal digits.
    templates: String,
}

/// Ranks that do the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Class {
    /// Their loops.
    pub structure: Structure,
    /// How often each loop turns, by its number.
    pub turns: Vec<Values>,
    /// Their calls, by number.
    pub calls: Vec<CallModel>,
}

/// A function of a model.
#[derive(Clone, Debug)]
pub struct Function<'m> {
    /// The class of ranks.
    pub class: usize,
    /// The function of MPI, or `loop`.
    pub function: String,
    /// The value: `turns`, `time before`, `own time`, `bytes`, `bytes sent` or `bytes received`.
    pub what: &'static str,
    /// Which call or loop of the class it is of, in words: `call 3 after call 2`, `loop 0`.
    pub place: String,
    /// True for `MPI_Init` and its like: launchers take longer for more nodes, in other ways than programs.
    pub start_up: bool,
    /// The value of its instances.
    pub values: &'m Values,
}

/// Bytes that are no model.
#[derive(Debug, thiserror::Error)]
#[error("no model of Belljar's: {0}")]
pub struct ModelError(String);

/// The same value with numbers that are not whole rounded to the 12 significant digits of a fit.
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
    /// As text. Numbers have the 12 significant digits of a fit.
    ///
    /// # Errors
    /// Never for one that was learned.
    pub fn save(&self) -> Result<String, ModelError> {
        let value = serde_json::to_value(self).map(rounded);
        value
            .map(|value| value.to_string())
            .map_err(|error| ModelError(error.to_string()))
    }

    /// The model that a text is.
    ///
    /// # Errors
    /// [`ModelError`] when it is none, or contradicts itself.
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

    /// The calls that instances are made of.
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

    /// All functions that were fitted.
    pub fn functions(&self) -> Vec<Function<'_>> {
        let Ok(templates) = self.templates() else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for (number, class) in self.classes.iter().enumerate() {
            let of = |function: &str, place, start_up, what, values| Function {
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

    /// How many calls and loops its classes have together.
    pub fn extent(&self) -> (u32, u32) {
        let classes = self.classes.iter().map(|class| &class.structure);
        classes.fold((0, 0), |(calls, loops), it| {
            (calls + it.calls, loops + it.loops)
        })
    }
}

/// The calls of a structure, in the order of its text.
pub(crate) fn calls_of(nodes: &[Node]) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    for node in nodes {
        match node {
            Node::Call { token, number } => all.push((*number, *token)),
            Node::Loop { body, .. } => all.extend(calls_of(body)),
        }
    }
    all
}
