//! ACPI tables of a hardware-reduced machine: no PIC, no PIT, no power-management timer, no fixed
//! events. All devices are described in the DSDT.
//!
//! The tables depend only on the number of processors and of virtio devices, and give the devices'
//! addresses, ports and pins on the node's buses. `boot` writes them to the address in `layout`.

use acpi_tables::Aml;
use acpi_tables::aml::{
    self, AddressSpace, AddressSpaceCacheable, Device, EISAName, Interrupt, Memory32Fixed, Name,
    Package, Path, ResourceTemplate, Scope,
};
use acpi_tables::fadt::{FADTBuilder, Flags, PmProfile};
use acpi_tables::gas::{self, AccessSize, GAS};
use acpi_tables::madt::{
    EnabledStatus, IoApic as IoApicEntry, LocalInterruptController, MADT, ProcessorLocalApic,
};
use acpi_tables::rsdp::Rsdp;
use acpi_tables::sdt::Sdt;
use acpi_tables::xsdt::XSDT;
use belljar_devices::apic::APIC_BASE;
use belljar_devices::pci::{PCI_ADDRESS_PORT, PCI_WINDOW, PCI_WINDOW_SIZE};
use belljar_devices::virtio::WINDOW_SIZE;
use belljar_devices::{
    IoApic, RESET_PORT, RESET_VALUE, SERIAL_PIN, SERIAL_PORT, SLEEP_CONTROL_PORT,
    SLEEP_STATUS_PORT, SLEEP_TYPE_S5,
};

use super::layout::{self, VIRTIO_BASE, slot_pin};

const OEM: [u8; 6] = *b"BELLJR";
const OEM_TABLE: [u8; 8] = *b"BELLJAR ";
const REVISION: u32 = 1;
const SDT_HEADER: u32 = 36;

/// FADT boot flags: there is no VGA and there are no MSIs to PCI devices.
const BOOT_NO_VGA_NO_MSI: u16 = 1 << 2 | 1 << 3;
/// The same for a machine with a PCI bus: there is no VGA, and links have no power states.
const BOOT_NO_VGA_NO_ASPM: u16 = 1 << 2 | 1 << 4;

/// The tables, to be placed at [`layout::ACPI`].
pub(super) struct AcpiTables {
    pub(super) bytes: Vec<u8>,
    /// Guest-physical address of the RSDP.
    pub(super) rsdp: u64,
}

/// Lays tables out one after the other.
#[derive(Default)]
struct Area(Vec<u8>);

impl Area {
    /// Adds `table`, aligned to 16 bytes. Returns its guest-physical address.
    fn add(&mut self, table: &dyn Aml) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(16), 0);
        let addr = layout::ACPI + self.0.len() as u64;
        table.to_aml_bytes(&mut self.0);
        addr
    }
}

/// The tables of a machine with `vcpus` processors and `slots` virtio devices, and a PCI bus or none.
pub(super) fn tables(vcpus: u32, slots: usize, has_pci: bool) -> AcpiTables {
    // The RSDP comes first, where kernels look for it; its final contents need
    // the address of the XSDT, which comes last.
    let mut area = Area::default();
    let rsdp = area.add(&Rsdp::new(OEM, 0));
    let dsdt = area.add(&AcpiTable(dsdt(slots, has_pci)));
    let fadt = area.add(&fadt(dsdt, has_pci));
    let madt = area.add(&madt(vcpus));
    let mut xsdt = XSDT::new(OEM, OEM_TABLE, REVISION);
    xsdt.add_entry(fadt);
    xsdt.add_entry(madt);
    let xsdt = area.add(&xsdt);
    let mut first = Vec::new();
    Rsdp::new(OEM, xsdt).to_aml_bytes(&mut first);
    area.0[..first.len()].copy_from_slice(&first);
    AcpiTables {
        bytes: area.0,
        rsdp,
    }
}

/// A finished table as bytes.
struct AcpiTable(Sdt);

impl Aml for AcpiTable {
    fn to_aml_bytes(&self, sink: &mut dyn acpi_tables::AmlSink) {
        sink.vec(self.0.as_slice());
    }
}

