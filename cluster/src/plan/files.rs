//! The files that a scenario names.
//!
//! Finds the image and reads the workload's files when the plan is made. Large files are only measured,
//! as nodes read them from a disk. Names are checked first. Called by `Plan::resolve`.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_files::read_input;
use belljar_images::{CacheError, Image, ImageError, Recipe};

use super::limits::check_names;
use crate::plan::error::PlanError;
use crate::scenario::{FileSource, expand};
use belljar_workload::large_files::{LargeFile, LargeFiles, large_size};

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

/// Contents of files by their names in `/root`, and large files without their contents.
pub(super) type Contents = (BTreeMap<String, Vec<u8>>, LargeFiles);

pub(super) fn read_files(
    files: &BTreeMap<String, FileSource>,
    folder: &Path,
) -> Result<Contents, PlanError> {
    let files = expand(files, folder)?;
    check_names(&files)?;
    let (mut contents, mut large) = (BTreeMap::new(), BTreeMap::new());
    for (name, source) in &files {
        let content = match source {
            FileSource::Text { text } => text.clone().into_bytes(),
            FileSource::Path(path) => {
                let path = folder.join(path);
                let failed = |source| PlanError::File {
                    name: name.clone(),
                    path: path.clone(),
                    source,
                };
                if let Some(size) = large_size(&path).map_err(failed)? {
                    large.insert(name.clone(), LargeFile { path, size });
                    continue;
                }
                read_input(&path).map_err(failed)?
            }
        };
        contents.insert(name.clone(), content);
    }
    Ok((contents, LargeFiles::new(large)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use belljar_workload::large_files::LEAST;

    #[test]
    fn only_what_is_several_files_comes_straight_into_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fs::write(folder.path().join("in/a"), "x").unwrap();
        let read = |path: &str| {
            let files = BTreeMap::from([(".".to_owned(), FileSource::Path(path.into()))]);
            let read = read_files(&files, folder.path());
            read.map(|files| files.0.into_keys().collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(read("in"), Ok(vec!["a".to_owned()]));
        let error = read("in/a").unwrap_err();
        assert!(error.starts_with("workload.files is \".\""), "{error}");
    }

    #[test]
    fn large_data_stays_where_it_is_and_large_programs_are_read() {
        let folder = tempfile::tempdir().unwrap();
        for (name, start) in [
            ("data", "x"),
            ("program", "\x7fELF"),
            ("script", "#!/bin/sh"),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, start).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(LEAST).unwrap();
        }
        let files = BTreeMap::from([("in".to_owned(), FileSource::Path(".".into()))]);
        let (read, large) = read_files(&files, folder.path()).unwrap();
        let read: Vec<&String> = read.keys().collect();
        assert_eq!(read, ["in/program", "in/script"]);
        let large: Vec<_> = large.iter().map(|(name, file)| (name, file.size)).collect();
        assert_eq!(large, [("in/data", LEAST)]);
    }
}
