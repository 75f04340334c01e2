//! Images read by the project's reader.

use std::fs;
use std::io::{Seek, SeekFrom};

use proptest::prelude::*;

use super::*;
use crate::erofs::{RootFile, root_tree};

/// Asserts that an image has the files and links of a tree.
fn assert_holds(image: &Path, tree: &FileTree) {
    let found = root_tree(image).expect("our own image");
    let mut files = BTreeMap::new();
    for mut file in found.files {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("reads");
        files.insert(file.path.clone(), bytes);
    }
    let (mut expected, mut links) = (BTreeMap::new(), BTreeMap::new());
    for (path, id) in tree.paths() {
        let path = format!("/{}", String::from_utf8_lossy(path));
        match &tree.node(id).kind {
            NodeKind::File { .. } => {
                expected.insert(path, bytes(tree, id));
            }
            NodeKind::Link(text) => {
                links.insert(path, String::from_utf8_lossy(text).into_owned());
            }
            _ => {}
        }
    }
    assert!(files.keys().eq(expected.keys()), "{:?}", files.keys());
    for (path, bytes) in &expected {
        assert!(files[path] == *bytes, "{path}");
    }
    assert_eq!(found.links, links);
}

#[test]
fn everything_is_read_as_it_was_written_in_whatever_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let tree = everything();
    write(&tree, &one, false);
    assert_holds(&one, &tree);
    // The writer replaces an existing file.
    fs::write(&two, vec![0xff; 1 << 20]).expect("writes");
    write(&tree, &two, true);
    assert!(fs::read(&one).expect("reads") == fs::read(&two).expect("reads"));
}

#[test]
fn the_empty_tree_is_an_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    let tree = FileTree::default();
    write(&tree, &image, false);
    assert_holds(&image, &tree);
    assert_eq!(fs::metadata(&image).expect("there").len(), 8192);
}

#[test]
fn a_directory_of_100_000_names_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    let mut tree = FileTree::default();
    for number in 0..100_000 {
        let path = format!("d/{number}");
        tree.insert(path.as_bytes(), file(0)).expect("good");
    }
    write(&tree, &image, false);
    let found = root_tree(&image).expect("our own image");
    assert_eq!(found.files.len(), 100_000);
}

/// A tree with files too large for a test to fill, written only in part.
pub(super) fn huge(image: &Path) -> (FileTree, Vec<(&'static str, u64)>) {
    const SIZES: [(&str, u64); 3] = [
        ("a", 5 << 30),
        ("b", (20 << 30) + 17),
        ("c", (1 << 42) + 4000),
    ];
    let mut tree = FileTree::default();
    for (name, size) in SIZES {
        tree.insert(name.as_bytes(), file(size)).expect("good");
    }
    tree.insert(b"z", file(5000)).expect("good");
    let mut writer = ErofsWriter::create(&tree, image).expect("fits");
    let mut marks = Vec::new();
    for (name, size) in SIZES {
        let id = tree.find(name.as_bytes()).expect("there");
        let place = writer.layout.place(id).expect("there").clone();
        for at in [
            0,
            4 << 30,
            (4 << 30) + 4090,
            (size - 10) / 4096 * 4096 - 5,
            size - 10,
        ] {
            writer
                .put(&place, at, b"marked bytes"[..10].as_ref())
                .expect("writes");
            marks.push((name, at));
        }
        writer.states[id.0 as usize] = CopyState::Copied;
    }
    let last = tree.find(b"z").expect("there");
    writer
        .file(last, &mut &bytes(&tree, last)[..])
        .expect("copies");
    writer.finish().expect("finishes");
    (tree, marks)
}

#[test]
fn files_beyond_4_gib_and_32_bits_of_bytes_are_in_their_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    let (tree, marks) = huge(&image);
    let found = root_tree(&image).expect("our own image").files;
    let named = |name: &str| -> RootFile {
        let path = format!("/{name}");
        let found = found.iter().find(|file| file.path == path);
        found.expect("there").clone()
    };
    for (name, at) in marks {
        let mut file = named(name);
        file.seek(SeekFrom::Start(at)).expect("seeks");
        let mut bytes = [0; 10];
        file.read_exact(&mut bytes).expect("reads");
        assert_eq!(&bytes, b"marked byt", "{name} {at}");
    }
    let mut read = Vec::new();
    named("z").read_to_end(&mut read).expect("reads");
    assert_eq!(read, bytes(&tree, tree.find(b"z").expect("there")));
}

fn kinds() -> impl Strategy<Value = NodeKind> {
    let size = prop_oneof![
        3 => 0..200u64,
        3 => 3900..4200u64,
        2 => 8000..8300u64,
        1 => 0..40_000u64,
    ];
    prop_oneof![
        6 => size.prop_map(|size| NodeKind::File { size }),
        2 => Just(NodeKind::Directory),
        1 => "[a-z/.]{1,80}".prop_map(|text| NodeKind::Link(text.into_bytes())),
        1 => (0..4096u32, 0..1u32 << 20)
            .prop_map(|(major, minor)| NodeKind::Character { major, minor }),
        1 => Just(NodeKind::Fifo),
    ]
}

fn nodes() -> impl Strategy<Value = FileNode> {
    let value = proptest::collection::vec(any::<u8>(), 0..3000);
    let attributes = proptest::collection::btree_map("user\\.[a-z]{1,9}", value, 0..3);
    (kinds(), attributes).prop_map(|(kind, attributes)| {
        let bytes = |(name, value): (String, Vec<u8>)| (name.into_bytes(), value);
        FileNode {
            attributes: attributes.into_iter().map(bytes).collect(),
            ..node(kind)
        }
    })
}

/// Operations on a tree: a path, a node to put there, and a choice of a further operation.
fn steps() -> impl Strategy<Value = Vec<(String, FileNode, u8)>> {
    let path = "[abc.-]{1,2}x(/[ab]{1,2}(/[a-f!.]{1,3}-{1,200})?)?";
    proptest::collection::vec((path, nodes(), any::<u8>()), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_tree_is_read_as_it_was_written(steps in steps()) {
        let folder = tempfile::tempdir().expect("a folder");
        let image = folder.path().join("image");
        let mut tree = FileTree::default();
        let mut last = None;
        for (path, node, choice) in steps {
            match (choice % 8, last) {
                (0, _) => tree.remove(path.as_bytes()),
                (1, Some(id)) => drop(tree.link(path.as_bytes(), id)),
                _ => last = Some(tree.insert(path.as_bytes(), node).expect("a good path")),
            }
        }
        write(&tree, &image, false);
        assert_holds(&image, &tree);
    }
}
