//! The exact engine on a processor of another make: QEMU's.
//!
//! It computes approximations by division, sets undefined flags differently, and has different
//! sines: the engine's results are the same only if they depend on neither.

use belljar_tests::{Dir, Machine};

#[test]
fn results_are_the_same_on_a_processor_of_another_make() {
    let Some(dir) = Dir::new() else { return };
    let Some(program) = std::env::var_os("BELLJAR_DIGESTS") else {
        eprintln!(
            "SKIPPED: BELLJAR_DIGESTS does not name the exact engine's test program `digests`"
        );
        return;
    };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    std::fs::copy(program, machine.path("digests")).expect("the program can be copied");
    let script = "BELLJAR_STRICT=1 BELLJAR_DEFINED=1 \
                  /given/digests --test-threads 1 --nocapture 2>&1";
    let returned = machine.run(script, "results");
    assert_eq!(returned.code, "0", "{}", returned.output);
    let held = "digests hold on this processor";
    assert!(returned.output.contains(held), "{}", returned.output);
}
