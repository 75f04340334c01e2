//! What a launcher tells a process of its job, in the process's environment.
//!
//! Hydra tells rank and size (`PMI_RANK`, `PMI_SIZE`), Open MPI's launchers and others with PMIx also
//! a name that no other job has (`PMIX_NAMESPACE`), Slurm its job and step. The environment is
//! the guest's memory: whatever stands there, little of it is read.

use bincode::{Decode, Encode};

use crate::memory::{BadAddress, Reader};

/// Most variables that are looked at.
const MAX_VARIABLES: u64 = 1 << 12;

/// A job as the launcher of one of its processes tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Launch {
    /// The job's name, which tells it from all others, if the launcher gives one.
    pub name: Option<String>,
    /// How many processes `MPI_COMM_WORLD` has, if the launcher tells.
    pub size: Option<u32>,
}

/// What is looked for, in the order of preference.
const NAMES: [&str; 2] = ["PMIX_NAMESPACE", "PMI_JOBID"];
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
/// Slurm's own, where its PMI tells nothing of the kind.
const SLURM: [&str; 2] = ["SLURM_JOB_ID", "SLURM_STEP_ID"];

impl Launch {
    /// Reads the environment: an array of pointers to texts, which ends with a null pointer.
    ///
    /// # Errors
    /// [`BadAddress`] when the array or a text cannot be read.
    pub(crate) fn read(environment: u64, memory: Reader<'_>) -> Result<Self, BadAddress> {
        let mut found = Found::default();
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
        Ok(found.launch())
    }

    /// Whether it tells nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.name.is_none() && self.size.is_none()
    }
}

/// Values of the variables that are looked for.
#[derive(Default)]
struct Found {
    names: [Option<String>; NAMES.len()],
    sizes: [Option<u32>; SIZES.len()],
    slurm: [Option<String>; SLURM.len()],
}

impl Found {
    fn take(&mut self, name: &str, value: &str) {
        let place = |all: &[&str]| all.iter().position(|one| *one == name);
        if let Some(place) = place(&NAMES) {
            self.names[place] = Some(value.to_owned());
        } else if let Some(place) = place(&SIZES) {
            let size = value.parse().ok().filter(|size| *size > 0);
            self.sizes[place] = size;
        } else if let Some(place) = place(&SLURM) {
            self.slurm[place] = Some(value.to_owned());
        }
    }

    fn launch(self) -> Launch {
        let size = self.sizes.into_iter().flatten().next();
        let [job, step] = self.slurm;
        let of_slurm = job
            .zip(step)
            // Inside a step of one process `mpiexec` starts others.
            .filter(|_| size.is_none())
            .map(|(job, step)| format!("slurm {job}.{step}"));
        Launch {
            name: self.names.into_iter().flatten().next().or(of_slurm),
            size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Implementation;
    use crate::guest::Guest;

    fn launch(variables: &[&str]) -> Result<Launch, BadAddress> {
        let mut guest = Guest::new(Implementation::Mpich, 0);
        let environment = guest.environment(variables);
        Launch::read(environment, Reader(&guest.memory))
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
            assert!(Launch::read(environment, Reader(&guest.memory)).is_err());
        }
    }
}
