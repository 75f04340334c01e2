//! Trees that can't be written, and their errors.

use std::fs;

use super::*;
use crate::erofs::root_tree;

fn image() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    (folder, path)
}

/// A tree with one node besides the root.
fn one(node: FileNode) -> (FileTree, NodeId) {
    let mut tree = FileTree::default();
    let id = tree.insert(b"a/b", node).expect("a good path");
    (tree, id)
}

#[test]
fn too_few_and_too_many_bytes_are_refused_and_may_come_again() {
    let (_folder, path) = image();
    let (tree, id) = one(file(70_000));
    let mut writer = ErofsWriter::create(&tree, &path).expect("fits");
    for length in [0, 1, 69_999, 70_001, 200_000] {
        let data = vec![0xaa; length];
        let error = writer.file(id, &mut &data[..]).expect_err("refused");
        let error = error.to_string();
        let found = if length < 70_000 { "fewer" } else { "more" };
        assert!(
            error.contains("\"/a/b\"") && error.contains(found),
            "{error}"
        );
        assert!(writer.wants(id));
    }
    let zeros = vec![0; 70_000];
    writer.file(id, &mut &zeros[..]).expect("copies");
    let again = writer.file(id, &mut &zeros[..]);
    assert!(matches!(again, Err(WriteError::Again { .. })), "{again:?}");
    writer.finish().expect("finishes");
    let mut read = Vec::new();
    let mut files = root_tree(&path).expect("our own image").files;
    files[0].read_to_end(&mut read).expect("reads");
    assert!(read == zeros);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the line is cut"))
        }
    }
    let (_folder, path) = image();
    let (tree, id) = one(file(10));
    let mut writer = ErofsWriter::create(&tree, &path).expect("fits");
    let error = writer.file(id, &mut Broken).expect_err("refused");
    assert!(
        error.to_string().contains("\"/a/b\": the line is cut"),
        "{error}"
    );
}

#[test]
fn a_missing_file_is_named_and_leaves_no_image() {
    let (_folder, path) = image();
    let (tree, _) = one(file(10));
    let writer = ErofsWriter::create(&tree, &path).expect("fits");
    let error = writer.finish().expect_err("refused");
    assert!(
        matches!(&error, WriteError::Missing { path } if path == "/a/b"),
        "{error}"
    );
    assert!(root_tree(&path).is_err());
}

#[test]
fn only_files_with_names_take_bytes() {
    let (_folder, path) = image();
    let (mut tree, id) = one(file(10));
    let empty = tree.insert(b"empty", file(0)).expect("good");
    let gone = tree.insert(b"gone", file(10)).expect("good");
    tree.remove(b"gone");
    let link = tree
        .insert(b"link", node(NodeKind::Link(b"x".to_vec())))
        .expect("good");
    let folder = tree.find(b"a").expect("there");
    let mut writer = ErofsWriter::create(&tree, &path).expect("fits");
    for id in [gone, link, folder, NodeId(0), NodeId(999), NodeId(u32::MAX)] {
        assert!(!writer.wants(id), "{id:?}");
        let error = writer.file(id, &mut &[1; 10][..]).expect_err("refused");
        assert!(matches!(error, WriteError::NoFile { .. }), "{error}");
    }
    assert!(!writer.wants(empty));
    writer.file(empty, &mut io::empty()).expect("nothing comes");
    writer.file(id, &mut &[1; 10][..]).expect("copies");
    writer.finish().expect("finishes");
}

#[test]
fn nodes_that_linux_has_not_are_named() {
    let (_folder, path) = image();
    let refused = |node: FileNode| -> String {
        let (tree, _) = one(node);
        let error = ErofsWriter::create(&tree, &path).expect_err("refused");
        error.to_string()
    };
    for text in [Vec::new(), vec![b'x'; 4096], b"a\0b".to_vec()] {
        let error = refused(node(NodeKind::Link(text)));
        assert!(
            error.contains("\"/a/b\"") && error.contains("link"),
            "{error}"
        );
    }
    let (major, minor) = (4096, 0);
    let error = refused(node(NodeKind::Block { major, minor }));
    assert!(error.contains("4096:0"), "{error}");
    let attributes = BTreeMap::from([(b"system.other".to_vec(), Vec::new())]);
    let error = refused(FileNode {
        attributes,
        ..file(1)
    });
    assert!(error.contains("system.other"), "{error}");
    assert!(!path.exists());
}

#[test]
fn sizes_beyond_32_bits_of_blocks_are_refused() {
    let (_folder, path) = image();
    for sizes in [
        &[u64::MAX][..],
        &[1 << 44],
        &[u64::MAX; 9000],
        &[1 << 43; 2],
    ] {
        let mut tree = FileTree::default();
        for (index, &size) in sizes.iter().enumerate() {
            let path = format!("{index}");
            tree.insert(path.as_bytes(), file(size)).expect("good");
        }
        let error = ErofsWriter::create(&tree, &path).expect_err("refused");
        assert!(matches!(error, WriteError::Size), "{error}");
    }
}

#[test]
fn an_image_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("none/image");
    let tree = FileTree::default();
    let error = ErofsWriter::create(&tree, &path).expect_err("refused");
    assert!(error.to_string().contains("none/image"), "{error}");
    fs::create_dir_all(&path).expect("makes");
    assert!(ErofsWriter::create(&tree, &path).is_err());
}
