//! Batch scripts with `#SBATCH` lines, as Slurm's users have them.
//!
//! What a script asks for becomes nodes, slots and a name; what has no meaning here (partitions, accounts,
//! mail) is passed over and told. Called by `belljar sbatch-script`; the script itself is run as it is,
//! with the variables that Slurm would set ([`Room::variables`](batch::Room::variables)) and with an `srun` (`COMMANDS`).

use std::collections::BTreeMap;

/// Commands that batch scripts call and that images of nodes rarely have, as shell scripts: `srun` starts ranks by
/// the image's own launcher, and `ssh` reaches other nodes.
pub(crate) const COMMANDS: [(&str, &str); 2] = [
    ("srun", include_str!("batch/srun.sh")),
    ("ssh", include_str!("batch/ssh.sh")),
];

/// Whether `command`, or a script among `files`, calls the program `name`.
pub(crate) fn calls(command: &str, files: &BTreeMap<String, Vec<u8>>, name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let names = |text: &str| text.split(|c| !is_word(c)).any(|word| word == name);
    let mut scripts = files.values().filter(|bytes| bytes.starts_with(b"#!"));
    names(command) || scripts.any(|bytes| names(&String::from_utf8_lossy(bytes)))
}

/// Why a script asks for what cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// No first line that names an interpreter.
    #[error(
        "{0} does not begin with #!, as batch scripts do: write #!/bin/bash into its first line"
    )]
    NoScript(String),
    /// A value that is none.
    #[error("line {line}: #SBATCH {option} {value}: {wanted}")]
    Value {
        /// The line, from 1.
        line: usize,
        /// The option.
        option: String,
        /// What was written.
        value: String,
        /// What may be written.
        wanted: &'static str,
    },
    /// More ranks than room.
    #[error(
        "{tasks} tasks are more than {nodes} nodes with {each} tasks each have room for: ask for more of one or of the other"
    )]
    Room {
        /// Ranks.
        tasks: u32,
        /// Nodes.
        nodes: u32,
        /// Ranks of each.
        each: u32,
    },
}

/// What a script asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: Option<String>,
    /// Nodes.
    pub nodes: Option<u32>,
    /// Ranks in all.
    pub tasks: Option<u32>,
    /// Ranks on each node.
    pub tasks_per_node: Option<u32>,
    /// Processors of each rank.
    pub cpus_per_task: Option<u32>,
    /// Memory of each node, in MiB.
    pub memory: Option<u64>,
    /// Options that mean nothing here, as written.
    pub passed_over: Vec<String>,
}

/// Nodes and what each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Nodes.
    pub nodes: u32,
    /// Ranks in all.
    pub tasks: u32,
    /// Slots of each node.
    pub tasks_per_node: u32,
    /// Processors of each rank.
    pub cpus_per_task: u32,
}

impl Job {
    /// Reads the `#SBATCH` lines of a script called `name`, which end with its first command.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn parse(name: &str, script: &str) -> Result<Self, BatchError> {
        if !script.starts_with("#!") {
            return Err(BatchError::NoScript(name.to_owned()));
        }
        let mut job = Self::default();
        for (index, line) in script.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                break;
            }
            if let Some(words) = line.strip_prefix("#SBATCH") {
                // A comment may end the line.
                let words = words.split_once(" #").map_or(words, |(words, _)| words);
                job.take_line(index + 1, words)?;
            }
        }
        Ok(job)
    }

    /// Takes the options of a line, or of a command line.
    ///
    /// # Errors
    /// When a value is none.
    pub fn take_line(&mut self, line: usize, words: &str) -> Result<(), BatchError> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let (option, mut value) = split(word);
            if value.is_none() && words.peek().is_some_and(|next| !next.starts_with('-')) {
                value = words.next().map(str::to_owned);
            }
            let value = value.unwrap_or_default();
            let value = value.trim_matches(['"', '\'']);
            self.take(line, &option, value)?;
        }
        Ok(())
    }

    fn take(&mut self, line: usize, option: &str, value: &str) -> Result<(), BatchError> {
        let wrong = |wanted| BatchError::Value {
            line,
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
        match option {
            "-J" | "--job-name" => self.name = Some(value.to_owned()),
            // Of a range the most, as Slurm gives it where there is room.
            "-N" | "--nodes" => {
                let most = value.rsplit('-').next().unwrap_or_default();
                let most = most.parse().ok().filter(|&most: &u32| most > 0);
                self.nodes = Some(most.ok_or_else(|| wrong("write a number, or a range"))?);
            }
            "-n" | "--ntasks" => self.tasks = number()?,
            "--ntasks-per-node" | "--tasks-per-node" => self.tasks_per_node = number()?,
            "-c" | "--cpus-per-task" => self.cpus_per_task = number()?,
            "--mem" => {
                let memory = mebibytes(value);
                self.memory = memory.ok_or_else(|| wrong("write a size, such as 4G"))?;
            }
            _ => self.passed_over.push(match value {
                "" => option.to_owned(),
                value => format!("{option}={value}"),
            }),
        }
        Ok(())
    }

    /// What it takes, where what it leaves open is as Slurm has it: one rank on each node, and as many nodes
    /// as that takes.
    ///
    /// # Errors
    /// When there is no room for its ranks.
    pub fn room(&self) -> Result<Room, BatchError> {
        let by_nodes = self.nodes.zip(self.tasks);
        let each = self.tasks_per_node;
        let each = each.or(by_nodes.map(|(nodes, tasks)| tasks.div_ceil(nodes)));
        let each = each.unwrap_or(1);
        let nodes = self.nodes.or(self.tasks.map(|tasks| tasks.div_ceil(each)));
        let nodes = nodes.unwrap_or(1);
        let all = nodes.saturating_mul(each);
        let tasks = self.tasks.unwrap_or(all);
        if tasks > all {
            return Err(BatchError::Room { tasks, nodes, each });
        }
        Ok(Room {
            nodes,
            tasks,
            tasks_per_node: each,
            cpus_per_task: self.cpus_per_task.unwrap_or(1),
        })
    }
}

