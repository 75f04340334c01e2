//! Batch scripts.
//!
//! The same job makes the same script. Every value is quoted for `sbatch` or for the shell; a value that
//! does not fit on a line is refused. Called by [`BatchJob::script`].

use super::{BatchJob, JobError};
use crate::quote::quoted;

/// Slurm signals a job this number of seconds before its time limit, and the job then ends in order. Slurm
/// may do so up to a minute earlier.
const NOTICE: u32 = 60;

/// The script of `job`.
pub(super) fn write(job: &BatchJob) -> Result<String, JobError> {
    let mut text = "#!/bin/sh\n".to_owned();
    for (name, value) in options(job) {
        let line = match value {
            Some(value) => format!("#SBATCH --{name}={}\n", on_a_line(&value)?),
            None => format!("#SBATCH --{name}\n"),
        };
        text.push_str(&line);
    }
    if job.array.is_some() {
        text.push_str("cd \"$SLURM_ARRAY_TASK_ID\" || exit 1\n");
    }
    // `exec` lets the program replace the shell, so that it receives Slurm's signals.
    text.push_str("exec");
    for word in &job.command {
        printable(word)?;
        text.push(' ');
        text.push_str(&quoted(word));
    }
    text.push('\n');
    Ok(text)
}

/// Options of `sbatch` by their long names.
fn options(job: &BatchJob) -> Vec<(&'static str, Option<String>)> {
    let wishes = &job.wishes;
    let folder = job.folder.display().to_string();
    // Slurm interprets a `%` as the start of a placeholder.
    let literal = folder.replace('%', "%%");
    let place = if job.array.is_some() { "%a/" } else { "" };
    let mut options = vec![
        ("job-name", Some(plain(&job.name))),
        ("chdir", Some(folder)),
        (
            "output",
            Some(format!("{literal}/{place}{}", BatchJob::LOG)),
        ),
        ("open-mode", Some("append".to_owned())),
        ("nodes", Some(wishes.hosts.unwrap_or(1).to_string())),
        ("ntasks-per-node", Some("1".to_owned())),
        // The run itself handles a lost host and keeps its state; a restarted job would overwrite the
        // results.
        ("no-kill", None),
        ("no-requeue", None),
        ("signal", Some(format!("B:TERM@{NOTICE}"))),
    ];
    match wishes.cpus_per_host {
        Some(cpus) => options.push(("cpus-per-task", Some(cpus.to_string()))),
        None => options.push(("exclusive", None)),
    }
    let all_memory = wishes.cpus_per_host.is_none().then_some("0".to_owned());
    let memory = wishes.memory_mib.map(|mib| format!("{mib}M"));
    let mut wish = |name, value: Option<String>| {
        if value.is_some() {
            options.push((name, value));
        }
    };
    wish("mem", memory.or(all_memory));
    wish("time", wishes.time.clone());
    wish("partition", wishes.partition.clone());
    wish("account", wishes.account.clone());
    wish(
        "array",
        job.array.map(|(jobs, at_a_time)| {
            let last = jobs.saturating_sub(1);
            let limit = at_a_time.map_or_else(String::new, |limit| format!("%{limit}"));
            format!("0-{last}{limit}")
        }),
    );
    options
}

/// A value on a line for `sbatch`, which interprets quotes and backslashes.
fn on_a_line(value: &str) -> Result<String, JobError> {
    printable(value)?;
    let bare = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@%+,".contains(letter);
    if !value.is_empty() && value.chars().all(bare) {
        return Ok(value.to_owned());
    }
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!("\"{escaped}\""))
}

fn printable(value: &str) -> Result<(), JobError> {
    if value.chars().any(char::is_control) {
        return Err(JobError::Unprintable(value.to_owned()));
    }
    Ok(())
}

/// A name without characters that Slurm's lists interpret.
fn plain(name: &str) -> String {
    let keep = |letter: char| {
        let is_plain = letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if is_plain { letter } else { '-' }
    };
    name.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Wishes;
    use super::*;

    fn job() -> BatchJob {
        BatchJob {
            name: "two words".to_owned(),
            folder: "/a b/100%".into(),
            command: ["/bin/belljar", "run", "it's"].map(str::to_owned).into(),
            wishes: Wishes::default(),
            array: None,
        }
    }

    fn has(job: &BatchJob, line: &str) -> bool {
        job.script().unwrap().lines().any(|found| found == line)
    }

    #[test]
    fn a_job_asks_for_a_whole_host_and_is_told_before_its_time_is_over() {
        let job = job();
        assert!(has(&job, "#SBATCH --job-name=two-words"));
        assert!(has(&job, "#SBATCH --chdir=\"/a b/100%\""));
        assert!(has(&job, "#SBATCH --output=\"/a b/100%%/job.log\""));
        assert!(has(&job, "#SBATCH --exclusive"));
        assert!(has(&job, "#SBATCH --mem=0"));
        assert!(has(&job, "#SBATCH --signal=B:TERM@60"));
        assert!(has(&job, r"exec '/bin/belljar' 'run' 'it'\''s'"));
    }

    #[test]
    fn wishes_are_said() {
        let mut job = job();
        job.wishes = Wishes {
            hosts: Some(3),
            cpus_per_host: Some(2),
            memory_mib: Some(512),
            time: Some("1-12:00:00".to_owned()),
            partition: Some("long".to_owned()),
            account: Some("me".to_owned()),
        };
        for option in ["nodes=3", "cpus-per-task=2", "mem=512M", "time=1-12:00:00"] {
            assert!(has(&job, &format!("#SBATCH --{option}")));
        }
        assert!(!job.script().unwrap().contains("exclusive"));
        job.wishes.memory_mib = None;
        assert!(!job.script().unwrap().contains("--mem"));
    }

    #[test]
    fn each_job_of_an_array_has_a_folder() {
        let mut job = job();
        job.array = Some((6, Some(2)));
        assert!(has(&job, "#SBATCH --array=0-5%2"));
        assert!(has(&job, "#SBATCH --output=\"/a b/100%%/%a/job.log\""));
        assert!(has(&job, "cd \"$SLURM_ARRAY_TASK_ID\" || exit 1"));
    }

    #[test]
    fn nothing_gets_onto_a_line_of_its_own() {
        let mut job = job();
        job.wishes.partition = Some("x\n#SBATCH --uid=0".to_owned());
        assert!(matches!(job.script(), Err(JobError::Unprintable(_))));
        assert_eq!(on_a_line("a\"b\\").unwrap(), r#""a\"b\\""#);
    }
}
