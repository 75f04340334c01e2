//! Linpack of one process on this processor, and in a guest that models it.
//!
//! Both sides run the image's binary with the same kernels of OpenBLAS. A small matrix is subtracted, so the start of
//! the process and of MPI do not count. `realism` prints the row with those of the programs.

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use super::{Cycles, GUEST_REPEATS, NATIVE_REPEATS, compile_with, read, timing};
use crate::bench::Bench;
use crate::bench::linpack::{Bare, input};

/// Name of the row.
pub(super) const LINPACK: &str = "hpl";
/// Orders of the matrix, and of the small one.
const ORDERS: [u32; 2] = [1500, 200];
const KERNELS: &str = "Haswell";
const LEVEL: &str = "x86-64-v3";

/// Cycles natively and in a guest of this processor.
pub(super) fn both(bench: &Bench, processor: &str) -> Result<[Cycles; 2]> {
    compile_with(bench, "command", "command.c", &[])?;
    let guest = in_guest(bench, processor)?;
    let bare = Bare::unpack(bench)?;
    let mut native = Cycles::new();
    for order in ORDERS {
        let folder = bench.folder.join(format!("hpl{order}"));
        let mut starter = Command::new(bench.folder.join("command"));
        starter.args(["native", &NATIVE_REPEATS.to_string(), &order.to_string()]);
        let output = bare
            .command(Some(&mut starter), KERNELS, &folder)?
            .output()?;
        if !output.status.success() {
            bail!(
                "Linpack failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        native.extend(read(&String::from_utf8_lossy(&output.stdout))?);
    }
    Ok([net(&native)?, net(&guest)?])
}

/// The large matrix's cycles less those of the small one, repeat by repeat.
fn net(all: &Cycles) -> Result<Cycles> {
    let [Some((large, _)), Some((small, _))] = ORDERS.map(|order| all.get(&order.to_string()))
    else {
        bail!("Linpack's cycles are missing");
    };
    let mut small = small.clone();
    let start = crate::bench::median(&mut small);
    let net = large.iter().map(|cycles| cycles - start).collect();
    Ok(Cycles::from([(LINPACK.to_owned(), (net, "0".to_owned()))]))
}

fn in_guest(bench: &Bench, processor: &str) -> Result<Cycles> {
    let recipe = crate::root().join("images/bookworm-mpich.toml");
    let timer = bench.folder.join("command");
    let (mut command, mut files) = (String::new(), format!("command = {timer:?}"));
    for order in ORDERS {
        let matrix = input(&bench.folder.join(format!("hpl{order}")), order)?;
        files += &format!(", hpl{order} = {matrix:?}");
        command += &format!(
            "cp hpl{order} HPL.dat; ./command guest {GUEST_REPEATS} {order} /usr/local/bin/xhpl; "
        );
    }
    let timing = timing(processor);
    let text = format!(
        "name = \"linpack\"\nimage = {{ recipe = {recipe:?} }}\n\
         nodes = {{ count = 1, memory = \"512 MiB\", clock = \"1 GHz\", level = {LEVEL:?}{timing} }}\n\
         workload = {{ command = {command:?}, limit = \"3000 s\", files = {{ {files} }}, \
         environment = {{ OPENBLAS_CORETYPE = {KERNELS:?} }} }}\n\
         trace = {{ enabled = false, library = false }}\n"
    );
    let path = bench.folder.join("linpack.toml");
    fs::write(&path, text)?;
    super::output_of(bench, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_matrix_is_subtracted() {
        let all = read("REALISM 1500 110 120 sum 0\nREALISM 200 30 10 20 sum 0\n").unwrap();
        let net = net(&all).unwrap();
        assert_eq!(net[LINPACK].0, [90.0, 100.0]);
        assert!(super::net(&Cycles::new()).is_err());
    }
}