fn fadt(dsdt: u64, has_pci: bool) -> impl Aml {
    let port = |port: u16| {
        GAS::new(
            gas::AddressSpace::SystemIo,
            8,
            0,
            AccessSize::ByteAccess,
            u64::from(port),
        )
    };
    let mut fadt = FADTBuilder::new(OEM, OEM_TABLE, REVISION)
        .dsdt_64(dsdt)
        .flag(Flags::Wbinvd)
        .flag(Flags::HwReducedAcpi)
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::ResetRegSup)
        .preferred_pm_profile(PmProfile::EnterpriseServer);
    fadt.sleep_control_reg = port(SLEEP_CONTROL_PORT);
    fadt.sleep_status_reg = port(SLEEP_STATUS_PORT);
    fadt.reset_reg = port(RESET_PORT);
    fadt.reset_value = RESET_VALUE;
    fadt.iapc_boot_arch = match has_pci {
        true => BOOT_NO_VGA_NO_ASPM.into(),
        false => BOOT_NO_VGA_NO_MSI.into(),
    };
    fadt.hypervisor_vendor_identity = u64::from_le_bytes(*b"Belljar\0").into();
    fadt.finalize()
}

/// Processor numbers are the APIC ids, which all fit the entries of xAPICs.
fn madt(vcpus: u32) -> MADT {
    let local = LocalInterruptController::Address(APIC_BASE as u32);
    let mut madt = MADT::new(OEM, OEM_TABLE, REVISION, local);
    for id in 0..u8::try_from(vcpus).unwrap_or(u8::MAX) {
        madt.add_structure(ProcessorLocalApic::new(id, id, EnabledStatus::Enabled));
    }
    madt.add_structure(IoApicEntry::new(0, IoApic::BASE as u32, 0));
    madt
}

fn dsdt(slots: usize, has_pci: bool) -> Sdt {
    let mut code = Vec::new();
    let soft_off = Name::new(
        "_S5_".into(),
        &Package::new(vec![&SLEEP_TYPE_S5, &aml::ZERO, &aml::ZERO, &aml::ZERO]),
    );
    soft_off.to_aml_bytes(&mut code);
    let mut devices = serial();
    devices.extend((0..slots).flat_map(virtio));
    if has_pci {
        devices.extend(pci());
    }
    code.extend(Scope::raw("_SB_".into(), devices));
    let mut table = Sdt::new(*b"DSDT", SDT_HEADER, 2, OEM, OEM_TABLE, REVISION);
    table.append_slice(&code);
    table
}

fn serial() -> Vec<u8> {
    let mut bytes = Vec::new();
    Device::new(
        "COM1".into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new("PNP0501")),
            &Name::new("_UID".into(), &aml::ZERO),
            &Name::new("_DDN".into(), &"COM1"),
            &Name::new(
                "_CRS".into(),
                &ResourceTemplate::new(vec![
                    &Interrupt::new(true, true, false, false, SERIAL_PIN as u32),
                    &aml::IO::new(SERIAL_PORT, SERIAL_PORT, 0, 8),
                ]),
            ),
        ],
    )
    .to_aml_bytes(&mut bytes);
    bytes
}

/// The host bridge of PCI bus 0, with the window of its functions' memory.
fn pci() -> Vec<u8> {
    let mut bytes = Vec::new();
    let (first, size) = (PCI_WINDOW as u32, PCI_WINDOW_SIZE as u32);
    Device::new(
        "PCI0".into(),
        vec![
            &Name::new("_HID".into(), &EISAName::new("PNP0A03")),
            &Name::new("_UID".into(), &aml::ZERO),
            &Name::new("_BBN".into(), &aml::ZERO),
            &Name::new("_CCA".into(), &aml::ONE),
            &Name::new(
                "_CRS".into(),
                &ResourceTemplate::new(vec![
                    &AddressSpace::new_bus_number(0_u16, 0_u16),
                    &aml::IO::new(PCI_ADDRESS_PORT, PCI_ADDRESS_PORT, 1, 8),
                    &AddressSpace::new_memory(
                        AddressSpaceCacheable::NotCacheable,
                        true,
                        first,
                        first + (size - 1),
                        None,
                    ),
                ]),
            ),
        ],
    )
    .to_aml_bytes(&mut bytes);
    bytes
}

