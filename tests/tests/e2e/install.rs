//! The Debian package on a minimal Debian, as a user installs it, and in a container; in a group of its own, the source, too.
//!
//! The steps are those of the container file, in a root file system made for it; buildah builds the container from the same.
//! Guest images are this host's, as building one takes minutes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use belljar_tests::{Dir, root};

/// Names the package.
const PACKAGE: &str = "BELLJAR_PACKAGE";

/// Enables compiling the command on that Debian, which takes many minutes.
const FROM_SOURCE: &str = "BELLJAR_FROM_SOURCE";

/// Checks the manual pages of the package, and that a shell completes a command by the package's script.
const BROUGHT: &str = r#"
set -e
exec 2>&1
man=/usr/share/man/man1
test -s $man/belljar.1.gz && test -s $man/belljar-replay-calibrate.1.gz || { echo "no manual pages in $man"; exit 1; }
bash -ec '
. /usr/share/bash-completion/completions/belljar
COMP_WORDS=(belljar replay cali) COMP_CWORD=2 COMP_TYPE=9
_clap_complete_belljar belljar cali replay
echo "completed: ${COMPREPLY[*]}"
'
"#;

/// Installs the command from the source with an installed toolchain and crates, by the steps of `docs/install.md`.
const COMPILE: &str = "
set -e
apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev libssl-dev pkg-config
export PATH=/opt/rust/bin:$PATH CARGO_TARGET_DIR=/var/tmp/target CARGO_INCREMENTAL=0
cd /srv/belljar
cargo install --path cli --debug --locked --offline --quiet --root /usr/local
";

/// Runs two nodes in the new root.
const RUN: &str = r#"
set -e
exec 2>&1
belljar doctor || { echo "doctor: $?"; exit 1; }
cd /tmp
belljar new two.toml
belljar run two.toml --nodes 2 --out out
"#;

/// A Debian with apt only, and with the settings by which this host's apt reaches packages. Never changed: tests copy it.
struct Clean {
    /// The test's working folder, and the root.
    dir: Dir,
    root: PathBuf,
    package: PathBuf,
}

/// Shared by the tests: made by the first user, and removed with the last one.
static CLEAN: Mutex<Weak<Clean>> = Mutex::new(Weak::new());

impl Clean {
    /// `None`, with a message, if it cannot be made.
    fn get() -> Option<Arc<Self>> {
        let mut shared = CLEAN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clean) = shared.upgrade() {
            return Some(clean);
        }
        let clean = Arc::new(Self::make()?);
        *shared = Arc::downgrade(&clean);
        Some(clean)
    }

    fn make() -> Option<Self> {
        let dir = Dir::new()?;
        let Some(package) = std::env::var_os(PACKAGE).map(PathBuf::from) else {
            eprintln!(
                "SKIPPED: there is no package, as cargo-deb is not installed (cargo install cargo-deb --locked); with it, run: cargo xtask test install"
            );
            return None;
        };
        let own = std::fs::metadata("/proc/self").map(|own| own.uid());
        if own.is_ok_and(|uid| uid != 0) {
            eprintln!("SKIPPED: a root file system is entered by root");
            return None;
        }
        let root = dir.path("debian");
        let made = Command::new("mmdebstrap")
            .args(["--quiet", "--variant=apt", "bookworm"])
            .arg(&root)
            .output()
            .expect("mmdebstrap is installed");
        if !made.status.success() {
            let told = String::from_utf8_lossy(&made.stderr);
            eprintln!("SKIPPED: mmdebstrap failed: {told}");
            return None;
        }
        for file in ["/etc/resolv.conf", "/etc/hosts"] {
            let _ = std::fs::copy(file, root.join(file.trim_start_matches('/')));
        }
        // mmdebstrap used this host's sources of packages; apt's settings for them are copied, too.
        share_apt(&root);
        Some(Self { dir, root, package })
    }
}

#[test]
fn the_package_works_on_a_debian_that_has_nothing_else() {
    let Some(clean) = Clean::get() else { return };
    let debian = clean.dir.path("installed");
    done(Command::new("cp").arg("-a").args([&clean.root, &debian]));
    std::fs::copy(&clean.package, debian.join("tmp/belljar.deb")).expect("the package is copied");
    inside(&debian, &installation());
    let told = with_host(&debian, &[], &[BROUGHT, RUN].concat());
    assert!(told.contains("completed: calibrate"), "{told}");
    assert!(told.contains("2 nodes"), "{told}");
}

#[test]
fn the_source_installs_on_a_debian_with_a_toolchain() {
    if std::env::var_os(FROM_SOURCE).is_none() {
        eprintln!(
            "SKIPPED: compiling the command on another Debian takes many minutes; with it, run: cargo xtask test install"
        );
        return;
    }
    let Some(clean) = Clean::get() else { return };
    let debian = clean.dir.path("compiled");
    done(Command::new("cp").arg("-a").args([&clean.root, &debian]));
    let toolchain = done(Command::new("rustc").args(["--print", "sysroot"]));
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let shared = [
        (PathBuf::from(toolchain.trim_end()), "opt/rust"),
        (cargo, "root/.cargo"),
        (root(), "srv/belljar"),
    ];
    let told = with_host(&debian, &shared, &[COMPILE, RUN].concat());
    assert!(told.contains("2 nodes"), "{told}");
}

