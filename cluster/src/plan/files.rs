//! The files that a scenario names.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use belljar_images::{CacheError, Image, ImageError, Recipe};

use super::PlanError;
use super::limits::check_names;
use crate::scenario::{FileSource, expand};

pub(super) fn find_image(recipe: &Path) -> Result<Image, PlanError> {
    let loaded = Recipe::load(recipe)?;
    let recipe = recipe.to_owned();
    match belljar_images::locate(&loaded) {
        Ok(Some(image)) => Ok(image),
        Ok(None) => Err(PlanError::NoImage { recipe }),
        Err(ImageError::Cache(CacheError::Image(source))) => {
            Err(PlanError::DamagedImage { recipe, source })
        }
        Err(other) => Err(other.into()),
    }
}

pub(super) fn read_files(
    files: &BTreeMap<String, FileSource>,
    folder: &Path,
) -> Result<BTreeMap<String, Vec<u8>>, PlanError> {
    let files = expand(files, folder)?;
    check_names(&files)?;
    let mut contents = BTreeMap::new();
    for (name, source) in &files {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_several_files_comes_straight_into_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fs::write(folder.path().join("in/a"), "x").unwrap();
        let read = |path: &str| {
            let files = BTreeMap::from([(".".to_owned(), FileSource::Path(path.into()))]);
            let read = read_files(&files, folder.path());
            read.map(|files| files.into_keys().collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(read("in"), Ok(vec!["a".to_owned()]));
        let error = read("in/a").unwrap_err();
        assert!(error.starts_with("workload.files is \".\""), "{error}");
    }
}
