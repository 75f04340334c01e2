//! Errors in the words of a request.
//!
//! Each error names the option or the line, and a correct one. Errors arise from words and files; `belljar mpirun` and `replay`
//! print them.

/// Errors in the words of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing to run.
    #[error("there is no program after `{0}`; write for example: belljar mpirun -n 4 ./a.out")]
    NoProgram(String),
    /// An unknown option.
    #[error(
        "`{0}` is not an option of belljar mpirun; belljar mpirun --help lists them; after `:` come -n N, -x NAME=VALUE, --wdir DIR and the program"
    )]
    Option(String),
    /// An invalid number of ranks.
    #[error("`{0}` is not a number of ranks; write a number from 1")]
    Ranks(String),
    /// No number of ranks.
    #[error("how many ranks? write -n N, or --nodes N, or --hostfile FILE")]
    HowMany,
    /// More ranks than slots.
    #[error(
        "{ranks} ranks are more than the {room} slots of {nodes} nodes: add --ranks-per-node {least}, --nodes {wanted}, or --oversubscribe"
    )]
    Room {
        /// Of all programs.
        ranks: u32,
        /// Nodes.
        nodes: u32,
        /// Their slots.
        room: u32,
        /// Slots of each node that would suffice.
        least: u32,
        /// Number of nodes that would suffice.
        wanted: u32,
    },
    /// A line of a host file.
    #[error("line {line} of the host file, `{text}`: write NAME, NAME slots=K or NAME:K")]
    HostFile {
        /// Its number, from 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// A host file without a host.
    #[error("the host file names no host; write a line for each node, such as: a slots=2")]
    NoHosts,
    /// A host of a list.
    #[error("--host: `{0}` is not a host; separate names by commas, each NAME or NAME:K")]
    Host(String),
    /// More slots than the limit of a node.
    #[error("the host {host} has {slots} slots; a node has at most 1024")]
    Slots {
        /// The host.
        host: String,
        /// Its slots.
        slots: u32,
    },
    /// A line of a rankfile.
    #[error("line {line} of the rankfile, `{text}`: write rank N=HOST slot=K, each rank once")]
    RankFile {
        /// Its number, from 1.
        line: usize,
        /// Its text.
        text: String,
    },
    /// A rank without a host.
    #[error("the rankfile does not name a host for rank {0}")]
    NoRank(u32),
    /// A host outside of the host file.
    #[error("the rankfile puts rank {rank} on {host}, which is not a host of the run")]
    NoHost {
        /// The rank.
        rank: u32,
        /// The host.
        host: String,
    },
    /// Different numbers of ranks.
    #[error(
        "-n {ranks}: the rankfile has hosts for {named} ranks; leave out -n, or make both equal"
    )]
    RankCount {
        /// Ranks of the command line.
        ranks: u32,
        /// Ranks of the file.
        named: u32,
    },
    /// More kinds of nodes than a scenario can have.
    #[error(
        "the slots of nodes change {0} times along the host file, and nodes have at most 16 groups: sort hosts by their slots"
    )]
    Groups(usize),
    /// An unknown mapping.
    #[error("--map-by {text}: {instead}")]
    MapBy {
        /// The value.
        text: String,
        /// Correct values.
        instead: String,
    },
    /// An unknown order of ranks.
    #[error("--rank-by {0}: write slot or node")]
    RankBy(String),
    /// A placement of several programs.
    #[error(
        "several programs fill slots in order: leave out --map-by node, --rank-by and rankfiles, or run one program"
    )]
    OneProgram,
    /// An unsupported option.
    #[error("{option} has no counterpart on nodes: {instead}")]
    Refused {
        /// The option.
        option: String,
        /// Its counterpart.
        instead: &'static str,
    },
    /// An option of all programs that follows the first one.
    #[error("{0} is for all programs: write it before the first one")]
    Late(String),
    /// An invalid network.
    #[error("--network {text}: {reason}; write BANDWIDTH,LATENCY, such as 100Gb/s,1us")]
    Network {
        /// The value.
        text: String,
        /// The fault.
        reason: String,
    },
}
