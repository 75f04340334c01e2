//! What memory this host can give.

/// Bytes that the host can give without taking them from others; None where it does not say.
pub(crate) fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    in_meminfo(&text)
}

/// Whether `nodes` nodes of `bytes` bytes each may take their memory in huge pages: a page of
/// which a guest touches a byte then costs 2 MiB, and in the end all of its memory.
pub(crate) fn is_plenty_for(nodes: u32, bytes: u64) -> bool {
    available().is_some_and(|available| suffices(available, nodes, bytes))
}

fn suffices(available: u64, nodes: u32, bytes: u64) -> bool {
    u64::from(nodes).saturating_mul(bytes) <= available / 2
}

fn in_meminfo(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_kernel_says_is_available() {
        let text = "MemTotal:       65536 kB\nMemFree:            1 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(in_meminfo(text), Some(2 << 20));
        assert_eq!(in_meminfo("MemFree: 1 kB\n"), None);
        assert_eq!(in_meminfo("MemAvailable: much\n"), None);
    }

    #[test]
    fn half_of_it_may_be_taken_in_huge_pages() {
        assert!(suffices(64, 4, 8));
        assert!(!suffices(63, 4, 8));
        assert!(!suffices(u64::MAX, 2, u64::MAX), "and no sum wraps");
    }
}
