//! Recipes: what goes into an image, read strictly from TOML.
//!
//! A recipe names files of its own (sources, scripts, the guest's init) relative to the folder it
//! lies in. Its [`Recipe::key`] covers the recipe and every byte of those files, so that an image
//! found under that key is the image the recipe describes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::digest::Sha256Hex;
use crate::toml_error;

/// Version of what this crate makes of a recipe; part of every key. Raise it whenever the same
/// recipe would give another image.
const BUILDER_VERSION: u32 = 1;

/// Largest file a recipe may name, in bytes: recipes name sources and scripts, not disks.
const LARGEST_FILE: u64 = 64 << 20;

/// Why a recipe can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The recipe or a file it names can't be read.
    #[error("cannot read {path}: {source}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML or not of a recipe's shape.
    #[error("{path} is not a valid image recipe: {message}")]
    Parse {
        /// The recipe.
        path: PathBuf,
        /// The parser's own words, with line and column.
        message: String,
    },
    /// A value is outside what is allowed for it.
    #[error("{path}: {what} {value:?} {problem}")]
    Value {
        /// The recipe.
        path: PathBuf,
        /// The key the value stands under.
        what: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it and what would be right.
        problem: &'static str,
    },
}

/// An image recipe together with the contents of the files it names.
#[derive(Debug, Clone)]
pub struct Recipe {
    path: PathBuf,
    text: Vec<u8>,
    spec: Spec,
    files: BTreeMap<String, Vec<u8>>,
}

/// The TOML of a recipe.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) suite: String,
    pub(crate) architecture: String,
    pub(crate) kernel: Kernel,
    pub(crate) userland: Userland,
    pub(crate) initramfs: Initramfs,
    #[serde(default)]
    pub(crate) include: Vec<Include>,
    #[serde(default)]
    pub(crate) builder: Builder,
    #[serde(default)]
    pub(crate) program: Vec<Program>,
    #[serde(default)]
    pub(crate) source: Vec<Source>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    pub(crate) package: String,
    pub(crate) modules: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Userland {
    pub(crate) packages: Vec<String>,
    pub(crate) files: Vec<String>,
    pub(crate) busybox: Option<String>,
    #[serde(default)]
    pub(crate) directories: Vec<String>,
    #[serde(default)]
    pub(crate) links: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Initramfs {
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) directories: Vec<String>,
}

