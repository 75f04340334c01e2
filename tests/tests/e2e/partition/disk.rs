//! A disk that fills up during a checkpoint: the run ends in order and is resumed.

use std::process::Command;

use belljar_tests::Dir;

use super::{LOCAL, talking};

/// Runs `$1 run "$@"` on a small file system. Another process fills it at the run's fourth
/// checkpoint and frees space again. Then the script resumes the run and copies the results
/// out. The file system is in a mount namespace of its own, so it disappears with it.
const SCRIPT: &str = r#"
set -u
belljar=$1; shift
mount -t tmpfs -o size=512m disk disk || exit 77
"$belljar" run "$@" --out disk/out >ran 2>&1 &
run=$!
until ls disk/out.incomplete/checkpoint/*[4-9].checkpoint \
    disk/out.incomplete/checkpoint/[1-9][0-9]*.checkpoint 2>/dev/null | grep -q .; do
    kill -0 $run || exit 78
    sleep 0.05
done
dd if=/dev/zero of=disk/ballast bs=1M 2>/dev/null
wait $run
echo "code $?" >>ran
"$belljar" trace dump disk/out.incomplete >/dev/null 2>dumped || exit 79
rm disk/ballast
"$belljar" resume disk/out --quiet --launch alone >resumed 2>&1 || exit 80
cp -r disk/out out
"#;

/// A full disk ends a run in order, and with free space it continues from its checkpoint.
#[test]
fn a_full_disk_is_named_and_nothing_is_lost_by_it() {
    let Some(dir) = Dir::new() else { return };
    let namespace = Command::new("unshare").args(["-m", "true"]).status();
    if !namespace.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: a disk that fills up takes unshare and root");
        return;
    }
    let scenario = talking().with("[checkpoint]\nevery = \"20 ms\"");
    let whole = dir.run(&scenario, "whole", &["--pcap", "all"]).success();
    std::fs::create_dir(dir.path("disk")).unwrap();
    let file = dir.write("s.toml", &scenario.text());
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", SCRIPT, "sh"])
        .current_dir(dir.path("."))
        .arg(dir.binary())
        .args([file.to_str().unwrap(), "--quiet", "--pcap", "all"])
        .args(LOCAL)
        .args(["--hosts", "one,two"])
        .output()
        .expect("unshare starts");
    let said = |name: &str| std::fs::read_to_string(dir.path(name)).unwrap_or_default();
    let (ran, resumed) = (said("ran"), said("resumed"));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{ran:.2000}\n{resumed:.2000}"
    );
    assert!(ran.ends_with("code 1\n"), "{ran:.2000}");
    assert!(ran.contains("No space left on device"), "{ran:.2000}");
    assert!(ran.contains("belljar resume"), "{ran:.2000}");
    whole.assert_same(&dir.outcome("out"));
}
