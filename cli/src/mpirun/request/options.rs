//! Options of MPICH's and Open MPI's launchers, and the meaning of each on nodes.
//!
//! An option is another spelling of one of `belljar mpirun`, has no effect on nodes and is named in a warning, or cannot be
//! honoured and is refused by name. Options that are in no table are refused by the command line's parser. Called for the words before
//! each program.

/// Meaning of a launcher's option on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Another spelling of an option with a value.
    Spelling(&'static str),
    /// Stands for these words.
    Words(&'static [&'static str]),
    /// A variable for all ranks: a name and a value, in one word or in two.
    Variable,
    /// A variable for the ranks of the program that follows, in one word or in two.
    OwnVariable,
    /// Variables with the values that they have here, separated by commas.
    List,
    /// A parameter, in two words, that sets a variable with this prefix.
    Parameter(&'static str),
    /// Files to bring, separated by commas.
    Files,
    /// An option with this number of values that has no effect, and the reason.
    Ignored(usize, &'static str),
    /// An option without a counterpart, and the advice.
    Refused(&'static str),
}

use Meaning::{Files, Ignored, List, OwnVariable, Parameter, Refused, Spelling, Variable, Words};

const ALIKE: &str = "the processors of a node are alike, and its kernel schedules ranks on them";
const NO_ENVIRONMENT: &str =
    "nodes do not have this machine's environment; name variables with -x NAME";
const PLAN: &str = "plan.txt of the run directory has the nodes, their slots and the command";
const REACHED: &str = "nodes reach each other over eth0, by a launcher of their own";
const OF_IMAGE: &str = "MPI is that of the image";
const SCENARIO: &str =
    "run the launcher's own command in a scenario, as workload.command (belljar new writes one)";
const STREAMS: &str = "the run directory has the ranks' output, as stdout and stderr; --tag-output marks the lines of each rank";

/// Options by their names without dashes: both launchers take most of them with one or two.
const TABLE: &[(&[&str], Meaning)] = &[
    (&["n", "np", "c"], Spelling("-n")),
    (
        &[
            "ppn",
            "perhost",
            "npernode",
            "N",
            "ranks-per-node",
            "npersocket",
        ],
        Spelling("--ranks-per-node"),
    ),
    (&["pernode"], Words(&["--ranks-per-node", "1"])),
    (&["f", "hostfile", "machinefile"], Spelling("--hostfile")),
    (&["H", "host", "hosts"], Spelling("--host")),
    (&["rf", "rankfile"], Spelling("--rankfile")),
    (&["wdir", "wd"], Spelling("--wdir")),
    (&["map-by"], Spelling("--map-by")),
    (&["rank-by"], Spelling("--rank-by")),
    (&["bynode", "rr"], Words(&["--map-by", "node"])),
    (
        &["byslot", "bycore", "bysocket"],
        Words(&["--map-by", "slot"]),
    ),
    (
        &["cpus-per-proc", "cpus-per-rank"],
        Spelling("--cpus-per-rank"),
    ),
    (&["oversubscribe"], Words(&["--oversubscribe"])),
    (
        &["l", "prepend-rank", "tag-output"],
        Words(&["--tag-output"]),
    ),
    (&["genv"], Variable),
    (&["env"], OwnVariable),
    (&["genvlist", "envlist"], List),
    (&["mca", "gmca", "omca", "gomca"], Parameter("OMPI_MCA_")),
    (&["prtemca"], Parameter("PRTE_MCA_")),
    (&["pmixmca"], Parameter("PMIX_MCA_")),
    (&["preload-files"], Files),
    // Without effect.
    (
        &[
            "bind-to", "binding", "bindlib", "membind", "cpu-set", "cpu-list", "topolib",
        ],
        Ignored(1, ALIKE),
    ),
    (
        &[
            "bind-to-core",
            "bind-to-socket",
            "bind-to-none",
            "bind-to-board",
            "report-bindings",
            "use-hwthread-cpus",
            "use-hwthreads",
            "overload-allowed",
        ],
        Ignored(0, ALIKE),
    ),
    (
        &["genvall", "envall", "genvnone", "envnone"],
        Ignored(0, NO_ENVIRONMENT),
    ),
    (
        &["nooversubscribe"],
        Ignored(0, "more ranks than slots are refused without it"),
    ),
    (
        &[
            "display-map",
            "display-devel-map",
            "display-allocation",
            "display-topo",
            "display-devel-allocation",
            "print-rank-map",
        ],
        Ignored(0, PLAN),
    ),
    (&["display"], Ignored(1, PLAN)),
    (
        &[
            "v",
            "verbose",
            "d",
            "debug-devel",
            "debug-daemons",
            "debug-daemons-file",
            "leave-session-attached",
            "print-all-exitcodes",
            "show-progress",
        ],
        Ignored(
            0,
            "console/node0.log and stderr of the run directory have the launcher's messages",
        ),
    ),
    (&["prefix"], Ignored(1, OF_IMAGE)),
    (
        &["noprefix", "preload-binary", "enable-x"],
        Ignored(0, OF_IMAGE),
    ),
    (
        &[
            "launcher",
            "launcher-exec",
            "bootstrap",
            "bootstrap-exec",
            "rmk",
            "iface",
            "demux",
            "localhost",
        ],
        Ignored(1, REACHED),
    ),
    (
        &[
            "disable-hostname-propagation",
            "skip-launch-node",
            "disable-x",
            "order-nodes",
        ],
        Ignored(0, REACHED),
    ),
    (&["allow-run-as-root"], Words(&["--allow-run-as-root"])),
    // Refused.
    (
        &["app", "configfile", "default-hostfile"],
        Refused(
            "write the programs one after the other, with `:` between them, and --hostfile FILE",
        ),
    ),
    (
        &["tune", "am"],
        Refused("write its parameters one by one, as --mca NAME VALUE"),
    ),
    (&["path", "dir"], Refused("write the program with its path")),
    (
        &[
            "timestamp-output",
            "xml",
            "xterm",
            "outfile-pattern",
            "errfile-pattern",
            "prepend-pattern",
            "output-filename",
            "output-proctable",
            "merge-stderr-to-stdout",
            "stream-buffering",
        ],
        Refused(STREAMS),
    ),
    (
        &["s", "stdin"],
        Refused("ranks have no standard input: bring a file with --file and read it"),
    ),
    (
        &["timeout"],
        Refused("write --limit TIME, a limit of virtual time"),
    ),
    (
        &["nolocal"],
        Refused(
            "the launcher and ranks share node 0; add a node and leave its slots empty by --rankfile",
        ),
    ),
    (
        &["gpus-per-proc", "gpu-subdevs-per-proc", "gpu"],
        Refused("nodes have no GPUs"),
    ),
    (
        &[
            "enable-recovery",
            "recoverable",
            "continuous",
            "max-restarts",
            "with-ft",
            "enable-ft",
            "disable-auto-cleanup",
            "usize",
            "info",
            "dvm",
            "dvm-uri",
            "ompi-server",
            "server-wait-time",
            "report-uri",
            "report-pid",
            "report-events",
            "report-state-on-timeout",
            "get-stack-traces",
            "report-child-jobs-separately",
            "index-argv-by-rank",
            "personality",
            "launch-agent",
            "hetero-nodes",
            "do-not-launch",
            "do-not-resolve",
            "do-not-park",
            "soft",
            "arch",
            "nameserver",
            "ckpoint-interval",
            "ckpoint-prefix",
            "ckpoint-num",
            "ckpointlib",
            "rankmap",
            "runtime-options",
            "set-sid",
            "stop-on-exec",
            "stop-in-init",
            "stop-in-app",
            "novm",
            "set-cwd-to-session-dir",
            "rank-first",
            "cpu-bind",
        ],
        Refused(SCENARIO),
    ),
    (
        &["debug", "debugger", "tv", "gdb", "gdba", "dbg"],
        Refused(
            "attach with belljar watch and belljar console, or record stacks with --set profile.every=100us",
        ),
    ),
];

/// Returns the meaning of the option `word`; `None` for options that no launcher has, and for options that `belljar mpirun` has
/// under the same name.
pub fn meaning(word: &str) -> Option<Meaning> {
    let name = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    // A lone dash and words with three dashes are no options.
    if name.is_empty() || name.starts_with('-') {
        return None;
    }
    let found = TABLE.iter().find(|(names, _)| names.contains(&name));
    found.map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_one_meaning_each() {
        let mut names: Vec<&str> = TABLE
            .iter()
            .flat_map(|(names, _)| *names)
            .copied()
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(meaning("-machinefile"), Some(Spelling("--hostfile")));
        assert_eq!(meaning("--machinefile"), Some(Spelling("--hostfile")));
        assert!(matches!(meaning("--bind-to"), Some(Ignored(1, _))));
        assert!(matches!(meaning("--timeout"), Some(Refused(_))));
        for own in ["--seed", "--", "-", "", "np", "--report", "---np"] {
            assert_eq!(meaning(own), None, "{own}");
        }
    }
}
