//! Kernel modules of NFS: a part of every image whose kernel has them, for runs whose nodes share a folder.
//!
//! The modules are the package's own files. The initramfs does not have them, so runs without a shared folder are independent
//! of this part. Called once for each build.

use std::io;

use crate::build::error::ImageError;
use crate::debian::chroot::Chroot;
use crate::filesystem::contents::{Item, TreeContents};
use crate::filesystem::data::Data;
use crate::filesystem::kernel::UnpackedKernel;
use crate::filesystem::layout::module_file;
use crate::store::manifest::NFS;

/// Modules by the name of the list of those to load, which has their dependencies, too.
const LISTS: [(&str, &[&str]); 2] = [("server", &["nfsd"]), ("client", &["nfsv4"])];

/// The modules and their lists, or `None` if the kernel's package lacks one of them.
pub(crate) fn modules(
    kernel: &UnpackedKernel,
    chroot: &Chroot,
) -> Result<Option<TreeContents>, ImageError> {
    let mut contents = TreeContents::default();
    for (list, wanted) in LISTS {
        let Some(order) = kernel.load_order_if_present(chroot, wanted)? else {
            return Ok(None);
        };
        let mut names = String::new();
        for path in &order {
            let file = module_file(path);
            contents.take_as(chroot, path, &format!("/{file}"))?;
            names.push_str(&format!("{file}\n"));
        }
        let names = Item::ours(Data::Bytes(names.into_bytes()), false);
        contents.insert(&format!("/{list}"), names)?;
    }
    Ok(Some(contents))
}

/// The part's bytes: a tar archive without times and owners.
pub(crate) fn archive(contents: &TreeContents) -> Result<Vec<u8>, ImageError> {
    pack(contents).map_err(|source| ImageError::Write {
        path: NFS.into(),
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
