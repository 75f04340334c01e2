//! Files that commands read and write.
//!
//! An output file is written atomically ([`OutputFile`]). Files of an untrusted folder are opened beneath it and
//! without following links ([`Folder`]). An input that is a pipe or a device is refused instead of waited for
//! ([`open_input`]). A process ended by a signal removes its unfinished outputs ([`abandon`]). Independent of file
//! formats.

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
