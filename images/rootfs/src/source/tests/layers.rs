//! Effects of layers on lower ones.

use super::*;

/// The paths and texts of the layers' tree, as an OCI layout with a real configuration.
fn applied(layers: &[Vec<u8>]) -> Result<Listing, SourceError> {
    let folder = containers::as_folder(&containers::oci(&[("x", layers)]));
    let listing = read(folder.path())?;
    // The folder is removed on return, so the texts are read here.
    KEPT.with_borrow_mut(|kept| *kept = texts(&listing));
    Ok(listing)
}

std::thread_local! {
    static KEPT: std::cell::RefCell<BTreeMap<String, String>> = const { std::cell::RefCell::new(BTreeMap::new()) };
}

fn paths(layers: &[Vec<u8>]) -> BTreeMap<String, String> {
    applied(layers).expect("applies");
    KEPT.with_borrow(Clone::clone)
}

#[test]
fn opaque_spares_what_its_own_layer_puts_before_and_after() {
    let lower = tar(&[
        folder("d"),
        file("d/old", "o"),
        file("d/sub/old", "o"),
        file("e/old", "o"),
    ]);
    let upper = tar(&[
        file("d/sub/new", "n"),
        file("d/.wh..wh..opq", ""),
        file("d/later", "l"),
        file("e/old", "again"),
        file("e/.wh.old", ""),
        file(".wh..wh.plnk", ""),
    ]);
    let expected = [
        ("", "D"),
        ("d", "D"),
        ("d/later", "l"),
        ("d/sub", "D"),
        ("d/sub/new", "n"),
        ("e", "D"),
        ("e/old", "again"),
    ];
    assert_eq!(paths(&[lower, upper]), pairs(&expected));
}

#[test]
fn types_change_and_directories_go_as_a_whole() {
    let lower = tar(&[
        file("a/x", "1"),
        file("b", "2"),
        link(EntryType::Symlink, "c", "a"),
    ]);
    let upper = tar(&[
        file("a", "now a file"),
        file("b/y", "3"),
        folder("c/"),
        file("c/z", "4"),
    ]);
    let expected = [
        ("", "D"),
        ("a", "now a file"),
        ("b", "D"),
        ("b/y", "3"),
        ("c", "D"),
        ("c/z", "4"),
    ];
    assert_eq!(paths(&[lower, upper]), pairs(&expected));
}

#[test]
fn hard_links_share_a_node_across_layers() {
    let lower = tar(&[file("a", "data"), link(EntryType::Link, "b", "./a")]);
    let upper = tar(&[link(EntryType::Link, "sub/c", "/b"), file("a", "other")]);
    let listing = applied(&[lower, upper]).expect("applies");
    let [a, b, c] = [&b"a"[..], b"b", b"sub/c"].map(|path| listing.tree.find(path));
    assert_eq!(b, c);
    assert_ne!(a, b);
    let texts = KEPT.with_borrow(Clone::clone);
    assert_eq!((&*texts["a"], &*texts["sub/c"]), ("other", "data"));
    assert!(applied(&[tar(&[link(EntryType::Link, "x", "missing")])]).is_err());
}

#[test]
fn links_on_the_way_are_followed_inside_the_root() {
    let lower = tar(&[
        folder("usr/lib"),
        link(EntryType::Symlink, "lib", "usr/lib"),
        link(EntryType::Symlink, "up", "../../../usr"),
        link(EntryType::Symlink, "usr/abs", "/usr/lib"),
        link(EntryType::Symlink, "loop", "loop"),
    ]);
    let upper = tar(&[
        file("lib/a", "a"),
        file("up/lib/b", "b"),
        file("usr/abs/c", "c"),
        file("lib/.wh.gone", ""),
    ]);
    let texts = paths(&[lower.clone(), upper]);
    for name in ["a", "b", "c"] {
        assert_eq!(texts[&format!("usr/lib/{name}")], name);
    }
    assert_eq!(texts["lib"], "-> usr/lib");
    let error = applied(&[lower, tar(&[file("loop/x", "")])])
        .expect_err("loops")
        .to_string();
    assert!(
        error.contains("too many symbolic links") && error.contains("layer 2"),
        "{error}"
    );
}

