//! A digest of a run with its own image: GROMACS, whose kernels use approximate
//! reciprocals everywhere. `cargo xtask test digests` runs it.

use belljar_tests::{Dir, root};

const IMAGE: &str = "bookworm-gromacs";

#[test]
fn molecules_move_alike_on_every_host() {
    // The image takes minutes to build, and is not built for all tests.
    if std::env::var_os("BELLJAR_GROMACS").is_none() {
        eprintln!("SKIPPED: takes an image of its own; run it with: cargo xtask test digests");
        return;
    }
    let Some(dir) = Dir::new() else { return };
    let scenario = root().join("scenarios/gromacs-16.toml");
    let (scenario, out) = (scenario.to_string_lossy(), dir.path("out"));
    let settings = [
        "nodes.count=2",
        "network.topology=\"star\"",
        "network.routing=\"shortest\"",
    ];
    let mut arguments = vec![
        "run",
        &scenario,
        "--out",
        out.to_str().expect("a plain path"),
    ];
    arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    let (printed, error, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{printed}\n{error}");
    let run = dir.outcome("out");
    assert!(
        run.console(0).contains("Finished mdrun"),
        "{}",
        run.console(0)
    );
    dir.holds("gromacs-2", &run, IMAGE);
}
