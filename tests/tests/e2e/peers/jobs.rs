//! Jobs: programs started by a launcher, one after another, in one script.
//!
//! The script is the same on traced nodes and natively, except for the placement of ranks, so that
//! outputs can be compared.

use std::path::Path;

use belljar_tests::Scenario;

/// Virtual time limit of a job; natively it is host time, and [`native`](super::native) has a longer
/// limit.
const PATIENCE_S: u32 = 120;
/// Limit of the nodes' virtual time.
const LIMIT: &str = "3000 s";

/// An MPI implementation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mpi {
    Mpich,
    OpenMpi,
}

/// A program and how it is started.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Its path; a relative one is below the implementation's folder in `/usr/local`.
    pub(crate) program: String,
    pub(crate) ranks: u32,
    pub(crate) arguments: String,
}

impl Job {
    /// Its command line.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.program, self.arguments)
            .trim_end()
            .to_owned()
    }
}

impl Mpi {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }

    /// A shell function that starts `$1` ranks of `$2` as job `$3`.
    fn starter(self) -> &'static str {
        match self {
            Self::Mpich => {
                "start() {\n\
                 ranks=$1 job=$2; shift 2\n\
                 timeout $patience mpiexec.hydra -n $ranks -genv PEER $job -genv PEER_OUTPUT $output \\\n\
                 -genv LD_PRELOAD \"/usr/local/mpich/lib/count.so $finish\" \"$@\"\n}\n"
            }
            Self::OpenMpi => {
                "start() {\n\
                 ranks=$1 job=$2; shift 2\n\
                 timeout $patience mpirun -q --hostfile hosts --map-by node --oversubscribe -np $ranks -x PEER=$job -x PEER_OUTPUT=$output \\\n\
                 -x LD_PRELOAD=\"/usr/local/openmpi/lib/count.so $layer\" \"$@\"\n}\n"
            }
        }
    }
}

/// Requirements of jobs, natively and on nodes.
#[derive(Default)]
pub(crate) struct Needs<'a> {
    /// Commands of the script before and after them.
    pub(crate) before: &'a str,
    pub(crate) after: &'a str,
    /// A file in the script's folder, under its own name.
    pub(crate) file: Option<&'a Path>,
}

/// Runs `jobs` in turn, after the setup of the `place`. Each is enclosed by two lines.
pub(crate) fn script(mpi: Mpi, jobs: &[Job], place: &str, needs: &Needs<'_>) -> String {
    let mut script = format!(
        "patience={PATIENCE_S}\n{place}{}{}",
        needs.before,
        mpi.starter()
    );
    let folder = mpi.name();
    for (number, job) in jobs.iter().enumerate() {
        let Job {
            program,
            ranks,
            arguments,
        } = job;
        let folder = if program.starts_with('/') {
            String::new()
        } else {
            format!("/usr/local/{folder}/")
        };
        script += &format!(
            "echo 'PEER {number} begins'\n\
             code=0\n\
             (start {ranks} {number} {folder}{program} {arguments}) 2>&1 || code=$?\n\
             echo \"PEER {number} ended $code\"\n"
        );
    }
    script + needs.after
}

/// The script on `nodes` nodes.
pub(crate) fn scenario(
    mpi: Mpi,
    nodes: u32,
    image: &str,
    jobs: &[Job],
    needs: &Needs<'_>,
) -> Scenario {
    let place = format!(
        "output=/dev/console finish=/usr/lib/belljar/finish-mpi.so\n\
         for node in $(seq 0 {last}); do echo node$node slots=4; done >hosts\n\
         others=$(for node in $(seq 1 {last}); do echo node$node; done)\n",
        last = nodes - 1
    );
    let mut scenario = Scenario::new(nodes, &script(mpi, jobs, &place, needs))
        .on(image)
        .limited(LIMIT);
    if let Some(file) = needs.file {
        let name = file.file_name().expect("a file's name");
        scenario = scenario.with(&format!("[workload.files]\n{name:?} = {file:?}"));
    }
    match mpi {
        Mpi::Mpich => scenario,
        Mpi::OpenMpi => scenario.with(crate::programs::OPEN_MPI),
    }
}