/// Runs a script in the root, with this host's images and these other folders of it.
fn with_host(debian: &Path, shared: &[(PathBuf, &str)], script: &str) -> String {
    let images = [(cache(), "root/.cache/belljar")];
    let mounts = shared.iter().chain(&images).map(|(outer, inner)| {
        let inner = debian.join(inner);
        std::fs::create_dir_all(&inner).expect("a folder");
        format!("mount --rbind {} {}\n", outer.display(), inner.display())
    });
    let mounts: String = mounts.collect();
    let (root, quoted) = (debian.display(), script.replace('\'', "'\\''"));
    namespaced(&format!(
        "mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && mount -t tmpfs tmpfs {root}/tmp\n\
         {mounts}exec chroot {root} sh -c '{quoted}'"
    ))
}

#[test]
fn the_container_file_builds_a_container_that_runs_nodes() {
    let Some(clean) = Clean::get() else { return };
    if Command::new("buildah").arg("--version").output().is_err() {
        eprintln!("SKIPPED: the container file is not built: apt install buildah");
        return;
    }
    let store = Store::new(&clean.dir);
    let debian = store.call(&["from", "scratch"]);
    store.call(&["add", &debian, &plain(&clean.root), "/"]);
    let nothing = ["run", "--isolation", "chroot", &debian, "true"];
    let tried = store.buildah(&nothing).output().expect("buildah starts");
    if !tried.status.success() {
        let told = String::from_utf8_lossy(&tried.stderr);
        eprintln!("SKIPPED: buildah can run nothing on this host: {told}");
        return;
    }
    store.call(&["commit", "--rm", &debian, "docker.io/library/debian:12"]);
    let context = clean.dir.path("context");
    std::fs::create_dir_all(&context).expect("a folder");
    std::fs::copy(&clean.package, context.join("belljar.deb")).expect("the package is copied");
    let (file, context) = (plain(&container_file()), plain(&context));
    let build = ["build", "--isolation", "chroot", "--pull-never"];
    let what = ["--file", &file, "--tag", "belljar", &context];
    store.call(&[&build[..], &what].concat());

    let entry = ["inspect", "--type", "image", "--format"];
    let entry = [&entry[..], &["{{.OCIv1.Config.Entrypoint}}", "belljar"]].concat();
    assert_eq!(store.call(&entry), "[/usr/bin/belljar]");
    let own = store.call(&["from", "--pull-never", "belljar"]);
    let images = format!("{}:/root/.cache/belljar", plain(&cache()));
    let run = ["run", "--isolation", "chroot", "--volume", &images, &own];
    let told = store.call(&[&run[..], &["sh", "-c", RUN]].concat());
    assert!(told.contains("2 nodes"), "{told}");
}

/// A store of container images of a test's own.
struct Store {
    folder: PathBuf,
    driver: &'static str,
}

impl Store {
    /// Its images are overlaid if the kernel permits it, otherwise copied.
    fn new(dir: &Dir) -> Self {
        let overlay = Self {
            folder: dir.path("containers-overlay"),
            driver: "overlay",
        };
        let usable = overlay.buildah(&["info"]).output();
        if usable.is_ok_and(|ended| ended.status.success()) {
            return overlay;
        }
        Self {
            folder: dir.path("containers-vfs"),
            driver: "vfs",
        }
    }

    fn buildah(&self, words: &[&str]) -> Command {
        let mut buildah = Command::new("buildah");
        buildah.args(["--storage-driver", self.driver, "--root"]);
        buildah.arg(self.folder.join("root")).arg("--runroot");
        buildah.arg(self.folder.join("run")).args(words);
        // Its temporary files are removed with the store.
        buildah.env("TMPDIR", self.folder.parent().expect("a folder"));
        buildah
    }

    /// Runs buildah; returns its standard output.
    fn call(&self, words: &[&str]) -> String {
        done(&mut self.buildah(words)).trim_end().to_owned()
    }
}

fn plain(path: &Path) -> String {
    path.to_str().expect("a plain path").to_owned()
}

fn container_file() -> PathBuf {
    root().join("xtask/package/Containerfile")
}

/// The commands of the container file.
fn installation() -> String {
    let text = std::fs::read_to_string(container_file()).expect("the container file");
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
    let mut chroot = Command::new("chroot");
    chroot.arg(debian).args(["sh", "-ec", command]);
    done(chroot.env("DEBIAN_FRONTEND", "noninteractive"));
}

/// Runs a command in a mount namespace, whose mounts end with it.
fn namespaced(command: &str) -> String {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "sh", "-ec", command]);
    done(unshare.env("HOME", "/root").env_remove("XDG_CACHE_HOME"))
}

/// Runs a program that succeeds; returns its standard output.
fn done(command: &mut Command) -> String {
    let ended = command.output().expect("the program starts");
    let [told, errors] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(ended.status.success(), "{command:?}: {told}{errors}");
    told.into_owned()
}
