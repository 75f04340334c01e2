//! The nodes' kernels as processes of the debugger: one for each node, with a thread for each processor.
//!
//! A thread's registers are those of its processor, in whatever it executes. Functions have the names of the kernel's own table (kallsyms);
//! there are no lines and no frames. A step is one instruction of the node. Called by the session's target and movements, for processes
//! of these numbers.

use std::io;

use belljar_cluster::observe::timeline::{BreakFilter, Breakpoint, Moved};
use belljar_gdb::{Cause, Registers, Stop, ThreadId};
use belljar_linux::Space;
use belljar_symbols::KernelSymbols;
use object::Endianness;
use object::elf::{EM_X86_64, ET_EXEC, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, STB_GLOBAL, STT_FUNC};
use object::write::elf::{FileHeader, SectionHeader, Sym, Writer};

use crate::processes::APART;
use crate::registers::of_processor;
use crate::session::{Session, SessionError};

/// The number of a kernel among the processes of its node, above all numbers of Linux.
const KERNEL: u64 = 9_000_000;
/// The path of an image's kernel among the files for the debugger; the number of the image follows.
const PATH: &str = "/belljar/kernel-";

/// A processor of a node as a thread of the debugger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelThread {
    pub(crate) node: u32,
    pub(crate) vcpu: u32,
}

impl KernelThread {
    /// Its number in the debugger.
    pub(crate) fn id(self) -> ThreadId {
        let first = u64::from(self.node) * APART + KERNEL;
        ThreadId {
            pid: first,
            tid: first + u64::from(self.vcpu),
        }
    }
}

/// The node whose kernel has this number as a process.
pub(crate) fn node_of_kernel(pid: u64) -> Option<u32> {
    (pid % APART == KERNEL).then_some((pid / APART) as u32)
}

impl Session {
    /// Shows the nodes' kernels as processes, from now on.
    pub fn show_kernels(&mut self) {
        self.shows_kernels = true;
    }

    /// The threads of all kernels, if they are shown.
    pub(crate) fn kernel_threads(&self) -> Vec<ThreadId> {
        let nodes = 0..self.timeline.plan().nodes;
        let nodes = nodes.filter(|_| self.shows_kernels);
        let threads = nodes.flat_map(|node| {
            let vcpus = 0..self.timeline.plan().kind_of(node).vcpus;
            vcpus.map(move |vcpu| KernelThread { node, vcpu }.id())
        });
        threads.collect()
    }

    /// The processor of a thread, if it is a kernel's.
    pub(crate) fn kernel_thread(&self, id: ThreadId) -> Option<KernelThread> {
        let node = node_of_kernel(id.pid)?;
        let vcpu = u32::try_from(id.tid.checked_sub(id.pid)?).ok()?;
        let thread = KernelThread { node, vcpu };
        self.kernel_threads().contains(&id).then_some(thread)
    }

    /// The registers of a kernel's thread.
    pub(crate) fn kernel_registers(&mut self, of: KernelThread) -> Option<Registers> {
        self.settle_for(of.node).ok()?;
        self.with_kernel(of.node, |_, node| {
            let mut registers = of_processor(node, of.vcpu)?;
            let system = node.system_of(of.vcpu)?;
            // CS and SS, which follow ES in the numbers of the processor.
            registers.selectors[..2]
                .copy_from_slice(&[system.segments[1].selector, system.segments[2].selector]);
            Some(registers)
        })
    }

