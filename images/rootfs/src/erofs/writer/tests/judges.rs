//! Checks of images by Linux and erofs-utils.

#![allow(clippy::print_stderr)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::{Child, Command, Stdio};

use super::*;

/// An image that is mounted in a separate mount namespace until this is dropped.
struct Mounted {
    child: Child,
    root: PathBuf,
}

/// Mounts an image at `folder`, or returns the reason that it can't.
fn mount(image: &Path, folder: &Path) -> Result<Mounted, String> {
    const SCRIPT: &str = "mount -t erofs -o loop,ro \"$0\" \"$1\" && echo mounted && read end";
    let mut child = Command::new("unshare")
        .args(["-m", "sh", "-c", SCRIPT])
        .args([image, folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut line = String::new();
    let read = child
        .stdout
        .as_mut()
        .map(|out| BufReader::new(out).read_line(&mut line));
    if read.is_some() && line.trim() == "mounted" {
        let inside = folder.strip_prefix("/").expect("an absolute path");
        let root = Path::new("/proc").join(child.id().to_string()).join("root");
        let root = root.join(inside);
        return Ok(Mounted { child, root });
    }
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The shell exits at the end of its input, which removes the namespace and the mount.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Mounts an image of the writer; returns `None` and prints a note if an image of mkfs.erofs can't be
/// mounted either.
fn mount_ours(image: &Path, folder: &Path) -> Option<Mounted> {
    let at = folder.join("mount");
    let (empty, other) = (folder.join("empty"), folder.join("other"));
    for folder in [&at, &empty] {
        fs::create_dir_all(folder).expect("makes");
    }
    let error = match mount(image, &at) {
        Ok(mounted) => return Some(mounted),
        Err(error) => error,
    };
    let mut mkfs = Command::new("mkfs.erofs");
    let made = mkfs.arg("--quiet").args([&other, &empty]).output();
    let could = made.is_ok_and(|output| output.status.success()) && mount(&other, &at).is_ok();
    assert!(!could, "Linux refuses the image: {error}");
    eprintln!("SKIPPED: no EROFS image can be mounted here (needs root and loop devices): {error}");
    None
}

/// Asserts that a folder has the tree's contents; links and attributes are compared if `is_whole`.
fn assert_same(root: &Path, tree: &FileTree, is_whole: bool) {
    let mut inodes: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (path, id) in tree.paths() {
        let at = root.join(OsStr::from_bytes(path));
        let node = tree.node(id);
        let data = fs::symlink_metadata(&at).expect("there");
        let owner = (data.uid(), data.gid(), data.mtime(), data.mtime_nsec());
        assert_eq!(owner, (node.uid, node.gid, node.mtime as i64, 0), "{at:?}");
        assert_kind(&at, &data, tree, id);
        if is_whole {
            assert_eq!(data.mode() & 0o7777, u32::from(node.mode), "{at:?}");
            assert_eq!(attributes(&at), node.attributes, "{at:?}");
            assert_eq!(*inodes.entry(id).or_insert(data.ino()), data.ino());
            assert_eq!(data.nlink(), names(tree, path, id), "{at:?}");
        }
        if node.kind == NodeKind::Directory {
            let listed = fs::read_dir(&at).expect("lists");
            let listed: BTreeSet<Vec<u8>> = listed
                .map(|entry| entry.expect("lists").file_name().into_vec())
                .collect();
            let expected = tree.children(path).map(|(name, _)| name.to_vec()).collect();
            assert_eq!(listed, expected, "{at:?}");
        }
    }
    let distinct: BTreeSet<u64> = inodes.values().copied().collect();
    assert_eq!(distinct.len(), inodes.len(), "nodes share an inode");
}

fn assert_kind(at: &Path, data: &fs::Metadata, tree: &FileTree, id: NodeId) {
    let kind = data.file_type();
    let number = |rdev: u64| {
        (
            (rdev >> 8 & 0xfff) as u32,
            (rdev & 0xff | rdev >> 12 & 0xf_ff00) as u32,
        )
    };
    match &tree.node(id).kind {
        NodeKind::Directory => assert!(kind.is_dir(), "{at:?}"),
        NodeKind::File { size } => {
            assert!(kind.is_file() && data.len() == *size, "{at:?}");
            assert!(fs::read(at).expect("reads") == bytes(tree, id), "{at:?}");
        }
        NodeKind::Link(text) => {
            let target = fs::read_link(at).expect("a link");
            assert_eq!(target.as_os_str().as_bytes(), text, "{at:?}");
        }
        NodeKind::Character { major, minor } => {
            assert!(kind.is_char_device(), "{at:?}");
            assert_eq!(number(data.rdev()), (*major, *minor), "{at:?}");
        }
        NodeKind::Block { major, minor } => {
            assert!(kind.is_block_device(), "{at:?}");
            assert_eq!(number(data.rdev()), (*major, *minor), "{at:?}");
        }
        NodeKind::Fifo => assert!(kind.is_fifo(), "{at:?}"),
        NodeKind::Socket => assert!(kind.is_socket(), "{at:?}"),
    }
}

fn attributes(at: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let value = |name: &OsStr| xattr::get(at, name).expect("reads").expect("there");
    let names = xattr::list(at).expect("lists");
    names
        .map(|name| (name.as_bytes().to_vec(), value(&name)))
        .collect()
}

/// The number of links to a node.
fn names(tree: &FileTree, path: &[u8], id: NodeId) -> u64 {
    let is_folder = |id| tree.node(id).kind == NodeKind::Directory;
    let count = match is_folder(id) {
        true => 2 + tree.children(path).filter(|(_, id)| is_folder(*id)).count(),
        false => tree.paths().filter(|(_, other)| *other == id).count(),
    };
    count as u64
}

#[test]
fn linux_sees_the_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    let tree = everything();
    write(&tree, &image, false);
    if let Some(mounted) = mount_ours(&image, folder.path()) {
        assert_same(&mounted.root, &tree, true);
    }
}

#[test]
fn linux_reads_files_beyond_4_gib() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    let (tree, marks) = super::reading::huge(&image);
    let Some(mounted) = mount_ours(&image, folder.path()) else {
        return;
    };
    for (name, at) in marks {
        let file = File::open(mounted.root.join(name)).expect("opens");
        let mut bytes = [0; 10];
        file.read_exact_at(&mut bytes, at).expect("reads");
        assert_eq!(&bytes, b"marked byt", "{name} {at}");
    }
    let last = fs::read(mounted.root.join("z")).expect("reads");
    assert_eq!(last, bytes(&tree, tree.find(b"z").expect("there")));
}

/// Output of fsck.erofs for an image, extracted into a folder if one is given; `None` if it is not
/// installed.
fn fsck(image: &Path, into: Option<&Path>) -> Option<String> {
    let mut fsck = Command::new("fsck.erofs");
    if let Some(folder) = into {
        fsck.arg(format!("--extract={}", folder.display()));
    }
    let Ok(output) = fsck.arg(image).output() else {
        eprintln!("SKIPPED: fsck.erofs is not installed (apt install erofs-utils)");
        return None;
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Some(format!("{}: {said}", output.status))
}

/// Old versions print errors but exit with 0.
fn is_good(said: &str) -> bool {
    said.starts_with("exit status: 0") && !said.contains("<E>")
}

/// Hard links are extracted as separate files, and attributes not at all.
#[test]
fn erofs_utils_find_no_fault() {
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    let tree = everything();
    write(&tree, &image, false);
    let Some(said) = fsck(&image, None) else {
        return;
    };
    assert!(is_good(&said), "{said}");
    match fs::metadata("/proc/self").expect("there").uid() {
        0 => {
            let files = folder.path().join("files");
            let said = fsck(&image, Some(&files)).expect("installed");
            assert!(is_good(&said), "{said}");
            assert_same(&files, &tree, false);
        }
        _ => eprintln!("SKIPPED: only root can unpack devices and owners"),
    }
    // The checksum covers the superblock's block to its end.
    let mut bytes = fs::read(&image).expect("reads");
    bytes[4095] ^= 1;
    fs::write(&image, bytes).expect("writes");
    let said = fsck(&image, None).expect("installed");
    assert!(!is_good(&said), "{said}");
}

#[test]
fn images_are_about_as_small_as_those_of_mkfs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (image, other) = (folder.path().join("image"), folder.path().join("other"));
    let files = folder.path().join("files");
    fs::create_dir(&files).expect("makes");
    let mut tree = FileTree::default();
    for number in 0..1000u64 {
        let size = number * number * 7919 % 6_000;
        let name = number.to_string();
        let id = tree.insert(name.as_bytes(), file(size)).expect("good");
        fs::write(files.join(name), bytes(&tree, id)).expect("writes");
    }
    write(&tree, &image, false);
    let mut mkfs = Command::new("mkfs.erofs");
    let made = mkfs
        .args(["--quiet", "-x-1"])
        .args([&other, &files])
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: mkfs.erofs is not installed (apt install erofs-utils)");
        return;
    }
    let length = |path| fs::metadata(path).expect("there").len();
    let (ours, theirs) = (length(&image), length(&other));
    assert!(
        ours * 100 <= theirs * 104,
        "{ours} bytes, and {theirs} of mkfs.erofs"
    );
}
