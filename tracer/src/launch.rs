//! A process's job, from the environment that its launcher set.
//!
//! The environment is on the stack of a process at its first instruction, and the preloaded library reports its address. Hydra sets
//! rank and size (`PMI_RANK`, `PMI_SIZE`); Open MPI's launchers and others with PMIx also set a unique name of the job
//! (`PMIX_NAMESPACE`); Slurm sets its job and step. MPICH queries Hydra for the job's name during its initialization, and keeps it.
//! The environment is the guest's memory and untrusted, so the amount read is bounded.

use belljar_trace::Launch;
use bincode::{Decode, Encode};

use crate::guest::memory::{BadAddress, GuestMemory, Reader};
use crate::interception::targets::Library;

/// Most variables that are read, and most arguments before them.
const MAX_VARIABLES: u64 = 1 << 12;
/// Most bytes of a library's data that are searched.
const MAX_DATA: u64 = 8 << 20;
const PAGE: u64 = 4096;
/// The prefix of Hydra's names of jobs.
const HYDRA: &[u8; 4] = b"kvs_";

/// A launched process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Launched {
    /// Its rank in `MPI_COMM_WORLD`.
    pub(crate) rank: u32,
    /// Its job.
    pub(crate) launch: Launch,
    /// The program's name when it was started.
    pub(crate) program: String,
}

/// The variables that are read, in the order of preference.
const RANKS: [&str; 3] = ["PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"];
const NAMES: [&str; 2] = ["PMIX_NAMESPACE", "PMI_JOBID"];
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
/// Slurm's name of the script that a process is, such as its TaskProlog.
const SLURM_CONTEXT: &str = "SLURM_SCRIPT_CONTEXT";
/// Programs that start ranks on their node. Slurm gives them a rank when it starts them, but they call no MPI function.
const DAEMONS: [&str; 4] = ["hydra_pmi_proxy", "hydra_bstrap_proxy", "orted", "prted"];
/// Slurm's variables, for processes without such values from its PMI.
const SLURM: [&str; 2] = ["SLURM_JOB_ID", "SLURM_STEP_ID"];

/// Reads the environment: an array of pointers to texts, which ends with a null pointer.
///
/// # Errors
/// Returns [`BadAddress`] if the array or a text cannot be read.
pub(crate) fn told(environment: u64, memory: Reader<'_>) -> Result<Launch, BadAddress> {
    Ok(Found::read(environment, memory)?.launch())
}

/// Values of the variables found.
#[derive(Default)]
struct Found {
    ranks: [Option<u32>; RANKS.len()],
    names: [Option<String>; NAMES.len()],
    sizes: [Option<u32>; SIZES.len()],
    slurm: [Option<String>; SLURM.len()],
    /// The process runs before or after a task of Slurm, in the task's environment.
    is_beside_task: bool,
}

impl Found {
    fn read(environment: u64, memory: Reader<'_>) -> Result<Self, BadAddress> {
        let mut found = Self::default();
        for index in 0..MAX_VARIABLES {
            let at = environment.checked_add(8 * index);
            let entry = memory.u64(at.ok_or(BadAddress(environment))?)?;
            if entry == 0 {
                break;
            }
            let text = memory.text(entry)?;
            if let Some((name, value)) = text.split_once('=') {
                found.take(name, value);
            }
        }
        Ok(found)
    }

    fn take(&mut self, name: &str, value: &str) {
        let place = |all: &[&str]| all.iter().position(|one| *one == name);
        if let Some(place) = place(&RANKS) {
            self.ranks[place] = value.parse().ok();
        } else if let Some(place) = place(&NAMES) {
            self.names[place] = Some(value.to_owned());
        } else if let Some(place) = place(&SIZES) {
            let size = value.parse().ok().filter(|size| *size > 0);
            self.sizes[place] = size;
        } else if let Some(place) = place(&SLURM) {
            self.slurm[place] = Some(value.to_owned());
        } else if name == SLURM_CONTEXT {
            self.is_beside_task = true;
        }
    }

    fn launch(self) -> Launch {
        let size = self.sizes.into_iter().flatten().next();
        let [job, step] = self.slurm;
        let of_slurm = job
            .zip(step)
            // Inside a step of one process, `mpiexec` starts others.
            .filter(|_| size.is_none())
            .map(|(job, step)| format!("slurm {job}.{step}"));
        Launch {
            name: self.names.into_iter().flatten().next().or(of_slurm),
            size,
        }
    }
}

