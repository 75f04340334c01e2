//! The host as the reference for traced nodes: an image's files, executed by the host's kernel and
//! processor.
//!
//! The image is unpacked into the test's folder and entered as a root in namespaces of its own. So
//! programs and libraries have the same content on both sides, and cannot access the host's files.

use std::path::{Path, PathBuf};
use std::process::Command;

use belljar_tests::Dir;

/// Sets up the host for a script of jobs: one node with all ranks, whose libraries select the code for
/// a processor of level x86-64-v2, as on the nodes. A job has enough time for a busy host.
pub(crate) const PLACE: &str = "patience=1200 output=/dev/null finish=/usr/lib/belljar/finish-mpi.so\n\
    export UCX_TLS=tcp,self UCX_NET_DEVICES=lo HYDRA_LAUNCHER=fork\n\
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n\
    export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo\n\
    export OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_hwloc_base_binding_policy=none\n\
    export OMPI_MCA_plm_rsh_agent=belljar-rsh\n\
    export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX512F,-FMA,-FMA4 OPENBLAS_CORETYPE=Nehalem\n\
    echo localhost slots=16 >hosts\n\
    others=\n";

/// Enters the folder `$1` as root and runs the script `$2` there, with the file `$3`, if there is one.
const ENTER: &str = "set -e
mount --rbind /dev \"$1/dev\"
mount --rbind /proc \"$1/proc\"
mount --rbind /sys \"$1/sys\"
for folder in root run tmp var; do mount -t tmpfs tmpfs \"$1/$folder\"; done
cp \"$2\" \"$1/tmp/script\"
[ -z \"$3\" ] || cp \"$3\" \"$1/root\"
ip link set lo up 2>/dev/null || true
echo \"127.0.0.1 localhost $(cat /proc/sys/kernel/hostname)\" >\"$1/run/hosts\"
exec chroot \"$1\" /bin/sh -c 'cd /root; export HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin; exec /bin/sh /tmp/script </dev/null'";

/// An unpacked image.
pub(crate) struct Native {
    root: PathBuf,
    script: PathBuf,
}

impl Native {
    /// Unpacks the image of `recipe`. `None`, with a message, if namespaces are not available.
    pub(crate) fn new(dir: &Dir, recipe: &str) -> Option<Self> {
        let able = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "true"])
            .output();
        if !able.is_ok_and(|output| output.status.success()) {
            eprintln!(
                "SKIPPED: programs cannot be run natively for want of user and mount namespaces; as root, or where \
                 the kernel allows users namespaces, they can"
            );
            return None;
        }
        let root = dir.path("native");
        let image = dir.image(recipe).join("root.erofs");
        let unpacked = Command::new("fsck.erofs")
            .arg(format!("--extract={}", root.display()))
            .arg("--no-preserve-owner")
            .arg(&image)
            .output()
            .expect("fsck.erofs starts");
        assert!(
            unpacked.status.success(),
            "fsck.erofs cannot unpack {}: {}",
            image.display(),
            String::from_utf8_lossy(&unpacked.stderr)
        );
        let script = dir.path("native-script");
        Some(Self { root, script })
    }

    /// The text of a file of the image.
    pub(crate) fn read(&self, path: &str) -> String {
        let path = self.root.join(path);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    }

    /// True if the image has this file.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Runs a script in the image, with `file` in its folder; returns its output.
    pub(crate) fn run(&self, script: &str, file: Option<&Path>) -> String {
        std::fs::write(&self.script, script).expect("the temporary folder is writable");
        let output = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "--net"])
            .args(["sh", "-c", ENTER, "sh"])
            .args([&self.root, &self.script])
            .arg(file.unwrap_or(Path::new("")))
            .output()
            .expect("unshare starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            !output.stdout.is_empty(),
            "the native script printed nothing: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }
}
