//! Faults are reported once, each with a remedy.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use belljar_tests::{Dir, Scenario, interrupt};

mod disk;
mod large_files;
mod memory;
mod shared_folder;

/// Runs a failing scenario; returns its only error, from standard error.
fn failure(dir: &Dir, scenario: &Scenario, more: &[&str]) -> String {
    let run = dir.run(scenario, "out", more);
    assert_ne!(run.code, Some(0), "{}", run.stdout);
    assert_eq!(run.stderr.matches("error:").count(), 1, "{}", run.stderr);
    run.stderr
}

#[test]
fn an_unknown_key_is_named() {
    let Some(dir) = Dir::new() else { return };
    let error = failure(
        &dir,
        &Scenario::new(1, "true").with("[network]\nlatencie = \"1 us\""),
        &[],
    );
    assert!(error.contains("latencie"), "{error}");
}

#[test]
fn a_wrong_unit_is_named() {
    let Some(dir) = Dir::new() else { return };
    let error = failure(
        &dir,
        &Scenario::new(1, "true"),
        &["--set", "nodes.memory=\"3 us\""],
    );
    assert!(
        error.contains("`us` is not a unit of memory size"),
        "{error}"
    );
}

#[test]
fn levels_and_extensions_are_checked_by_name() {
    let Some(dir) = Dir::new() else { return };
    for (set, named) in [
        ("nodes.level=\"x86-64-v5\"", "x86-64-v4"),
        ("nodes.extensions=[\"3dnow\"]", "pclmulqdq"),
        ("nodes.extensions=[\"vaes\"]", "x86-64-v3"),
    ] {
        let error = failure(&dir, &Scenario::new(1, "true"), &["--set", set]);
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_missing_scenario_and_a_missing_recipe_are_named() {
    let Some(dir) = Dir::new() else { return };
    let (_, error, code) = dir.call(&["run", "nowhere.toml"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("nowhere.toml"), "{error}");
    let error = failure(
        &dir,
        &Scenario::new(1, "true"),
        &["--set", "image.recipe=\"none.toml\""],
    );
    assert!(error.contains("none.toml"), "{error}");
}

#[test]
fn an_image_that_was_never_built_says_how_to_build_it() {
    let Some(dir) = Dir::new() else { return };
    let file = dir.write("s.toml", &Scenario::new(1, "true").text());
    let mut command = dir.command(&["run", file.to_str().unwrap(), "--out", "out"]);
    let output = command
        .env("XDG_CACHE_HOME", dir.path("empty-cache"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("belljar image build"),
        "{error}"
    );
}

/// The folder of a scenario's image.
fn image_of(dir: &Dir, scenario: &Path) -> PathBuf {
    let (plan, error, code) = dir.call(&["check", scenario.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{error}");
    let mut lines = plan.lines();
    let image = lines.find_map(|line| line.strip_prefix("image"));
    image
        .map(str::trim)
        .expect("the plan names the image")
        .into()
}

#[test]
fn a_built_in_recipe_is_named_from_anywhere() {
    let Some(dir) = Dir::new() else { return };
    let file = dir.write("s.toml", &Scenario::new(1, "true").text());
    let image = image_of(&dir, &file);
    let (list, error, code) = dir.call(&["image", "list"]);
    assert_eq!(code, Some(0), "{error}");
    let mut lines = list.lines();
    let line = lines.find(|line| line.starts_with("bookworm-mpich "));
    assert!(line.is_some_and(|line| line.contains(" built ")), "{list}");
    let file = file.to_str().unwrap();
    let set = "image.recipe=\"bookworm-mpich\"";
    let (plan, error, code) = dir.call(&["check", file, "--set", set]);
    assert_eq!(code, Some(0), "{error}");
    assert!(plan.contains(image.to_str().unwrap()), "{plan}");
    let (_, error, code) = dir.call(&["image", "verify", "no-such-recipe"]);
    assert_eq!(code, Some(1));
    assert!(
        error.contains("no-such-recipe") && error.contains("bookworm-mpich"),
        "{error}"
    );
}

/// Caches with one flipped bit in a file of the image.
#[test]
fn a_flipped_bit_in_an_image_is_named() {
    let Some(dir) = Dir::new() else { return };
    let file = dir.write("s.toml", &Scenario::new(1, "true").text());
    let image = image_of(&dir, &file);
    let files = [
        "initrd.cpio",
        "root.erofs",
        "nfs.tar",
        "vmlinuz",
        "manifest.toml",
    ];
    for (seed, damaged) in (1_u64..).zip(&files[..4]) {
        let copy = dir.path(damaged).join("belljar/images");
        let copy = copy.join(image.file_name().unwrap());
        std::fs::create_dir_all(&copy).unwrap();
        for name in files {
            if name == *damaged {
                let mut bytes = std::fs::read(image.join(name)).unwrap();
                let bits = bytes.len() as u64 * 8;
                let at = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % bits;
                bytes[(at / 8) as usize] ^= 1 << (at % 8);
                std::fs::write(copy.join(name), bytes).unwrap();
            } else {
                symlink(image.join(name), copy.join(name)).unwrap();
            }
        }
        let recipe = belljar_tests::root().join("images/bookworm-mpich.toml");
        for arguments in [
            ["run", file.to_str().unwrap(), "--out", damaged],
            ["image", "verify", recipe.to_str().unwrap(), ""],
        ] {
            let arguments: Vec<_> = arguments
                .into_iter()
                .filter(|one| !one.is_empty())
                .collect();
            let mut command = dir.command(&arguments);
            let output = command.env("XDG_CACHE_HOME", dir.path(damaged)).output();
            let output = output.unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success()
                    && error.contains(damaged)
                    && error.contains("belljar image build"),
                "{error}"
            );
        }
    }
}

/// A cache in which the image's kernel is invalid.
#[test]
fn an_unreadable_kernel_is_named() {
    let Some(dir) = Dir::new() else { return };
    let file = dir.write("s.toml", &Scenario::new(1, "true").text());
    let image = image_of(&dir, &file);
    let copy = dir
        .path("cache/belljar/images")
        .join(image.file_name().unwrap());
    std::fs::create_dir_all(&copy).unwrap();
    for file in std::fs::read_dir(&image).unwrap() {
        let name = file.unwrap().file_name();
        if name != "vmlinuz" {
            symlink(image.join(&name), copy.join(&name)).unwrap();
        }
    }
    let size = std::fs::metadata(image.join("vmlinuz")).unwrap().len();
    std::fs::write(copy.join("vmlinuz"), vec![0x55; size as usize]).unwrap();
    let mut command = dir.command(&["run", file.to_str().unwrap(), "--out", "out"]);
    let output = command
        .env("XDG_CACHE_HOME", dir.path("cache"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("vmlinuz"),
        "{error}"
    );
}

#[test]
fn a_panicking_guest_ends_the_run_and_the_record_is_kept() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(
        2,
        "mpiexec.hydra -n 2 hello; echo c > /proc/sysrq-trigger; sleep 10",
    );
    let run = dir.run(&scenario, "out", &[]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("node 0") && run.stderr.contains("kernel panicked"),
        "{}",
        run.stderr
    );
    assert!(run.incomplete().is_dir());
    let (_, warning, code) = dir.call(&["trace", "stat", run.incomplete().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{warning}");
}

#[test]
fn a_hanging_workload_is_given_up_at_its_limit() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(1, "sleep 1000");
    let run = dir.run(&scenario, "out", &["--set", "workload.limit=\"3 s\""]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("workload.limit"), "{}", run.stderr);
    assert!(run.incomplete().is_dir());
}

#[test]
fn a_guest_out_of_memory_says_so() {
    let Some(dir) = Dir::new() else { return };
    let run = dir.run(&Scenario::new(1, "memhog"), "out", &[]);
    assert_ne!(run.code, Some(0));
    assert!(run.stderr.contains("ran out of memory"), "{}", run.stderr);
    assert!(run.stderr.contains("nodes.memory"), "{}", run.stderr);
}

#[test]
fn a_guest_that_refuses_memory_says_so() {
    let Some(dir) = Dir::new() else { return };
    // Some programs retry for ever.
    let scenario = Scenario::new(1, "dd if=/dev/zero of=/dev/null bs=2000M count=1 || true");
    let run = dir.run(&scenario, "out", &[]).success();
    let warnings = run.summary()["warnings"].to_string();
    assert!(
        warnings.contains("node 0 refused memory to a program"),
        "{warnings}"
    );
    assert!(warnings.contains("nodes.memory"), "{warnings}");
}

#[test]
fn too_little_memory_is_refused() {
    let Some(dir) = Dir::new() else { return };
    let error = failure(
        &dir,
        &Scenario::new(1, "true"),
        &["--set", "nodes.memory=\"1 MiB\""],
    );
    assert!(error.contains("memory"), "{error}");
}

#[test]
fn ctrl_c_ends_a_run_cleanly() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(1, "echo begun; while :; do :; done");
    let mut child = dir.start(&scenario, "out");
    let said = dir.path("out.incomplete/stdout");
    let begun = || fs::read_to_string(&said).is_ok_and(|text| text.contains("begun"));
    while !begun() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        thread::sleep(Duration::from_millis(20));
    }
    interrupt(&child);
    let status = child.wait().unwrap();
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(error.contains("interrupted"), "{error}");
    assert!(dir.path("out.incomplete/summary.json").is_file());
}
