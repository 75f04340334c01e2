//! Debian packages that the project's commands need on the host.
//!
//! Missing packages are installed after a message with their names and purposes; installed ones are not
//! changed. Called by the commands that build, test and measure.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::run;

/// A package, a file that shows its presence, and its purpose.
pub(crate) struct Package {
    name: &'static str,
    file: &'static str,
    why: &'static str,
}

const fn package(name: &'static str, file: &'static str, why: &'static str) -> Package {
    Package { name, file, why }
}

/// For building the project and guest images.
pub(crate) const BUILD: &[Package] = &[
    package(
        "gcc",
        "/usr/bin/cc",
        "links the binary and the preloaded library",
    ),
    package("libc6-dev", "/usr/include/stdio.h", "links the binary"),
    package(
        "libssl-dev",
        "/usr/include/openssl/ssl.h",
        "has the cryptography of ssh",
    ),
    package(
        "pkg-config",
        "/usr/bin/pkg-config",
        "tells the build where that is",
    ),
    package(
        "mmdebstrap",
        "/usr/bin/mmdebstrap",
        "resolves and unpacks the guest's Debian packages",
    ),
    package(
        "erofs-utils",
        "/usr/bin/mkfs.erofs",
        "writes the guest's root file system",
    ),
    package(
        "dpkg",
        "/usr/bin/dpkg-deb",
        "reads checksums out of packages",
    ),
    package(
        "debian-archive-keyring",
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        "has the keys that Debian's packages are signed with",
    ),
    package(
        "uidmap",
        "/usr/bin/newuidmap",
        "lets mmdebstrap work without root",
    ),
];

/// Additional packages for the tests.
pub(crate) const TEST: &[Package] = &[
    package(
        "mpich",
        "/usr/bin/mpiexec.hydra",
        "runs the preloaded library on the host",
    ),
    package(
        "libmpich-dev",
        "/usr/include/x86_64-linux-gnu/mpich/mpi.h",
        "has MPICH's prototypes",
    ),
    package(
        "libopenmpi-dev",
        "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h",
        "has Open MPI's prototypes",
    ),
    package(
        "gcc-multilib",
        "/usr/include/x86_64-linux-gnu/gnu/stubs-32.h",
        "builds 32-bit programs for the guests",
    ),
    package("acpica-tools", "/usr/bin/iasl", "checks the ACPI tables"),
    package(
        "musl-tools",
        "/usr/bin/musl-gcc",
        "builds programs without glibc",
    ),
    package(
        "squashfs-tools",
        "/usr/bin/mksquashfs",
        "packs file systems that are read",
    ),
    package(
        "python3-venv",
        "/usr/share/doc/python3-venv",
        "makes the environment of the Python package's tests",
    ),
    package(
        "otf2-tools",
        "/usr/bin/otf2-print",
        "reads archives of the Open Trace Format 2",
    ),
    package(
        "libsimgrid-dev",
        "/usr/bin/smpirun",
        "plays what traces are exported as",
    ),
    package("gdb", "/usr/bin/gdb", "debugs runs"),
    package("g++", "/usr/bin/g++", "builds motifs of models"),
    package("buildah", "/usr/bin/buildah", "builds the container"),
    package("chromium", "/usr/bin/chromium", "shows reports of runs"),
    package("nodejs", "/usr/bin/node", "tests the script of reports"),
    package("npm", "/usr/bin/npx", "gets what checks its types"),
];

/// For the benchmarks.
pub(crate) const BENCH: &[Package] = &[package(
    "qemu-system-x86",
    "/usr/bin/qemu-system-x86_64",
    "is what Belljar is measured against",
)];

/// For a lab of physical hosts on this one.
const LAB: &[Package] = &[
    package("slurmctld", "/usr/sbin/slurmctld", "is Slurm's controller"),
    package("slurmd", "/usr/sbin/slurmd", "is Slurm on a host"),
    package("slurm-client", "/usr/bin/srun", "asks Slurm for things"),
    package(
        "munge",
        "/usr/sbin/munged",
        "tells Slurm's parts who is who",
    ),
    package("openssh-server", "/usr/sbin/sshd", "lets ssh in"),
    package("openssh-client", "/usr/bin/ssh-keygen", "makes keys"),
    package("iproute2", "/usr/sbin/ip", "links the lab's hosts"),
];

