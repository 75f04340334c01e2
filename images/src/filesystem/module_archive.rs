//! Kernel modules beside the initramfs: parts of every image whose kernel has them, for runs that need them.
//!
//! The modules are the package's own files. The initramfs does not have them, so other runs are independent of these parts.
//! Called once for each part and build.

use std::io;

use crate::build::error::ImageError;
use crate::debian::chroot::Chroot;
use crate::filesystem::contents::{Item, TreeContents};
use crate::filesystem::data::Data;
use crate::filesystem::kernel::UnpackedKernel;
use crate::filesystem::layout::module_file;
use crate::store::manifest::{INFINIBAND, IPOIB_LIST, NFS};

/// A part of an image with kernel modules.
pub(crate) struct ModuleArchive {
    /// Its file.
    pub(crate) file: &'static str,
    /// Modules by the name of the list of those to load, which has their dependencies, too.
    lists: &'static [(&'static str, &'static [&'static str])],
    /// The same of modules that some kernels' packages lack.
    optional: &'static [(&'static str, &'static [&'static str])],
}

/// NFS, for runs whose nodes share a folder.
pub(crate) const NFS_MODULES: ModuleArchive = ModuleArchive {
    file: NFS,
    lists: &[("server", &["nfsd"]), ("client", &["nfsv4"])],
    optional: &[],
};

/// Drivers of InfiniBand cards, and the access of programs to them; and IP over InfiniBand, which Debian's kernels for clouds lack.
pub(crate) const INFINIBAND_MODULES: ModuleArchive = ModuleArchive {
    file: INFINIBAND,
    lists: &[("order", &["mlx4_ib", "ib_uverbs", "ib_umad", "rdma_ucm"])],
    optional: &[(IPOIB_LIST, &["ib_ipoib"])],
};

/// The modules of an archive and their lists, or `None` if the kernel's package lacks one of them.
pub(crate) fn modules(
    archive: &ModuleArchive,
    kernel: &UnpackedKernel,
    chroot: &Chroot,
) -> Result<Option<TreeContents>, ImageError> {
    let mut contents = TreeContents::default();
    for (list, wanted) in archive.lists {
        let Some(order) = kernel.load_order_if_present(chroot, wanted)? else {
            return Ok(None);
        };
        add_list(&mut contents, list, &order, chroot)?;
    }
    for (list, wanted) in archive.optional {
        if let Some(order) = kernel.load_order_if_present(chroot, wanted)? {
            add_list(&mut contents, list, &order, chroot)?;
        }
    }
    Ok(Some(contents))
}

/// Adds a list and its modules.
fn add_list(
    contents: &mut TreeContents,
    list: &str,
    order: &[String],
    chroot: &Chroot,
) -> Result<(), ImageError> {
    let mut names = String::new();
    for path in order {
        let file = module_file(path);
        contents.take_as(chroot, path, &format!("/{file}"))?;
        names.push_str(&format!("{file}\n"));
    }
    let names = Item::ours(Data::Bytes(names.into_bytes()), false);
    contents.insert(&format!("/{list}"), names)?;
    Ok(())
}

/// The part's bytes: a tar archive without times and owners.
pub(crate) fn bytes(
    archive: &ModuleArchive,
    contents: &TreeContents,
) -> Result<Vec<u8>, ImageError> {
    pack(contents).map_err(|source| ImageError::Write {
        path: archive.file.into(),
        source,
    })
}

fn pack(contents: &TreeContents) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, item) in contents.items() {
        let Item::File { data, .. } = item else {
            continue;
        };
        let mut bytes = Vec::new();
        data.copy_to(&mut bytes)?;
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_entry_type(tar::EntryType::Regular);
        archive.append_data(&mut header, path.trim_start_matches('/'), &bytes[..])?;
    }
    archive.into_inner()
}