impl Room {
    /// What Slurm sets for a job in this room that is called `name`, and what keeps launchers of MPI from taking
    /// the nodes for a cluster of Slurm's.
    pub fn variables(&self, name: &str) -> BTreeMap<String, String> {
        let nodes = match self.nodes {
            1 => "node0".to_owned(),
            nodes => format!("node[0-{}]", nodes - 1),
        };
        let each = match self.nodes {
            1 => self.tasks_per_node.to_string(),
            nodes => format!("{}(x{nodes})", self.tasks_per_node),
        };
        let list = [
            ("SLURM_JOB_ID", "1".to_owned()),
            ("SLURM_JOBID", "1".to_owned()),
            ("SLURM_JOB_NAME", name.to_owned()),
            ("SLURM_JOB_NUM_NODES", self.nodes.to_string()),
            ("SLURM_NNODES", self.nodes.to_string()),
            ("SLURM_JOB_NODELIST", nodes.clone()),
            ("SLURM_NODELIST", nodes),
            ("SLURM_NTASKS", self.tasks.to_string()),
            ("SLURM_NPROCS", self.tasks.to_string()),
            ("SLURM_NTASKS_PER_NODE", self.tasks_per_node.to_string()),
            ("SLURM_TASKS_PER_NODE", each),
            ("SLURM_CPUS_PER_TASK", self.cpus_per_task.to_string()),
            ("SLURM_SUBMIT_DIR", "/root".to_owned()),
            ("SLURM_SUBMIT_HOST", "node0".to_owned()),
            ("OMPI_MCA_plm", "rsh".to_owned()),
            ("OMPI_MCA_ras", "^slurm".to_owned()),
            ("PRTE_MCA_plm", "ssh".to_owned()),
            ("PRTE_MCA_ras", "^slurm".to_owned()),
        ];
        list.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// An option, and its value where it stands in the same word.
fn split(word: &str) -> (String, Option<String>) {
    if let Some((option, value)) = word.split_once('=') {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn job(lines: &str) -> Result<Job, BatchError> {
        Job::parse("job.sh", &format!("#!/bin/bash\n{lines}\nsrun ./a.out\n"))
    }

    #[test]
    fn what_a_script_asks_for_is_read_in_all_spellings() {
        let lines = "#SBATCH --job-name=\"heat\"\n# a word\n\n#SBATCH -N 2 -n8 # eight\n#SBATCH --mem 4G\n#SBATCH -p short -t 1:00:00\n#SBATCH --exclusive\necho\n#SBATCH -N 9";
        let job = job(lines).unwrap();
        assert_eq!(job.name.as_deref(), Some("heat"));
        assert_eq!(
            (job.nodes, job.tasks, job.memory),
            (Some(2), Some(8), Some(4096))
        );
        assert_eq!(job.passed_over, ["-p=short", "-t=1:00:00", "--exclusive"]);
        let room = job.room().unwrap();
        assert_eq!((room.nodes, room.tasks_per_node, room.tasks), (2, 4, 8));
        let variables = room.variables("heat");
        assert_eq!(variables["SLURM_TASKS_PER_NODE"], "4(x2)");
        assert_eq!(variables["SLURM_JOB_NODELIST"], "node[0-1]");
    }

    #[test]
    fn what_is_left_open_is_as_slurm_has_it() {
        let room = |lines| job(lines).unwrap().room();
        let of = |nodes, tasks, each| Room {
            nodes,
            tasks,
            tasks_per_node: each,
            cpus_per_task: 1,
        };
        assert_eq!(room(""), Ok(of(1, 1, 1)));
        assert_eq!(room("#SBATCH --ntasks=4"), Ok(of(4, 4, 1)));
        assert_eq!(room("#SBATCH --nodes=1-3"), Ok(of(3, 3, 1)));
        let lines = "#SBATCH --ntasks-per-node=2\n#SBATCH -n 5";
        assert_eq!(room(lines), Ok(of(3, 5, 2)));
        let lines = "#SBATCH --ntasks-per-node=2\n#SBATCH -n 5\n#SBATCH -N2";
        assert!(matches!(
            room(lines),
            Err(BatchError::Room { tasks: 5, .. })
        ));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let error = job("#SBATCH -n many").unwrap_err().to_string();
        assert_eq!(error, "line 2: #SBATCH -n many: write a number from 1");
        assert!(job("#SBATCH --mem=much").is_err());
        assert!(Job::parse("job.sh", "srun x\n").is_err());
        for hostile in [
            "#SBATCH",
            "#SBATCH =",
            "#SBATCH -\u{e9}x",
            "#SBATCH --mem=",
            "#SBATCH -N -",
        ] {
            let _ = job(hostile);
        }
    }
}
