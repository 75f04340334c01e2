//! The files of a lab's hosts: users, keys, the settings of Slurm, munge and sshd.
//!
//! All are made anew for each lab, including keys, and concern its own network only. Called once,
//! before any host starts.

use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// The inner network, which is not visible outside.
const NETWORK: [u8; 3] = [10, 77, 0];

/// The address of the host of this number, from 1 on.
pub(super) fn address(number: usize) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    let number = u8::try_from(number).expect("a lab has few hosts");
    Ipv4Addr::new(a, b, c, number)
}

/// Writes all files for hosts with these names; the first one is the head.
pub(super) fn write(folder: &Path, names: &[String]) {
    let put = |name: &str, text: &str| put(&folder.join(name), text, 0o644);
    let mut hosts = "127.0.0.1 localhost\n".to_owned();
    for (name, number) in names.iter().zip(1..) {
        hosts.push_str(&format!("{} {name}\n", address(number)));
    }
    put("hosts", &hosts);
    put("slurm/slurm.conf", &slurm(&names[1..], folder));
    put("sshd_config", &sshd(folder));
    put_secret(folder);
    for name in names {
        let home = folder.join(name).join("home");
        fs::create_dir_all(home.join(".ssh")).expect("the temporary folder is writable");
        put(&format!("{name}/passwd"), &passwd(&home));
        key(&folder.join(name).join("host_key"));
    }
    log_ins(folder, names);
}

fn put(path: &Path, text: &str, mode: u32) {
    let parent = path.parent().expect("a file has a folder");
    fs::create_dir_all(parent).expect("the temporary folder is writable");
    fs::write(path, text).expect("the temporary folder is writable");
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, mode).expect("the file is our own");
}

/// munge's key.
fn put_secret(folder: &Path) {
    const BYTES: usize = 64;
    let mut key = [0; BYTES];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut key))
        .expect("the host has random numbers");
    let mut file = fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join("munge.key"))
        .expect("the temporary folder is writable");
    std::io::Write::write_all(&mut file, &key).expect("the temporary folder is writable");
}

fn slurm(hosts: &[String], folder: &Path) -> String {
    format!(
        "ClusterName=lab
SlurmctldHost=head
AuthType=auth/munge
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/head/slurmctld.log
SlurmdLogFile={folder}/%n/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
EnforcePartLimits=ALL
ReturnToService=2
SlurmdTimeout=2
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName={hosts} CPUs=4 RealMemory=8192 State=UNKNOWN
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP
",
        folder = folder.display(),
        hosts = hosts.join(","),
    )
}

fn sshd(folder: &Path) -> String {
    format!(
        "Port 22
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile /run/sshd.pid
AuthorizedKeysFile {}/authorized_keys
Subsystem sftp internal-sftp
",
        folder.display()
    )
}

/// Users, with root's home at `home`.
fn passwd(home: &Path) -> String {
    let users = fs::read_to_string("/etc/passwd").expect("the host has users");
    let root = format!("root:x:0:0:root:{}:/bin/sh\n", home.display());
    let others = users.lines().filter(|line| !line.starts_with("root:"));
    others.fold(root, |text, line| text + line + "\n")
}

/// A new key and its public half.
fn key(path: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f"])
        .arg(path)
        .status();
    assert!(made.expect("ssh-keygen starts").success());
}

/// The head's user may log in everywhere, and has all hosts' keys, under hashed names.
fn log_ins(folder: &Path, names: &[String]) {
    let ssh = folder.join(&names[0]).join("home/.ssh");
    key(&ssh.join("id_ed25519"));
    let read = |path: &Path| fs::read_to_string(path).expect("a public key was made");
    let own = read(&ssh.join("id_ed25519.pub"));
    put(&folder.join("authorized_keys"), &own, 0o644);
    let known: String = names
        .iter()
        .map(|name| format!("{name} {}", read(&folder.join(name).join("host_key.pub"))))
        .collect();
    let path = ssh.join("known_hosts");
    put(&path, &known, 0o600);
    let hashed = Command::new("ssh-keygen")
        .args(["-q", "-H", "-f"])
        .arg(&path)
        .output();
    assert!(hashed.expect("ssh-keygen starts").status.success());
}