#[test]
fn metadata_devices_and_pax_records_arrive() {
    let mut builder = Builder::new(Vec::new());
    let long = "n".repeat(120);
    let path = format!("{long}/{long}");
    let value = b"a=b\nc".to_vec();
    let records = [
        ("path", path.as_bytes()),
        ("SCHILY.xattr.user.x", &value),
        ("uid", b"70000"),
        ("mtime", b"12.5"),
    ];
    builder.append_pax_extensions(records).expect("writes");
    let mut header = Header::new_ustar();
    header.set_size(2);
    header.set_mode(0o4755);
    header.set_uid(0);
    header.set_gid(3);
    header.set_cksum();
    builder.append(&header, &b"hi"[..]).expect("writes");
    let mut header = Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o600);
    header.set_uid(0);
    header.set_gid(0);
    // Longer than a header's field, so it needs GNU's long name.
    builder
        .append_data(&mut header, format!("{long}/g/{long}"), io::empty())
        .expect("writes");
    let mut bytes = builder.into_inner().expect("ends");
    bytes.truncate(bytes.len() - 1024);
    bytes.extend(tar(&[
        made(EntryType::Char, "c", ""),
        made(EntryType::Fifo, "f", ""),
        made(EntryType::Block, "b", ""),
    ]));
    let (_kept, source) = written(&bytes);
    let listing = read(&source).expect("reads");
    let node = listing
        .tree
        .node(listing.tree.find(path.as_bytes()).expect("is there"));
    assert_eq!(
        (node.mode, node.uid, node.gid, node.mtime),
        (0o4755, 70000, 3, 12)
    );
    assert_eq!(node.attributes.get(&b"user.x"[..]), Some(&value));
    assert!(
        listing
            .tree
            .find(format!("{long}/g/{long}").as_bytes())
            .is_some()
    );
    let kind = |path: &[u8]| {
        listing
            .tree
            .node(listing.tree.find(path).expect("is there"))
            .kind
            .clone()
    };
    assert_eq!(kind(b"c"), NodeKind::Character { major: 5, minor: 6 });
    assert_eq!(kind(b"b"), NodeKind::Block { major: 5, minor: 6 });
    assert_eq!(kind(b"f"), NodeKind::Fifo);
}

#[test]
fn looks_at_deep_folders_are_bounded() {
    let deep = ["a"; 1000].join("/");
    let entry = |path: String, kind| entries::EntryMetadata {
        path: path.into_bytes(),
        link: Vec::new(),
        kind,
        mode: 0o644,
        uid: 0,
        gid: 0,
        mtime: 0,
        device: (0, 0),
        size: 0,
        attributes: BTreeMap::new(),
    };
    let apply = |budget: &mut error::Budget| {
        let mut tree = FileTree::default();
        for _ in 0..2 {
            let mut layer = apply::Layer::new(&mut tree, budget, "layer 1", true);
            let files = (0..50).map(|number| format!("{deep}/{number}"));
            // Each folder hides everything below it.
            let opaque =
                (1..50).map(|depth| format!("{}/.wh..wh..opq", ["a"; 1000][..depth].join("/")));
            for path in opaque.chain(files) {
                layer.apply(entry(path, EntryType::Regular))?;
            }
        }
        Ok::<_, SourceError>(tree)
    };
    let tree = apply(&mut error::Budget::of_paths(1 << 40)).expect("applies");
    assert_eq!(tree.paths().count(), 1051);
    let folder = vec!["a"; 1000].join("/");
    assert_eq!(tree.children(folder.as_bytes()).count(), 50);
    let error = apply(&mut error::Budget::of_paths(10_000_000)).expect_err("too much work");
    assert!(
        error.to_string().contains("folders are too deep"),
        "{error}"
    );
}

#[test]
fn folders_hidden_at_every_level_keep_the_files_of_their_layer() {
    let names: Vec<String> = (0..300).map(|number| format!("d/d/d/d/{number}")).collect();
    let lower: Vec<Made> = names.iter().map(|name| file(name, "")).collect();
    let opaque = ["d", "d/d", "d/d/d", "d/d/d/d"].map(|folder| format!("{folder}/.wh..wh..opq"));
    let mut upper: Vec<Made> = names.iter().map(|name| file(name, "new")).collect();
    upper.extend(opaque.iter().map(|name| file(name, "")));
    let texts = paths(&[tar(&lower), tar(&upper)]);
    let files: Vec<&String> = texts.values().filter(|text| *text != "D").collect();
    assert_eq!(files.len(), 300);
    assert!(files.iter().all(|text| *text == "new"), "{texts:?}");
}

#[test]
fn a_sparse_file_is_named() {
    let archive = tar(&[file("a", "x"), made(EntryType::GNUSparse, "disk.img", "y")]);
    let error = applied(&[archive]).expect_err("is not read").to_string();
    let expected =
        "has a sparse file, \"disk.img\", which is not read: pack it again without `--sparse` (-S)";
    assert!(error.ends_with(expected), "{error}");
}