    /// Calls `work` with the address space in which a kernel's thread executes.
    pub(crate) fn with_kernel_space<T>(
        &mut self,
        of: KernelThread,
        work: impl FnOnce(&Space<'_>) -> T,
    ) -> Option<T> {
        self.settle_for(of.node).ok()?;
        self.with_kernel(of.node, |kernel, node| {
            let tables = node.system_of(of.vcpu)?.cr3;
            Some(work(&kernel.space_at(tables)))
        })
    }

    /// The breakpoint of a kernel at `address`, which counts in all processes.
    pub(crate) fn kernel_breakpoint(&self, pid: u64, address: u64) -> Option<Breakpoint> {
        let node = node_of_kernel(pid).filter(|_| self.shows_kernels)?;
        Some(Breakpoint {
            node,
            address,
            filter: BreakFilter {
                space: None,
                thread: None,
            },
        })
    }

    /// The kernel's thread that has arrived at one of its breakpoints.
    pub(crate) fn kernel_arrival(&self, moved: &Moved) -> Option<ThreadId> {
        let Moved::Hit(address) = *moved else {
            return None;
        };
        let node = self.timeline.position().node;
        let mut own = self.breakpoints.iter();
        let is_own =
            own.any(|own| (own.node, own.address, own.filter.space) == (node, address, None));
        let vcpu = self.timeline.runner(node).node().current_vcpu();
        is_own.then(|| KernelThread { node, vcpu }.id())
    }

    /// Executes one instruction of a node, or goes back by one.
    pub(crate) fn step_kernel(
        &mut self,
        of: KernelThread,
        is_back: bool,
    ) -> Result<Stop, SessionError> {
        self.settle_for(of.node)?;
        let retired = self.timeline.runner(of.node).node().retired();
        match is_back {
            true => self.timeline.back_to(of.node, retired.saturating_sub(1))?,
            false => self.timeline.step_to(of.node, retired + 1)?,
        };
        self.shown = Some(of.id());
        Ok(Stop {
            thread: of.id(),
            cause: Cause::Stepped,
        })
    }

    /// The path of a kernel's symbols among the files for the debugger.
    pub(crate) fn kernel_path(&self, pid: u64) -> Option<String> {
        let node = node_of_kernel(pid).filter(|node| *node < self.timeline.plan().nodes)?;
        Some(format!("{PATH}{}", self.image_of(node)))
    }

    /// The file with the symbols of a kernel; `None` for another path.
    pub(crate) fn kernel_file(&self, path: &str) -> Option<Vec<u8>> {
        let image: usize = path.strip_prefix(PATH)?.parse().ok()?;
        symbols_file(self.kernels.get(image)?.as_ref()?).ok()
    }

    /// Writes the symbols of all kernels to the files for the debugger.
    pub(crate) fn copy_kernels(&self) -> io::Result<()> {
        let (Some(copies), true) = (&self.copies, self.shows_kernels) else {
            return Ok(());
        };
        for image in 0..self.kernels.len() {
            let path = format!("{PATH}{image}");
            if let Some(content) = self.kernel_file(&path) {
                copies.write(&path, &content)?;
            }
        }
        Ok(())
    }
}

/// An executable file with the functions of a kernel as symbols, and without its code.
fn symbols_file(kernel: &KernelSymbols) -> object::write::Result<Vec<u8>> {
    let functions: Vec<(u64, &str)> = kernel.functions().collect();
    let first = functions.first().map_or(0, |(address, _)| *address);
    let last = functions.last().map_or(0, |(address, _)| *address);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(Endianness::Little, true, &mut bytes);
    writer.reserve_file_header();
    writer.reserve_null_section_index();
    let text_name = writer.add_section_name(b".text");
    let text = writer.reserve_section_index();
    writer.reserve_null_symbol_index();
    let mut names = Vec::new();
    for (_, name) in &functions {
        names.push(writer.add_string(name.as_bytes()));
        writer.reserve_symbol_index(Some(text));
    }
    writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();
    writer.reserve_symtab();
    writer.reserve_strtab();
    writer.reserve_shstrtab();
    writer.reserve_section_headers();
    writer.write_file_header(&FileHeader {
        os_abi: 0,
        abi_version: 0,
        e_type: ET_EXEC,
        e_machine: EM_X86_64,
        e_entry: 0,
        e_flags: 0,
    })?;
    writer.write_null_symbol();
    for (at, ((address, _), name)) in functions.iter().zip(names).enumerate() {
        let next = functions.get(at + 1).map_or(*address, |(next, _)| *next);
        writer.write_symbol(&Sym {
            name: Some(name),
            section: Some(text),
            st_info: STB_GLOBAL << 4 | STT_FUNC,
            st_other: 0,
            st_shndx: 0,
            st_value: *address,
            st_size: next - address,
        });
    }
    writer.write_strtab();
    writer.write_shstrtab();
    writer.write_null_section_header();
    writer.write_section_header(&SectionHeader {
        name: Some(text_name),
        sh_type: SHT_NOBITS,
        sh_flags: u64::from(SHF_ALLOC | SHF_EXECINSTR),
        sh_addr: first,
        sh_offset: 0,
        sh_size: last - first + 1,
        sh_link: 0,
        sh_info: 0,
        sh_addralign: 16,
        sh_entsize: 0,
    });
    writer.write_symtab_section_header(1);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_numbers_above_all_processes() {
        let thread = KernelThread { node: 3, vcpu: 2 };
        let id = thread.id();
        assert_eq!((id.pid, id.tid), (39_000_000, 39_000_002));
        assert_eq!(node_of_kernel(id.pid), Some(3));
        assert_eq!(node_of_kernel(id.tid), None);
        assert_eq!(node_of_kernel(30_000_180), None);
    }
}
