//! The targets under libFuzzer. `BELLJAR_FUZZ_TARGET` names one; arguments are libFuzzer's own. If
//! `BELLJAR_FUZZ_SEEDS` names a folder, it writes the seeds there and exits.
#![no_main]
#![allow(clippy::print_stderr)]

use std::path::Path;
use std::sync::OnceLock;

use belljar_fuzz::{Target, target};

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn chosen() -> &'static Target {
    let name = std::env::var("BELLJAR_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = target(&name) else {
        eprintln!("there is no fuzz target {name:?}: set BELLJAR_FUZZ_TARGET to one");
        std::process::exit(2);
    };
    if let Some(folder) = std::env::var_os("BELLJAR_FUZZ_SEEDS") {
        for (number, seed) in (target.seeds)().iter().enumerate() {
            let path = Path::new(&folder).join(format!("seed-{number}"));
            if let Err(error) = std::fs::write(&path, seed) {
                eprintln!("cannot write {}: {error}", path.display());
                std::process::exit(2);
            }
        }
        std::process::exit(0);
    }
    target
}

libfuzzer_sys::fuzz_target!(init: { TARGET.get_or_init(chosen); }, |data: &[u8]| {
    (TARGET.get_or_init(chosen).run)(data);
});
