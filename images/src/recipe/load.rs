//! Loads a recipe by name or path: its text, the recipes that it extends, and the files that they name.
//! A built-in recipe names only built-in files, and the number of layers is limited. Called by
//! [`Recipe::load`](super::Recipe::load).

use super::check::{self, bad, is_relative};
use super::{
    BTreeMap, BTreeSet, Home, Layer, Path, PathBuf, RecipeError, Spec, Tree, built_in, merge,
    read_bounded, toml_error,
};

/// The built-in recipe with the kernel and the initramfs for such file systems.
pub(super) const ROOT_BASE: &str = "container";
/// Limit on recipes that extend each other.
const MOST_LAYERS: usize = 8;

/// The recipe that `named` means: a built-in recipe's name as it is, and otherwise a path relative to
/// `folder`.
#[must_use]
pub fn place(folder: &Path, named: &Path) -> PathBuf {
    match is_built_in(named) {
        true => named.to_owned(),
        false => folder.join(named),
    }
}

/// True if a path is the name of a built-in recipe.
pub(super) fn is_built_in(path: &Path) -> bool {
    built_in_name(path).is_some_and(|name| built_in::recipe(name).is_some())
}

/// Returns a path as a name if it can only be a built-in recipe's.
fn built_in_name(path: &Path) -> Option<&str> {
    let name = path.to_str()?;
    (!name.is_empty() && !name.contains('/') && !name.ends_with(".toml")).then_some(name)
}

/// A loaded recipe.
pub(super) struct Loaded {
    /// All layers, merged.
    pub(super) spec: Spec,
    /// Starts with the base.
    pub(super) layers: Vec<Layer>,
    /// The recipe that the last one extends.
    pub(super) base: Option<PathBuf>,
}

/// All layers of the recipe at `path`.
pub(super) fn load(path: &Path) -> Result<Loaded, RecipeError> {
    let mut specs = Vec::new();
    let mut layers = Vec::new();
    let mut bases = Vec::new();
    let mut next = Some(path.to_owned());
    while let Some(at) = next {
        if specs.len() == MOST_LAYERS {
            return Err(RecipeError::Depth {
                path: path.to_owned(),
                most: MOST_LAYERS,
            });
        }
        let (mut spec, layer) = read(&at)?;
        if spec.root.is_some() && spec.extends.is_none() {
            spec.extends = Some(ROOT_BASE.to_owned());
        }
        next = match (&spec.extends, &layer.home) {
            (None, _) => None,
            (Some(base), Home::BuiltIn) => Some(PathBuf::from(base)),
            (Some(base), Home::Folder(folder)) => Some(place(folder, Path::new(base))),
        };
        bases.extend(next.clone());
        specs.push((at, spec));
        layers.push(layer);
    }
    layers.reverse();
    let mut whole: Option<Spec> = None;
    for (number, (at, mut spec)) in specs.into_iter().rev().enumerate() {
        check::layer(&at, &spec)?;
        number_entries(&mut spec, number);
        take_in(&at, &spec, &mut layers[number])?;
        whole = Some(match whole {
            None => spec,
            Some(base) if base.root.is_some() => return Err(extended(&at, &spec)),
            Some(base) => merge::over(base, spec),
        });
    }
    // There is at least one layer.
    let spec = whole.ok_or_else(|| RecipeError::Missing {
        path: path.to_owned(),
        what: "name",
    })?;
    check::whole(path, &spec)?;
    let base = bases.into_iter().next();
    Ok(Loaded { spec, layers, base })
}

/// The error of extending a recipe with a root file system.
fn extended(path: &Path, spec: &Spec) -> RecipeError {
    let base = spec.extends.as_deref().unwrap_or_default();
    let problem =
        "has a [root], to which nothing is added; name its container image in a recipe of your own";
    bad(path, "extends", base, problem)
}

