//! Images by the writer, read by the project's reader, and checked by Linux and erofs-utils.

use std::collections::BTreeMap;

use super::*;
use crate::tree::FileNode;

/// Trees that can't be written, and their errors.
mod errors;
/// Checks of images by Linux and erofs-utils.
mod judges;
/// Images read by the project's reader.
mod reading;

/// A node of this kind with default metadata.
fn node(kind: NodeKind) -> FileNode {
    FileNode {
        kind,
        mode: 0o644,
        mtime: 1_700_000_000,
        ..FileNode::directory()
    }
}

fn file(size: u64) -> FileNode {
    node(NodeKind::File { size })
}

/// The data of a file in these tests.
fn bytes(tree: &FileTree, id: NodeId) -> Vec<u8> {
    let size = match tree.node(id).kind {
        NodeKind::File { size } => size,
        _ => 0,
    };
    (0..size)
        .map(|at| (at ^ at >> 8).wrapping_mul(7).wrapping_add(u64::from(id.0)) as u8)
        .collect()
}

/// Writes the image of a tree, with its files in the order of their nodes or in reverse.
fn write(tree: &FileTree, path: &Path, is_reversed: bool) {
    let mut writer = ErofsWriter::create(tree, path).expect("the tree fits");
    let mut files: Vec<NodeId> = tree.paths().map(|(_, id)| id).collect();
    files.sort_unstable();
    if is_reversed {
        files.reverse();
    }
    for id in files {
        if writer.wants(id) {
            let data = bytes(tree, id);
            writer.file(id, &mut &data[..]).expect("copies");
            assert!(!writer.wants(id));
        }
    }
    writer.finish().expect("finishes");
}

/// A tree with all types of nodes, and with sizes around the thresholds of the layout.
fn everything() -> FileTree {
    let mut tree = FileTree::default();
    let mut put = |path: String, node: FileNode| -> NodeId {
        tree.insert(path.as_bytes(), node).expect("a good path")
    };
    for size in [0, 1, 63, 64, 4095, 4096, 4097, 8191, 8192, 12_300, 100_000] {
        put(format!("sizes/{size}"), file(size));
    }
    for size in 4030..4036 {
        put(format!("sizes/{size}"), file(size));
        let size = size + 4096;
        put(format!("sizes/{size}"), file(size));
    }
    for number in 0..3000 {
        let size = if number % 10 == 0 { number } else { 0 };
        put(format!("many/{number:0>20}"), file(size));
    }
    for name in ["!", "-", ".-", "...", ".a", "a", "b", "\u{e9}"] {
        put(format!("order/{name}"), file(3));
        put(format!("order/{name}-d/x"), FileNode::directory());
    }
    put(format!("{}/{}", "n".repeat(255), "m".repeat(255)), file(9));
    for length in [1, 59, 60, 4031, 4032, 4033, 4095] {
        let text = "../".bytes().cycle().take(length).collect();
        put(format!("links/{length}"), node(NodeKind::Link(text)));
    }
    add_devices(&mut put);
    add_attributes(&mut put);
    let linked = put("hard/one".to_owned(), file(5000));
    for path in ["hard/two", "other/three", "zero"] {
        tree.link(path.as_bytes(), linked).expect("a good path");
    }
    let gone = tree.insert(b"gone", file(7)).expect("a good path");
    tree.remove(b"gone");
    assert!(tree.paths().all(|(_, id)| id != gone));
    tree
}

fn add_devices(put: &mut dyn FnMut(String, FileNode) -> NodeId) {
    let devices = [(1, 3), (8, 0x12345), (4095, 0xf_ffff), (0, 0)];
    for (major, minor) in devices {
        let character = NodeKind::Character { major, minor };
        put(format!("devices/c{major}-{minor}"), node(character));
        put(
            format!("devices/b{major}-{minor}"),
            node(NodeKind::Block { major, minor }),
        );
    }
    put("devices/fifo".to_owned(), node(NodeKind::Fifo));
    put("devices/socket".to_owned(), node(NodeKind::Socket));
    let owned = FileNode {
        mode: 0o7777,
        uid: 0xffff_fff0,
        gid: 70_000,
        mtime: 5_000_000_000,
        ..file(10)
    };
    put("owned/file".to_owned(), owned.clone());
    let kind = NodeKind::Directory;
    put("owned/folder".to_owned(), FileNode { kind, ..owned });
}

fn add_attributes(put: &mut dyn FnMut(String, FileNode) -> NodeId) {
    // POSIX ACL version 2: owner, group and others may read.
    let rights: Vec<u8> = [
        &[2, 0, 0, 0][..],
        &[1, 0, 6, 0, 255, 255, 255, 255],
        &[4, 0, 4, 0, 255, 255, 255, 255],
        &[32, 0, 4, 0, 255, 255, 255, 255],
    ]
    .concat();
    let attributes = |pairs: &[(&str, Vec<u8>)]| -> BTreeMap<Vec<u8>, Vec<u8>> {
        let pair = |(name, value): &(&str, Vec<u8>)| (name.as_bytes().to_vec(), value.clone());
        pairs.iter().map(pair).collect()
    };
    let capability = ("security.capability", {
        let mut value = vec![1, 0, 0, 2, 0, 0x20, 0, 0];
        value.resize(20, 0);
        value
    });
    let few = attributes(&[
        ("user.empty", Vec::new()),
        ("user.some", b"value".to_vec()),
        ("trusted.overlay.opaque", b"y".to_vec()),
        capability,
        ("system.posix_acl_access", rights.clone()),
    ]);
    let large = attributes(&[("user.large", vec![5; 9000]), ("user.next", vec![6; 3])]);
    let of_folder = attributes(&[("system.posix_acl_default", rights), ("trusted.x", vec![9])]);
    for (index, attributes) in [few, large].into_iter().enumerate() {
        for size in [0, 1, 3800, 4000, 4096, 5000] {
            let attributes = attributes.clone();
            let node = FileNode {
                attributes,
                ..file(size)
            };
            put(format!("attributes/{index}-{size}"), node);
        }
    }
    let attributes = of_folder;
    let folder = FileNode {
        attributes,
        ..FileNode::directory()
    };
    put("attributes/folder".to_owned(), folder.clone());
    put(
        String::new(),
        FileNode {
            mode: 0o751,
            mtime: 77,
            ..folder
        },
    );
}
