//! Errors of recipes.
//!
//! Each error names the recipe or the file, and the correct form.

use std::path::PathBuf;

/// An error of a recipe.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// The recipe or a file it names can't be read.
    #[error("cannot read {path}: {source}; check the path and its permissions")]
    Read {
        /// The file.
        path: PathBuf,
        /// System error.
        source: std::io::Error,
    },
    /// The text is not TOML or not a valid recipe.
    #[error("{path} is not a valid image recipe: {message}")]
    Parse {
        /// The recipe.
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    /// A value is not allowed.
    #[error("{path}: {what} {value:?} {problem}")]
    Value {
        /// The recipe.
        path: PathBuf,
        /// The value's key.
        what: &'static str,
        /// The value.
        value: String,
        /// The problem and the correct form.
        problem: &'static str,
    },
    /// A required key is missing.
    #[error("{path}: {what} is missing; add it, or have the recipe extend one that has it")]
    Missing {
        /// The recipe.
        path: PathBuf,
        /// The key.
        what: &'static str,
    },
    /// The root of nodes is not a container image or root file system.
    #[error("{path}: {message}")]
    Root {
        /// The container image or root file system.
        path: PathBuf,
        /// The problem.
        message: String,
    },
    /// There is no recipe with this name.
    #[error(
        "there is no recipe {name}: no such file, and the built-in ones are {known}; a recipe's file is named with its folder or with .toml"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The built-in recipes.
        known: String,
    },
    /// Recipes extend each other in a loop, or too deeply.
    #[error("{path} extends more than {most} recipes one upon the other; does one extend itself?")]
    Depth {
        /// The recipe.
        path: PathBuf,
        /// The limit.
        most: usize,
    },
}
