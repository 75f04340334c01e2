//! The files that a scenario names.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use belljar_images::{Image, Recipe};

use super::PlanError;
use crate::scenario::FileSource;

pub(super) fn find_image(recipe: &Path) -> Result<Image, PlanError> {
    let loaded = Recipe::load(recipe)?;
    belljar_images::locate(&loaded)?.ok_or_else(|| PlanError::NoImage {
        recipe: recipe.to_owned(),
    })
}

pub(super) fn read_files(
    files: &BTreeMap<String, FileSource>,
    folder: &Path,
) -> Result<BTreeMap<String, Vec<u8>>, PlanError> {
    let mut contents = BTreeMap::new();
    for (name, source) in files {
        let content = match source {
            FileSource::Text { text } => text.clone().into_bytes(),
            FileSource::Path(path) => {
                let path = folder.join(path);
                fs::read(&path).map_err(|source| PlanError::File {
                    name: name.clone(),
                    path,
                    source,
                })?
            }
        };
        contents.insert(name.clone(), content);
    }
    Ok(contents)
}
