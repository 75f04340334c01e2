//! The images of a run's nodes, and their properties.
//!
//! A plan has at least one, and no two of its images are the same: groups of nodes that name the same recipe share one.
//! Programs of the workload may run on any node, so each must be able to start on one image at least. Made with a plan; used
//! wherever nodes are made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use belljar_images::Image;

use super::error::PlanError;
use super::files::find_image;
use super::kinds::{self, NodeKind};
use super::launchers;
use super::secure_shell::SecureShell;
use crate::plan::nodes::run_disk::FORMER_PARTS_FOLDER;
use crate::scenario::Scenario;
use crate::slurm::SlurmPlan;
use belljar_workload::check::{self, Checked, Workload};
use belljar_workload::large_files::LargeFiles;
use belljar_workload::library::{FORMER_PARTS, is_former_part};
use belljar_workload::{Binary, GuestRoot, ProgramError};

/// An image, and the additions for its nodes.
#[derive(Clone, Debug)]
pub struct ImagePlan {
    /// The image.
    pub image: Image,
    /// Words for the kernel's command line.
    pub append: String,
    /// The workload's environment, with the image's own.
    pub environment: BTreeMap<String, String>,
    /// Variables for MPI launchers, if the image has any.
    pub launchers: BTreeMap<String, String>,
    /// The project's own commands that nodes get, such as `srun`.
    pub commands: Vec<&'static str>,
    /// Empty libraries of an older glibc; the image's glibc has their functions.
    pub former_parts: Vec<&'static str>,
    /// The image's secure shell server, if nodes run it.
    pub secure_shell: Option<SecureShell>,
}

/// Refuses another number of images than `scenario` has, as another host may send any.
pub(super) fn check_number(scenario: &Scenario, given: usize) -> Result<(), PlanError> {
    let (tables, _) = kinds::image_tables(scenario);
    match tables.len() + usize::from(scenario.slurm.is_some()) {
        needed if needed == given => Ok(()),
        needed => Err(PlanError::Images { needed, given }),
    }
}

/// Separates the images of [`find`] into the images of nodes and the image of Slurm.
pub(super) fn apart(scenario: &Scenario, mut images: Vec<Image>) -> (Vec<Image>, Option<Image>) {
    let slurm = scenario.slurm.as_ref().and_then(|_| images.pop());
    (images, slurm)
}

/// Slurm from its `image`, for nodes with these trees and a workload with these files.
///
/// # Errors
/// See [`SlurmPlan::new`].
pub(super) fn slurm(
    scenario: &Scenario,
    image: Option<Image>,
    roots: &[GuestRoot],
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Option<SlurmPlan>, PlanError> {
    let parts = scenario.slurm.as_ref().zip(image).zip(roots.first());
    parts
        .map(|((table, image), root)| SlurmPlan::new(table, image, root, files))
        .transpose()
}

/// The images of `scenario`, which was read from `path`, in the order of [`kinds::image_tables`], followed by the image of Slurm if there is
/// one.
pub(super) fn find(scenario: &Scenario, path: &Path) -> Result<Vec<Image>, PlanError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let (tables, numbers) = kinds::image_tables(scenario);
    let each = tables.iter().enumerate().map(|(image, table)| {
        let found = find_image(&belljar_images::place(folder, &table.recipe));
        let found = found.inspect(Image::note_use);
        found.map_err(|error| blame(scenario, &numbers, image, error))
    });
    let slurm = scenario.slurm.iter();
    let slurm = slurm.map(|slurm| find_image(&belljar_images::place(folder, &slurm.recipe)));
    each.chain(slurm).collect()
}

/// An error about an image, with the first group that uses it, unless it is the scenario's own image.
fn blame(scenario: &Scenario, numbers: &[usize], image: usize, error: PlanError) -> PlanError {
    let group = numbers.iter().position(|number| *number == image);
    match group {
        Some(group)
            if scenario
                .nodes
                .group
                .get(group)
                .is_some_and(|it| it.image.is_some()) =>
        {
            kinds::within(scenario, group, error)
        }
        _ => error,
    }
}

/// Inputs for plans of images.
pub(super) struct Makings<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) kinds: &'a [NodeKind],
    pub(super) files: &'a BTreeMap<String, Vec<u8>>,
    pub(super) large_files: &'a LargeFiles,
}

