//! The JSON format of Chromium's trace viewer, Speedscope and Perfetto, for small traces.
//!
//! A call is a complete event with arguments, a message a flow from its sender to its receiver. Times are in microseconds with
//! six decimals, so exact to the picosecond. Used by `belljar trace export`.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use crate::records::calls::ExportedCall;
use crate::records::described::{self, Value};
use crate::records::source::Source;

/// Writes the trace to `out`.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write(source: &mut Source, out: &mut dyn Write) -> io::Result<()> {
    let mut known = BTreeSet::new();
    write!(out, "{{\"displayTimeUnit\":\"ns\",")?;
    let processors = source.header().processors();
    if !processors.is_empty() {
        write!(
            out,
            "\"otherData\":{},",
            json!({ "processors": processors })
        )?;
    }
    write!(out, "\"traceEvents\":[")?;
    let mut first = true;
    while let Some(call) = source.next_call() {
        for line in lines(source, &call, known.insert(call.process)) {
            if !first {
                write!(out, ",")?;
            }
            first = false;
            write!(out, "\n{line}")?;
        }
    }
    writeln!(out, "\n]}}")
}

/// Formats a time in microseconds, as a number in JSON.
fn microseconds(ps: u64) -> String {
    format!("{}.{:06}", ps / 1_000_000, ps % 1_000_000)
}

/// Formats the events of a call, and of its process if that is new.
fn lines(source: &Source, call: &ExportedCall, fresh: bool) -> Vec<String> {
    let (pid, tid) = (call.process, call.event.thread);
    let mut lines = Vec::new();
    if fresh {
        let of = source.places().processes().get(pid as usize);
        let name = of.map_or_else(String::new, |(member, node)| {
            format!("job {}, rank {} on node{node}", member.job, member.rank)
        });
        let process =
            json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}});
        lines.push(process.to_string());
    }
    let entry = source.picoseconds(call.entry);
    let mut arguments = Map::new();
    described::call(call, &mut |name, value| {
        let value = match value {
            Value::Number(number) => json!(number),
            Value::Word(word) => json!(word),
        };
        arguments.insert(name.to_owned(), value);
    });
    let arguments = Json::Object(arguments);
    let name = json!(call.event.name());
    let at = microseconds(entry);
    let head = format!("\"name\":{name},\"cat\":\"MPI\",\"pid\":{pid},\"tid\":{tid},\"ts\":{at}");
    let Some(exit) = call.exit.map(|exit| source.picoseconds(exit)) else {
        lines.push(format!("{{\"ph\":\"B\",{head},\"args\":{arguments}}}"));
        return lines;
    };
    let span = microseconds(exit - entry);
    lines.push(format!(
        "{{\"ph\":\"X\",{head},\"dur\":{span},\"args\":{arguments}}}"
    ));
    let flow = |kind: &str, message: u64, at: u64| {
        let at = microseconds(at);
        format!(
            "{{\"ph\":{kind},\"name\":\"message\",\"cat\":\"MPI\",\"id\":{message},\"pid\":{pid},\"tid\":{tid},\"ts\":{at}}}"
        )
    };
    let sent = call.begun.iter().filter_map(described::sent);
    let sent = sent.filter_map(|part| part.message);
    lines.extend(sent.map(|message| flow("\"s\"", message, entry)));
    let received = call.done.iter().filter_map(described::received);
    let received = received.filter_map(|part| part.message);
    lines.extend(received.map(|message| flow("\"f\",\"bp\":\"e\"", message, exit)));
    lines
}
