//! The table as Rust source.

use std::fmt::Write;

use crate::prototypes::{Parameter, Prototype};

/// The source of `belljar-abi`'s table of operations.
pub fn render(prototypes: &[Prototype]) -> String {
    let mut source = String::from(
        "// Written by `cargo xtask generate mpi` from the mpi.h of MPICH and Open MPI; not to be edited.\n\n\
         use crate::function::{Base::*, Function, parameter as p};\n\n\
         /// Every function of the MPI C binding; the index is the operation number.\n\
         #[rustfmt::skip]\n\
         pub static FUNCTIONS: &[Function] = &[\n",
    );
    for prototype in prototypes {
        let parameters: Vec<String> = prototype.parameters.iter().map(render_parameter).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            source,
            "    Function {{ name: \"{}\", result: {:?}, parameters: &[{}] }},",
            prototype.name,
            prototype.result,
            parameters.join(", ")
        );
    }
    source.push_str("];\n");
    source
}

fn render_parameter(parameter: &Parameter) -> String {
    format!(
        "p(\"{}\", {:?}, {}, {})",
        parameter.name, parameter.base, parameter.pointer, parameter.is_const
    )
}
