//! The Debian package on a Debian that has nothing else, as somebody installs it.
//!
//! The steps are those of the container file, in a root file system that is made for it. Guest images are this host's, as building one takes minutes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_tests::{Dir, root};

/// Names the package.
const PACKAGE: &str = "BELLJAR_PACKAGE";

/// What runs two nodes in the new root.
const RUN: &str = r#"
set -e
belljar doctor || { echo "doctor: $?"; exit 1; }
man=/usr/share/man/man1
test -s $man/belljar.1.gz && test -s $man/belljar-replay-calibrate.1.gz
grep -q 'complete -F _belljar' /usr/share/bash-completion/completions/belljar
cd /tmp
belljar new two.toml
belljar run two.toml --nodes 2 --out out
"#;

#[test]
fn the_package_works_on_a_debian_that_has_nothing_else() {
    let Some(dir) = Dir::new() else { return };
    let Some(package) = std::env::var_os(PACKAGE).map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: there is no package, as cargo-deb is not installed (cargo install cargo-deb --locked); with it, run: cargo xtask test install"
        );
        return;
    };
    let own = std::fs::metadata("/proc/self").map(|own| own.uid());
    if own.is_ok_and(|uid| uid != 0) {
        eprintln!("SKIPPED: a root file system is entered by root");
        return;
    }
    let debian = dir.path("debian");
    let made = Command::new("mmdebstrap")
        .args(["--quiet", "--variant=apt", "bookworm"])
        .arg(&debian)
        .output()
        .expect("mmdebstrap is installed");
    if !made.status.success() {
        eprintln!(
            "SKIPPED: mmdebstrap failed: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        return;
    }
    std::fs::copy(&package, debian.join("tmp/belljar.deb")).expect("the package is copied");
    for file in ["/etc/resolv.conf", "/etc/hosts"] {
        let _ = std::fs::copy(file, debian.join(file.trim_start_matches('/')));
    }
    // mmdebstrap took this host's sources of packages; what apt needs to reach them is taken, too.
    share_apt(&debian);
    inside(&debian, &installation());
    let images = cache();
    let inner = debian.join("root/.cache/belljar");
    std::fs::create_dir_all(&inner).expect("a folder");
    let quoted = RUN.replace('\'', "'\\''");
    let [root, images, inner] = [&debian, &images, &inner].map(|path| path.display());
    let told = namespaced(&format!(
        "mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && mount -t tmpfs tmpfs {root}/tmp\n\
         mount --rbind {images} {inner}\n\
         exec chroot {root} sh -c '{quoted}'"
    ));
    assert!(told.contains("2 nodes"), "{told}");
}

/// What the container file runs.
fn installation() -> String {
    let path = root().join("xtask/package/Containerfile");
    let text = std::fs::read_to_string(path).expect("the container file");
    let run = text.lines().find_map(|line| line.strip_prefix("RUN "));
    run.expect("it installs the package").to_owned()
}

/// This host's cache of images and snapshots.
fn cache() -> PathBuf {
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let folder =
        std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    folder.join("belljar")
}

fn share_apt(debian: &Path) {
    let copy = "cp -a /etc/apt/apt.conf.d/. \"$1/etc/apt/apt.conf.d/\"; cp -a /etc/ssl/certs \"$1/etc/ssl/\" 2>/dev/null; true";
    let _ = Command::new("sh")
        .args(["-c", copy, "sh"])
        .arg(debian)
        .status();
}

/// Runs a command in the root.
fn inside(debian: &Path, command: &str) {
    let ended = Command::new("chroot")
        .arg(debian)
        .args(["sh", "-ec", command])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .expect("chroot starts");
    let told = [ended.stdout, ended.stderr].concat();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&told));
}

/// Runs a command where what it mounts is gone afterwards.
fn namespaced(command: &str) -> String {
    let ended = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "sh", "-ec", command])
        .env("HOME", "/root")
        .env_remove("XDG_CACHE_HOME")
        .output()
        .expect("unshare starts");
    let told = [ended.stdout, ended.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(ended.status.success(), "{told}");
    told
}
