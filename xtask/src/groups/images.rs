//! Images of the tests of groups.
//!
//! Builds leave the locks in the tree unchanged. Called by `groups`.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, bail};

use super::Group;
use crate::shell;

/// The image of nodes of several vCPUs.
pub(super) const SEVERAL: &str = "bookworm-smp";

/// Returns the images for tests of `groups` that do not build their own.
pub(super) fn images(groups: &[Group]) -> Vec<&'static str> {
    const WITH_SEVERAL: [Group; 8] = [
        Group::Trace,
        Group::Smp,
        Group::Checkpoint,
        Group::Partition,
        Group::Kvm,
        Group::Groups,
        Group::Noise,
        Group::Explore,
    ];
    let several = groups.iter().any(|group| WITH_SEVERAL.contains(group));
    let mut images = vec!["bookworm-mpich"];
    if several {
        images.push(SEVERAL);
    }
    const WITH_BINDINGS: [Group; 3] = [Group::Programs, Group::Peers, Group::Mpirun];
    if groups.iter().any(|group| WITH_BINDINGS.contains(group)) {
        images.push(BINDINGS);
    }
    if [Group::Mpirun, Group::Containers]
        .iter()
        .any(|group| groups.contains(group))
    {
        images.push("bookworm-slurm");
    }
    if groups.contains(&Group::Infiniband) {
        images.push("bookworm-infiniband");
    }
    const WITH_OPEN_MPI: [Group; 3] = [Group::Tutorial, Group::Containers, Group::Trace];
    if groups.iter().any(|group| WITH_OPEN_MPI.contains(group)) {
        images.push(OPEN_MPI);
    }
    const WITH_CONTAINERS: [Group; 2] = [Group::Containers, Group::Input];
    if groups.iter().any(|group| WITH_CONTAINERS.contains(group)) {
        images.push("container");
    }
    if groups.contains(&Group::Digests) {
        images.push("bookworm-gromacs");
    }
    if groups == [Group::Peers] {
        images.extend(PEERS);
    }
    images
}

/// The image of a tutorial's program, and the source of a container image.
const OPEN_MPI: &str = "bookworm-openmpi";

/// The image with programs of other languages, and some of other projects' tests.
const BINDINGS: &str = "bookworm-bindings";

/// The images of long tests of other projects.
const PEERS: [&str; 2] = ["bookworm-peers", "bookworm-applications"];

/// Builds the image of a recipe. Tests leave the tree unchanged: locks stay as they are.
fn build_image(binary: &str, name: &str) -> Result<()> {
    let recipe = format!("images/{name}.toml");
    shell::run_named(
        name,
        binary,
        &["image", "build", "--keep-lock", &recipe],
        &[],
    )
}

/// Number of images built at once: a build mostly waits for the mirror, or uses one processor.
const AT_ONCE: usize = 2;

/// Builds the images of recipes, some at once.
fn build_images(binary: &str, names: &[&str]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            build_image(binary, name)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let done = worker.join();
            done.unwrap_or_else(|_| bail!("the building of images panicked"))?;
        }
        Ok(())
    })
}

/// Builds the images of the tests of `groups`.
pub(super) fn build_all(groups: &[Group], binary: &str) -> Result<()> {
    build_images(binary, &images(groups))?;
    match groups.contains(&Group::Kvm) {
        true => build_image(binary, "kvm-host"),
        false => Ok(()),
    }
}
