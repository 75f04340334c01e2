//! Finding shared libraries as the dynamic loader does.
use super::*;
use crate::debian::chroot::tests::chroot;
use crate::filesystem::contents::Item;
use crate::filesystem::data::Data;
use std::process::Command;

/// Compiles a source as a shared library `name` with the linker flags `flags`; without a compiler, prints a
/// note and returns `None`.
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
fn library(folder: &tempfile::TempDir, name: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let source = folder.path().join("x.c");
    std::fs::write(&source, "int x(void) { return 1; }\n").expect("writes");
    let output = folder.path().join(name);
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed"])
        .arg(format!("-Wl,-soname,{name}"))
        .arg("-o")
        .arg(&output)
        .arg(&source)
        .arg(format!("-L{}", folder.path().display()))
        .args(flags)
        .status();
    match made {
        Ok(status) if status.success() => Some(std::fs::read(output).expect("reads")),
        other => {
            eprintln!("SKIPPED: there is no C compiler that links libraries: {other:?}");
            None
        }
    }
}

/// `liba.so`, which needs `libb.so`, linked with `flags`; and `libb.so`.
fn pair(flags: &[&str]) -> Option<(Vec<u8>, Vec<u8>)> {
    let folder = tempfile::tempdir().expect("temporary folder");
    let b = library(&folder, "libb.so", &[])?;
    let all: Vec<&str> = flags.iter().copied().chain(["-lb"]).collect();
    Some((library(&folder, "liba.so", &all)?, b))
}

struct Recipe<'a> {
    paths: &'a [&'a str],
    optional: &'a [&'a str],
}

const PLAIN: Recipe<'_> = Recipe {
    paths: &[],
    optional: &[],
};

/// The tree after adding the libraries of the files at `taken`.
fn closed(
    files: &[(&str, &[u8])],
    taken: &[&str],
    recipe: &Recipe<'_>,
) -> Result<TreeContents, ContentsError> {
    let (_folder, chroot) = chroot(&[], files);
    let mut contents = TreeContents::default();
    for path in taken {
        contents.take(&chroot, path)?;
    }
    let owned = |words: &[&str]| -> Vec<String> { words.iter().map(|&word| word.into()).collect() };
    let libraries = Libraries {
        chroot: &chroot,
        links: &BTreeMap::new(),
        paths: &owned(recipe.paths),
        optional: &owned(recipe.optional),
    };
    libraries.close(&mut contents)?;
    Ok(contents)
}

fn link(contents: &TreeContents) -> Option<String> {
    match contents.get("/usr/lib/x86_64-linux-gnu/libb.so")? {
        Item::Link(target) => Some(target.clone()),
        _ => None,
    }
}

#[test]
fn libraries_are_found_in_the_folders_that_files_name() {
    let Some((a, b)) = pair(&["-Wl,-rpath,$ORIGIN/private"]) else {
        return;
    };
    let files: [(&str, &[u8]); 3] = [
        ("opt/liba.so", &a),
        ("opt/private/libb.so", &b),
        ("opt/other/libb.so", &b),
    ];
    let contents = closed(&files, &["/opt/liba.so"], &PLAIN).expect("closed");
    assert!(contents.holds("/opt/private/libb.so") && !contents.holds("/opt/other/libb.so"));
    assert_eq!(link(&contents), None);
}

#[test]
fn an_rpath_is_inherited_and_a_runpath_is_not() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let with_c = |tags: &str| {
        library(&folder, "libc0.so", &[])?;
        let b = library(&folder, "libb.so", &["-lc0"])?;
        let a = library(&folder, "liba.so", &[tags, "-Wl,-rpath,/opt/p", "-lb"])?;
        let c = std::fs::read(folder.path().join("libc0.so")).expect("reads");
        let files: [(&str, &[u8]); 4] = [
            ("opt/liba.so", &a),
            ("opt/p/libb.so", &b),
            ("opt/p/libc0.so", &c),
            ("opt/q/libc0.so", &c),
        ];
        Some(closed(&files, &["/opt/liba.so"], &PLAIN))
    };
    let Some(inherited) = with_c("-Wl,--disable-new-dtags") else {
        return;
    };
    assert!(inherited.expect("closed").holds("/opt/p/libc0.so"));
    let error = with_c("-Wl,--enable-new-dtags").expect("compiles");
    let error = error.expect_err("two places").to_string();
    assert!(
        error.contains("/opt/p/libc0.so and /opt/q/libc0.so"),
        "{error}"
    );
    assert!(error.contains("lib_paths"), "{error}");
}

#[test]
fn a_library_that_the_image_has_anyway_is_found_by_being_loaded() {
    let Some((a, b)) = pair(&[]) else { return };
    let files: [(&str, &[u8]); 3] = [
        ("opt/liba.so", &a),
        ("opt/server/libb.so", &b),
        ("opt/zero/libb.so", &b),
    ];
    let taken = ["/opt/liba.so", "/opt/server/libb.so"];
    let contents = closed(&files, &taken, &PLAIN).expect("closed");
    assert!(!contents.holds("/opt/zero/libb.so"));
    assert_eq!(link(&contents), None);
}

#[test]
fn lib_paths_decide_and_leave_a_link_for_the_loader() {
    let Some((a, b)) = pair(&[]) else { return };
    let files: [(&str, &[u8]); 3] = [
        ("opt/liba.so", &a),
        ("opt/one/libb.so", &b),
        ("opt/two/libb.so", &b),
    ];
    let recipe = Recipe {
        paths: &["/opt/two"],
        optional: &[],
    };
    let contents = closed(&files, &["/opt/liba.so"], &recipe).expect("closed");
    assert_eq!(link(&contents).as_deref(), Some("/opt/two/libb.so"));
    assert!(!contents.holds("/opt/one/libb.so"));
    // The only copy needs no folder.
    let contents = closed(&files[..2], &["/opt/liba.so"], &PLAIN).expect("closed");
    assert_eq!(link(&contents).as_deref(), Some("/opt/one/libb.so"));
}

#[test]
fn only_optional_libraries_may_be_missing() {
    let Some((a, _)) = pair(&[]) else { return };
    let files: [(&str, &[u8]); 1] = [("opt/liba.so", &a)];
    let error = closed(&files, &["/opt/liba.so"], &PLAIN).expect_err("missing");
    let error = error.to_string();
    assert!(error.starts_with("/opt/liba.so needs libb.so"), "{error}");
    let recipe = Recipe {
        paths: &[],
        optional: &["libb.so*"],
    };
    closed(&files, &["/opt/liba.so"], &recipe).expect("does without");
}

#[test]
fn what_the_user_brings_counts() {
    let Some((a, b)) = pair(&[]) else { return };
    let (_folder, chroot) = chroot(&[], &[]);
    let mut contents = TreeContents::default();
    for (path, bytes) in [("/opt/liba.so", a), ("/usr/local/lib/libb.so", b)] {
        let item = Item::ours(Data::Bytes(bytes), false);
        contents.insert(path, item).expect("inserts");
    }
    let libraries = Libraries {
        chroot: &chroot,
        links: &BTreeMap::new(),
        paths: &[],
        optional: &[],
    };
    libraries.close(&mut contents).expect("closed");
    assert_eq!(link(&contents).as_deref(), Some("/usr/local/lib/libb.so"));
}
