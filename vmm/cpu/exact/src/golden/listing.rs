//! Host code as text that does not depend on addresses.
//!
//! Addresses are replaced by names: the context's fields, labels, exits, shared code. So a listing
//! only changes when the emitted code does. `golden` compares listings with the files in the tree.

use std::fmt::Write;
use std::mem::offset_of;

use iced_x86::{
    Decoder, FlowControl, Formatter, Instruction, IntelFormatter, OpKind, Register, SymbolResolver,
    SymbolResult,
};

use super::BASE;
use belljar_translate::context::LENT;
use belljar_translate::context::jumps::{FIRST, Jumps};
use belljar_translate::context::{
    Context, PrivilegeView, SLOT_CLUSTER, SLOTS, STEPS, Slot, Slots, Tlb,
};
use belljar_translate::guest::decode::GuestBlock;
use belljar_translate::host::emit::Emitted;
use belljar_translate::host::exit_stub::ExitStubKind;
use belljar_translate::host::shared::SharedCode;

/// One translated block.
pub(super) struct Listing<'a> {
    pub(super) block: &'a GuestBlock,
    pub(super) emitted: &'a Emitted,
    pub(super) code: &'a [u8],
    pub(super) shared: SharedCode,
}

impl Listing<'_> {
    /// Guest instructions, each before its host code; then the cold code; then exit stubs. The end
    /// of a long part is represented by a checksum.
    pub(super) fn text(&self) -> String {
        let host: Vec<Instruction> = Decoder::with_ip(64, self.code, BASE, 0).iter().collect();
        let names = AddressNames {
            labels: self.labels(&host),
            shared: self.shared,
        };
        let apart = self.end_of_body(&host);
        let (body, rest): (Vec<_>, Vec<_>) = host
            .iter()
            .partition(|one| ((one.ip() - BASE) as u32) < apart);
        let mut text = shortened(&self.lines(&body, &names), BODY_LINES);
        text.push_str("; apart\n");
        text.push_str(&shortened(&self.lines(&rest, &names), APART_LINES));
        let sites = self.emitted.sites.iter().enumerate();
        let sites: Vec<String> = sites
            .map(|(number, site)| {
                let kind = names.site(&site.kind);
                format!("site {number}, instruction {}: {kind}", site.index)
            })
            .collect();
        text.push_str(&shortened(&sites, SITE_LINES));
        let _ = writeln!(
            text,
            "{} counted, {} slots, {} bytes",
            self.emitted.counted,
            self.emitted.slots,
            self.code.len()
        );
        text
    }

    /// Host instructions, with labels, each group preceded by its guest instruction.
    fn lines(&self, host: &[&Instruction], names: &AddressNames) -> Vec<String> {
        let mut formatter = formatter(Some(Box::new(names.clone())));
        let mut lines = Vec::new();
        for instruction in host {
            let offset = (instruction.ip() - BASE) as u32;
            if offset == self.emitted.entry {
                lines.push("entry:".to_owned());
            }
            for &(start, index) in &self.emitted.host_map {
                if start == offset {
                    lines.push(format!("; {}", self.guest(usize::from(index))));
                }
            }
            if let Some(number) = names.label(instruction.ip()) {
                lines.push(format!("L{number}:"));
            }
            let mut line = "    ".to_owned();
            formatter.format(instruction, &mut line);
            lines.push(line);
        }
        lines
    }

    fn guest(&self, index: usize) -> String {
        let mut line = String::new();
        formatter(None).format(&self.block.instructions[index].instruction, &mut line);
        line
    }

    /// The beginning of the cold code, after the last instruction's own code.
    fn end_of_body(&self, host: &[Instruction]) -> u32 {
        // Bounced stores are in the cold code and repeat, after all instructions in order.
        let number = self.block.instructions.len() as u16 - 1;
        let mut map = self.emitted.host_map.iter();
        let last = map
            .find(|(_, index)| *index == number)
            .map_or(0, |one| one.0);
        let mut behind = host
            .iter()
            .map(|one| ((one.ip() - BASE) as u32, one))
            .skip_while(|&(offset, _)| offset < last);
        let jump = behind.find(|(_, one)| one.flow_control() == FlowControl::UnconditionalBranch);
        jump.map_or(u32::MAX, |(offset, one)| offset + one.len() as u32)
    }

    /// The host addresses that are targets in the block, ascending.
    fn labels(&self, host: &[Instruction]) -> Vec<u64> {
        let within = BASE..BASE + self.code.len() as u64;
        let jumps = host.iter().filter_map(|one| {
            let near = one.is_jcc_short_or_near()
                || one.is_jmp_short_or_near()
                || one.is_jcx_short()
                || one.is_loop();
            near.then(|| one.near_branch64())
        });
        let sites = self.emitted.sites.iter().flat_map(|site| match site.kind {
            ExitStubKind::Miss { resume, bounce, .. } => vec![resume, bounce],
            ExitStubKind::Commit { resume, .. } | ExitStubKind::Group { resume, .. } => {
                vec![resume]
            }
            ExitStubKind::Link { stub, .. } => vec![stub],
            _ => vec![],
        });
        let mut labels: Vec<u64> = jumps
            .chain(sites)
            .filter(|at| within.contains(at))
            .collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }
}