/// The plans of `images` with the trees `roots`, and the workload's programs in words, each with its libraries.
///
/// # Errors
/// If an image can run no program, or a program of the workload can start on no image.
pub(super) fn resolve(
    makings: &Makings<'_>,
    images: Vec<Image>,
    roots: &[GuestRoot],
) -> Result<(Vec<ImagePlan>, Vec<String>), PlanError> {
    let (tables, _) = kinds::image_tables(makings.scenario);
    let mut verdicts: BTreeMap<String, Result<Option<String>, ProgramError>> = BTreeMap::new();
    let mut plans = Vec::new();
    for ((image, root), table) in images.into_iter().zip(roots).zip(tables) {
        let mut environment = image.manifest.environment.clone();
        environment.extend(makings.scenario.workload.environment.clone());
        for (program, verdict) in makings.check(root, &environment, &image)? {
            match verdicts.get(&program) {
                Some(Err(_)) if verdict.is_ok() => verdicts.insert(program, verdict),
                Some(_) => None,
                None => verdicts.insert(program, verdict),
            };
        }
        plans.push(makings.plan(image, root, &table.append, environment));
    }
    let lines = verdicts.into_values().collect::<Result<Vec<_>, _>>()?;
    Ok((plans, lines.into_iter().flatten().collect()))
}

impl Makings<'_> {
    fn check(
        &self,
        root: &GuestRoot,
        environment: &BTreeMap<String, String>,
        image: &Image,
    ) -> Result<Vec<Checked>, ProgramError> {
        let workload = Workload {
            command: &self.scenario.workload.command,
            environment,
            files: self.files,
            large_files: self.large_files,
            image: &image.manifest.recipe,
        };
        check::check(root, workload)
    }

    fn plan(
        &self,
        image: Image,
        root: &GuestRoot,
        append: &str,
        mut environment: BTreeMap<String, String>,
    ) -> ImagePlan {
        let command = &self.scenario.workload.command;
        let commands = launchers::wanted_commands(root, command, self.files);
        let has_slurm = self.scenario.slurm.is_some();
        if !commands.is_empty() || has_slurm {
            let path = launchers::path_with_commands(environment.get("PATH"), has_slurm);
            environment.insert("PATH".to_owned(), path);
        }
        let former_parts = self.former_parts(root);
        if !former_parts.is_empty() {
            let path = environment.entry("LD_LIBRARY_PATH".to_owned()).or_default();
            let separator = if path.is_empty() { "" } else { ":" };
            path.push_str(&format!("{separator}{FORMER_PARTS_FOLDER}"));
        }
        let is_container = image.manifest.container.is_some();
        let cards = self.scenario.infiniband.is_some();
        let mut launchers = launchers::environment(root, is_container, self.kinds, cards);
        if has_slurm {
            launchers::leave_to_slurm(&mut launchers);
        }
        ImagePlan {
            append: append.to_owned(),
            launchers,
            commands,
            former_parts,
            secure_shell: SecureShell::wanted(root, command, self.files, &environment),
            environment,
            image,
        }
    }

    /// The libraries of an older glibc that files of the workload name.
    fn former_parts(&self, root: &GuestRoot) -> Vec<&'static str> {
        let binaries = self
            .files
            .values()
            .filter_map(|bytes| Binary::read(&bytes[..]));
        let needed: BTreeSet<String> = binaries.flat_map(|binary| binary.needed).collect();
        let parts = FORMER_PARTS.into_iter();
        parts
            .filter(|part| needed.contains(*part) && is_former_part(root, part))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::kinds::image_tables;
    use crate::scenario::ImageTable;

    #[test]
    fn groups_share_images_that_are_the_same() {
        let scenario = |groups: &str| {
            let text = format!(
                "name = \"x\"\nimage = {{ recipe = \"r\" }}\nworkload = {{ command = \"\" }}\n\
                 nodes = {{ memory = \"1 GiB\", clock = \"1 GHz\", group = [{groups}] }}\n"
            );
            Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap()
        };
        let of = |groups: &str| {
            let scenario = scenario(groups);
            let (tables, numbers) = image_tables(&scenario);
            let table = |it: &ImageTable| format!("{} {}", it.recipe.display(), it.append);
            let names: Vec<String> = tables.into_iter().map(table).collect();
            (names.join(", "), numbers)
        };
        assert_eq!(of(""), ("r ".to_owned(), vec![0]));
        let other = "{ count = 1, image = { recipe = \"s\" } }";
        let plain = "{ count = 1 }";
        assert_eq!(of(other), ("s ".to_owned(), vec![0]));
        let mixed_text = format!("{other}, {plain}, {other}");
        assert_eq!(of(&mixed_text), ("s , r ".to_owned(), vec![0, 1, 0]));
        let same = "{ count = 1, image = { recipe = \"r\", append = \"quiet\" } }";
        let words = of(&format!("{plain}, {same}"));
        assert_eq!(words, ("r , r quiet".to_owned(), vec![0, 1]));
        assert!(check_number(&scenario(plain), 1).is_ok());
        let error = check_number(&scenario(&mixed_text), 1).unwrap_err();
        assert!(error.to_string().contains("2 images"), "{error}");
    }
}