/// The policy file by which installers decide about starting a service.
const SERVICE_POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs the packages of a lab without starting their services on this host. If that fails, or
/// without root, the tests that need them are skipped with a message.
pub(crate) fn ensure_lab() {
    if !is_root() {
        return;
    }
    let forbids = !Path::new(SERVICE_POLICY).exists() && forbid_services().is_ok();
    if let Err(error) = ensure(&[LAB]) {
        eprintln!("warning: there is no lab: {error:#}");
    }
    if forbids && let Err(error) = std::fs::remove_file(SERVICE_POLICY) {
        eprintln!("warning: cannot remove {SERVICE_POLICY}, without which services start: {error}");
    }
}

/// Prevents installers from starting services (101: not allowed).
fn forbid_services() -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(SERVICE_POLICY, "#!/bin/sh\nexit 101\n")?;
    std::fs::set_permissions(SERVICE_POLICY, std::fs::Permissions::from_mode(0o755))
}

/// Installs missing packages of `lists`, after a message with their names and purposes.
pub(crate) fn ensure(lists: &[&[Package]]) -> Result<()> {
    let missing: Vec<&Package> = lists
        .iter()
        .copied()
        .flatten()
        .filter(|package| !Path::new(package.file).exists())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("These Debian packages are missing and will be installed with apt-get:");
    for package in &missing {
        eprintln!("  {:<14} {}", package.name, package.why);
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("there is no apt-get here; install the packages above by the system's own means");
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    apt(&["update"])?;
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(names);
    apt(&arguments)
}

/// As root, or through sudo.
fn apt(arguments: &[&str]) -> Result<()> {
    if is_root() {
        return run("apt-get", arguments);
    }
    let mut with_sudo = vec!["apt-get"];
    with_sudo.extend_from_slice(arguments);
    run("sudo", &with_sudo)
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}

/// The suite with a recent QEMU for Debian 12.
const BACKPORTS: &str = "bookworm-backports";
/// apt's folder of sources, and the file that is added to it.
const SOURCES: &str = "/etc/apt/sources.list.d";
const OUR_SOURCE: &str = "bookworm-backports.sources";

/// Installs a QEMU whose emulated processor has virtualisation with hardware breakpoints, from Debian's
/// backports if necessary. If that fails, the tests that need it are skipped with a message.
pub(crate) fn ensure_new_qemu() {
    const NEW_ENOUGH: u32 = 10;
    if qemu_version().is_some_and(|version| version >= NEW_ENOUGH) {
        return;
    }
    eprintln!("Testing the kvm engine takes QEMU {NEW_ENOUGH} or newer; trying {BACKPORTS}");
    if let Err(error) = install_from_backports() {
        eprintln!("warning: there is no new QEMU: {error:#}");
    }
}

fn qemu_version() -> Option<u32> {
    let output = Command::new("qemu-system-x86_64").arg("--version").output();
    let text = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    let number = text.split("version ").nth(1)?;
    number.split('.').next()?.parse().ok()
}

/// Adds the source next to apt's source of the release, on the same mirror.
fn install_from_backports() -> Result<()> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    if release.contains("VERSION_CODENAME=bookworm") {
        let added = Path::new(SOURCES).join(OUR_SOURCE);
        if !added.exists() {
            std::fs::write(&added, backports(&mirror()))
                .with_context(|| format!("cannot write {}", added.display()))?;
        }
        apt(&["update"])?;
        return apt(&[
            "install",
            "--yes",
            "--no-install-recommends",
            "--target-release",
            BACKPORTS,
            "qemu-system-x86",
        ]);
    }
    apt(&["update"])?;
    apt(&[
        "install",
        "--yes",
        "--no-install-recommends",
        "qemu-system-x86",
    ])
}

fn backports(mirror: &str) -> String {
    format!(
        "Types: deb\nURIs: {mirror}\nSuites: {BACKPORTS}\nComponents: main\n\
         Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )
}

/// The mirror that apt uses for the release.
fn mirror() -> String {
    const DEFAULT: &str = "http://deb.debian.org/debian";
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", "$(SITE) $(RELEASE) $(REPO_URI)"])
        .output();
    let listed = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let found = listed.ok().and_then(|lines| {
        let line = lines.lines().find(|line| line.contains(" bookworm "))?;
        Some(line.split(' ').nth(2)?.trim_end_matches('/').to_owned())
    });
    found.unwrap_or_else(|| DEFAULT.to_owned())
}