/// Lines of each part that are listed in full: two rounds of a short loop, and the path of its
/// first group.
const BODY_LINES: usize = 90;
const APART_LINES: usize = 60;
const SITE_LINES: usize = 12;

fn shortened(lines: &[String], keep: usize) -> String {
    let mut text: String = lines
        .iter()
        .take(keep)
        .map(|line| format!("{line}\n"))
        .collect();
    if let Some(more @ [_, ..]) = lines.get(keep..) {
        let sum = crc32fast::hash(more.join("\n").as_bytes());
        let _ = writeln!(text, "... {} lines more, CRC-32 {sum:08x}", more.len());
    }
    text
}

fn formatter(names: Option<Box<dyn SymbolResolver>>) -> IntelFormatter {
    let mut formatter = IntelFormatter::with_options(names, None);
    let options = formatter.options_mut();
    options.set_branch_leading_zeros(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    formatter
}

/// Names of addresses.
#[derive(Clone)]
struct AddressNames {
    labels: Vec<u64>,
    shared: SharedCode,
}

impl AddressNames {
    fn label(&self, address: u64) -> Option<usize> {
        self.labels.binary_search(&address).ok()
    }

    fn place(&self, address: u64) -> String {
        match self.label(address) {
            Some(number) => format!("L{number}"),
            None => format!("{:#x}", address.wrapping_sub(BASE)),
        }
    }

    fn site(&self, kind: &ExitStubKind) -> String {
        match kind {
            &ExitStubKind::Miss {
                size,
                write,
                form,
                resume,
                bounce,
            } => format!(
                "miss of {size} bytes, write {write}, {form:?}, on at {}, bounced at {}",
                self.place(resume),
                self.place(bounce)
            ),
            &ExitStubKind::Commit { size, resume, call } => format!(
                "commit {size} bytes, on at {}, call {call}",
                self.place(resume)
            ),
            &ExitStubKind::Link {
                target,
                stub,
                plain,
                ..
            } => format!(
                "link to {target:#x} from {}, plain {plain}",
                self.place(stub)
            ),
            &ExitStubKind::Group {
                span,
                write,
                resume,
            } => format!(
                "group of {span} bytes, write {write}, on at {}",
                self.place(resume)
            ),
            ExitStubKind::Helper(instruction) => format!("helper {:?}", instruction.code()),
            other => format!("{other:?}"),
        }
    }
}

impl SymbolResolver for AddressNames {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _: u32,
        operand: Option<u32>,
        address: u64,
        _: u32,
    ) -> Option<SymbolResult<'_>> {
        let kind = instruction.op_kind(operand?);
        let branch = kind == OpKind::NearBranch64;
        if let Some(number) = self.label(address).filter(|_| branch) {
            return Some(SymbolResult::with_string(address, format!("L{number}")));
        }
        if address == self.shared.leave_kept {
            return Some(SymbolResult::with_str(address, "leave_kept"));
        }
        if address == self.shared.leave {
            return Some(SymbolResult::with_str(address, "leave"));
        }
        if address == self.shared.unknown {
            return Some(SymbolResult::with_str(address, "unknown"));
        }
        if self.shared.lookup.contains(&address) {
            return Some(SymbolResult::with_str(address, "lookup"));
        }
        if kind != OpKind::Memory || instruction.segment_prefix() != Register::GS {
            return None;
        }
        let name = field(usize::try_from(address).ok()?)?;
        Some(SymbolResult::with_string(address, name))
    }
}

