//! A machine with KVM for tests.
//!
//! QEMU's emulated processor has AMD's virtualisation, and Linux in it a genuine `/dev/kvm`. A test without
//! a QEMU that is new enough skips. What a script leaves there comes back as files.
// How long a machine is waited for is the host's time.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::{Dir, root};

const QEMU: &str = "qemu-system-x86_64";
/// The first version whose emulated virtualisation knows hardware breakpoints.
const LEAST_VERSION: u32 = 10;
/// Host time after which the machine is given up, where nobody says.
const PATIENCE: Duration = Duration::from_mins(5);
/// Of the machine's console, the lines that are shown where it did not end well.
const TAIL: usize = 60;
/// What its kernel is told: to trust the time stamp counter, without which KVM goes by
/// another clock; not to panic where a busy host lets the timer tick late while it is
/// checked; and to leave out what costs an emulated processor much.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check \
     no5lvl mitigations=off nowatchdog";
/// Room for what comes back, in bytes; what is not written costs nothing.
const RESULTS_BYTES: u64 = 1 << 30;
/// The command under test inside: on a disk of its own, with the host's libraries.
const PRELUDE: &str = "export XDG_CACHE_HOME=/tmp/cache
mkdir -p /tmp/cache/belljar
ln -s /given/cache /tmp/cache/belljar/images
mount -t tmpfs tmpfs /lib64
cp /given/lib/ld-linux-x86-64.so.2 /lib64/
export LD_LIBRARY_PATH=/given/lib
belljar() { /given/belljar \"$@\"; }
";

/// The machine, before it is switched on.
#[derive(Debug)]
pub struct Machine<'a> {
    dir: &'a Dir,
    work: PathBuf,
    patience: Duration,
}

/// What came back from it.
#[derive(Debug)]
pub struct Returned {
    /// What the script printed.
    pub output: String,
    /// Its exit code.
    pub code: String,
}

impl<'a> Machine<'a> {
    /// A machine that has the command under test, the images' recipes and the image that
    /// `recipe` describes. `None`, said loudly, without a QEMU that is new enough.
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

    /// Not to be given up before so much host time.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Puts a file where the script finds it as `/given/NAME`.
    pub fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).expect("the temporary folder is writable");
    }

    /// The path here of what the script finds as `/given/NAME`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// Boots it and runs `script`, in which `belljar` is the command under test; what it
    /// leaves in its working folder comes back into `results`.
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

    /// The end of what the machine's kernel said.
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
    /// The folder of the image that `recipe` describes, which is built if need be.
    pub fn image(&self, recipe: &str) -> PathBuf {
        let recipe = root().join(format!("images/{recipe}.toml"));
        let recipe = recipe.to_str().expect("a plain path");
        let (printed, error, code) = self.call(&["image", "build", "--keep-lock", recipe]);
        assert_eq!(code, Some(0), "{error}");
        PathBuf::from(printed.trim())
    }
}

/// The first number of QEMU's version; `None` where there is none.
fn qemu_version() -> Option<u32> {
    let output = Command::new(QEMU).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split("version ").nth(1)?;
    number.split('.').next()?.parse().ok()
}

/// Copies a folder and all in it.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp")
        .args(["--recursive", "--no-target-directory"])
        .args([from, to])
        .status();
    assert!(done.expect("cp starts").success());
}

/// Copies the shared libraries that `binary` needs, and what loads them.
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
