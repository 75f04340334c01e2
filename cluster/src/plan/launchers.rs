//! Settings that MPI launchers need on the nodes, so that users need not set them. Ranks run as root, other nodes are reached by
//! `belljar-rsh` and listed in the run's host file, and messages use `eth0`.
//!
//! A scenario's `workload.environment` takes precedence. The guest's init has the settings for Debian's MPICH. Container images
//! may have any MPI anywhere, and get the settings of all.

use std::collections::BTreeMap;

use super::secure_shell::SecureShell;
use crate::plan::kinds::NodeKind;
use crate::plan::nodes::run_disk::OPEN_MPI_HOSTS;
use crate::scripts::{COMMANDS, calls};
use crate::slurm;
use belljar_workload::{GuestRoot, Mpi, PROGRAMS};

/// Path of the project's programs in container images, `own` in `container-init`.
const OWN: &str = "/run/belljar/system/bin";
/// Path of the project's commands on the run disk.
const COMMAND_FOLDER: &str = "/run/belljar/bin";
/// The host file in the form of Hydra.
const HYDRA_HOSTS: &str = "/run/belljar/hosts";

/// The variables for a node whose tree is `root`: for the MPI implementations in the tree, or for all in a container. With `cards` of
/// InfiniBand, implementations find the fastest transport themselves.
pub(super) fn environment(
    root: &GuestRoot,
    is_container: bool,
    kinds: &[NodeKind],
    cards: bool,
) -> BTreeMap<String, String> {
    let several = kinds.iter().any(|kind| kind.ranks > 1);
    let crowded = kinds.iter().any(|kind| kind.ranks > kind.vcpus);
    let rsh = match is_container {
        true => format!("{OWN}/belljar-rsh"),
        false => "belljar-rsh".to_owned(),
    };
    let mut variables = Variables::default();
    if is_container || root.has(Mpi::OpenMpi) {
        let is_new = ["prterun", "prte"].iter().any(|name| root.holds(name));
        variables.open_mpi(&rsh, crowded);
        if is_new && !is_container {
            variables.prrte(&rsh);
        }
        // Debian's settings file leaves UCX out, which drives the cards.
        match cards {
            true if root.holds("mca_pml_ucx.so") => {
                variables.messages_by("ucx");
                variables.windows_by_cards(root.holds("mca_osc_ucx.so"));
            }
            // Open MPI 5 has its components in its library, usually; of these two it takes UCX if that finds a card.
            true if is_new && root.holds("libucp.so.0") => {
                variables.messages_by("ucx,ob1");
                variables.windows_by_cards(true);
            }
            true => {}
            false => variables.messages_by("ob1"),
        }
        let memory = match is_new {
            true => Some("sm"),
            // If the image has it.
            false => Some("vader").filter(|_| root.holds("mca_btl_vader.so")),
        };
        if !cards {
            variables.transports(memory.filter(|_| several));
        }
    }
    if is_container {
        variables.prrte(&rsh);
        variables.libfabric();
        variables.intel(&rsh, several);
    }
    variables.0
}

/// The project's commands for the nodes: a script calls them, and the image lacks them, or has an `ssh` without a server.
pub(super) fn wanted_commands(
    root: &GuestRoot,
    command: &str,
    files: &BTreeMap<String, Vec<u8>>,
) -> Vec<&'static str> {
    let names = COMMANDS.iter().map(|(name, _)| *name);
    let is_there = |name| match name {
        "ssh" => SecureShell::server(root).is_some(),
        "module" => MODULES.iter().any(|path| root.real(path).is_some()),
        "mpirun" => root.program("mpirun").is_some() || root.program("mpiexec.hydra").is_none(),
        name => root.program(name).is_some(),
    };
    let wanted = names.filter(|name| !is_there(*name) && calls(command, files, name));
    wanted.collect()
}

/// Files that define a shell function `module`.
const MODULES: [&str; 4] = [
    "/etc/profile.d/modules.sh",
    "/etc/profile.d/lmod.sh",
    "/usr/share/lmod/lmod/init/bash",
    "/usr/share/modules/init/bash",
];

/// PATH with the project's commands first; Slurm's commands precede them.
pub(super) fn path_with_commands(path: Option<&String>, has_slurm: bool) -> String {
    let path = path.cloned().unwrap_or_else(|| PROGRAMS.join(":"));
    let path = format!("{COMMAND_FOLDER}:{path}");
    match has_slurm {
        true => format!("{}:{path}", slurm::COMMANDS),
        false => path,
    }
}

/// Adapts the variables for nodes with Slurm, by which launchers find nodes and start their daemons.
pub(super) fn leave_to_slurm(variables: &mut BTreeMap<String, String>) {
    for name in OF_HOST_FILES {
        variables.remove(name);
    }
    let settings = format!("{}/slurm.conf", slurm::SETTINGS);
    variables.insert("SLURM_CONF".to_owned(), settings);
}

