//! The TOML of a recipe, key by key; `docs/images.md` has a row for each. `layer` of an entry is the
//! recipe, among those that extend each other, whose folder has the entry's files. Read by `load` alone.
//! Unknown keys are errors.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

/// The TOML of a recipe. Absent keys are empty, and inherit from the recipe that it extends.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) extends: Option<String>,
    #[serde(default)]
    pub(crate) suite: String,
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) kernel: RecipeKernel,
    #[serde(default)]
    pub(crate) userland: Userland,
    pub(crate) root: Option<Root>,
    #[serde(default)]
    pub(crate) initramfs: Initramfs,
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) include: Vec<Include>,
    #[serde(default)]
    pub(crate) builder: RecipeBuilder,
    #[serde(default)]
    pub(crate) program: Vec<RecipeProgram>,
    #[serde(default)]
    pub(crate) source: Vec<RecipeSource>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "Kernel")]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipeKernel {
    #[serde(default)]
    pub(crate) package: String,
    #[serde(default)]
    pub(crate) modules: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Userland {
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// Packages that are taken whole.
    #[serde(default)]
    pub(crate) whole: Vec<String>,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    /// Files that may be missing.
    #[serde(default)]
    pub(crate) optional: Vec<String>,
    /// Folders that are searched for libraries besides the loader's own.
    #[serde(default)]
    pub(crate) lib_paths: Vec<String>,
    /// Names of libraries that may be missing.
    #[serde(default)]
    pub(crate) optional_libraries: Vec<String>,
    pub(crate) busybox: Option<String>,
    #[serde(default)]
    pub(crate) directories: Vec<String>,
    #[serde(default)]
    pub(crate) links: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Initramfs {
    #[serde(default)]
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) directories: Vec<String>,
}

/// The file tree that a file goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Destination {
    Initramfs,
    Root,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Include {
    pub(crate) source: String,
    pub(crate) path: String,
    pub(crate) into: Destination,
    #[serde(default)]
    pub(crate) executable: bool,
    #[serde(skip)]
    pub(crate) layer: usize,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[schemars(rename = "Builder")]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipeBuilder {
    #[serde(default)]
    pub(crate) packages: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "Program")]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipeProgram {
    pub(crate) source: String,
    pub(crate) path: String,
    #[serde(default = "root")]
    pub(crate) into: Destination,
    pub(crate) compiler: String,
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    #[serde(default)]
    pub(crate) libraries: Vec<String>,
    #[serde(skip)]
    pub(crate) layer: usize,
}

fn root() -> Destination {
    Destination::Root
}

/// The root file system that nodes use instead of packages.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Root {
    /// A container image or a root file system.
    pub(crate) path: String,
    /// The tag, if there are several images.
    pub(crate) tag: Option<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "Source")]
#[serde(deny_unknown_fields)]
pub(crate) struct RecipeSource {
    /// A source package; otherwise `path` is the tree.
    #[serde(default)]
    pub(crate) package: String,
    pub(crate) path: Option<String>,
    /// A file for a source package; the commands themselves for a tree.
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) outputs: Vec<String>,
    #[serde(skip)]
    pub(crate) layer: usize,
}
