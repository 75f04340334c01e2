//! Exit stubs in their saved form, and the guest instructions that they and blocks refer to.
//!
//! Instructions are decoded again from the page's bytes: the same bytes, mode and features give the same
//! instruction. Called by `saved` in both directions; saving compares the decoded instruction with the
//! present one.

use belljar_cpu::PAGE_SIZE;
use belljar_translate::guest::decode::{Decoded, decode};
use belljar_translate::guest::features::Features;
use belljar_translate::guest::mode::Mode;
use belljar_translate::guest::rename::rename;
use belljar_translate::host::allocation::Allocation;
use belljar_translate::host::block::Block;
use belljar_translate::host::exit_stub::{BlockId, CheckForm, ExitStub, ExitStubKind, Refill};
use bincode::{Decode, Encode};
use iced_x86::Instruction;

use super::record::{Limits, SavedBlock};
use super::{Places, SavedCodeError, SavedPage, check};
use crate::code::pool::PageBytes;

/// The pages of a saved pool, from which instructions are decoded.
#[derive(Clone, Copy)]
pub(in super::super) struct SavedPages<'a> {
    pub(super) pages: &'a [SavedPage],
    /// The bytes of distinct pages.
    pub(super) contents: &'a [PageBytes],
    pub(super) features: &'a [Features],
}

/// The properties of a block that determine its instructions, besides their RIPs.
#[derive(Clone, Copy)]
pub(super) struct BlockCode {
    /// Address in the pool.
    pub(super) address: u64,
    pub(super) mode: Mode,
    pub(super) allocation: Allocation,
}

impl BlockCode {
    pub(super) fn of(block: &Block) -> Self {
        Self {
            address: block.origin.first,
            mode: block.mode,
            allocation: block.allocation,
        }
    }
}

impl SavedPages<'_> {
    /// The instruction at `rip` of a block as it was translated: with renamed registers, unless it is
    /// executed in Rust. `None` if there is no such page.
    pub(super) fn instruction(&self, block: BlockCode, rip: u64) -> Option<Instruction> {
        let page = self.pages.get((block.address / PAGE_SIZE) as usize)?;
        let page = self.contents.get(page.content as usize)?;
        let features = Features {
            fpu: block.mode.fpu,
            size: block.mode.size,
            nulls: block.mode.nulls,
            ..*self.features.get(usize::from(block.mode.features))?
        };
        let bytes = &page[(rip % PAGE_SIZE) as usize..];
        let Decoded::Block(mut run) = decode(rip, bytes, 1, &features) else {
            return None;
        };
        if let Some(pairs) = block.allocation.renamed {
            rename(&mut run.instructions, pairs);
        }
        run.instructions.first().map(|guest| guest.instruction)
    }
}

/// An exit stub; host addresses are offsets.
#[derive(Encode, Decode)]
pub(super) struct SavedStub {
    index: u16,
    allocates: bool,
    relative: bool,
    kind: SavedKind,
}

/// As [`ExitStubKind`].
#[derive(Encode, Decode)]
enum SavedKind {
    Stop,
    FreeSpent,
    Miss {
        size: u16,
        write: bool,
        form: CheckForm,
        resume: u32,
        bounce: u32,
    },
    Commit {
        size: u16,
        resume: u32,
        call: bool,
    },
    Link {
        target: u64,
        /// Number of its cell.
        cell: u32,
        stub: u32,
        plain: bool,
    },
    Hot,
    Path {
        again: u32,
    },
    Apart,
    Group {
        span: u16,
        write: bool,
        resume: u32,
    },
    Refilled(Refill),
    Helper,
    Fault {
        vector: u8,
    },
}