/// Which of an image's two file trees a file goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tree {
    Initramfs,
    Root,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Include {
    pub(crate) source: String,
    pub(crate) path: String,
    pub(crate) into: Tree,
    #[serde(default)]
    pub(crate) executable: bool,
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Builder {
    #[serde(default)]
    pub(crate) packages: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) source: String,
    pub(crate) path: String,
    pub(crate) compiler: String,
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    #[serde(default)]
    pub(crate) libraries: Vec<String>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    pub(crate) package: String,
    pub(crate) script: String,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

impl Recipe {
    /// Reads the recipe at `path` and every file it names.
    ///
    /// # Errors
    /// When a file can't be read, a key is unknown or a value is not allowed.
    pub fn load(path: &Path) -> Result<Self, RecipeError> {
        let text = read_bounded(path)?;
        let parse = |message: String| RecipeError::Parse {
            path: path.to_owned(),
            message,
        };
        let utf8 = std::str::from_utf8(&text).map_err(|error| parse(error.to_string()))?;
        let spec: Spec =
            toml::from_str(utf8).map_err(|error| parse(toml_error::in_words(&error)))?;
        check(path, &spec)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut files = BTreeMap::new();
        for name in named_files(&spec) {
            if !is_relative(name) {
                return Err(bad(
                    path,
                    "source",
                    name,
                    "must be a path inside the recipe's folder",
                ));
            }
            files.insert(name.to_owned(), read_bounded(&folder.join(name))?);
        }
        Ok(Self {
            path: path.to_owned(),
            text,
            spec,
            files,
        })
    }

    /// The recipe's name, as it gives it itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Where the recipe was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock file that goes with this recipe: same folder, same stem.
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    /// SHA-256, in hexadecimal, of the recipe and of every file it names.
    #[must_use]
    pub fn key(&self) -> String {
        let mut hash = Sha256Hex::default();
        hash.update(&BUILDER_VERSION.to_le_bytes());
        hash.update_sized(&self.text);
        for (name, bytes) in &self.files {
            hash.update_sized(name.as_bytes());
            hash.update_sized(bytes);
        }
        hash.finish()
    }

    pub(crate) fn spec(&self) -> &Spec {
        &self.spec
    }

    pub(crate) fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// The contents of a file the recipe names. Only names that `load` has seen are asked for.
    pub(crate) fn file(&self, name: &str) -> &[u8] {
        self.files.get(name).map_or(&[], Vec::as_slice)
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, RecipeError> {
    let read = |source| RecipeError::Read {
        path: path.to_owned(),
        source,
    };
    let length = fs::metadata(path).map_err(read)?.len();
    if length > LARGEST_FILE {
        return Err(read(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            format!("{length} bytes are more than the {LARGEST_FILE} a recipe's file may have"),
        )));
    }
    fs::read(path).map_err(read)
}

fn named_files(spec: &Spec) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    names.extend(spec.include.iter().map(|include| include.source.as_str()));
    names.extend(spec.program.iter().map(|program| program.source.as_str()));
    for source in &spec.source {
        names.insert(source.script.as_str());
        names.extend(source.files.iter().map(String::as_str));
    }
    names
}

fn bad(path: &Path, what: &'static str, value: &str, problem: &'static str) -> RecipeError {
    RecipeError::Value {
        path: path.to_owned(),
        what,
        value: value.to_owned(),
        problem,
    }
}

fn check(path: &Path, spec: &Spec) -> Result<(), RecipeError> {
    let words = [("name", &spec.name), ("suite", &spec.suite)];
    for (what, value) in words {
        if !is_word(value) {
            return Err(bad(
                path,
                what,
                value,
                "must be letters, digits, `-`, `.`, `+` or `_`",
            ));
        }
    }
    if spec.architecture != "amd64" {
        return Err(bad(
            path,
            "architecture",
            &spec.architecture,
            "is not supported: use amd64",
        ));
    }
    let modules = spec
        .kernel
        .modules
        .iter()
        .map(|value| ("kernel.modules", value));
    let compilers = spec
        .program
        .iter()
        .map(|program| ("program.compiler", &program.compiler));
    for (what, value) in packages(spec).chain(modules).chain(compilers) {
        if !is_word(value) {
            return Err(bad(path, what, value, "must be a plain name"));
        }
    }
    for (what, value) in guest_paths(spec) {
        if !is_guest_path(value) {
            return Err(bad(
                path,
                what,
                value,
                "must be an absolute path without `.` and `..`",
            ));
        }
    }
    for flag in spec
        .program
        .iter()
        .flat_map(|program| program.flags.iter().chain(&program.libraries))
    {
        if flag.contains(['\'', '\n', '\0']) {
            return Err(bad(
                path,
                "program.flags",
                flag,
                "must not hold a quote or a line's end",
            ));
        }
    }
    Ok(())
}

fn packages(spec: &Spec) -> impl Iterator<Item = (&'static str, &String)> {
    std::iter::once(("kernel.package", &spec.kernel.package))
        .chain(
            spec.userland
                .packages
                .iter()
                .map(|value| ("userland.packages", value)),
        )
        .chain(
            spec.builder
                .packages
                .iter()
                .map(|value| ("builder.packages", value)),
        )
        .chain(
            spec.source
                .iter()
                .map(|source| ("source.package", &source.package)),
        )
}

fn guest_paths(spec: &Spec) -> impl Iterator<Item = (&'static str, &String)> {
    let userland = &spec.userland;
    let trees = [
        ("userland.files", &userland.files),
        ("userland.directories", &userland.directories),
        ("initramfs.files", &spec.initramfs.files),
        ("initramfs.directories", &spec.initramfs.directories),
    ];
    trees
        .into_iter()
        .flat_map(|(what, values)| values.iter().map(move |value| (what, value)))
        .chain(
            userland
                .busybox
                .iter()
                .map(|value| ("userland.busybox", value)),
        )
        .chain(userland.links.keys().map(|value| ("userland.links", value)))
        .chain(
            spec.include
                .iter()
                .map(|include| ("include.path", &include.path)),
        )
        .chain(
            spec.program
                .iter()
                .map(|program| ("program.path", &program.path)),
        )
        .chain(
            spec.source
                .iter()
                .flat_map(|source| source.outputs.iter().map(|value| ("source.outputs", value))),
        )
}

/// A name that means itself to apt, to a shell and as part of a path.
fn is_word(value: &str) -> bool {
    let first = value
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric());
    first
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.+_".contains(&byte))
}

