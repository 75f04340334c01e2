//! Shell scripts among a workload's files: the programs that they call, and scripts for commands that images rarely have.
//!
//! Called by [`plan`](crate::plan) and [`slurm`](crate::slurm).

use std::collections::BTreeMap;

/// Commands that batch scripts call and that images rarely have, as shell scripts. `ssh` reaches other nodes, `mpirun` calls
/// MPICH's launcher if that has another name, and `module` prints the names of missing modules.
pub(crate) const COMMANDS: [(&str, &str); 3] = [
    ("ssh", include_str!("scripts/ssh.sh")),
    ("mpirun", include_str!("scripts/mpirun.sh")),
    ("module", include_str!("scripts/module.sh")),
];

/// True if `command` or a script among `files` calls the program `name`. Comment lines are skipped.
pub(crate) fn calls(command: &str, files: &BTreeMap<String, Vec<u8>>, name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let names = |text: &str| {
        let mut lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        lines.any(|line| line.split(|c| !is_word(c)).any(|word| word == name))
    };
    let mut scripts = files.values().filter(|bytes| bytes.starts_with(b"#!"));
    names(command) || scripts.any(|bytes| names(&String::from_utf8_lossy(bytes)))
}
