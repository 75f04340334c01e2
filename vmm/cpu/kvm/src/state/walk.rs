//! Translation of linear addresses by the guest's own page tables: KVM's own translation
//! (`KVM_TRANSLATE`) does not report a page's permissions.
//!
//! It reads guest memory without changes, even to accessed and dirty bits; a mapping that forbids
//! the access yields no address. `Vcpu::translate` calls it for the tracer, and only with long
//! mode's paging enabled.

use belljar_cpu::{Access, GuestRam, SystemRegisters};
use vm_memory::{Bytes, GuestAddress};

use crate::state::registers::is_user;

const CR0_PAGING: u64 = 1 << 31;
const CR4_LA57: u64 = 1 << 12;
const EFER_LONG_MODE_ACTIVE: u64 = 1 << 10;
const EFER_NO_EXECUTE: u64 = 1 << 11;

const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
/// Bits 12 to 51 of an entry.
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// The result of [`translate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walked {
    /// The guest-physical address.
    At(u64),
    /// Not mapped, or not for this access.
    NotMapped,
    /// The page tables do not have long mode's format.
    OtherMode,
}

/// Translates `linear` for `access` by the running code, without setting accessed or dirty bits
/// (Intel SDM volume 3, "4-Level Paging"). It is user code if SS has user privilege, because SS has
/// the current privilege level. A write must be permitted at every level, as under CR0.WP: the same
/// rule applies to the process itself.
pub(crate) fn translate(
    ram: &GuestRam,
    system: &SystemRegisters,
    linear: u64,
    access: Access,
) -> Walked {
    if system.cr0 & CR0_PAGING == 0 {
        return Walked::At(linear & u64::from(u32::MAX));
    }
    if system.efer & EFER_LONG_MODE_ACTIVE == 0 {
        return Walked::OtherMode;
    }
    let user = is_user(system);
    let levels = if system.cr4 & CR4_LA57 == 0 { 4 } else { 5 };
    let unused = 64 - (12 + 9 * levels);
    if ((linear << unused) as i64 >> unused) as u64 != linear {
        return Walked::NotMapped;
    }
    let mut table = system.cr3 & FRAME;
    for level in (0..levels).rev() {
        let shift = 12 + 9 * level;
        let slot = table + (linear >> shift & 0x1ff) * 8;
        let Ok(entry) = ram.read_obj::<u64>(GuestAddress(slot)) else {
            return Walked::NotMapped;
        };
        let of_user = !user || entry & USER != 0;
        if !of_user || !allows(entry, access, system.efer & EFER_NO_EXECUTE != 0) {
            return Walked::NotMapped;
        }
        if level == 0 || (level <= 2 && entry & LARGE != 0) {
            let within = (1 << shift) - 1;
            return Walked::At(entry & FRAME & !within | linear & within);
        }
        table = entry & FRAME;
    }
    Walked::NotMapped
}

fn allows(entry: u64, access: Access, no_execute: bool) -> bool {
    entry & PRESENT != 0
        && match access {
            Access::Read => true,
            Access::Write => entry & WRITABLE != 0,
            Access::Fetch => !no_execute || entry & NO_EXECUTE == 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_cpu::{SegmentRegister, guest_ram};

    const PML4: u64 = 0x1000;
    const FAR: u64 = 0x4a42_0000_0000;

    fn put(ram: &GuestRam, table: u64, index: u64, entry: u64) {
        ram.write_obj(entry, GuestAddress(table + index * 8))
            .unwrap();
    }

    /// One read-only page at FAR, the next one writable and not executable, 2 MiB after it.
    fn tables() -> (GuestRam, SystemRegisters) {
        let ram = guest_ram(&[(0, 1 << 20)]).unwrap();
        let index = |level: u32| FAR >> (12 + 9 * level) & 0x1ff;
        put(&ram, PML4, index(3), 0x2000 | 3);
        put(&ram, 0x2000, index(2), 0x3000 | 3);
        put(&ram, 0x3000, index(1), 0x4000 | 3);
        put(&ram, 0x3000, index(1) + 1, 0x60_0000 | LARGE | 3);
        put(&ram, 0x4000, index(0), 0x8000 | 1);
        put(&ram, 0x4000, index(0) + 1, 0x9000 | 3 | NO_EXECUTE);
        let system = SystemRegisters {
            cr0: CR0_PAGING | 1,
            cr3: PML4,
            cr4: 1 << 5,
            efer: EFER_LONG_MODE_ACTIVE | EFER_NO_EXECUTE | 1 << 8,
            ..SystemRegisters::default()
        };
        (ram, system)
    }

    #[test]
    fn pages_are_found_for_what_they_allow() {
        let (ram, system) = tables();
        let walk = |linear, access| translate(&ram, &system, linear, access);
        assert_eq!(walk(FAR + 5, Access::Read), Walked::At(0x8005));
        assert_eq!(walk(FAR + 5, Access::Fetch), Walked::At(0x8005));
        assert_eq!(walk(FAR + 5, Access::Write), Walked::NotMapped);
        assert_eq!(walk(FAR + 0x1007, Access::Write), Walked::At(0x9007));
        assert_eq!(walk(FAR + 0x1007, Access::Fetch), Walked::NotMapped);
        assert_eq!(walk(FAR + 0x20_1234, Access::Write), Walked::At(0x60_1234));
        assert_eq!(walk(FAR + 0x2000, Access::Read), Walked::NotMapped);
        assert_eq!(walk(FAR | 1 << 63, Access::Read), Walked::NotMapped);
    }

    #[test]
    fn users_reach_what_every_level_gives_to_users() {
        let (ram, mut system) = tables();
        system.segments[SegmentRegister::Ss as usize].attributes = 3 << 5;
        let walk = |access| translate(&ram, &system, FAR + 0x1007, access);
        assert_eq!(walk(Access::Read), Walked::NotMapped);
        let index = |level: u32| FAR >> (12 + 9 * level) & 0x1ff;
        put(&ram, PML4, index(3), 0x2000 | 7);
        put(&ram, 0x2000, index(2), 0x3000 | 7);
        put(&ram, 0x3000, index(1), 0x4000 | 7);
        assert_eq!(walk(Access::Write), Walked::NotMapped);
        put(&ram, 0x4000, index(0) + 1, 0x9000 | 7 | NO_EXECUTE);
        assert_eq!(walk(Access::Write), Walked::At(0x9007));
        put(&ram, 0x3000, index(1), 0x4000 | 3);
        assert_eq!(walk(Access::Read), Walked::NotMapped);
    }

    #[test]
    fn tables_outside_of_memory_map_nothing() {
        let (ram, mut system) = tables();
        system.cr3 = 1 << 40;
        assert_eq!(
            translate(&ram, &system, FAR, Access::Read),
            Walked::NotMapped
        );
        system.efer = 0;
        assert_eq!(
            translate(&ram, &system, FAR, Access::Read),
            Walked::OtherMode
        );
        system.cr0 = 1;
        assert_eq!(translate(&ram, &system, 7, Access::Read), Walked::At(7));
    }
}
