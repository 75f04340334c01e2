//! Host code for one block of guest code.

use iced_x86::{Encoder, Instruction, InstructionInfoFactory};

use crate::analyse::Class;
use crate::asm::{Asm, Hole, RCX, S0};
use crate::block::{CheckForm, Mode, Site, SiteId, SiteKind};
use crate::context::at;
use crate::decode::GuestBlock;
use crate::flags::flags_dead;
use crate::size::CodeSize;
use crate::state::vector;

mod access;
mod flow;
pub(crate) mod legacy;
mod operands;

/// Host code and what belongs to it, ready to be placed.
pub(crate) struct Emitted {
    pub sites: Vec<Site>,
    pub host_map: Vec<(u32, u8)>,
    /// Offset of the entry for chained jumps.
    pub entry: u32,
    pub counted: u8,
    /// Whether all arithmetic flags are dead on entry.
    pub flags_dead: bool,
}

/// Where shared code stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shared {
    /// Saves the guest's registers and returns to the dispatcher.
    pub leave: u64,
    /// Leaves with `EXIT_LOOKUP`.
    pub lookup: u64,
}

/// Code that stands behind the block, out of the way.
struct Cold {
    hole: Hole,
    kind: ColdKind,
    index: u8,
}

enum ColdKind {
    /// Leaves through a site; with `restore`, gives RCX back first.
    Leave { kind: SiteKind, restore: bool },
    /// A TLB miss; `body` is the hot code from the access to its end.
    Miss {
        size: u16,
        write: bool,
        form: CheckForm,
        resume: u32,
        body: (u32, u32),
        restore: bool,
    },
    /// A jump to another block; `hole` is what linking patches.
    Link { target: u64 },
}

/// Translates decoded blocks to host code, one after the other.
pub(crate) struct Emitter {
    asm: Asm,
    encoder: Encoder,
    info: InstructionInfoFactory,
    shared: Shared,
    cold: Vec<Cold>,
    host_map: Vec<(u32, u8)>,
    mode: Mode,
    /// Page number of the block's RIP.
    page: u64,
    index: u8,
}

impl Emitter {
    pub(crate) fn new(shared: Shared) -> Self {
        Self {
            asm: Asm::default(),
            encoder: Encoder::new(64),
            info: InstructionInfoFactory::new(),
            shared,
            cold: Vec::new(),
            host_map: Vec::new(),
            mode: Mode {
                user: false,
                fpu: true,
                single: false,
                free_stubs: false,
                size: CodeSize::Long,
                skew: 0,
            },
            page: 0,
            index: 0,
        }
    }

    /// The code of the block emitted last.
    pub(crate) fn code(&self) -> &[u8] {
        self.asm.code()
    }

    /// Emits `block` for host address `base`; its sites will get ids from
    /// `first_site` on and belong to block `id`.
    pub(crate) fn emit(
        &mut self,
        block: &GuestBlock,
        mode: Mode,
        free: bool,
        base: u64,
        (id, first_site): (u32, SiteId),
    ) -> Emitted {
        self.asm.restart(base);
        self.cold.clear();
        self.host_map.clear();
        self.mode = mode;
        self.page = block.rip.wrapping_add(u64::from(mode.skew)) >> 12;
        self.index = 0;
        let dead = flags_dead(&block.instructions);
        let counted = if free {
            0
        } else {
            block.instructions.len() as u8
        };
        self.verify_target(block.rip);
        let entry = self.asm.offset();
        self.count(block.instructions.len() as i8, free, dead[0]);
        for (index, guest) in block.instructions.iter().enumerate() {
            self.index = index as u8;
            self.host_map.push((self.asm.offset(), self.index));
            self.instruction(&guest.instruction, guest.class, dead[index]);
        }
        if block
            .instructions
            .last()
            .is_none_or(|last| !last.class.ends_block())
        {
            self.jump_to_guest(block.end);
        }
        let sites = self.emit_cold((id, first_site));
        Emitted {
            sites,
            host_map: std::mem::take(&mut self.host_map),
            entry,
            counted,
            flags_dead: dead[0],
        }
    }

    /// The entry for indirect jumps: goes on only if S0 is this block's RIP.
    fn verify_target(&mut self, rip: u64) {
        self.asm.store(at::BORROWED, RCX);
        self.asm.mov_imm(RCX, rip.wrapping_neg());
        self.asm.lea_sum(RCX, S0, RCX, 0);
        let same = self.asm.jump_rcx_zero();
        self.asm.load(RCX, at::BORROWED);
        self.asm.jump_to(self.shared.lookup);
        self.asm.land(same);
        self.asm.load(RCX, at::BORROWED);
    }

