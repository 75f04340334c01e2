//! Slurm's record of a job.
//!
//! Reads lines of `scontrol --oneliner show job`. A line without a record is skipped, and an unknown word
//! for a state counts as not ended. Called by `records`.

/// A job's record, from `scontrol`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The index in its array of a job with a record of its own.
    pub task: Option<u32>,
    /// Its state.
    pub state: JobState,
    /// Its present or past hosts, in Slurm's short form; empty before it runs.
    pub hosts: String,
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Waiting, for this reason in Slurm's words.
    Waiting(String),
    /// Running.
    Running,
    /// Ended.
    Ended {
        /// Slurm's state, such as `COMPLETED`, `FAILED` or `TIMEOUT`.
        how: String,
        /// The exit status of its script.
        status: i32,
        /// The signal that ended its script, or zero.
        signal: i32,
    },
}

/// Slurm's states of ended jobs.
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
    /// Reads a line of `scontrol --oneliner show job`: `KEY=VALUE` and blanks. `None` if the line is no
    /// record.
    pub(super) fn parse(line: &str) -> Option<Self> {
        // All user-chosen values except the name follow the wanted keys, and the name is sanitised, so the
        // first occurrence of a key is Slurm's own.
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
            // Waiting jobs share one record, whose index is a list.
            task: value("ArrayTaskId").and_then(|task| task.parse().ok()),
            state,
            hosts: hosts.unwrap_or_default().to_owned(),
        })
    }

    /// True if it has ended.
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
