//! Programs for the comparison with replays.
//!
//! Called by `validate`.

use std::path::Path;

use super::networks::{CARDS, NETWORKS, Network, SHAPES};

/// Kernels of `scenarios/validate/kernels.c`.
const KERNELS: [&str; 8] = ["halo", "cg", "ft", "is", "lu", "mg", "bfs", "osu"];

/// Nodes that kernels run on.
const NODES: [u32; 2] = [4, 8];

/// Patterns of `scenarios/validate/patterns.c`.
const PATTERNS: [&str; 6] = ["overlap", "rma", "uneven", "sweep", "farm", "incast"];

/// Patterns that run with two ranks on each node, too.
const SHARED: [&str; 3] = ["overlap", "uneven", "sweep"];

/// Patterns that run with InfiniBand cards, too.
const CARD_PATTERNS: [&str; 3] = ["overlap", "uneven", "incast"];

/// Ranks of a pattern.
const RANKS: u32 = 8;

/// A program to validate.
pub(super) struct ValidatedProgram {
    pub(super) name: String,
    pub(super) nodes: u32,
    /// Its networks.
    pub(super) networks: &'static [Network],
    /// Words of `belljar` before the network's keys.
    pub(super) words: Vec<String>,
}

/// All programs: scenarios, kernels and patterns, by their compiled files.
pub(super) fn programs(kernels: &Path, patterns: &Path) -> Vec<ValidatedProgram> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let scenario = |name: &str, file: &str, nodes: u32, more: &[&str]| ValidatedProgram {
        name: name.to_owned(),
        nodes,
        networks: &NETWORKS,
        words: words(&[&["run", file, "-q"], more].concat()),
    };
    let mut programs = vec![
        scenario("pingpong", "scenarios/pingpong.toml", 2, &[]),
        scenario(
            "hpl",
            "scenarios/hpl-4.toml",
            4,
            &["--set", "trace.sample={}"],
        ),
        scenario(
            "gromacs",
            "scenarios/gromacs-16.toml",
            4,
            &[
                "--nodes",
                "4",
                "--set",
                "trace.sample={}",
                "--set",
                "network.topology=star",
                "--set",
                "network.routing=shortest",
            ],
        ),
    ];
    for nodes in NODES {
        programs.extend(KERNELS.into_iter().map(|kernel| ValidatedProgram {
            name: kernel.to_owned(),
            nodes,
            networks: &NETWORKS,
            words: words(&[
                "mpirun",
                "-n",
                &nodes.to_string(),
                &kernels.to_string_lossy(),
                kernel,
            ]),
        }));
    }
    let pattern = |name: &str, on_each: u32| ValidatedProgram {
        name: match on_each {
            1 => name.to_owned(),
            _ => format!("{name} x {on_each}"),
        },
        nodes: RANKS / on_each,
        networks: &SHAPES,
        words: words(&[
            "mpirun",
            "-q",
            "-n",
            &RANKS.to_string(),
            "--ranks-per-node",
            &on_each.to_string(),
            &patterns.to_string_lossy(),
            name,
        ]),
    };
    programs.extend(PATTERNS.into_iter().map(|name| pattern(name, 1)));
    programs.extend(SHARED.into_iter().map(|name| pattern(name, 2)));
    programs
}

/// Programs on nodes with InfiniBand cards.
pub(super) fn with_cards(kernels: &Path, patterns: &Path) -> Vec<ValidatedProgram> {
    let program = |nodes: u32, file: &Path, name: &str| ValidatedProgram {
        name: format!("{name} infiniband"),
        nodes,
        networks: &CARDS,
        words: [
            "mpirun",
            "-q",
            "--infiniband",
            "EDR",
            "-n",
            &nodes.to_string(),
            &file.to_string_lossy(),
            name,
        ]
        .map(str::to_owned)
        .to_vec(),
    };
    let of_kernels = KERNELS.into_iter();
    let of_kernels = of_kernels.map(|name| program(NODES[0], kernels, name));
    let of_patterns = CARD_PATTERNS.into_iter();
    let of_patterns = of_patterns.map(|name| program(RANKS, patterns, name));
    of_kernels.chain(of_patterns).collect()
}
