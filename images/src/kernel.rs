//! The distribution's kernel: the image itself and the modules a guest needs before its root.

use std::collections::{BTreeMap, BTreeSet};

use crate::chroot::{Chroot, ChrootError};
use crate::elf;

/// Why a kernel or its modules can't be had.
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
        /// How many there are.
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
    /// A module's file is not one.
    #[error(
        "{path} is not a kernel module; modules compressed by the distribution are not supported"
    )]
    Format {
        /// Path inside the guest.
        path: String,
    },
}

/// A kernel among the unpacked packages.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Path of the kernel's image.
    pub(crate) path: String,
    /// Release, as `uname -r` tells it.
    pub(crate) release: String,
    /// Paths of loadable modules, by name.
    modules: BTreeMap<String, String>,
    built_in: BTreeSet<String>,
}

impl Kernel {
    pub(crate) fn find(chroot: &Chroot) -> Result<Self, KernelError> {
        const IMAGE: &str = "/boot/vmlinuz-";
        let images: Vec<&str> = chroot.under(IMAGE).collect();
        let [path] = images[..] else {
            return Err(KernelError::Count {
                count: images.len(),
            });
        };
        let release = path[IMAGE.len()..].to_owned();
        let folder = format!("/lib/modules/{release}");
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
        let depends = elf::module_depends(&chroot.read(path)?)
            .ok_or_else(|| KernelError::Format { path: path.clone() })?;
        for module in depends {
            self.visit(chroot, &canonical(&module), seen, order)?;
        }
        order.push(path.clone());
        Ok(())
    }
}

/// The kernel takes `-` and `_` in a module's name for the same.
fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

fn module_name(path: &str) -> Option<String> {
    path.rsplit('/').next()?.strip_suffix(".ko").map(canonical)
}
