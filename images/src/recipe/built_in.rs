//! The project's own recipes, with their locks and all files that they name, embedded in the binary: they
//! can be built and extended from any folder. Read when a recipe is loaded. A built-in recipe has the
//! same key as its source file.

/// Names relative to the folder of recipes, in order, and contents.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// A file of the recipes' folder.
pub(crate) fn file(name: &str) -> Option<&'static [u8]> {
    let at = FILES.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(FILES[at].1)
}

/// The text of the recipe with this name.
pub(crate) fn recipe(name: &str) -> Option<&'static [u8]> {
    file(&format!("{name}.toml"))
}

/// The lock of the recipe with this name.
pub(crate) fn lock(name: &str) -> Option<&'static [u8]> {
    file(&format!("{name}.lock"))
}

/// The names of the built-in recipes, in order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FILES
        .iter()
        .filter_map(|(name, _)| name.strip_suffix(".toml"))
}

/// The built-in recipes: name, and the first sentence of the recipe's comment.
pub fn built_in_recipes() -> impl Iterator<Item = (&'static str, String)> {
    names().map(|name| (name, first_words(recipe(name).unwrap_or_default())))
}

/// The first sentence of the comment that a recipe begins with.
fn first_words(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    let words: Vec<&str> = lines
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let words = words.join(" ");
    let end = words.find(". ").unwrap_or(words.len());
    words[..end].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::Recipe;
    use std::path::Path;

    #[test]
    fn built_in_recipes_are_those_of_the_folder_to_the_key() {
        assert!(names().any(|name| name == "bookworm-mpich"));
        for (name, words) in built_in_recipes() {
            let own = Recipe::load(Path::new(name)).expect("loads");
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{name}.toml"));
            let file = Recipe::load(&path).expect("loads");
            assert_eq!(own.key(), file.key(), "{name}");
            assert!(lock(name).is_some() && !words.is_empty(), "{name}");
            assert_eq!(own.lock_path(), None);
        }
    }
}
