//! What Slurm tells of a job.
//!
//! Reads lines of `scontrol --oneliner show job`. A line that is no record is passed over, and a state that
//! is none of Slurm's words for ends is no end. Called by `records`.

/// A job, as `scontrol` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// For a job of an array that has a record of its own: its place in it.
    pub task: Option<u32>,
    /// How far it is.
    pub state: JobState,
    /// The hosts that it runs or ran on, in Slurm's short form; empty before.
    pub hosts: String,
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It waits, for this reason in Slurm's words.
    Waiting(String),
    /// It runs.
    Running,
    /// It has ended.
    Ended {
        /// Slurm's word, such as `COMPLETED`, `FAILED` or `TIMEOUT`.
        how: String,
        /// The exit status of its script.
        status: i32,
        /// The signal that ended its script, or zero.
        signal: i32,
    },
}

/// Slurm's words for ends.
const ENDS: &[&str] = &[
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
];

impl JobRecord {
    /// Reads a line of `scontrol --oneliner show job`: `KEY=VALUE` and blanks. `None` for
    /// what is none.
    pub(super) fn parse(line: &str) -> Option<Self> {
        // What users chose comes after what is asked for here, but for the name, which is
        // made plain; so the first of a kind is Slurm's own.
        let value = |key: &str| {
            let words = line.split_ascii_whitespace();
            let mut pairs = words.filter_map(|word| word.split_once('='));
            pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        let state = match value("JobState")? {
            end if ENDS.contains(&end) => {
                let (status, signal) = value("ExitCode")?.split_once(':')?;
                JobState::Ended {
                    how: end.to_owned(),
                    status: status.parse().ok()?,
                    signal: signal.parse().ok()?,
                }
            }
            "RUNNING" | "COMPLETING" | "CONFIGURING" | "SUSPENDED" | "STAGE_OUT" | "STOPPED" => {
                JobState::Running
            }
            _ => JobState::Waiting(value("Reason").unwrap_or("None").to_owned()),
        };
        let hosts = value("NodeList").filter(|hosts| *hosts != "(null)");
        Some(Self {
            // Jobs that wait share one record, whose places are a list.
            task: value("ArrayTaskId").and_then(|task| task.parse().ok()),
            state,
            hosts: hosts.unwrap_or_default().to_owned(),
        })
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, JobState::Ended { .. })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(state: &str, more: &str) -> JobRecord {
        let line = format!(
            "JobId=12 {more}JobName=x UserId=root(0) JobState={state} Reason=Resources \
             ExitCode=3:9 NodeList=h[0-1] Command=/x NodeList=evil JobState=COMPLETED"
        );
        JobRecord::parse(&line).unwrap()
    }

    #[test]
    fn waiting_running_and_ended_are_told_apart() {
        let waits = JobState::Waiting("Resources".to_owned());
        assert_eq!(read("PENDING", "").state, waits);
        assert_eq!(read("COMPLETING", "").state, JobState::Running);
        let ended = JobState::Ended {
            how: "TIMEOUT".to_owned(),
            status: 3,
            signal: 9,
        };
        assert_eq!(read("TIMEOUT", "").state, ended);
        assert_eq!(read("RUNNING", "").hosts, "h[0-1]");
    }

    #[test]
    fn jobs_of_an_array_tell_their_places() {
        assert_eq!(read("RUNNING", "ArrayTaskId=4 ").task, Some(4));
        assert_eq!(read("PENDING", "ArrayTaskId=4-7%2 ").task, None);
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in "(JobState|ExitCode|=|:| |COMPLETED|[0-9]){0,12}") {
            let _ = JobRecord::parse(&line);
        }
    }
}
