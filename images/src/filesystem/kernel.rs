//! The distribution's kernel: its image, and the modules that a guest needs before its root.
//!
//! A chroot without exactly one kernel is an error, and each module is listed after its dependencies.
//! Called once for each build.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use crate::debian::chroot::{Chroot, ChrootError};
use crate::filesystem::elf;

/// An error of finding the kernel or its modules.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file can't be read.
    #[error(transparent)]
    Chroot(#[from] ChrootError),
    /// There is no kernel, or more than one.
    #[error(
        "the packages hold {count} kernels under /boot and an image needs exactly one; correct kernel.package"
    )]
    Count {
        /// Their number.
        count: usize,
    },
    /// A module is neither in the package nor built in.
    #[error(
        "kernel {release} has no module {module}, loadable or built in; correct kernel.modules"
    )]
    Module {
        /// The kernel's release.
        release: String,
        /// The module.
        module: String,
    },
    /// A module's file is not a module.
    #[error(
        "{path} is not a kernel module, plain or compressed with xz; use another kernel package"
    )]
    Format {
        /// Path inside the guest.
        path: String,
    },
}

/// Limits on a compressed module's demands.
const LARGEST_MODULE: u64 = 64 << 20;
const XZ_MEMORY_KIB: u32 = 256 << 10;

/// A kernel among the unpacked packages.
#[derive(Debug)]
pub(crate) struct UnpackedKernel {
    /// Path of the kernel's image.
    pub(crate) path: String,
    /// Release, as `uname -r` prints it.
    pub(crate) release: String,
    /// Paths of loadable modules, by name.
    modules: BTreeMap<String, String>,
    built_in: BTreeSet<String>,
}

impl UnpackedKernel {
    pub(crate) fn find(chroot: &Chroot) -> Result<Self, KernelError> {
        const IMAGE: &str = "/boot/vmlinuz-";
        let images: Vec<&str> = chroot.under(IMAGE).collect();
        let [path] = images[..] else {
            return Err(KernelError::Count {
                count: images.len(),
            });
        };
        let release = path[IMAGE.len()..].to_owned();
        // Packages before Debian 13 have modules in `/lib`, which is a link now.
        let folder = ["/usr/lib/modules", "/lib/modules"]
            .map(|folder| format!("{folder}/{release}"))
            .into_iter()
            .find(|folder| chroot.under(&format!("{folder}/kernel/")).next().is_some())
            .unwrap_or_else(|| format!("/lib/modules/{release}"));
        let tree = format!("{folder}/kernel/");
        let modules = chroot
            .under(&tree)
            .filter_map(|path| Some((module_name(path)?, path.to_owned())))
            .collect();
        let list = chroot.read(&format!("{folder}/modules.builtin"))?;
        let built_in = String::from_utf8_lossy(&list)
            .lines()
            .filter_map(module_name)
            .collect();
        Ok(Self {
            path: path.to_owned(),
            release,
            modules,
            built_in,
        })
    }

    /// Paths of the modules of `wanted` and of those they depend on, each after its dependencies.
    pub(crate) fn load_order(
        &self,
        chroot: &Chroot,
        wanted: &[String],
    ) -> Result<Vec<String>, KernelError> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for module in wanted {
            self.visit(chroot, &canonical(module), &mut seen, &mut order)?;
        }
        Ok(order)
    }

    /// The same, or `None` if the kernel's package lacks one of the modules.
    pub(crate) fn load_order_if_present(
        &self,
        chroot: &Chroot,
        wanted: &[&str],
    ) -> Result<Option<Vec<String>>, KernelError> {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        match self.load_order(chroot, &wanted) {
            Err(KernelError::Module { .. }) => Ok(None),
            order => order.map(Some),
        }
    }

    fn visit(
        &self,
        chroot: &Chroot,
        module: &str,
        seen: &mut BTreeSet<String>,
        order: &mut Vec<String>,
    ) -> Result<(), KernelError> {
        if self.built_in.contains(module) || !seen.insert(module.to_owned()) {
            return Ok(());
        }
        let path = self
            .modules
            .get(module)
            .ok_or_else(|| KernelError::Module {
                release: self.release.clone(),
                module: module.to_owned(),
            })?;
        let depends = unpacked(path, chroot.read(path)?)
            .and_then(|bytes| elf::module_depends(&bytes))
            .ok_or_else(|| KernelError::Format { path: path.clone() })?;
        for module in depends {
            self.visit(chroot, &canonical(&module), seen, order)?;
        }
        order.push(path.clone());
        Ok(())
    }
}

/// The kernel treats `-` and `_` in a module's name alike.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

fn module_name(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let name = name.strip_suffix(".xz").unwrap_or(name);
    name.strip_suffix(".ko").map(canonical)
}

/// A module's ELF file; distributions compress them with xz, if at all.
fn unpacked(path: &str, bytes: Vec<u8>) -> Option<Vec<u8>> {
    if !path.ends_with(".xz") {
        return Some(bytes);
    }
    let mut module = Vec::new();
    lzma_rust2::XzReader::new_mem_limit(&bytes[..], false, XZ_MEMORY_KIB)
        .take(LARGEST_MODULE + 1)
        .read_to_end(&mut module)
        .ok()?;
    (module.len() as u64 <= LARGEST_MODULE).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn modules_are_named_by_their_files() {
        for path in ["/x/virtio-rng.ko", "/x/virtio-rng.ko.xz"] {
            assert_eq!(module_name(path).as_deref(), Some("virtio_rng"));
        }
        assert_eq!(module_name("/x/modules.dep"), None);
    }

    #[test]
    fn only_whole_archives_unpack() {
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).expect("starts");
        writer.write_all(b"a module").expect("writes");
        let packed = writer.finish().expect("ends");
        assert_eq!(
            unpacked("a.ko.xz", packed.clone()).as_deref(),
            Some(&b"a module"[..])
        );
        assert_eq!(
            unpacked("a.ko.xz", packed[..packed.len() / 2].to_vec()),
            None
        );
        assert_eq!(unpacked("a.ko", vec![1]), Some(vec![1]));
    }
}