/// Reads the environment of a process at its first instruction, from its `stack` as set up by the kernel (System V ABI, 3.4.1). The
/// stack has the number of arguments, each argument's address, zero, each variable's address, zero. `None` if no launcher started
/// it.
///
/// # Errors
/// Returns [`BadAddress`] if it cannot be read.
pub(crate) fn launched(stack: u64, memory: Reader<'_>) -> Result<Option<Launched>, BadAddress> {
    let arguments = memory.u64(stack)?.min(MAX_VARIABLES);
    let word = |index: u64| stack.wrapping_add(8 * index);
    let found = Found::read(word(arguments + 2), memory)?;
    let rank = found.ranks.into_iter().flatten().next();
    let Some(rank) = rank.filter(|_| !found.is_beside_task) else {
        return Ok(None);
    };
    let program = memory.u64(word(1)).and_then(|at| memory.text(at));
    let program = program.unwrap_or_default();
    if DAEMONS.contains(&program.rsplit('/').next().unwrap_or_default()) {
        return Ok(None);
    }
    Ok(Some(Launched {
        rank,
        launch: found.launch(),
        program,
    }))
}

/// Finds the job's name that MPICH got from Hydra, in the data of its `library`, mapped at `base`, once it is initialized. Also
/// returns its location in the data. The search begins at `known`, and continues at all pointers to such a name.
pub(crate) fn hydra_name(
    library: &Library,
    base: u64,
    known: Option<u64>,
    memory: &dyn GuestMemory,
) -> Option<(u64, String)> {
    let name_at = |slot: u64, pointer: u64| {
        let mut start = [0; 4];
        memory.read(pointer, &mut start).ok()?;
        let name = (start == *HYDRA).then(|| Reader(memory).text(pointer).ok());
        Some((slot, name.flatten()?))
    };
    if let Some(slot) = known {
        let pointer = Reader(memory).u64(base.wrapping_add(slot)).ok()?;
        return name_at(slot, pointer);
    }
    let end = library
        .data
        .end
        .min(library.data.start.saturating_add(MAX_DATA));
    let mut page = [0; PAGE as usize];
    (library.data.start / PAGE..end.div_ceil(PAGE)).find_map(|number| {
        memory
            .read(base.wrapping_add(number * PAGE), &mut page)
            .ok()?;
        let words = (0u64..).zip(page.as_chunks::<8>().0);
        words
            .map(|(index, bytes)| (number * PAGE + 8 * index, u64::from_le_bytes(*bytes)))
            // Allocated memory is aligned to 16 bytes, in the lower half of the addresses.
            .filter(|(_, pointer)| *pointer >= PAGE && pointer % 16 == 0 && pointer >> 47 == 0)
            .find_map(|(slot, pointer)| name_at(slot, pointer))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Guest;
    use belljar_trace::Implementation;

    fn launch(variables: &[&str]) -> Result<Launch, BadAddress> {
        let mut guest = Guest::new(Implementation::Mpich, 0);
        let environment = guest.environment(variables);
        super::told(environment, Reader(&guest.memory))
    }

    #[test]
    fn launchers_tell_of_their_jobs() {
        let told = |name: Option<&str>, size| Launch {
            name: name.map(str::to_owned),
            size,
        };
        let cases: [(&[&str], Launch); 5] = [
            (&["HOME=/", "PMI_RANK=1", "PMI_SIZE=4"], told(None, Some(4))),
            (
                &["OMPI_COMM_WORLD_SIZE=2", "PMIX_NAMESPACE=3912957953"],
                told(Some("3912957953"), Some(2)),
            ),
            (
                &["SLURM_JOB_ID=7", "SLURM_STEP_ID=2"],
                told(Some("slurm 7.2"), None),
            ),
            (&["PMI_SIZE=many", "PMI_SIZE_=3"], told(None, None)),
            (&[], told(None, None)),
        ];
        for (variables, expected) in cases {
            assert_eq!(launch(variables), Ok(expected), "{variables:?}");
        }
    }

    #[test]
    fn an_environment_that_is_not_there_is_an_error() {
        let guest = Guest::new(Implementation::Mpich, 0);
        for environment in [0, 0xdead_0000, u64::MAX - 3] {
            assert!(super::told(environment, Reader(&guest.memory)).is_err());
        }
    }
}