/// The virtio-mmio device in `slot`.
fn virtio(slot: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let base = VIRTIO_BASE + slot as u64 * WINDOW_SIZE;
    Device::new(
        Path::new(&format!("V{slot:03}")),
        vec![
            &Name::new("_HID".into(), &"LNRO0005"),
            &Name::new("_UID".into(), &(slot as u32)),
            &Name::new("_CCA".into(), &aml::ONE),
            &Name::new(
                "_CRS".into(),
                &ResourceTemplate::new(vec![
                    &Memory32Fixed::new(true, base as u32, WINDOW_SIZE as u32),
                    &Interrupt::new(true, false, false, false, slot_pin(slot) as u32),
                ]),
            ),
        ],
    )
    .to_aml_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot::MAX_SLOTS;
    use crate::config::MOST_VCPUS;
    use std::process::Command;

    /// Finds the table with `signature`; its header holds the length.
    fn find<'a>(bytes: &'a [u8], signature: &[u8; 4]) -> &'a [u8] {
        let at = (0..bytes.len())
            .step_by(16)
            .find(|at| bytes[*at..].starts_with(signature))
            .unwrap();
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        &bytes[at..at + len]
    }

    #[test]
    fn checksums_and_links_hold() {
        let tables = tables(MOST_VCPUS, MAX_SLOTS, true);
        let sum = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        for signature in [b"DSDT", b"FACP", b"APIC", b"XSDT"] {
            assert_eq!(sum(find(&tables.bytes, signature)), 0);
        }
        assert_eq!(tables.rsdp % 16, 0);
        let rsdp = &tables.bytes[..36];
        assert!(rsdp.starts_with(b"RSD PTR ") && sum(&rsdp[..20]) == 0 && sum(rsdp) == 0);
        let link = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let at = |addr: u64| &tables.bytes[(addr - layout::ACPI) as usize..];
        let xsdt = at(link(&rsdp[24..32]));
        assert!(xsdt.starts_with(b"XSDT"));
        let fadt = at(link(&xsdt[36..44]));
        assert!(fadt.starts_with(b"FACP") && at(link(&xsdt[44..52])).starts_with(b"APIC"));
        assert!(at(link(&fadt[140..148])).starts_with(b"DSDT"));
        assert_eq!(
            fadt.len() - at(link(&xsdt[44..52])).len(),
            288,
            "276 bytes, aligned to 16"
        );
        assert!(layout::ACPI + tables.bytes.len() as u64 <= layout::HIGH_MEMORY);
    }

    /// Intel's disassembler reads the tables and its compiler takes them back.
    #[test]
    fn the_reference_compiler_accepts_the_tables() {
        if Command::new("iasl").arg("-v").output().is_err() {
            // Needs Debian's acpica-tools; checksums and links are tested above.
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let tables = tables(5, 3, true);
        for signature in [b"DSDT", b"FACP", b"APIC", b"XSDT"] {
            let name = String::from_utf8_lossy(signature).to_lowercase();
            std::fs::write(
                dir.path().join(format!("{name}.dat")),
                find(&tables.bytes, signature),
            )
            .unwrap();
            let run = |arguments: &[&str]| {
                let output = Command::new("iasl")
                    .args(arguments)
                    .current_dir(dir.path())
                    .output()
                    .unwrap();
                let text = [output.stdout, output.stderr]
                    .map(|out| String::from_utf8_lossy(&out).into_owned())
                    .concat();
                assert!(output.status.success(), "{name}: {text}");
                text
            };
            run(&["-d", &format!("{name}.dat")]);
            let text = run(&[&format!("{name}.dsl")]);
            assert!(text.contains("0 Errors"), "{name}: {text}");
        }
        let dsl = std::fs::read_to_string(dir.path().join("dsdt.dsl")).unwrap();
        for wanted in [
            "\"LNRO0005\"",
            "0xD0002000",
            "PNP0501",
            "Device (V002)",
            "Name (_S5, Package",
            "PNP0A03",
            "0xE0000000",
        ] {
            assert!(dsl.contains(wanted), "{wanted} in\n{dsl}");
        }
    }
}
