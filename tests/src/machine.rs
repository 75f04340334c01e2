//! A machine with KVM for tests.
//!
//! QEMU's emulated processor has AMD's virtualisation, and Linux in it a genuine `/dev/kvm`. Without a
//! recent QEMU a test is skipped. The script's result files are copied back.
// Host time limits the wait for a machine.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::{Dir, root};

const QEMU: &str = "qemu-system-x86_64";
/// The first version whose emulated virtualisation has hardware breakpoints.
const LEAST_VERSION: u32 = 10;
/// Default host time limit of the machine.
const PATIENCE: Duration = Duration::from_mins(15);
/// Number of shown console lines of a machine that failed.
const TAIL: usize = 60;
/// Kernel options of the machine. They make it trust the time stamp counter, as KVM would use another clock
/// otherwise; avoid a panic if a busy host delays the timer during its check; and disable features that are
/// slow on an emulated processor.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check \
     no5lvl mitigations=off nowatchdog";
/// Size of the disk for results, in bytes; unwritten parts cost nothing.
const RESULTS_BYTES: u64 = 1 << 30;
/// Sets up the command under test inside: on a separate disk, with the host's libraries.
const PRELUDE: &str = "export XDG_CACHE_HOME=/tmp/cache
mkdir -p /tmp/cache/belljar
ln -s /given/cache /tmp/cache/belljar/images
mount -t tmpfs tmpfs /lib64
cp /given/lib/ld-linux-x86-64.so.2 /lib64/
export LD_LIBRARY_PATH=/given/lib
belljar() { /given/belljar \"$@\"; }
";

/// The machine before its start.
#[derive(Debug)]
pub struct Machine<'a> {
    dir: &'a Dir,
    work: PathBuf,
    patience: Duration,
}

/// The results of the machine.
#[derive(Debug)]
pub struct Returned {
    /// The script's output.
    pub output: String,
    /// Its exit code.
    pub code: String,
}

impl<'a> Machine<'a> {
    /// A machine with the command under test, the images' recipes and the image of `recipe`. `None`, with a
    /// message, without a recent QEMU.
    pub fn new(dir: &'a Dir, recipe: &str) -> Option<Self> {
        match qemu_version() {
            Some(version) if version >= LEAST_VERSION => {}
            found => {
                let found = found.map_or("none".to_owned(), |version| version.to_string());
                eprintln!(
                    "SKIPPED: testing the kvm engine takes {QEMU} of version {LEAST_VERSION} or newer, and there is {found}; Debian 12 has it in bookworm-backports"
                );
                return None;
            }
        }
        let work = dir.path("work");
        fs::create_dir_all(work.join("cache")).expect("the temporary folder is writable");
        copy(&root().join("images"), &work.join("images"));
        let image = dir.image(recipe);
        copy(&image, &work.join("cache").join(image.file_name()?));
        fs::copy(dir.binary(), work.join("belljar")).expect("the binary can be copied");
        copy_libraries(dir.binary(), &work.join("lib"));
        Some(Self {
            dir,
            work,
            patience: PATIENCE,
        })
    }

    /// Sets another host time limit.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Writes a file that the script finds as `/given/NAME`.
    pub fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).expect("the temporary folder is writable");
    }

    /// The path here of the script's `/given/NAME`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Boots it and runs `script`, in which `belljar` is the command under test; files in the script's
    /// working folder are copied to `results`.
    pub fn run(&self, script: &str, results: &str) -> Returned {
        self.write("run", &format!("{PRELUDE}{script}"));
        let disk = self.dir.path("work.erofs");
        let made = Command::new("mkfs.erofs")
            .args([&disk, &self.work])
            .stdout(Stdio::null())
            .status();
        assert!(made.expect("mkfs.erofs starts").success());
        let archive = self.dir.path(&format!("{results}.tar"));
        let file = fs::File::create(&archive).expect("the temporary folder is writable");
        file.set_len(RESULTS_BYTES).expect("the host allows holes");
        let ended = self.boot(&disk, &archive);
        let folder = self.dir.path(results);
        fs::create_dir_all(&folder).expect("the temporary folder is writable");
        let unpacked = Command::new("tar")
            .args(["--extract", "--file"])
            .args([&archive])
            .arg("--directory")
            .arg(&folder)
            .status();
        let came_back = unpacked.expect("tar starts").success();
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let code = text("code").trim().to_owned();
        assert!(
            came_back && !code.is_empty(),
            "the machine ended before its script did; {QEMU}: {ended}; its console ends with:\n{}",
            self.console_tail()
        );
        Returned {
            output: text("output"),
            code,
        }
    }

    /// The end of the kernel's console output.
    fn console_tail(&self) -> String {
        let said = fs::read(self.dir.path("console")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = said.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// Runs QEMU to its end.
    fn boot(&self, disk: &Path, archive: &Path) -> ExitStatus {
        let image = self.dir.image("kvm-host");
        let drive = |path: &Path, more: &str| {
            let path = path.to_str().expect("a plain path");
            format!("if=virtio,format=raw,file={path}{more}")
        };
        let console = self.dir.path("console");
        let output = fs::File::create(&console).expect("the temporary folder is writable");
        let mut qemu = Command::new(QEMU)
            .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-M", "q35"])
            .args(["-m", "2G", "-smp", "1", "-nodefaults", "-no-reboot"])
            .args(["-display", "none", "-serial", "stdio"])
            .args(["-append", COMMAND_LINE])
            .arg("-kernel")
            .arg(image.join("vmlinuz"))
            .arg("-initrd")
            .arg(image.join("initrd.cpio"))
            .args(["-drive", &drive(&image.join("root.erofs"), ",readonly=on")])
            .args(["-drive", &drive(disk, ",readonly=on")])
            .args(["-drive", &drive(archive, "")])
            .stdin(Stdio::null())
            .stdout(output)
            .spawn()
            .expect("qemu starts");
        let started = Instant::now();
        loop {
            if let Some(status) = qemu.try_wait().expect("qemu is our child") {
                return status;
            }
            let patience = self.patience;
            if started.elapsed() > patience {
                // It may have ended meanwhile.
                let _ = qemu.kill();
                let _ = qemu.wait();
                panic!(
                    "the machine did not end within {patience:?}; its console ends with:\n{}",
                    self.console_tail()
                );
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Dir {
    /// The folder of the image of `recipe`, which is built if it is missing.
    pub fn image(&self, recipe: &str) -> PathBuf {
        let recipe = root().join(format!("images/{recipe}.toml"));
        let recipe = recipe.to_str().expect("a plain path");
        let (printed, error, code) = self.call(&["image", "build", "--keep-lock", recipe]);
        assert_eq!(code, Some(0), "{error}");
        PathBuf::from(printed.trim())
    }
}

/// The first number of QEMU's version; `None` without QEMU.
fn qemu_version() -> Option<u32> {
    let output = Command::new(QEMU).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split("version ").nth(1)?;
    number.split('.').next()?.parse().ok()
}

/// Copies a folder with its content.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .args(["--recursive", "--no-target-directory"])
        .args([from, to])
        .status();
    assert!(done.expect("cp starts").success());
}

/// Copies the shared libraries of `binary`, and their loader.
fn copy_libraries(binary: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the temporary folder is writable");
    let output = Command::new("ldd")
        .arg(binary)
        .output()
        .expect("ldd starts");
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    for path in listing
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
    {
        let name = Path::new(path).file_name().expect("a library's name");
        fs::copy(path, to.join(name)).expect("the library can be copied");
    }
}
