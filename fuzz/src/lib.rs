//! Fuzz targets: functions that pass arbitrary bytes to interfaces for guests and files.
//!
//! A target must neither panic, nor abort, nor run endlessly, for any input; most targets compare
//! results with a second implementation. The tests of this crate run each on its seeds and on
//! mutations of them; `cargo xtask fuzz TARGET` has libFuzzer search for inputs with new coverage.

/// Programs of any content: unwinding.
mod binary;
/// Kernel files of any content.
mod boot;
/// Untrusted checkpoints: records and packs of pages.
mod checkpoint;
/// Devices under hostile guests.
mod devices;
/// The exact engine under hostile code and hostile page tables.
mod engine;
/// Files that users receive: traces, tables and scenarios.
mod files;
/// Saved states of simulations of many jobs.
mod mix;
/// Mutations of inputs.
pub mod mutate;
/// Networks from files, and their saved states.
mod network;
/// Peers of a run: its other hosts, and clients of its control socket.
mod peers;
/// Archives of root file systems and container images.
mod root;
/// Saved states of nodes, restored and run on.
mod state;

/// One fuzz target.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Description for display.
    pub about: &'static str,
    /// Runs it on an input; panics if it finds a defect.
    pub run: fn(&[u8]),
    /// Useful inputs, to mutate from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Longest useful input, in bytes.
    pub longest: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "code",
        about: "arbitrary code in every mode, with hostile page tables and handlers",
        run: engine::code::target,
        seeds: engine::code::seeds,
        longest: 512,
    },
    Target {
        name: "hca",
        about: "an InfiniBand card: any commands and memory of a guest; any packets of peers, which reach only memory of their key",
        run: devices::hca::target,
        seeds: devices::hca::seeds,
        longest: 4096,
    },
    Target {
        name: "walk",
        about: "page walks through arbitrary tables, against a second walker",
        run: engine::walk::target,
        seeds: engine::walk::seeds,
        longest: 512,
    },
    Target {
        name: "virtio",
        about: "virtio devices driven by arbitrary registers, rings and descriptors",
        run: devices::virtio::target,
        seeds: devices::virtio::seeds,
        longest: 2048,
    },
    Target {
        name: "registers",
        about: "interrupt controllers, serial port, clock and power, register by register",
        run: devices::registers::target,
        seeds: devices::registers::seeds,
        longest: 1024,
    },
    Target {
        name: "boot",
        about: "kernel files of every kind, loaded and entered",
        run: boot::target,
        seeds: boot::seeds,
        longest: 4096,
    },
    Target {
        name: "archive",
        about: "trace files, read, listed and analysed, whole and their structure alone",
        run: files::archive,
        seeds: files::archive_seeds,
        longest: 1 << 14,
    },
    Target {
        name: "analyses",
        about: "trace files: loops, graphs, waiting, critical path, and compared with themselves",
        run: files::analyses,
        seeds: files::archive_seeds,
        longest: 1 << 14,
    },
    Target {
        name: "exports",
        about: "trace files, written in other tools' formats",
        run: files::exports,
        seeds: files::archive_seeds,
        longest: 1 << 14,
    },
    Target {
        name: "otf2",
        about: "archives of OTF2, imported",
        run: files::otf2,
        seeds: files::otf2_seeds,
        longest: 4096,
    },
    Target {
        name: "goal",
        about: "schedules in GOAL, imported",
        run: files::goal,
        seeds: files::goal_seeds,
        longest: 1024,
    },
    Target {
        name: "ti",
        about: "time-independent traces of SimGrid, imported",
        run: files::ti,
        seeds: files::ti_seeds,
        longest: 2048,
    },
    Target {
        name: "replays",
        about: "trace files, made programs and replayed on other networks",
        run: files::replays,
        seeds: files::archive_seeds,
        longest: 1 << 14,
    },
    Target {
        name: "models",
        about: "models of programs, made of traces and asked for other sizes",
        run: files::models,
        seeds: files::models_seeds,
        longest: 1 << 16,
    },
    Target {
        name: "binary",
        about: "programs with unwind tables and debug information",
        run: binary::target,
        seeds: binary::seeds,
        longest: 1 << 14,
    },
    Target {
        name: "tables",
        about: "MPI libraries' decision tables, and what a run says of the wire",
        run: files::tables,
        seeds: files::tables_seeds,
        longest: 4096,
    },
    Target {
        name: "records",
        about: "what runs write besides traces: files of probes, and profiles",
        run: files::records,
        seeds: files::records_seeds,
        longest: 4096,
    },
    Target {
        name: "collected",
        about: "states of what keeps some iterations, and what a trace of them lacks",
        run: files::collected,
        seeds: files::collected_seeds,
        longest: 1 << 14,
    },
    Target {
        name: "scenario",
        about: "scenario files and overrides",
        run: files::scenario,
        seeds: files::scenario_seeds,
        longest: 4096,
    },
    Target {
        name: "graphml",
        about: "networks from GraphML files",
        run: network::graphml,
        seeds: network::graphml_seeds,
        longest: 4096,
    },
    Target {
        name: "fabric",
        about: "saved states of a network, restored and run",
        run: network::state,
        seeds: network::state_seeds,
        longest: 4096,
    },
    Target {
        name: "lossless",
        about: "saved states of an InfiniBand network, restored and run",
        run: network::lossless_state,
        seeds: network::lossless_seeds,
        longest: 1 << 15,
    },
    Target {
        name: "node",
        about: "saved states of a node, restored and run",
        run: state::node,
        seeds: state::node_seeds,
        longest: 1 << 17,
    },
    Target {
        name: "message",
        about: "messages between hosts of a run",
        run: peers::message,
        seeds: peers::message_seeds,
        longest: 4096,
    },
    Target {
        name: "control",
        about: "requests on a run's control socket",
        run: peers::control,
        seeds: peers::control_seeds,
        longest: 4096,
    },
    Target {
        name: "recipe",
        about: "recipes of images",
        run: peers::recipe,
        seeds: peers::recipe_seeds,
        longest: 8192,
    },
    Target {
        name: "root",
        about: "container images and root file systems, written as images",
        run: root::target,
        seeds: root::seeds,
        longest: 1 << 15,
    },
    Target {
        name: "checkpoint",
        about: "records and packs of checkpoints, with a sound one before them",
        run: checkpoint::target,
        seeds: checkpoint::seeds,
        longest: 1 << 17,
    },
    Target {
        name: "mix",
        about: "saved states of simulations of many jobs, restored and played",
        run: mix::matrix,
        seeds: mix::matrix_seeds,
        longest: 4096,
    },
    Target {
        name: "contention",
        about: "saved states of jobs whose messages contend, restored and played",
        run: mix::messages,
        seeds: mix::messages_seeds,
        longest: 1 << 14,
    },
];

/// The target with that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
