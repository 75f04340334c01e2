//! The table as Rust source.
//!
//! The same prototypes give the same text, which `cargo xtask generate --check` compares. The order is
//! the operations' numbering and is the caller's responsibility.

use std::fmt::Write;

use crate::prototypes::{Parameter, Prototype};

/// The source of `belljar-mpi`'s table of functions, from the headers of `versions`.
pub fn render(prototypes: &[Prototype], versions: &str) -> String {
    let mut source = first_line(versions);
    source.push_str(
        "\n\
         use crate::function::{Base::*, Function, Standard::*, parameter as p};\n\n\
         /// Every function of the MPI C binding; the index is the operation number.\n\
         #[rustfmt::skip]\n\
         pub static FUNCTIONS: &[Function] = &[\n",
    );
    for prototype in prototypes {
        let parameters: Vec<String> = prototype.parameters.iter().map(render_parameter).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            source,
            "    Function {{ name: \"{}\", result: {:?}, standard: {:?}, parameters: &[{}] }},",
            prototype.name,
            prototype.result,
            prototype.standard,
            parameters.join(", ")
        );
    }
    source.push_str("];\n");
    source
}

/// The line with the versions of the headers.
pub fn first_line(versions: &str) -> String {
    format!(
        "// Written by `cargo xtask generate` from the mpi.h of {versions}; not to be edited.\n"
    )
}

fn render_parameter(parameter: &Parameter) -> String {
    format!(
        "p(\"{}\", {:?}, {}, {})",
        parameter.name, parameter.base, parameter.pointer, parameter.is_const
    )
}
