//! Nodes on unmodified container images and root file systems, which have no part of this project.
//!
//! The file systems are made here from images of recipes, by the usual tools: an archive of `docker save` with two layers, a
//! compressed root file system, and a folder with musl. Files, owners and variables on nodes are the container's, calls are traced,
//! two runs have the same bytes, and programs that cannot run are refused before the run.

use std::fs;
use std::path::Path;
use std::process::Command;

use belljar_tests::{Dir, Scenario, root};

/// Every rank prints the sum of all ranks' numbers.
const SUM: &str = "
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words)
{
    int rank, sum = 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf(\"sum %d\\n\", sum);
    MPI_Finalize();
    return 0;
}
";

/// Runs shell commands in `dir`.
fn shell(dir: &Dir, commands: &str) -> String {
    let mut sh = Command::new("sh");
    sh.current_dir(dir.path("")).args(["-euc", commands]);
    let output = sh.output().expect("the host has a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{commands}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn has(tool: &str, package: &str) -> bool {
    let looks = format!("command -v {tool}");
    let found = Command::new("sh").args(["-c", &looks]).output();
    let has = found.is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("SKIPPED: {tool} is not installed (apt install {package})");
    }
    has
}

/// Puts the root file system of a recipe's image into `root` of `dir`, without this project's files.
pub(crate) fn unpack(dir: &Dir, recipe: &str) {
    let recipe = root().join(format!("images/{recipe}.toml"));
    let (stdout, stderr, code) = dir.call(&["image", "build", "--keep-lock", text(&recipe)]);
    assert_eq!(code, Some(0), "{stderr}");
    let image = stdout.lines().last().expect("the image's folder");
    shell(
        dir,
        &format!(
            "fsck.erofs --extract=root '{image}/root.erofs' >/dev/null\n\
             rm -rf root/sbin/init root/usr/bin/belljar-* root/usr/lib/belljar\n\
             rm root/etc/hosts root/etc/ld.so.preload"
        ),
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Makes the archive `name` from the folders `root` and `more`, as `docker save` does. It has two layers, one
/// of them compressed; the second removes a file and sets a variable.
pub(crate) fn docker_archive(dir: &Dir, name: &str) {
    shell(
        dir,
        &format!(
            r#"
mkdir -p more/opt/own/bin more/usr/local/bin more/tmp/app more/run/app
echo temporary >more/tmp/app/data
echo running >more/run/app/data
printf '#!/bin/sh\necho own program of $VERSION\n' >more/opt/own/bin/own
chmod 755 more/opt/own/bin/own
: >more/usr/local/bin/.wh.incast
tar --sort=name --mtime=@1 --owner=0 --group=0 --numeric-owner -C root -cf one.tar .
tar --sort=name --mtime=@2 --owner=7 --group=8 --numeric-owner -C more -cf two.tar .
one=$(sha256sum one.tar | cut -d ' ' -f 1) two=$(sha256sum two.tar | cut -d ' ' -f 1)
mkdir -p save/$one save/$two
mv one.tar save/$one/layer.tar
gzip -n <two.tar >save/$two/layer.tar
cat >config <<END
{{"architecture":"amd64","os":"linux","config":{{"Env":["PATH=/opt/own/bin:/usr/local/bin:/usr/bin:/bin","VERSION=seven","RULES=allow a\nallow b"],"WorkingDir":"/opt/own"}},"rootfs":{{"type":"layers","diff_ids":["sha256:$one","sha256:$two"]}}}}
END
id=$(sha256sum config | cut -d ' ' -f 1)
mv config save/$id.json
cat >save/manifest.json <<END
[{{"Config":"$id.json","RepoTags":["solver:v7"],"Layers":["$one/layer.tar","$two/layer.tar"]}}]
END
tar --sort=name --mtime=@3 -C save -cf {name} .
rm -rf save root more two.tar
"#
        ),
    );
}

fn build(dir: &Dir, image: &str) -> String {
    let (stdout, stderr, code) = dir.call(&["image", "build", image]);
    assert_eq!(code, Some(0), "{stderr}");
    stdout
        .lines()
        .last()
        .expect("the image's folder")
        .to_owned()
}

#[test]
fn a_docker_archive_with_mpich_runs_and_is_traced() {
    let Some(dir) = Dir::new() else { return };
    if !has("fsck.erofs", "erofs-utils") {
        return;
    }
    unpack(&dir, "bookworm-mpich");
    docker_archive(&dir, "solver.tar");
    let folder = build(&dir, "solver.tar");
    let manifest = fs::read_to_string(Path::new(&folder).join("manifest.toml")).expect("reads");
    assert!(manifest.contains("[container]"), "{manifest}");
    assert!(!manifest.contains("tree = \"root\""), "{manifest}");
    let (_, stderr, code) = dir.call(&["image", "verify", "solver.tar"]);
    assert_eq!(code, Some(0), "{stderr}");
    let command = "set -e\n\
        own\n\
        [ ! -e /usr/local/bin/incast ]\n\
        stat -c '%u %g %a %Y' /opt/own/bin/own\n\
        echo kept >/usr/new && cat /usr/new\n\
        echo written >/tmp/new && cat /tmp/new /tmp/app/data /run/app/data\n\
        echo \"$RULES\"\n\
        mpiexec -n 2 hello\n\
        echo result >result.dat\n";
    let scenario = Scenario::new(2, command).on_root(&dir.path("solver.tar"));
    let scenario = scenario.working("outputs = [\"*.dat\"]");
    let outcome = dir.run(&scenario, "out", &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let said = outcome.text("stdout");
    assert!(
        said.starts_with(
            "own program of seven\n7 8 755 2\nkept\nwritten\ntemporary\nrunning\nallow a\nallow b\n"
        ),
        "{said}"
    );
    assert_eq!(said.matches("of 2 on node").count(), 2, "{said}");
    assert_eq!(outcome.text("files/node0/result.dat"), "result\n");
    let (listed, stderr, code) = dir.call(&["trace", "stat", "out"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(listed.contains("MPI_Init"), "{listed}");
    let again = dir.run(&scenario, "again", &["--threads", "2"]);
    outcome.assert_same(&again);
}

#[test]
fn a_compressed_root_file_system_with_open_mpi_runs_by_mpirun() {
    let Some(dir) = Dir::new() else { return };
    if !has("fsck.erofs", "erofs-utils") || !has("mpicc.openmpi", "libopenmpi-dev") {
        return;
    }
    unpack(&dir, "bookworm-openmpi");
    dir.write("sum.c", SUM);
    shell(
        &dir,
        "mpicc.openmpi -o sum sum.c\n\
         tar -C root -czf root.tar.gz .",
    );
    build(&dir, "root.tar.gz");
    let words = "mpirun --quiet --image root.tar.gz --out out -np 3 ./sum";
    let words: Vec<&str> = words.split(' ').collect();
    let (stdout, stderr, code) = dir.call(&words);
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    let outcome = dir.outcome("out");
    assert_eq!(outcome.text("stdout"), "sum 3\n".repeat(3));
    let (listed, ..) = dir.call(&["trace", "stat", "out"]);
    assert!(listed.contains("MPI_Allreduce"), "{listed}");
}

#[test]
fn a_folder_with_musl_and_no_glibc_runs() {
    let Some(dir) = Dir::new() else { return };
    if !has("musl-gcc", "musl-tools") || !has("fsck.erofs", "erofs-utils") {
        return;
    }
    unpack(&dir, "bookworm-mpich");
    dir.write(
        "say.c",
        "#include <stdio.h>\nint main(void) { puts(\"from musl\"); return 0; }\n",
    );
    shell(
        &dir,
        "mv root full; mkdir -p root/bin root/lib root/usr/bin\n\
         mv full/bin/busybox root/bin/; rm -r full\n\
         musl-gcc -o root/usr/bin/say say.c\n\
         cp -L /lib/ld-musl-x86_64.so.1 root/lib/\n\
         ln -s busybox root/bin/sh; ln -s busybox root/bin/uname",
    );
    build(&dir, "root");
    let scenario = Scenario::new(1, "say && uname -n").on_root(&dir.path("root"));
    let outcome = dir.run(&scenario, "out", &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.text("stdout"), "from musl\nnode0\n");
    // Slurm brings its own C library.
    let command = "srun -n 2 -N 2 say && srun -N 1 -w node1 uname -n";
    let scenario = Scenario::new(2, command).on_root(&dir.path("root"));
    let outcome = dir.run(&scenario.with("[slurm]"), "steps", &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.text("stdout"), "from musl\nfrom musl\nnode1\n");
}

#[test]
fn what_cannot_be_run_is_said_before() {
    let Some(dir) = Dir::new() else { return };
    shell(
        &dir,
        "mkdir -p empty/etc oci\n\
         echo '{\"imageLayoutVersion\":\"1.0.0\"}' >oci/oci-layout\n\
         echo '{\"schemaVersion\":2,\"manifests\":[]}' >oci/index.json",
    );
    let said = |arguments: &[&str]| {
        let (_, stderr, code) = dir.call(arguments);
        assert_ne!(code, Some(0), "{arguments:?}");
        stderr
    };
    let run = |image: &str| {
        let scenario = Scenario::new(1, "true").on_root(&dir.path(image));
        dir.write("x.toml", &scenario.text());
        said(&["check", "x.toml"])
    };
    let error = run("empty");
    assert!(error.contains("belljar image build"), "{error}");
    build(&dir, "empty");
    let error = run("empty");
    assert!(error.contains("/bin/sh"), "{error}");
    let error = said(&["image", "build", "oci"]);
    assert!(error.contains("oci"), "{error}");
    dir.write(
        "two.toml",
        "name = \"two\"\nroot = { path = \"empty\" }\nuserland = { packages = [\"bash\"] }\n",
    );
    let error = said(&["image", "build", "two.toml"]);
    assert!(error.contains("nothing is added"), "{error}");
}

/// Enables tests with whole distributions, which take minutes and need a mirror.
const WHOLE: &str = "BELLJAR_ROOTS";

/// Makes the root file system of a whole Debian with these packages, and runs a program with its MPI that was
/// compiled here.
fn runs_on_a_whole_debian(suite: &str, mpi: &str, packages: &str) {
    let Some(dir) = Dir::new() else { return };
    if std::env::var_os(WHOLE).is_none() {
        eprintln!("SKIPPED: it takes minutes; run it with: cargo xtask test containers");
        return;
    }
    let compiler = format!("mpicc.{mpi}");
    if !has("mmdebstrap", "mmdebstrap") || !has(&compiler, "libmpich-dev libopenmpi-dev") {
        return;
    }
    dir.write("sum.c", SUM);
    shell(
        &dir,
        &format!(
            "{compiler} -o sum sum.c\n\
             mmdebstrap --quiet --variant=minbase --include={packages} {suite} root.tar"
        ),
    );
    build(&dir, "root.tar");
    let words = "mpirun --quiet --image root.tar --out out -np 4 -ppn 2 ./sum";
    let words: Vec<&str> = words.split(' ').collect();
    let (stdout, stderr, code) = dir.call(&words);
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    assert_eq!(dir.outcome("out").text("stdout"), "sum 6\n".repeat(4));
    let (listed, ..) = dir.call(&["trace", "stat", "out"]);
    assert!(listed.contains("MPI_Allreduce"), "{listed}");
    let between = "ssh node1 cat /proc/sys/kernel/hostname";
    let scenario = Scenario::new(2, between).on_root(&dir.path("root.tar"));
    let run = dir.run(&scenario, "shell", &[]).success();
    assert_eq!(run.text("stdout"), "node1\n", "its own sshd answers");
}

#[test]
fn a_whole_debian_12_runs() {
    runs_on_a_whole_debian("bookworm", "openmpi", "openmpi-bin,openssh-server");
}

#[test]
fn a_whole_debian_13_runs() {
    runs_on_a_whole_debian("trixie", "mpich", "mpich,openssh-server");
}
