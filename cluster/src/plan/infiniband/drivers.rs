//! Drivers of the cards on the run disk, in the order in which nodes load them.
//!
//! An image's archive has all modules and two lists: the drivers, and those of IP over InfiniBand with all that they need. A node loads one list.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;

use belljar_images::IPOIB_LIST;

/// The list of the modules that a node loads.
const ORDER: &str = "order";
/// The file with the network of the interfaces: its address as a number, and the length of its prefix.
const NETWORK_FILE: &str = "net";
/// The network of the interfaces of IP over InfiniBand; node n has host number n + 1.
const NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(172, 16, 0, 0), 12);

/// The address of a node's interface of IP over InfiniBand.
pub(in crate::plan) fn address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK.0.to_bits() + node + 1)
}

/// True if an image's archive has the modules of IP over InfiniBand.
pub(super) fn has_ipoib(archive: &Path) -> bool {
    let names = || -> io::Result<bool> {
        // The modules themselves are passed over.
        let mut archive = tar::Archive::new(File::open(archive)?);
        for entry in archive.entries_with_seek()? {
            if entry?.path()?.as_os_str() == IPOIB_LIST {
                return Ok(true);
            }
        }
        Ok(false)
    };
    names().unwrap_or(false)
}

/// The files of an archive by name, in its order of names.
fn contents(archive: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut archive = tar::Archive::new(File::open(archive)?);
    let mut files = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        files.insert(name, content);
    }
    Ok(files)
}

/// The files for the nodes: the modules that they load, and their list.
pub(in crate::plan) fn files(archive: &Path, ipoib: bool) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = contents(archive)?;
    let lines = |list: Option<Vec<u8>>| -> Vec<String> {
        let text = String::from_utf8_lossy(&list.unwrap_or_default()).into_owned();
        text.lines().map(str::to_owned).collect()
    };
    let mut order = lines(files.remove(ORDER));
    let of_ipoib = lines(files.remove(IPOIB_LIST));
    let more = of_ipoib.into_iter().filter(|name| !order.contains(name));
    let more: Vec<String> = more.collect();
    match ipoib {
        true => order.extend(more),
        false => more.iter().for_each(|name| drop(files.remove(name))),
    }
    let list: String = order.iter().map(|name| format!("{name}\n")).collect();
    files.insert(ORDER.to_owned(), list.into_bytes());
    if ipoib {
        let (address, length) = NETWORK;
        let net = format!("{} {length}\n", address.to_bits());
        files.insert(NETWORK_FILE.to_owned(), net.into_bytes());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &str)]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut archive = tar::Builder::new(file.reopen().unwrap());
        for (name, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            archive
                .append_data(&mut header, name, content.as_bytes())
                .unwrap();
        }
        archive.finish().unwrap();
        file
    }

    #[test]
    fn nodes_load_what_the_scenario_asks_for() {
        let all = archive(&[
            ("core.ko", "1"),
            ("card.ko", "2"),
            ("ipoib.ko", "3"),
            (ORDER, "core.ko\ncard.ko\n"),
            (IPOIB_LIST, "core.ko\nipoib.ko\n"),
        ]);
        let text = |files: &BTreeMap<String, Vec<u8>>, name: &str| {
            String::from_utf8(files[name].clone()).unwrap()
        };
        let plain = files(all.path(), false).unwrap();
        let names: Vec<&str> = plain.keys().map(String::as_str).collect();
        assert_eq!(names, ["card.ko", "core.ko", ORDER]);
        assert_eq!(text(&plain, ORDER), "core.ko\ncard.ko\n");
        let with_ip = files(all.path(), true).unwrap();
        assert_eq!(text(&with_ip, ORDER), "core.ko\ncard.ko\nipoib.ko\n");
        assert_eq!(text(&with_ip, NETWORK_FILE), "2886729728 12\n");
        assert!(with_ip.contains_key("ipoib.ko"));
        assert!(has_ipoib(all.path()));
        assert!(!has_ipoib(archive(&[(ORDER, "")]).path()));
        assert_eq!(address(1), Ipv4Addr::new(172, 16, 0, 2));
    }
}
