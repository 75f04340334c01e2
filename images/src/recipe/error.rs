//! Why a recipe can't be used.
//!
//! Each error names the recipe or the file, and what would be right.

use std::path::PathBuf;

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
    /// A key that must be there is not.
    #[error("{path}: {what} is missing; add it, or have the recipe extend one that has it")]
    Missing {
        /// The recipe.
        path: PathBuf,
        /// The key.
        what: &'static str,
    },
    /// What nodes are to run on is nothing that a root file system can be made of.
    #[error("{path}: {message}")]
    Root {
        /// The container image or root file system.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// There is no recipe of this name.
    #[error(
        "there is no recipe {name}: no such file, and the built-in ones are {known}; a recipe's file is named with its folder or with .toml"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The built-in recipes.
        known: String,
    },
    /// Recipes stand on each other without end.
    #[error("{path} extends more than {most} recipes one upon the other; does one extend itself?")]
    Depth {
        /// The recipe.
        path: PathBuf,
        /// How many are allowed.
        most: usize,
    },
}
