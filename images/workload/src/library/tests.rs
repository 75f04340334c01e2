//! Folders of libraries, and empty libraries in place of parts of glibc.

use super::*;

fn needs(names: &[&str]) -> Binary {
    Binary {
        machine: 62,
        is_64_bit: true,
        is_loadable: true,
        needed: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Binary::default()
    }
}

#[test]
fn an_rpath_counts_for_all_that_is_loaded_below_but_for_what_has_a_runpath() {
    let program = Binary {
        rpath: vec!["$ORIGIN/lib".to_owned()],
        ..needs(&["b"])
    };
    let b = Binary {
        rpath: vec!["/never".to_owned()],
        runpath: vec!["/b".to_owned()],
        ..needs(&["c"])
    };
    let program = Object::new("a", Path::new("/app"), program);
    let mut looked = BTreeMap::new();
    Closure::of(program, &mut |object, name| {
        looked.insert(
            name.to_owned(),
            (object.folders_before(), object.folders_after()),
        );
        let binary = match name {
            "b" => b.clone(),
            "c" => needs(&["d"]),
            _ => needs(&[]),
        };
        let found = Object::new(name, Path::new("/x"), binary);
        Some(LibraryLocation::Open(PathBuf::from(name), found))
    });
    let of = |before: &[&str], after: &[&str]| {
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        (paths(before), paths(after))
    };
    assert_eq!(looked["b"], of(&["/app/lib"], &[]));
    assert_eq!(looked["c"], of(&[], &["/b"]));
    assert_eq!(looked["d"], of(&["/app/lib"], &[]));
}

#[test]
fn parts_of_an_older_glibc_are_those_of_the_images() {
    let part = Binary::read(belljar_guest_lib::FORMER_PART).expect("an ELF file");
    assert!(part.is_for_nodes() && part.is_loadable && part.needed.is_empty());
    for version in ["2.2.5", "2.3.2", "2.3.4", "2.4", "2.12", "2.31", "2.33"] {
        assert!(
            part.has_versions.contains(&format!("GLIBC_{version}")),
            "{version}"
        );
    }
    let host = HostLoader::of_host();
    let Some((libc, _)) = host.system("libc.so.6") else {
        eprintln!("SKIPPED: this host has no libc.so.6");
        return;
    };
    let bytes = std::fs::read(libc).expect("reads");
    if !Binary::read(&bytes[..]).is_some_and(|libc| libc.has_versions.contains("GLIBC_2.34")) {
        eprintln!("SKIPPED: this host's glibc is older than 2.34");
        return;
    }
    let mut root = GuestRoot::default();
    let program = || Object::new("a", Path::new("/app"), needs(&["libdl.so.2", "libc.so.6"]));
    // A glibc that still has them as libraries must have the file.
    root.add(
        "/lib/x86_64-linux-gnu/libc.so.6",
        belljar_guest_lib::FORMER_PART,
    );
    assert!(!is_former_part(&root, "libdl.so.2"));
    let closure = bring(&root, &host, program());
    assert_eq!(closure.missing["libdl.so.2"], "a");
    root.add("/lib/x86_64-linux-gnu/libc.so.6", &bytes);
    assert!(is_former_part(&root, "libdl.so.2") && !is_former_part(&root, "libm.so.6"));
    let closure = bring(&root, &host, program());
    assert!(
        closure.missing.is_empty() && closure.open.is_empty(),
        "{closure:?}"
    );
    assert!(in_guest(&root, &[], program()).missing.is_empty());
    // The image's own file comes first.
    root.add(
        "/lib/x86_64-linux-gnu/libdl.so.2",
        belljar_guest_lib::FORMER_PART,
    );
    assert!(!is_former_part(&root, "libdl.so.2"));
}
