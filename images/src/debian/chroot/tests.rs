//! Links and patterns in an archive of unpacked packages.
use super::*;
use tar::{Builder, Header};

pub(crate) fn chroot(
    links: &[(&str, &str)],
    files: &[(&str, &[u8])],
) -> (tempfile::TempDir, Chroot) {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("chroot.tar");
    let mut tar = Builder::new(File::create(&path).expect("archive"));
    let mut header = Header::new_ustar();
    header.set_mode(0o755);
    let above = files.iter().flat_map(|(name, _)| {
        let ends = name.match_indices('/').map(|(end, _)| &name[..=end]);
        ends.collect::<Vec<_>>()
    });
    for name in ["usr/", "usr/lib/", "bin/"].into_iter().chain(above) {
        header.set_entry_type(EntryType::Directory);
        header.set_size(0);
        tar.append_data(&mut header, name, &b""[..])
            .expect("folder");
    }
    for (name, target) in links {
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        tar.append_link(&mut header, name, target).expect("link");
    }
    for (name, bytes) in files {
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, name, *bytes).expect("file");
    }
    tar.finish().expect("archive");
    let chroot = Chroot::open(&path).expect("index");
    (folder, chroot)
}

#[test]
fn links_are_followed_and_listed() {
    let links = [
        ("lib", "usr/lib"),
        ("usr/lib/libx.so", "/lib/libx.so.1"),
        ("bin/up", "../usr/lib/a"),
    ];
    let (_folder, chroot) = chroot(
        &links,
        &[("usr/lib/libx.so.1", b"library"), ("usr/lib/a", b"A")],
    );
    let end = chroot.resolve("/lib/libx.so").expect("resolves");
    assert_eq!(end.path, "/usr/lib/libx.so.1");
    let passed: Vec<&str> = end.links.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(passed, ["/lib", "/usr/lib/libx.so", "/lib"]);
    assert_eq!(chroot.read("/lib/libx.so").expect("reads"), b"library");
    assert_eq!(chroot.read("/bin/up").expect("reads"), b"A");
}

#[test]
fn circles_and_gaps_are_errors() {
    let (_folder, chroot) = chroot(&[("a", "b"), ("b", "a")], &[]);
    assert!(matches!(
        chroot.resolve("/a"),
        Err(ChrootError::Links { .. })
    ));
    assert!(matches!(
        chroot.resolve("/usr/none"),
        Err(ChrootError::Missing { .. })
    ));
    assert!(matches!(
        chroot.read("/usr"),
        Err(ChrootError::Missing { .. })
    ));
}

#[test]
fn a_star_stays_within_one_component() {
    let files: [(&str, &[u8]); 3] = [
        ("usr/lib/libp.so.0", b"p"),
        ("usr/lib/libq.so.1", b"q"),
        ("usr/lib/deep/libr.so.0", b"r"),
    ];
    let (_folder, chroot) = chroot(&[], &files);
    assert_eq!(
        chroot.matching("/usr/lib/*.so.0").expect("found"),
        ["/usr/lib/libp.so.0"]
    );
    assert_eq!(chroot.matching("/usr/*/lib*.so.*").expect("found").len(), 2);
    assert!(chroot.matching("/usr/lib/*.a").is_err());
}

#[test]
fn double_stars_and_folders_reach_everything_below() {
    let files: [(&str, &[u8]); 3] = [
        ("usr/lib/libp.so.0", b"p"),
        ("usr/lib/deep/libr.so.0", b"r"),
        ("belljar/in/libr.so.0", b"own"),
    ];
    let links = [("lib", "usr/lib"), ("usr/lib/dangling", "nowhere")];
    let (_folder, chroot) = chroot(&links, &files);
    let all = chroot.matching("/**/*.so.0").expect("found");
    assert_eq!(all, ["/usr/lib/deep/libr.so.0", "/usr/lib/libp.so.0"]);
    // Through a link, under the requested name.
    let below = chroot.matching("/lib/**/libr*").expect("found");
    assert_eq!(below, ["/lib/deep/libr.so.0"]);
    let folder = chroot.matching("/usr/lib").expect("found");
    assert!(folder.contains(&"/usr/lib/dangling".to_owned()) && folder.len() == 4);
    assert_eq!(chroot.named("libr.so.0"), ["/usr/lib/deep/libr.so.0"]);
    assert_eq!(
        chroot.kind("/usr/lib/dangling"),
        Some(ChrootEntryKind::Link("nowhere"))
    );
}