/// Variables that name the nodes, or another method than `srun` to start daemons. Open MPI's rsh agent stays, as its launchers
/// require one even if they do not use it.
const OF_HOST_FILES: [&str; 5] = [
    "OMPI_MCA_orte_default_hostfile",
    "PRTE_MCA_prte_default_hostfile",
    "I_MPI_HYDRA_BOOTSTRAP",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC",
    "I_MPI_HYDRA_HOST_FILE",
];

#[derive(Default)]
struct Variables(BTreeMap<String, String>);

impl Variables {
    fn set(&mut self, values: &[(&str, &str)]) {
        let values = values.iter();
        let values = values.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.0.extend(values);
    }

    /// Settings of Open MPI 4, and common ones of 5.
    fn open_mpi(&mut self, rsh: &str, crowded: bool) {
        let hosts = format!("/run/belljar/{OPEN_MPI_HOSTS}");
        self.set(&[
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("OMPI_MCA_plm_rsh_agent", rsh),
            ("OMPI_MCA_plm_rsh_no_tree_spawn", "1"),
            ("OMPI_MCA_btl_tcp_if_include", "eth0"),
            ("OMPI_MCA_oob_tcp_if_include", "eth0"),
            ("OMPI_MCA_hwloc_base_binding_policy", "none"),
            ("OMPI_MCA_orte_default_hostfile", &hosts),
        ]);
        // Otherwise waiting ranks would occupy the processors of the ranks that they wait for.
        if crowded {
            self.set(&[("OMPI_MCA_mpi_yield_when_idle", "1")]);
        }
    }

    /// Open MPI's layer that matches messages: its own, over the transports that are set, or UCX.
    fn messages_by(&mut self, layer: &str) {
        self.set(&[("OMPI_MCA_pml", layer)]);
    }

    /// Open MPI's windows over cards, which Debian's settings file leaves out, too.
    fn windows_by_cards(&mut self, has_component: bool) {
        if has_component {
            self.set(&[("OMPI_MCA_osc", "ucx,sm")]);
        }
    }

    /// TCP, and between ranks of a node memory.
    fn transports(&mut self, memory: Option<&str>) {
        let list = match memory {
            Some(memory) => format!("tcp,self,{memory}"),
            None => "tcp,self".to_owned(),
        };
        self.set(&[("OMPI_MCA_btl", &list)]);
    }

    /// The launcher of Open MPI 5.
    fn prrte(&mut self, rsh: &str) {
        let hosts = format!("/run/belljar/{OPEN_MPI_HOSTS}");
        self.set(&[
            ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
            ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ("PRTE_MCA_plm_ssh_agent", rsh),
            ("PRTE_MCA_plm_ssh_no_tree_spawn", "1"),
            ("PRTE_MCA_prte_default_hostfile", &hosts),
            ("PRTE_MCA_prte_if_include", "eth0"),
            ("PRTE_MCA_hwloc_default_binding_policy", "none"),
        ]);
    }

    /// The transport of MPICH, MVAPICH and Intel MPI without UCX.
    fn libfabric(&mut self) {
        self.set(&[("FI_PROVIDER", "tcp"), ("FI_TCP_IFACE", "eth0")]);
    }