/// The context's field at an offset.
fn field(offset: usize) -> Option<String> {
    macro_rules! words {
        ($($name:ident)*) => {
            [$((stringify!($name), offset_of!(Context, $name))),*]
        };
    }
    let words = words! {
        flags count free borrowed code_page carried kept_flags tlb_mask page_mask jump_masks sign_mask fs_base
        arithmetic_mask interrupt_flag pushed_flags host_rsp gs_base kernel_gs_base tsc_at_zero tsc_hidden
        tsc_aux crossing_closed crossed system_entry interrupt_mask seldom_mask above_users_mask direction_mask
        exit_site host_mxcsr guest_mxcsr fault_trap fault_pc target resume leave
        x87_used
    };
    if let Some((name, _)) = words.iter().find(|(_, start)| *start == offset) {
        return Some((*name).to_owned());
    }
    let within = |start: usize, count: usize, bytes: usize| {
        let index = offset.checked_sub(start)? / bytes;
        (index < count && (offset - start).is_multiple_of(bytes)).then_some(index)
    };
    if let Some(number) = within(offset_of!(Context, gpr), 16, 8) {
        return Some(format!("gpr{number}"));
    }
    if let Some(number) = within(offset_of!(Context, lent), LENT, 8) {
        return Some(format!("lent{number}"));
    }
    if let Some(number) = within(offset_of!(Context, scratch), 2, 8) {
        return Some(format!("scratch{number}"));
    }
    if let Some(number) = within(offset_of!(Context, beyond_bits), 3, 8) {
        return Some(format!("beyond_bits{number}"));
    }
    if let Some(number) = within(offset_of!(Context, segment_bases), 4, 8) {
        return Some(format!("segment_base{number}"));
    }
    if let Some(number) = within(offset_of!(Context, steps), 2 * STEPS + 1, 8) {
        return Some(format!("step({})", number as i64 - STEPS as i64));
    }
    if let Some(number) = within(offset_of!(Context, heat), 16, 4) {
        return Some(format!("heat{number}"));
    }
    slot(offset).or_else(|| view(offset))
}

fn slot(offset: usize) -> Option<String> {
    let start = offset_of!(Context, slots);
    let filled = offset.checked_sub(start + offset_of!(Slots, filled));
    if let Some(cluster) = filled.filter(|&cluster| cluster < SLOTS / SLOT_CLUSTER) {
        return Some(format!("filled{cluster}"));
    }
    let offset = offset.checked_sub(start + offset_of!(Slots, each))?;
    let fields = [
        ("limit", offset_of!(Slot, limit)),
        ("base", offset_of!(Slot, base)),
        ("delta", offset_of!(Slot, delta)),
        ("fills", offset_of!(Slot, fills)),
    ];
    let (number, within) = (offset / size_of::<Slot>(), offset % size_of::<Slot>());
    let (name, _) = fields.into_iter().rfind(|field| field.1 <= within)?;
    (offset < size_of::<Slots>()).then(|| format!("slot{number}.{name}"))
}

fn view(offset: usize) -> Option<String> {
    let offset = offset.checked_sub(offset_of!(Context, views))?;
    let (number, offset) = (
        offset / size_of::<PrivilegeView>(),
        offset % size_of::<PrivilegeView>(),
    );
    let level = ["supervisor", "user"].get(number)?;
    if offset == offset_of!(PrivilegeView, jumps) {
        return Some(format!("{level}.jump"));
    }
    if let Some(entry) = offset.checked_sub(offset_of!(PrivilegeView, jumps))
        && entry < offset_of!(Jumps, first) + size_of::<[u64; FIRST]>()
    {
        return Some(format!("{level}.jump[{:#x}]", entry / 8));
    }
    let offset = offset.checked_sub(offset_of!(PrivilegeView, tlb))?;
    let access = ["read", "write"].get(offset / size_of::<Tlb>())?;
    let fields = [
        ("tag", offset_of!(Tlb, tag)),
        ("page", offset_of!(Tlb, page)),
        ("delta", offset_of!(Tlb, delta)),
        ("range", offset_of!(Tlb, range)),
        ("range_bytes", offset_of!(Tlb, range_bytes)),
    ];
    let at = offset % size_of::<Tlb>();
    let (name, _) = fields.into_iter().find(|field| field.1 == at)?;
    Some(format!("{level}.{access}.{name}"))
}
