//! A node's state for inspection: hashes of all of it, and its parts for comparison. Inspection
//! changes nothing.
//!
//! Hashes cover the state visible to the guest, so two runs of a scenario have equal hashes at the
//! same instruction. `belljar bisect` and determinism tests compare nodes by them.

use belljar_cpu::{GuestRam, PAGE_SIZE, StateItem};
use twox_hash::{XxHash3_64, XxHash3_128};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

use super::Node;

/// Hashes of a node's state (XXH3, 128 bits; not meant to withstand an adversary).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHashes {
    /// Of the processors' registers.
    pub processor: u128,
    /// Of RAM.
    pub memory: u128,
    /// Of interrupt controllers, clock, power registers, pending events, the current turn, and the
    /// network card's counters.
    pub devices: u128,
}

impl Node {
    /// Its RAM.
    pub fn ram(&self) -> &GuestRam {
        &self.devices.ram
    }

    /// Every processor's registers and all other state visible to the guest. With several
    /// processors, item names begin with the processor's number.
    pub fn processor_state(&self) -> Vec<StateItem> {
        if let [alone] = &self.processors[..] {
            return alone.vcpu.state();
        }
        let mut items = Vec::new();
        for (index, processor) in self.processors.iter().enumerate() {
            items.extend(processor.vcpu.state().into_iter().map(|item| StateItem {
                name: format!("vcpu{index}.{}", item.name),
                ..item
            }));
        }
        items
    }

    /// Hashes of the whole state. Reads all of RAM.
    pub fn state_hashes(&self) -> StateHashes {
        let mut processor = XxHash3_128::new();
        for item in self.processor_state() {
            processor.write(item.name.as_bytes());
            processor.write(&item.bytes);
        }
        let mut memory = XxHash3_128::new();
        for (_, hash) in self.page_hashes() {
            memory.write(&hash.to_le_bytes());
        }
        let devices = &self.devices;
        let activities = self.processors.iter().map(|one| one.activity);
        let devices = format!(
            "{} {:?} {:?} {:?}",
            devices.describe(),
            self.next_cycle(),
            self.rotation,
            activities.collect::<Vec<_>>()
        );
        StateHashes {
            processor: processor.finish_128(),
            memory: memory.finish_128(),
            devices: XxHash3_128::oneshot(devices.as_bytes()),
        }
    }

    /// The guest-physical address and the hash of every page of RAM, in ascending order.
    pub fn page_hashes(&self) -> Vec<(u64, u64)> {
        let ram = &self.devices.ram;
        let mut hashes = Vec::new();
        let mut page = [0; PAGE_SIZE as usize];
        for region in ram.iter() {
            let start = region.start_addr().0;
            for offset in (0..region.len()).step_by(PAGE_SIZE as usize) {
                let length = (region.len() - offset).min(PAGE_SIZE) as usize;
                let bytes = &mut page[..length];
                // Regions are whole, so the read reaches every byte.
                if ram.read_slice(bytes, GuestAddress(start + offset)).is_ok() {
                    hashes.push((start + offset, XxHash3_64::oneshot(bytes)));
                }
            }
        }
        hashes
    }

    /// Reads RAM at a guest-physical address; `None` if the range is not all RAM.
    pub fn read_physical(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self
            .devices
            .ram
            .read_slice(&mut bytes, GuestAddress(address));
        read.ok().map(|()| bytes)
    }
}