    /// Intel MPI has different names for Hydra's settings.
    fn intel(&mut self, rsh: &str, several: bool) {
        self.set(&[
            ("I_MPI_HYDRA_BOOTSTRAP", "rsh"),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC", rsh),
            ("I_MPI_HYDRA_HOST_FILE", HYDRA_HOSTS),
            ("I_MPI_HYDRA_IFACE", "eth0"),
            ("I_MPI_FABRICS", if several { "shm:ofi" } else { "ofi" }),
            ("I_MPI_OFI_PROVIDER", "tcp"),
            ("I_MPI_PIN", "0"),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::kinds;
    use crate::scenario::Scenario;

    fn scenario(more: &str) -> Vec<NodeKind> {
        let text = format!(
            "name = \"x\"\nimage = {{ recipe = \"r\" }}\n\
             nodes = {{ count = 2, memory = \"1 GiB\", clock = \"1 GHz\" }}\n\
             workload = {{ command = \"\", {more} }}\n"
        );
        kinds::resolve(
            &Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap(),
            Path::new("."),
        )
        .unwrap()
    }

    #[test]
    fn images_with_open_mpi_alone_have_its_variables() {
        let mut root = GuestRoot::default();
        let alone = scenario("ranks-per-node = 1");
        let two = scenario("ranks-per-node = 2");
        assert!(environment(&root, false, &alone, false).is_empty());
        root.add("/usr/bin/orterun", b"");
        root.add("/usr/lib/x86_64-linux-gnu/libmpi.so.40", b"");
        let variables = environment(&root, false, &alone, false);
        assert_eq!(variables["OMPI_MCA_plm_rsh_agent"], "belljar-rsh");
        assert_eq!(variables["OMPI_MCA_btl"], "tcp,self");
        assert!(!variables.contains_key("OMPI_MCA_mpi_yield_when_idle"));
        root.add("/usr/lib/openmpi/mca_btl_vader.so", b"");
        let variables = environment(&root, false, &two, false);
        assert_eq!(variables["OMPI_MCA_btl"], "tcp,self,vader");
        assert_eq!(variables["OMPI_MCA_mpi_yield_when_idle"], "1");
        assert_eq!(variables["OMPI_MCA_pml"], "ob1");
        let with_cards = environment(&root, false, &two, true);
        assert!(
            !with_cards.contains_key("OMPI_MCA_btl") && !with_cards.contains_key("OMPI_MCA_pml")
        );
        root.add("/usr/lib/openmpi/mca_pml_ucx.so", b"");
        root.add("/usr/lib/openmpi/mca_osc_ucx.so", b"");
        let with_cards = environment(&root, false, &two, true);
        assert_eq!(with_cards["OMPI_MCA_pml"], "ucx");
        assert_eq!(with_cards["OMPI_MCA_osc"], "ucx,sm");
    }

    #[test]
    fn images_with_open_mpi_5_have_its_launchers_variables() {
        let mut root = GuestRoot::default();
        let two = scenario("ranks-per-node = 2");
        root.add("/usr/bin/prterun", b"");
        root.add("/usr/lib/x86_64-linux-gnu/libmpi.so.40", b"");
        let variables = environment(&root, false, &two, false);
        assert_eq!(variables["PRTE_MCA_plm_ssh_agent"], "belljar-rsh");
        assert_eq!(
            variables["PRTE_MCA_prte_default_hostfile"],
            format!("/run/belljar/{OPEN_MPI_HOSTS}")
        );
        assert_eq!(variables["OMPI_MCA_btl"], "tcp,self,sm");
        assert!(!environment(&root, false, &two, true).contains_key("OMPI_MCA_pml"));
        root.add("/usr/lib/x86_64-linux-gnu/libucp.so.0", b"");
        let with_cards = environment(&root, false, &two, true);
        assert_eq!(with_cards["OMPI_MCA_pml"], "ucx,ob1");
        assert_eq!(with_cards["OMPI_MCA_osc"], "ucx,sm");
    }

    #[test]
    fn containers_have_those_of_every_mpi() {
        let root = GuestRoot::default();
        let variables = environment(&root, true, &scenario("ranks-per-node = 2"), false);
        let rsh = "/run/belljar/system/bin/belljar-rsh";
        for name in [
            "OMPI_MCA_plm_rsh_agent",
            "PRTE_MCA_plm_ssh_agent",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC",
        ] {
            assert_eq!(variables[name], rsh, "{name}");
        }
        assert_eq!(variables["I_MPI_FABRICS"], "shm:ofi");
        assert_eq!(variables["OMPI_MCA_btl"], "tcp,self");
    }
    #[test]
    fn commands_are_there_where_a_script_calls_them() {
        let mut root = GuestRoot::default();
        let none = BTreeMap::new();
        let wanted = |root: &GuestRoot, command, files| wanted_commands(root, command, files);
        root.add("/usr/bin/mpiexec.hydra", b"");
        assert_eq!(wanted(&root, "cd x; mpirun -n 2 ./a", &none), ["mpirun"]);
        let both = "ssh node1 hostname && mpirun ./a";
        assert_eq!(wanted(&root, both, &none), ["ssh", "mpirun"]);
        assert!(wanted(&root, "./mpirun -n 2; my-mpirun\n # mpirun", &none).is_empty());
        let script = BTreeMap::from([("job".to_owned(), b"#!/bin/sh\nmpirun ./a\n".to_vec())]);
        assert_eq!(wanted(&root, "./job", &script), ["mpirun"]);
        let data = BTreeMap::from([("job".to_owned(), b"mpirun".to_vec())]);
        assert!(wanted(&root, "cat job", &data).is_empty());
        root.add("/usr/bin/mpirun", b"");
        assert!(wanted(&root, "./job", &script).is_empty());
        root.add("/usr/bin/ssh", b"");
        assert_eq!(wanted(&root, both, &none), ["ssh"], "no server answers");
        root.add("/usr/sbin/sshd", b"");
        assert!(wanted(&root, both, &none).is_empty());
        let usual = path_with_commands(None, false);
        assert_eq!(
            usual,
            "/run/belljar/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
        );
        let own = "/opt/bin".to_owned();
        assert_eq!(
            path_with_commands(Some(&own), false),
            "/run/belljar/bin:/opt/bin"
        );
    }
}
