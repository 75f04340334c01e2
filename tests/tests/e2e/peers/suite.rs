//! The programs of MPICH's test suite, from its own lists.

use super::jobs::{Job, Mpi};
use super::native::Native;

/// Maximum number of ranks of a program: one for each of four nodes.
const MOST_RANKS: u32 = 4;

/// Excluded programs, with reasons.
const LEFT_OUT: &[(&str, &str)] = &[
    ("comm/ic2", "wants 33 ranks"),
    ("group/grouptest", "wants 8 ranks"),
    (
        "init/exitst1",
        "ends badly on purpose, before its counts are told",
    ),
    (
        "init/exitst2",
        "ends badly on purpose, before its counts are told",
    ),
    ("init/timeout", "never ends, on purpose"),
    ("errhan/errfatal", "is killed on purpose"),
    ("rma/manyrma3", "crashes natively, too"),
    ("errhan/adderr", MANY),
    ("coll/allgatherv4", LARGE),
    ("coll/allredmany", MANY),
    ("coll/nonblocking3", MANY),
    ("comm/cmfree", MANY),
    ("comm/cmsplit_type", MANY),
    ("comm/ctxalloc", MANY),
    ("comm/ctxsplit", MANY),
    ("pt2pt/bsendpending", MANY),
    ("pt2pt/huge_anysrc", MEMORY),
    ("pt2pt/manylmt", MEMORY),
    ("pt2pt/probe_unexp", MANY),
    ("pt2pt/sendflood", MANY),
    ("rma/atomic_rmw_cas", MANY),
    ("rma/atomic_rmw_fop", MANY),
    ("rma/atomic_rmw_gacc", MANY),
    ("rma/compare_and_swap", MANY),
    ("rma/contention_put", MANY),
    ("rma/contention_putget", MANY),
    ("rma/derived_acc_flush_local", LARGE),
    ("rma/large_acc_flush_local", LARGE),
    ("rma/linked_list", MANY),
    ("rma/linked_list_bench_lock_all", MANY),
    ("rma/linked_list_bench_lock_excl", MANY),
    ("rma/linked_list_bench_lock_shr", MANY),
    ("rma/lockcontention2", MANY),
    ("rma/manyget", MANY),
    ("rma/manyrma2", MANY),
    ("rma/reqops", MANY),
    ("rma/rma_contig", MANY),
    ("rma/win_shared_noncontig_put", MANY),
];
const MANY: &str = "makes so many calls that it takes minutes";
const MEMORY: &str = "wants 320 MiB in each rank, and nodes have 256";
const LARGE: &str = "moves so much data that it takes minutes";

/// Programs that need another number of ranks than the list's, limited to [`MOST_RANKS`].
const RANKS: &[(&str, u32)] = &[
    ("coll/coll2", 2),
    ("coll/coll6", 2),
    ("coll/coll7", 2),
    ("coll/gatherv", 2),
    ("coll/p_gatherv", 2),
];

/// Programs for every test: a few of each folder, which take little time.
const QUICK: &[(&str, u32, &str)] = &[
    ("attr/attrt", 2, ""),
    ("coll/allgather2", 4, ""),
    ("coll/alltoallw_zeros", 2, ""),
    ("coll/exscan", 4, ""),
    ("coll/gatherv", 2, ""),
    ("coll/icbcast", 4, ""),
    ("coll/neighb_alltoallw", 4, ""),
    ("coll/redscat", 4, ""),
    ("coll/scattern", 4, ""),
    ("comm/dup", 2, ""),
    ("comm/ic1", 4, ""),
    ("comm/cmsplit", 4, ""),
    ("datatype/blockindexed_misc", 1, ""),
    ("datatype/typecommit", 1, ""),
    ("errhan/commcall", 2, ""),
    ("group/groupcreate", 4, ""),
    ("pt2pt/anyall", 2, ""),
    ("pt2pt/mprobe", 2, ""),
    ("pt2pt/sendall", 4, ""),
    ("pt2pt/waitany_null", 1, ""),
    ("rma/fetchandadd", 4, ""),
    ("rma/getgroup", 2, ""),
    ("rma/winname", 2, ""),
    ("topo/cartmap1", 4, ""),
    ("topo/cartcreates", 4, ""),
];

/// The jobs of the short test.
pub(crate) fn quick() -> Vec<Job> {
    let job = |&(program, ranks, arguments): &(&str, u32, &str)| Job {
        program: program.to_owned(),
        ranks,
        arguments: arguments.to_owned(),
    };
    QUICK.iter().map(job).collect()
}

/// All programs of a folder that the image has for `mpi`, without duplicates, in the order of the
/// suite's list.
pub(crate) fn of(native: &Native, mpi: Mpi, part: &str) -> Vec<Job> {
    let list = native.read("usr/local/mpich/testlist");
    let mut jobs: Vec<Job> = Vec::new();
    for job in list.lines().filter_map(job) {
        let folder = job.program.split('/').next();
        let left_out = LEFT_OUT.iter().any(|(program, _)| *program == job.program);
        let there = native.has(&format!("usr/local/{}/{}", mpi.name(), job.program));
        let again = jobs.iter().any(|known| known.program == job.program);
        if folder == Some(part) && !left_out && there && !again {
            jobs.push(job);
        }
    }
    jobs
}

/// A line of the list: program, ranks, and words `name=value`. `None` for a program that needs another
/// environment or much memory, or is expected to fail.
fn job(line: &str) -> Option<Job> {
    let mut words = line.split_whitespace();
    let program = words.next()?.to_owned();
    let ranks: u32 = words.next()?.parse().ok()?;
    let words: Vec<&str> = words.collect();
    let other = ["env=", "mem=", "xfail=", "resultTest="];
    if words
        .iter()
        .any(|word| other.iter().any(|name| word.starts_with(name)))
    {
        return None;
    }
    let arguments = words.iter().filter_map(|word| word.strip_prefix("arg="));
    let own = RANKS.iter().find(|(name, _)| *name == program);
    Some(Job {
        ranks: own.map_or(ranks.min(MOST_RANKS), |(_, ranks)| *ranks),
        program,
        arguments: arguments.collect::<Vec<_>>().join(" "),
    })
}