    /// Takes the block's instructions off the budget, or leaves when it does not
    /// cover them.
    fn count(&mut self, instructions: i8, free: bool, flags_dead: bool) {
        let (counter, kind) = if free {
            (at::FREE, SiteKind::FreeSpent)
        } else {
            (at::COUNT, SiteKind::Stop)
        };
        if flags_dead {
            self.asm.sub_imm(counter, instructions);
            let hole = self.asm.jump_if(CONDITION_SIGN);
            self.leave_from(hole, kind, false);
            return;
        }
        self.asm.store(at::BORROWED, RCX);
        self.asm.load(RCX, counter);
        self.asm.lea(RCX, RCX, -i32::from(instructions));
        self.asm.store(counter, RCX);
        self.asm.pext(RCX, RCX, at::SIGN_MASK);
        let enough = self.asm.jump_rcx_zero();
        let hole = self.asm.jump();
        self.leave_from(hole, kind, true);
        self.asm.land(enough);
        self.asm.load(RCX, at::BORROWED);
    }

    fn leave_from(&mut self, hole: Hole, kind: SiteKind, restore: bool) {
        self.cold.push(Cold {
            hole,
            kind: ColdKind::Leave { kind, restore },
            index: self.index,
        });
    }

    fn instruction(&mut self, instruction: &Instruction, class: Class, flags_dead: bool) {
        if self.mode.size != CodeSize::Long
            && self.legacy_instruction(instruction, class, flags_dead)
        {
            return;
        }
        match class {
            Class::Nop => {}
            Class::Plain => self.plain(instruction),
            Class::Lea => self.lea(instruction),
            Class::Memory { size, write } => self.memory(instruction, size, write, flags_dead),
            Class::Push => self.push(instruction, flags_dead),
            Class::Pop => self.pop(instruction, flags_dead),
            Class::Leave => self.leave_frame(flags_dead),
            Class::Jump => self.jump_to_guest(instruction.near_branch_target()),
            Class::JumpIf => self.jump_if(instruction),
            Class::Call => self.call(instruction, flags_dead),
            Class::Ret => self.ret(instruction, flags_dead),
            Class::JumpIndirect => self.jump_indirect(instruction, flags_dead),
            Class::CallIndirect => self.call_indirect(instruction, flags_dead),
            Class::Helper => {
                let hole = self.asm.jump();
                self.leave_from(hole, SiteKind::Helper(Box::new(*instruction)), false);
            }
            Class::Fault(vector) => {
                let hole = self.asm.jump();
                self.leave_from(hole, SiteKind::Fault { vector }, false);
            }
        }
    }

    /// Encodes a rewritten guest instruction here. One for which there is no encoding
    /// is one that is not implemented, and raises #UD.
    fn encode(&mut self, instruction: &Instruction) {
        let at = self.asm.here();
        let start = self.asm.offset();
        self.encoder.set_buffer(self.asm.take());
        let result = self.encoder.encode(instruction, at);
        let code = self.encoder.take_buffer();
        self.asm.put(code);
        if result.is_err() {
            self.asm.cut(start);
            let hole = self.asm.jump();
            let kind = SiteKind::Fault {
                vector: vector::INVALID_OPCODE,
            };
            self.leave_from(hole, kind, false);
        }
    }

    fn emit_cold(&mut self, (id, first_site): (u32, SiteId)) -> Vec<Site> {
        let mut sites = Vec::new();
        for cold in std::mem::take(&mut self.cold) {
            self.asm.land(cold.hole);
            let mut leave = |asm: &mut Asm, kind| {
                let site = first_site + sites.len() as u32;
                asm.store_imm32(at::EXIT_SITE, site);
                asm.jump_to(self.shared.leave);
                sites.push(Site {
                    block: id,
                    index: cold.index,
                    kind,
                });
            };
            match cold.kind {
                ColdKind::Leave { kind, restore } => {
                    if restore {
                        self.asm.load(RCX, at::BORROWED);
                    }
                    leave(&mut self.asm, kind);
                }
                ColdKind::Link { target } => {
                    let hole = self.asm.address_of(self.asm.hole_offset(cold.hole));
                    let stub = self.asm.here();
                    leave(&mut self.asm, SiteKind::Link { target, hole, stub });
                }
                ColdKind::Miss {
                    size,
                    write,
                    form,
                    resume,
                    body,
                    restore,
                } => {
                    if restore {
                        self.asm.load(RCX, at::BORROWED);
                    }
                    let resume = self.asm.address_of(resume);
                    let bounce = if write {
                        self.asm.here() + LEAVE_BYTES
                    } else {
                        resume
                    };
                    let kind = SiteKind::Miss {
                        size,
                        write,
                        form,
                        resume,
                        bounce,
                    };
                    leave(&mut self.asm, kind);
                    if write {
                        debug_assert_eq!(self.asm.here(), bounce);
                        self.host_map.push((self.asm.offset(), cold.index));
                        self.asm.repeat(body.0, body.1);
                        let resume = self.asm.address_of(body.1);
                        leave(&mut self.asm, SiteKind::Commit { size, resume });
                    }
                }
            }
        }
        sites
    }
}

/// The low nibble of JS.
const CONDITION_SIGN: u8 = 8;
/// Bytes of the code that leaves through a site.
const LEAVE_BYTES: u64 = 12 + 5;
