//! Jobs as short text: a line for each call, in the order of entries.
//!
//! The text names operations by the numbers that differences use. Printed with the first job that fails.

use std::fmt::Write as _;

use crate::job::{Action, Job, OperationId};
use crate::simulate::Execution;

/// The text of a job as it was executed. Receives name the send that they got.
pub(crate) fn text(job: &Job, execution: &Execution) -> String {
    let mut text = format!("{} ranks\n", job.ranks);
    for communicator in job.communicators.iter().enumerate().skip(1) {
        let (number, communicator) = communicator;
        // A string takes everything.
        let _ = writeln!(
            text,
            "communicator {number}: ranks {:?}",
            communicator.members
        );
    }
    for executed in &execution.calls {
        let actor = &job.actors[executed.actor];
        let call = &actor.calls[executed.call];
        let form = match executed.probe {
            true => "Probe".to_owned(),
            false => format!("{:?}", call.form),
        };
        let found = if executed.found { "" } else { " (not over)" };
        let _ = write!(
            text,
            "{:>8} rank {}.{} {form}{found}",
            executed.entry, actor.rank, actor.thread
        );
        for operation in &call.operations {
            let _ = write!(text, " {}", described(job, execution, *operation));
        }
        text.push('\n');
    }
    text
}

fn described(job: &Job, execution: &Execution, operation: OperationId) -> String {
    let of = &job.operations[operation];
    let communicator = of.communicator;
    match of.action {
        Action::Send {
            to,
            tag,
            bytes,
            mode,
        } => {
            format!("[#{operation} {mode:?} to {to} tag {tag}, {bytes} B, comm {communicator}]")
        }
        Action::Receive {
            from, tag, status, ..
        } => {
            let got = execution.send_of(operation);
            format!(
                "[#{operation} from {from:?} tag {tag:?} status {status}, comm {communicator}, got {got:?}]"
            )
        }
        Action::Nothing { sends, .. } => {
            let direction = if sends { "to" } else { "from" };
            format!("[#{operation} {direction} no rank, comm {communicator}]")
        }
        Action::Access {
            access,
            target,
            bytes,
        } => {
            format!("[#{operation} {access:?} at {target}, {bytes} B]")
        }
        Action::Collective {
            instance,
            operation: kind,
            root,
            bytes,
        } => {
            format!(
                "[#{operation} {kind:?} {instance} root {root}, {bytes} B, comm {communicator}]"
            )
        }
    }
}
