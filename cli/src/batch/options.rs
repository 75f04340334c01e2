//! Options of `sbatch`, as far as the nodes depend on them; see sbatch(1) of Slurm 22.05.
//!
//! Slurm handles all other options and refuses unknown ones. Called by `belljar sbatch-script`.

use std::collections::BTreeMap;

use super::layout::Component;
use super::{BatchError, words};

/// The request of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: Option<String>,
    /// Partitions that it names.
    pub partitions: Vec<String>,
    /// Features of nodes that it names.
    pub features: Vec<String>,
    /// Licences that it takes, each with a number.
    pub licenses: Vec<String>,
    /// Variables that `--export` sets.
    pub exported: BTreeMap<String, String>,
    /// The numbers of an array's tasks.
    pub array: Vec<u32>,
    /// The components of the job: one, except in heterogeneous jobs.
    pub components: Vec<Component>,
}

/// Options without a value: the next word is not their value.
const FLAGS: [&str; 24] = [
    "-s",
    "--oversubscribe",
    "-O",
    "--overcommit",
    "-H",
    "--hold",
    "-k",
    "--no-kill",
    "-Q",
    "--quiet",
    "-v",
    "--verbose",
    "-W",
    "--wait",
    "--requeue",
    "--no-requeue",
    "--contiguous",
    "--exclusive",
    "--reboot",
    "--spread-job",
    "--use-min-nodes",
    "--parsable",
    "--test-only",
    "--ignore-pbs",
];

/// Options that request devices. Nodes have none.
const DEVICES: [&str; 6] = [
    "--gres",
    "-G",
    "--gpus",
    "--gpus-per-node",
    "--gpus-per-task",
    "--gpus-per-socket",
];

/// Largest number of an array's task; the settings of Slurm on the nodes have the same limit.
const MOST_TASKS: u32 = 4000;

impl Job {
    /// Reads the `#SBATCH` lines of a script called `name`, up to its first command.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn parse(name: &str, script: &str) -> Result<Self, BatchError> {
        if !script.starts_with("#!") {
            return Err(BatchError::NoScript(name.to_owned()));
        }
        if let Some(index) = script.split('\n').position(|line| line.ends_with('\r')) {
            return Err(BatchError::DosLines {
                name: name.to_owned(),
                line: index + 1,
            });
        }
        let mut job = Self {
            components: vec![Component::default()],
            ..Self::default()
        };
        for (index, line) in script.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                break;
            }
            if let Some(words) = line.strip_prefix("#SBATCH") {
                job.take_line(&format!("line {}", index + 1), words)?;
            }
        }
        Ok(job)
    }

    /// Takes the options of a line, or of the command line; `place` names it in errors.
    ///
    /// # Errors
    /// If a value that affects the nodes is invalid.
    pub fn take_line(&mut self, place: &str, line: &str) -> Result<(), BatchError> {
        let mut words = words::split(line).into_iter().peekable();
        while let Some(word) = words.next() {
            if word == "hetjob" || word == "packjob" {
                self.components.push(Component::default());
                continue;
            }
            let (option, mut value) = apart(&word);
            let takes_more = value.is_none() && !FLAGS.contains(&&*option);
            if takes_more && words.peek().is_some_and(|next| !next.starts_with('-')) {
                value = words.next();
            }
            self.take(place, &option, &value.unwrap_or_default())?;
        }
        Ok(())
    }

    fn take(&mut self, place: &str, option: &str, value: &str) -> Result<(), BatchError> {
        let wrong = |wanted| BatchError::Value {
            place: place.to_owned(),
            option: option.to_owned(),
            value: value.to_owned(),
            wanted,
        };
        let number = || {
            let number = value.parse().ok().filter(|&number: &u32| number > 0);
            number
                .map(Some)
                .ok_or_else(|| wrong("write a number from 1"))
        };
        if DEVICES.contains(&option) && value != "none" && value != "0" {
            let (place, option, value) = (place.to_owned(), option.to_owned(), value.to_owned());
            return Err(BatchError::Devices {
                place,
                option,
                value,
            });
        }
        let Some(component) = self.components.last_mut() else {
            return Ok(());
        };
        match option {
            "-J" | "--job-name" => self.name = Some(value.to_owned()),
            // Takes the maximum of a range, which Slurm grants if there is room.
            "-N" | "--nodes" => {
                let most = value.rsplit('-').next().unwrap_or_default();
                let most = most.parse().ok().filter(|&most: &u32| most > 0);
                component.nodes = Some(most.ok_or_else(|| wrong("write a number, or a range"))?);
            }
            "-n" | "--ntasks" => component.tasks = number()?,
            "--ntasks-per-node" | "--tasks-per-node" => component.tasks_per_node = number()?,
            "-c" | "--cpus-per-task" => component.cpus_per_task = number()?,
            "--mem" => {
                let memory = mebibytes(value);
                component.memory = memory.ok_or_else(|| wrong("write a size, such as 4G"))?;
            }
            "--mem-per-cpu" => {
                let memory = mebibytes(value);
                component.memory_per_cpu =
                    memory.ok_or_else(|| wrong("write a size, such as 4G"))?;
            }
            "-a" | "--array" => {
                let tasks = array(value);
                self.array = tasks.ok_or_else(|| {
                    wrong("write numbers and ranges up to 4000, such as 1-8 or 0-15:4")
                })?;
            }
            "-p" | "--partition" => add(&mut self.partitions, value.split(',')),
            "-C" | "--constraint" => add(&mut self.features, features(value)),
            "-L" | "--licenses" => add(&mut self.licenses, value.split([',', ';'])),
            "--export" => self.exported = exported(value),
            _ => {}
        }
        Ok(())
    }
}

