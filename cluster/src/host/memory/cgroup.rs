//! Limits of memory of the control groups that this process is in, and of those above them, by both
//! versions of Linux' control groups. A group without a limit does not count; memory for files that the
//! kernel can reclaim counts as free. Called by `host_memory` alone.

use std::fs::File;
use std::path::{Path, PathBuf};

use procfs::ProcessCGroups;
use procfs::process::{MountInfo, Process};

use super::{Room, read};

/// The files of a version: the limit, the usage, its statistics, the limit of swap, the usage of swap.
type Files = [&'static str; 5];
const FIRST: Files = [
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.stat",
    "",
    "",
];
const SECOND: Files = [
    "memory.max",
    "memory.current",
    "memory.stat",
    "memory.swap.max",
    "memory.swap.current",
];

/// Statistics of reclaimable memory, used for files. In the first version, other names give the sums of
/// a whole tree.
const TAKEN_BACK: [&[&str]; 2] = [
    &["total_inactive_file", "total_active_file"],
    &["inactive_file", "active_file"],
];

/// A control group that may have a limit.
#[derive(Debug)]
pub(super) struct ControlGroup {
    path: PathBuf,
    limit: File,
    usage: File,
    statistics: File,
    swap: Option<(File, File)>,
}

impl ControlGroup {
    fn open(path: &Path, files: Files) -> Option<Self> {
        let open = |file: &str| File::open(path.join(file)).ok();
        Some(Self {
            path: path.to_owned(),
            limit: open(files[0])?,
            usage: open(files[1])?,
            statistics: open(files[2])?,
            swap: open(files[3])
                .zip(open(files[4]))
                .filter(|_| !files[3].is_empty()),
        })
    }

    /// The available memory in it, if the host has `swap` bytes of free swap; `None` without a limit.
    pub(super) fn room(&self, swap: u64) -> Option<Room> {
        let limit = number(&self.limit)?;
        let usage = number(&self.usage)?;
        let statistics = read(&self.statistics).ok()?;
        let taken_back = taken_back(&String::from_utf8_lossy(&statistics));
        Some(Room {
            bytes: limit.saturating_sub(usage.saturating_sub(taken_back)),
            swap: self.swap_left().map_or(0, |left| left.min(swap)),
            total: limit,
            group: Some(self.path.clone()),
        })
    }

    fn swap_left(&self) -> Option<u64> {
        let (limit, usage) = self.swap.as_ref()?;
        // Without a limit of swap, all of the host's applies.
        let limit = number(limit).unwrap_or(u64::MAX);
        Some(limit.saturating_sub(number(usage)?))
    }
}

/// The memory control groups of this process, from its own upward; `None` if they are unknown.
pub(super) fn own_groups() -> Option<Vec<ControlGroup>> {
    let process = Process::myself().ok()?;
    let (mounts, groups) = (process.mountinfo().ok()?, process.cgroups().ok()?);
    let places = mounts
        .into_iter()
        .filter_map(|mount| place(&mount, &groups));
    Some(
        places
            .flat_map(|(top, own, files)| groups_from(&top, &own, files))
            .collect(),
    )
}

/// The paths of a mount of memory control groups: its top, this process's group, and the files there.
fn place(mount: &MountInfo, groups: &ProcessCGroups) -> Option<(PathBuf, PathBuf, Files)> {
    let memory = "memory".to_owned();
    let second = mount.fs_type == "cgroup2";
    if !second && (mount.fs_type != "cgroup" || !mount.super_options.contains_key(&memory)) {
        return None;
    }
    let own = groups.0.iter().find(|group| match second {
        true => group.hierarchy == 0,
        false => group.controllers.contains(&memory),
    })?;
    // In a container the mount shows a part of the tree, which may not contain the group.
    let below = own.pathname.strip_prefix(mount.root.trim_end_matches('/'));
    let below = below.unwrap_or_default().trim_start_matches('/');
    let top = mount.mount_point.clone();
    let path = top.join(below);
    let path = if path.is_dir() { path } else { top.clone() };
    Some((top, path, if second { SECOND } else { FIRST }))
}

/// The groups from `own` up to `top`.
fn groups_from(top: &Path, own: &Path, files: Files) -> Vec<ControlGroup> {
    let above = own.ancestors().take_while(|path| path.starts_with(top));
    above
        .filter_map(|path| ControlGroup::open(path, files))
        .collect()
}

/// A file's number; `None` if it has no number, such as `max`.
fn number(file: &File) -> Option<u64> {
    let bytes = read(file).ok()?;
    let number: u64 = std::str::from_utf8(&bytes).ok()?.trim().parse().ok()?;
    // The first version expresses no limit by a huge number.
    (number < 1 << 62).then_some(number)
}

fn taken_back(statistics: &str) -> u64 {
    let value = |wanted: &&str| {
        let mut lines = statistics.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(name, _)| name == wanted)?;
        value.trim().parse::<u64>().ok()
    };
    let sums = TAKEN_BACK.map(|names| names.iter().filter_map(value).sum());
    // The first version has both kinds of names; the sums of the tree include the group's own.
    sums.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn group(path: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(path).unwrap();
        for (name, text) in files {
            fs::write(path.join(name), text).unwrap();
        }
    }

    #[test]
    fn the_second_version_counts_limits_of_all_groups_above() {
        let top = tempfile::tempdir().unwrap();
        let job = top.path().join("slurm/job");
        let statistics = "anon 5\nfile 50\ninactive_file 30\nactive_file 10\n";
        let of = |limit, usage| {
            [
                ("memory.max", limit),
                ("memory.current", usage),
                ("memory.stat", statistics),
                ("memory.swap.max", "7\n"),
                ("memory.swap.current", "2\n"),
            ]
        };
        group(&job, &of("max\n", "60\n"));
        group(&top.path().join("slurm"), &of("100\n", "90\n"));
        let groups = groups_from(top.path(), &job, SECOND);
        assert_eq!(groups.len(), 2, "the top has no files of its own");
        assert_eq!(groups[0].room(99), None, "no limit");
        let room = groups[1].room(99).unwrap();
        assert_eq!((room.bytes, room.swap, room.total), (50, 5, 100));
        assert_eq!(groups[1].room(1).unwrap().swap, 1, "the host has no more");
        assert!(room.group.unwrap().ends_with("slurm"));
    }

    #[test]
    fn the_first_version_has_numbers_for_no_limit() {
        let top = tempfile::tempdir().unwrap();
        let statistics = "inactive_file 1\ntotal_inactive_file 20\ntotal_active_file 4\n";
        let of = |limit| {
            [
                ("memory.limit_in_bytes", limit),
                ("memory.usage_in_bytes", "120\n"),
                ("memory.stat", statistics),
            ]
        };
        group(top.path(), &of("9223372036854771712\n"));
        let unlimited = groups_from(top.path(), top.path(), FIRST);
        assert_eq!(unlimited[0].room(0), None);
        group(top.path(), &of("100\n"));
        let limited = groups_from(top.path(), top.path(), FIRST);
        let room = limited[0].room(9).unwrap();
        assert_eq!((room.bytes, room.swap), (4, 0));
    }
}
