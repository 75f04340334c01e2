//! What Open MPI needs on the nodes, so that nobody has to set it: ranks run as root, other nodes
//! are reached by `belljar-rsh` and are those of the run's host file, and messages go over `eth0`.
//!
//! Scenarios' own `workload.environment` holds where it names the same. MPICH's counterpart stands
//! in the guest's init.

use std::collections::BTreeMap;

use crate::mpirun::{GuestRoot, Mpi};
use crate::run_disk::OPEN_MPI_HOSTS;
use crate::scenario::Scenario;

/// Where Debian has Open MPI's components.
const COMPONENTS: &str = "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3";

/// The variables, where the image with the tree `root` has Open MPI; none elsewhere.
pub(super) fn environment(root: &GuestRoot, scenario: &Scenario) -> BTreeMap<String, String> {
    if !root.has(Mpi::OpenMpi) {
        return BTreeMap::new();
    }
    let hosts = format!("/run/belljar/{OPEN_MPI_HOSTS}");
    let mut transports = "tcp,self".to_owned();
    // Between ranks of a node, where the image has it.
    let has_memory = root
        .real(&format!("{COMPONENTS}/mca_btl_vader.so"))
        .is_some();
    if has_memory && scenario.workload.ranks_per_node > 1 {
        transports.push_str(",vader");
    }
    let mut variables: BTreeMap<String, String> = [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_plm_rsh_agent", "belljar-rsh"),
        ("OMPI_MCA_plm_rsh_no_tree_spawn", "1"),
        ("OMPI_MCA_pml", "ob1"),
        ("OMPI_MCA_btl", &transports),
        ("OMPI_MCA_btl_tcp_if_include", "eth0"),
        ("OMPI_MCA_oob_tcp_if_include", "eth0"),
        ("OMPI_MCA_hwloc_base_binding_policy", "none"),
        ("OMPI_MCA_orte_default_hostfile", &hosts),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    // Ranks that wait would otherwise keep the processor from those that they wait for.
    if scenario.workload.ranks_per_node > scenario.nodes.vcpus {
        variables.insert("OMPI_MCA_mpi_yield_when_idle".to_owned(), "1".to_owned());
    }
    variables
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn scenario(more: &str) -> Scenario {
        let text = format!(
            "name = \"x\"\nimage = {{ recipe = \"r\" }}\n\
             nodes = {{ count = 2, memory = \"1 GiB\", clock = \"1 GHz\" }}\n\
             workload = {{ command = \"\", {more} }}\n"
        );
        Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap()
    }

    #[test]
    fn images_with_open_mpi_alone_have_its_variables() {
        let mut root = GuestRoot::default();
        let alone = scenario("ranks-per-node = 1");
        let two = scenario("ranks-per-node = 2");
        assert!(environment(&root, &alone).is_empty());
        root.add("/usr/bin/orterun", b"");
        root.add("/usr/lib/x86_64-linux-gnu/libmpi.so.40", b"");
        let variables = environment(&root, &alone);
        assert_eq!(variables["OMPI_MCA_plm_rsh_agent"], "belljar-rsh");
        assert_eq!(variables["OMPI_MCA_btl"], "tcp,self");
        assert!(!variables.contains_key("OMPI_MCA_mpi_yield_when_idle"));
        root.add(&format!("{COMPONENTS}/mca_btl_vader.so"), b"");
        let variables = environment(&root, &two);
        assert_eq!(variables["OMPI_MCA_btl"], "tcp,self,vader");
        assert_eq!(variables["OMPI_MCA_mpi_yield_when_idle"], "1");
    }
}