/// One recipe's text, without the files that it names.
fn read(path: &Path) -> Result<(Spec, Layer), RecipeError> {
    let (text, home) = match built_in_name(path) {
        Some(name) if built_in::recipe(name).is_some() => {
            let text = built_in::recipe(name).unwrap_or_default();
            (text.to_vec(), Home::BuiltIn)
        }
        Some(name) if !path.exists() => {
            let known: Vec<&str> = built_in::names().collect();
            return Err(RecipeError::Unknown {
                name: name.to_owned(),
                known: known.join(", "),
            });
        }
        _ => {
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            let folder = above.unwrap_or(Path::new(".")).to_owned();
            (read_bounded(path)?, Home::Folder(folder))
        }
    };
    let parse = |message: String| RecipeError::Parse {
        path: path.to_owned(),
        message,
    };
    let utf8 = std::str::from_utf8(&text).map_err(|error| parse(error.to_string()))?;
    let spec = toml::from_str(utf8).map_err(|error| parse(toml_error::in_words(&error)))?;
    let layer = Layer {
        home,
        text,
        files: BTreeMap::new(),
        trees: BTreeMap::new(),
    };
    Ok((spec, layer))
}

fn number_entries(spec: &mut Spec, layer: usize) {
    spec.include
        .iter_mut()
        .for_each(|entry| entry.layer = layer);
    spec.program
        .iter_mut()
        .for_each(|entry| entry.layer = layer);
    spec.source.iter_mut().for_each(|entry| entry.layer = layer);
}

/// Reads the files and folders that a recipe names into its layer.
fn take_in(path: &Path, spec: &Spec, layer: &mut Layer) -> Result<(), RecipeError> {
    for include in &spec.include {
        take_include(path, &include.source, layer)?;
    }
    for source in &spec.source {
        let Some(tree) = &source.path else { continue };
        let Home::Folder(folder) = &layer.home else {
            return Err(bad(path, "source.path", tree, "is not in the program"));
        };
        let read = Tree::read(&folder.join(tree), None)?;
        layer.trees.insert(tree.clone(), read);
    }
    for name in named_files(spec) {
        take_file(path, name, layer)?;
    }
    Ok(())
}

fn take_file(path: &Path, name: &str, layer: &mut Layer) -> Result<(), RecipeError> {
    if !is_relative(name) {
        let problem = "must be a path inside the recipe's folder";
        return Err(bad(path, "source", name, problem));
    }
    let bytes = match &layer.home {
        Home::Folder(folder) => read_bounded(&folder.join(name))?,
        Home::BuiltIn => built_in::file(name)
            .ok_or_else(|| bad(path, "source", name, "is not in the program"))?
            .to_vec(),
    };
    layer.files.insert(name.to_owned(), bytes);
    Ok(())
}

/// A file, a folder, or the files of a folder that match a pattern.
fn take_include(path: &Path, name: &str, layer: &mut Layer) -> Result<(), RecipeError> {
    let Home::Folder(folder) = &layer.home else {
        return take_file(path, name, layer);
    };
    let problem = "must be a path inside the recipe's folder, in which `*`, `**` and `?` may stand";
    let wrong = || bad(path, "include.source", name, problem);
    let plain = name.replace(['*', '?'], "x");
    if !is_relative(&plain) {
        // The syntax from before folders were supported.
        return take_file(path, name, layer);
    }
    let tree = if is_pattern(name) {
        let start = name.find(['*', '?']).unwrap_or(0);
        let (top, pattern) = name[..start]
            .rfind('/')
            .map_or(("", name), |end| (&name[..end], &name[end + 1..]));
        let pattern = crate::recipe::pattern::Pattern::new(pattern).ok_or_else(wrong)?;
        let tree = Tree::read(&folder.join(top), Some(&pattern))?;
        if tree.entries().is_empty() {
            return Err(bad(path, "include.source", name, "fits no file"));
        }
        tree
    } else if folder.join(name).is_dir() {
        Tree::read(&folder.join(name), None)?
    } else {
        return take_file(path, name, layer);
    };
    layer.trees.insert(name.to_owned(), tree);
    Ok(())
}

/// True if a name is a pattern.
fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

fn named_files(spec: &Spec) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    names.extend(spec.program.iter().map(|program| program.source.as_str()));
    for source in &spec.source {
        if source.path.is_none() {
            names.insert(source.script.as_str());
        }
        names.extend(source.files.iter().map(String::as_str));
    }
    names
}