impl SavedStub {
    /// The saved form of `stub` of `block`, in code memory at these places. `None` if its
    /// instruction is not the one in its page.
    pub(super) fn of(
        stub: &ExitStub,
        block: &Block,
        places: Places,
        pages: SavedPages<'_>,
    ) -> Option<Self> {
        let offset = |at| places.offset(at);
        let kind = match &stub.kind {
            ExitStubKind::Stop => SavedKind::Stop,
            ExitStubKind::FreeSpent => SavedKind::FreeSpent,
            &ExitStubKind::Miss {
                size,
                write,
                form,
                resume,
                bounce,
            } => SavedKind::Miss {
                size,
                write,
                form,
                resume: offset(resume),
                bounce: offset(bounce),
            },
            &ExitStubKind::Commit { size, resume, call } => SavedKind::Commit {
                size,
                resume: offset(resume),
                call,
            },
            &ExitStubKind::Link {
                target,
                hole,
                stub,
                plain,
            } => SavedKind::Link {
                target,
                cell: places.cell(hole),
                stub: offset(stub),
                plain,
            },
            ExitStubKind::Hot => SavedKind::Hot,
            &ExitStubKind::Path { again } => SavedKind::Path {
                again: offset(again),
            },
            ExitStubKind::Apart => SavedKind::Apart,
            &ExitStubKind::Group {
                span,
                write,
                resume,
            } => SavedKind::Group {
                span,
                write,
                resume: offset(resume),
            },
            &ExitStubKind::Refilled(refill) => SavedKind::Refilled(refill),
            ExitStubKind::Helper(instruction) => {
                let rip = instruction.ip();
                let decoded = pages.instruction(BlockCode::of(block), rip)?;
                let is_same = |one: &Instruction| (one.ip(), one.len());
                if decoded != **instruction || is_same(&decoded) != is_same(instruction) {
                    return None;
                }
                SavedKind::Helper
            }
            &ExitStubKind::Fault { vector } => SavedKind::Fault { vector },
        };
        Some(Self {
            index: stub.index,
            allocates: stub.allocates,
            relative: stub.relative,
            kind,
        })
    }

    /// Checks its numbers.
    ///
    /// # Errors
    /// If one is impossible.
    pub(super) fn check(&self, limits: Limits) -> Result<(), SavedCodeError> {
        let in_code = |at: u32| (at as usize) < limits.code;
        let is_possible = match self.kind {
            SavedKind::Miss { resume, bounce, .. } => in_code(resume) && in_code(bounce),
            SavedKind::Commit { resume, .. } | SavedKind::Group { resume, .. } => in_code(resume),
            SavedKind::Link { cell, stub, .. } => (cell as usize) < limits.cells && in_code(stub),
            SavedKind::Path { again } => in_code(again),
            SavedKind::Refilled(refill) => refill.slot < limits.slots,
            _ => true,
        };
        check(is_possible, "exits")
    }

    /// The exit stub of `block`, number `id`, in code memory at these places.
    ///
    /// # Errors
    /// If its instruction is missing.
    pub(super) fn restored(
        &self,
        id: BlockId,
        block: &SavedBlock,
        places: Places,
        pages: SavedPages<'_>,
    ) -> Result<ExitStub, SavedCodeError> {
        check(usize::from(self.index) <= block.offsets.len(), "exits")?;
        let at = |offset| places.at(offset);
        let kind = match self.kind {
            SavedKind::Stop => ExitStubKind::Stop,
            SavedKind::FreeSpent => ExitStubKind::FreeSpent,
            SavedKind::Miss {
                size,
                write,
                form,
                resume,
                bounce,
            } => ExitStubKind::Miss {
                size,
                write,
                form,
                resume: at(resume),
                bounce: at(bounce),
            },
            SavedKind::Commit { size, resume, call } => ExitStubKind::Commit {
                size,
                resume: at(resume),
                call,
            },
            SavedKind::Link {
                target,
                cell: number,
                stub,
                plain,
            } => ExitStubKind::Link {
                target,
                hole: places.at_cell(number),
                stub: at(stub),
                plain,
            },
            SavedKind::Hot => ExitStubKind::Hot,
            SavedKind::Path { again } => ExitStubKind::Path { again: at(again) },
            SavedKind::Apart => ExitStubKind::Apart,
            SavedKind::Group {
                span,
                write,
                resume,
            } => ExitStubKind::Group {
                span,
                write,
                resume: at(resume),
            },
            SavedKind::Refilled(refill) => ExitStubKind::Refilled(refill),
            SavedKind::Helper => {
                let rip = block.rip_of(self.index);
                let instruction = rip.and_then(|rip| pages.instruction(block.code(), rip));
                let instruction = instruction.ok_or(SavedCodeError::Table("instructions"))?;
                ExitStubKind::Helper(Box::new(instruction))
            }
            SavedKind::Fault { vector } => ExitStubKind::Fault { vector },
        };
        Ok(ExitStub {
            block: id,
            index: self.index,
            allocates: self.allocates,
            relative: self.relative,
            kind,
        })
    }
}
