//! Files that commands read and write.
//!
//! An output file is whole or as it was before ([`OutputFile`]); files of a folder that anybody
//! may have made are opened beneath it and through no link ([`Folder`]); an input that is a pipe
//! or a device is refused rather than waited for ([`open_input`]). A process that a signal ends removes its unfinished
//! outputs ([`abandon`]). Knows no format.

mod abandoned;
mod folder;
mod input;
mod output;
mod output_folder;

pub use abandoned::{Abandoned, Registration, abandon};
pub use folder::{Folder, publish};
pub use input::{open_input, read_input, read_input_text};
pub use output::{OutputFile, write_file};
pub use output_folder::OutputFolder;