/// Adds names that are not there yet.
fn add<'a>(all: &mut Vec<String>, names: impl Iterator<Item = &'a str>) {
    for name in names.map(str::trim).filter(|name| !name.is_empty()) {
        if !all.iter().any(|known| known == name) {
            all.push(name.to_owned());
        }
    }
}

/// The names in a constraint such as `[rack1|rack2]&gpu*2`.
fn features(constraint: &str) -> impl Iterator<Item = &str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let words = constraint.split(move |c| !is_name(c));
    words.filter(|word| !word.chars().all(|c| c.is_ascii_digit()))
}

/// The variables with values of a list such as `ALL,LEVEL=3`.
fn exported(list: &str) -> BTreeMap<String, String> {
    let pairs = list.split(',').filter_map(|item| item.split_once('='));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), value.to_owned()))
        .collect()
}

/// The numbers of a list such as `0-6,9` or `1-7:2%4`.
fn array(list: &str) -> Option<Vec<u32>> {
    let list = list.split_once('%').map_or(list, |(list, _)| list);
    let number = |text: &str| -> Option<u32> {
        text.trim()
            .parse()
            .ok()
            .filter(|number| *number <= MOST_TASKS)
    };
    let mut all = Vec::new();
    for item in list.split(',') {
        let (range, step) = item.split_once(':').unwrap_or((item, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first)?, number(last)?);
        let step = number(step).filter(|step| *step > 0)?;
        all.extend((first..=last).step_by(step as usize));
    }
    all.sort_unstable();
    all.dedup();
    Some(all).filter(|all| !all.is_empty())
}

/// Splits an option from a value in the same word.
fn apart(word: &str) -> (String, Option<String>) {
    if let Some((option, value)) = word
        .split_once('=')
        .filter(|(option, _)| option.starts_with("--"))
    {
        return (option.to_owned(), Some(value.to_owned()));
    }
    let is_short = word.starts_with('-') && !word.starts_with("--") && word.len() > 2;
    match is_short && word.is_char_boundary(2) {
        true => (word[..2].to_owned(), Some(word[2..].to_owned())),
        false => (word.to_owned(), None),
    }
}

/// A size as Slurm takes it, in MiB; 0 is all that a node has.
fn mebibytes(text: &str) -> Option<Option<u64>> {
    let unit = text.trim_end_matches(['B', 'b']);
    let (number, mib) = match unit.chars().last()? {
        'K' | 'k' => (&unit[..unit.len() - 1], 0),
        'M' | 'm' => (&unit[..unit.len() - 1], 1),
        'G' | 'g' => (&unit[..unit.len() - 1], 1 << 10),
        'T' | 't' => (&unit[..unit.len() - 1], 1 << 20),
        _ => (unit, 1),
    };
    let number: u64 = number.parse().ok()?;
    let size = match mib {
        0 => number.div_ceil(1 << 10),
        mib => number.checked_mul(mib)?,
    };
    Some(Some(size).filter(|size| *size > 0))
}
