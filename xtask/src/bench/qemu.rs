//! The peer: QEMU's system emulation in counted mode, on Belljar's kernel, image and run disk.
//!
//! Both run the same bytes, so that only the emulation differs. Called by the benchmarks `engine` and
//! `hpl`.

use std::path::Path;
use std::process::Command;

/// A guest of QEMU.
pub(super) struct Machine<'a> {
    /// Folder of kernel, initrd and root file system.
    pub image: &'a Path,
    /// The run disk, as `belljar check --run-disk` writes it.
    pub disk: &'a Path,
    /// The guest's processor: x86-64-v2 or x86-64-v3.
    pub level: &'a str,
    pub memory_mib: u32,
    /// Its number, and the number of nodes.
    pub node: (u32, u32),
    pub link: GuestConnection,
    /// Destination of the console.
    pub console: Option<&'a Path>,
}

/// Connection of a guest to others.
pub(super) enum GuestConnection {
    /// A single guest. While it waits, its time jumps ahead.
    None,
    /// All guests use this port of the host's loopback multicast. Time passes while a guest waits for
    /// others.
    Multicast { port: u16 },
}

impl Machine<'_> {
    pub(super) fn command(&self) -> Command {
        let mut qemu = Command::new("qemu-system-x86_64");
        let cpu = match self.level {
            "x86-64-v3" => "Haswell,+rdrand,-hle,-rtm,-pcid,-invpcid,-tsc-deadline",
            _ => "Westmere,+rdrand",
        };
        let alone = matches!(self.link, GuestConnection::None);
        let count = if alone {
            "shift=0,sleep=off"
        } else {
            "shift=0,sleep=on"
        };
        qemu.args(["-M", "microvm,acpi=on", "-cpu", cpu, "-accel", "tcg"])
            .args(["-icount", count, "-m", &self.memory_mib.to_string()])
            .args(["-nodefaults", "-no-reboot", "-display", "none"])
            .args(["-kernel", &self.file("vmlinuz")])
            .args(["-initrd", &self.file("initrd.cpio")])
            .args(["-append", &self.command_line()]);
        let disks = [
            ("root", self.file("root.erofs")),
            ("run", self.disk.display().to_string()),
        ];
        for (id, file) in disks {
            let drive = format!("id={id},if=none,format=raw,readonly=on,file={file}");
            let device = format!("virtio-blk-device,drive={id}");
            qemu.args(["-drive", &drive, "-device", &device]);
        }
        qemu.args(["-device", "virtio-serial-device"])
            .args(["-chardev", "null,id=control"])
            .args(["-device", "virtconsole,chardev=control"])
            // The workload's standard output and error.
            .args(["-device", "virtconsole,chardev=console"])
            .args(["-device", "virtconsole,chardev=console"])
            .args(["-device", "virtio-rng-device"]);
        self.connect(&mut qemu);
        qemu
    }

    fn file(&self, name: &str) -> String {
        self.image.join(name).display().to_string()
    }

    fn command_line(&self) -> String {
        let (node, nodes) = self.node;
        format!(
            "console=ttyS0 tsc=reliable mitigations=off nokaslr random.trust_cpu=on \
             belljar.node={node} belljar.nodes={nodes}"
        )
    }

    fn connect(&self, qemu: &mut Command) {
        let console = self.console.map_or_else(
            || "null,id=console,mux=on".to_owned(),
            |console| format!("file,id=console,mux=on,path={}", console.display()),
        );
        let network = match self.link {
            GuestConnection::None => "hubport,id=net,hubid=0".to_owned(),
            GuestConnection::Multicast { port } => {
                format!("socket,id=net,mcast=239.255.77.77:{port},localaddr=127.0.0.1")
            }
        };
        let device = format!(
            "virtio-net-device,netdev=net,mac=52:54:00:00:00:{:02x}",
            self.node.0 + 1
        );
        qemu.args(["-chardev", &console, "-serial", "chardev:console"])
            .args(["-netdev", &network, "-device", &device]);
    }
}
