//! Slurm on the nodes of a run: the table `slurm` of a scenario.
//!
//! Debian's daemons and commands run from a further disk, next to the node's root file system, so nodes of any image can have
//! them. Its configuration follows from the plan's nodes. Made with a plan; its files are on the run disk.

use std::collections::{BTreeMap, BTreeSet};

use belljar_images::Image;

use crate::plan::error::PlanError;
use crate::scenario::{Scenario, Slurm};
use crate::scripts;
use belljar_workload::{Binary, GuestRoot, Mpi};

/// Files of the configuration.
mod settings;

pub(crate) use settings::files;

/// Folder of Slurm's commands on a node.
pub(crate) const COMMANDS: &str = "/run/belljar/slurm/usr/lib/belljar/slurm";
/// Folder of the settings on a node; it also has the script that submits a batch script.
pub const SETTINGS: &str = "/run/belljar/slurm-settings";
/// The same folder on the run disk.
pub(crate) const FOLDER: &str = "slurm-settings";
/// Commands of users that only nodes with Slurm have.
pub(crate) const CALLED: [&str; 6] = ["srun", "sbatch", "salloc", "scontrol", "squeue", "sinfo"];
/// Maximum number of a program's libraries that are examined.
const MOST_LIBRARIES: usize = 512;
/// Characters of a name besides letters and digits.
const NAME_MARKS: &str = "_-.";

/// Slurm on the nodes of a run.
#[derive(Clone, Debug)]
pub struct SlurmPlan {
    /// The image whose root file system is mounted.
    pub image: Image,
    /// Partitions, the default one first; each has all nodes.
    pub partitions: Vec<String>,
    /// Features of every node.
    pub features: Vec<String>,
    /// Licences, each with a number.
    pub licenses: Vec<String>,
    /// The default of `srun --mpi`.
    pub mpi: &'static str,
}

impl SlurmPlan {
    /// The plan of `table` for nodes whose first image has the tree `root`, and a workload with these files.
    ///
    /// # Errors
    /// If a name is invalid in Slurm's configuration.
    pub(crate) fn new(
        table: &Slurm,
        image: Image,
        root: &GuestRoot,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Self, PlanError> {
        for (key, names, marks) in [
            ("slurm.partitions", &table.partitions, ""),
            ("slurm.features", &table.features, ""),
            ("slurm.licenses", &table.licenses, ":"),
        ] {
            check_names(key, names, marks)?;
        }
        if table.partitions.is_empty() {
            return Err(PlanError::Range {
                key: "slurm.partitions",
                value: "[]".to_owned(),
                limits: "at least one name",
            });
        }
        Ok(Self {
            image,
            partitions: table.partitions.clone(),
            features: table.features.clone(),
            licenses: table.licenses.clone(),
            mpi: pmi_of(root, files),
        })
    }
}

/// Refuses a workload that calls Slurm's commands on nodes without Slurm: the scenario does not request it, and the image `root`
/// of node 0 lacks it.
///
/// # Errors
/// The error names the first such command.
pub(crate) fn check_called(
    scenario: &Scenario,
    files: &BTreeMap<String, Vec<u8>>,
    root: &GuestRoot,
) -> Result<(), PlanError> {
    if scenario.slurm.is_some() {
        return Ok(());
    }
    let command = &scenario.workload.command;
    let is_missing =
        |name: &&str| scripts::calls(command, files, name) && root.program(name).is_none();
    let missing = CALLED.into_iter().find(is_missing);
    missing.map_or(Ok(()), |name| Err(PlanError::NoSlurm { name }))
}

/// The default of `srun --mpi`: PMI-2 for MPICH and related libraries, PMIx for Open MPI. If the image has both, the first
/// program that is linked to one of them decides: a file of the workload, or a program of the image that a script names.
fn pmi_of(root: &GuestRoot, files: &BTreeMap<String, Vec<u8>>) -> &'static str {
    let of_image = match root.has(Mpi::OpenMpi) && !root.has(Mpi::Mpich) {
        true => Mpi::OpenMpi,
        false => Mpi::Mpich,
    };
    let is_open = root.has(Mpi::OpenMpi) && root.has(Mpi::Mpich);
    let own = || files.values().filter_map(|bytes| Binary::read(&bytes[..]));
    let mut of_files = own().filter_map(|binary| mpi_of(binary, root));
    let scripts = files.values().filter(|bytes| bytes.starts_with(b"#!"));
    let mut of_scripts = scripts.filter_map(|bytes| {
        let text = str::from_utf8(bytes).ok()?;
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        let mut words = lines.flat_map(str::split_whitespace);
        words.find_map(|word| mpi_of(root.binary(&root.program(word)?)?, root))
    });
    let named = is_open.then(|| of_files.next().or_else(|| of_scripts.next()));
    match named.flatten().unwrap_or(of_image) {
        Mpi::OpenMpi => "pmix",
        Mpi::Mpich => "pmi2",
    }
}

/// The MPI library of a program, possibly through other libraries of the image.
fn mpi_of(binary: Binary, root: &GuestRoot) -> Option<Mpi> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut left = binary.needed;
    while let Some(name) = left.pop() {
        if let Some(mpi) = Mpi::of_library(&name) {
            return Some(mpi);
        }
        if seen.len() < MOST_LIBRARIES && seen.insert(name.clone()) {
            let found = root.library(&name).and_then(|path| root.binary(&path));
            left.extend(found.into_iter().flat_map(|binary| binary.needed));
        }
    }
    None
}

fn check_names(key: &'static str, names: &[String], marks: &str) -> Result<(), PlanError> {
    let is_allowed =
        |c: char| c.is_ascii_alphanumeric() || NAME_MARKS.contains(c) || marks.contains(c);
    let wrong = names
        .iter()
        .find(|name| name.is_empty() || !name.chars().all(is_allowed));
    wrong.map_or(Ok(()), |name| {
        Err(PlanError::Range {
            key,
            value: format!("{name:?}"),
            limits: "names of letters, digits, `_`, `-` and `.`",
        })
    })
}