fn is_guest_path(value: &str) -> bool {
    value.len() > 1
        && value.starts_with('/')
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/-.+_*[".contains(&byte))
        && value[1..]
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."))
}

fn is_relative(value: &str) -> bool {
    let plain = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/-.+_".contains(&byte));
    plain
        && !value.is_empty()
        && Path::new(value)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    const GOOD: &str = r#"
        name = "tiny"
        suite = "bookworm"
        architecture = "amd64"
        [kernel]
        package = "linux-image-cloud-amd64"
        modules = ["virtio_mmio"]
        [userland]
        packages = ["busybox-static"]
        files = ["/bin/busybox", "/usr/lib/*.so.0"]
        [initramfs]
        files = ["/bin/busybox"]
        [[include]]
        source = "guest/init"
        path = "/sbin/init"
        into = "root"
        [[program]]
        source = "one.c"
        path = "/usr/local/bin/one"
        compiler = "gcc"
    "#;

    fn load(text: &str) -> (tempfile::TempDir, Result<Recipe, RecipeError>) {
        let folder = tempfile::tempdir().expect("temporary folder");
        fs::create_dir(folder.path().join("guest")).expect("folder");
        fs::write(folder.path().join("guest/init"), "#!/bin/sh\n").expect("writes");
        fs::write(folder.path().join("one.c"), "int main(void) {}\n").expect("writes");
        let path = folder.path().join("tiny.toml");
        fs::write(&path, text).expect("writes");
        let recipe = Recipe::load(&path);
        (folder, recipe)
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from));
        load(&GOOD.replacen(from, to, 1))
            .1
            .expect_err("is refused")
            .to_string()
    }

    /// The keys that have a row in the documentation.
    fn documented() -> BTreeSet<String> {
        let page = include_str!("../../docs/images.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let keys = rows.filter_map(|row| row.split_once("` |"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    #[test]
    fn every_key_has_a_row_in_the_documentation_and_every_row_a_key() {
        assert_eq!(documented(), schema::keys(&schemars::schema_for!(Spec)));
    }

    #[test]
    fn a_recipe_knows_its_files_and_its_lock() {
        let (folder, recipe) = load(GOOD);
        let recipe = recipe.expect("loads");
        assert_eq!(recipe.name(), "tiny");
        assert_eq!(recipe.file("guest/init"), b"#!/bin/sh\n");
        assert_eq!(recipe.lock_path(), folder.path().join("tiny.lock"));
    }

    #[test]
    fn the_key_covers_every_byte_that_is_named() {
        let (folder, recipe) = load(GOOD);
        let key = recipe.expect("loads").key();
        assert_eq!(key.len(), 64);
        let again = || {
            Recipe::load(&folder.path().join("tiny.toml"))
                .expect("loads")
                .key()
        };
        assert_eq!(again(), key);
        fs::write(folder.path().join("one.c"), "int main(void) { }\n").expect("writes");
        let other_source = again();
        assert_ne!(other_source, key);
        fs::write(folder.path().join("tiny.toml"), format!("{GOOD}\n")).expect("writes");
        assert_ne!(again(), other_source);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(refused("suite =", "suit =").contains("suit"));
        assert!(refused("[kernel]", "[kernel]\nextra = 1").contains("unknown field"));
        assert!(refused("\"amd64\"", "\"riscv64\"").contains("use amd64"));
        assert!(refused("\"busybox-static\"", "\"-o evil\"").contains("userland.packages"));
        assert!(refused("\"gcc\"", "\"gcc; reboot\"").contains("program.compiler"));
        assert!(refused("/sbin/init", "/sbin/../init").contains("include.path"));
        assert!(refused("\"one.c\"", "\"../one.c\"").contains("inside the recipe's folder"));
        assert!(refused("\"one.c\"", "\"two.c\"").contains("two.c"));
        assert!(refused("into = \"root\"", "into = \"elsewhere\"").contains("elsewhere"));
    }

    #[test]
    fn the_recipe_that_comes_with_the_project_loads() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bookworm-mpich.toml");
        assert_eq!(Recipe::load(&path).expect("loads").name(), "bookworm-mpich");
    }
}
