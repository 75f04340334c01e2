//! A simple implementation of the time model, instruction by instruction.

use belljar_cpu::{InstructionSet, Registers, TimeAccount};
use belljar_exact::{CacheLevel, CostClass, Costs, TICKS_PER_CYCLE, Timing};
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic as M, OpAccess};

/// Caches and memory of a processor model.
mod memory;
/// The processor model.
mod path;

use memory::{PlainMemory, PlainSite};
use path::PlainPath;

/// A simple cache: for each set, its lines, the last used one at the end.
struct PlainCache {
    sets: Vec<Vec<u64>>,
    ways: usize,
    latency: u64,
}

impl PlainCache {
    fn holds(&mut self, line: u64) -> bool {
        let number = (line % self.sets.len() as u64) as usize;
        let set = &mut self.sets[number];
        let before = set.len();
        set.retain(|&known| known != line);
        let hit = set.len() < before;
        set.push(line);
        if set.len() > self.ways {
            set.remove(0);
        }
        hit
    }
}

/// A simple implementation of the time model.
pub struct Plain {
    costs: Costs,
    caches: Option<(Vec<PlainCache>, u64)>,
    path: Option<PlainPath>,
    memory: Option<PlainMemory>,
    ticks: u64,
    pub account: TimeAccount,
}

impl Plain {
    /// The model of a processor with `set` that runs `code` at `base`.
    pub fn new(timing: &Timing, set: &InstructionSet, code: &[u8], base: u64) -> Self {
        let processor = timing.processor.as_ref();
        let caches = timing.caches.as_ref().filter(|_| processor.is_none());
        let caches = caches.map(|model| {
            let level = |level: &CacheLevel| PlainCache {
                sets: vec![Vec::new(); (level.bytes / 64 / u64::from(level.ways)) as usize],
                ways: level.ways as usize,
                latency: level.latency.into(),
            };
            (
                model.levels.iter().map(level).collect(),
                model.memory.into(),
            )
        });
        Self {
            costs: timing.costs.clone(),
            path: processor.map(|processor| PlainPath::new(processor, set, code, base)),
            memory: processor
                .filter(|_| timing.has_memory)
                .map(|processor| PlainMemory::new(&processor.caches)),
            caches,
            ticks: 0,
            account: TimeAccount {
                processor: processor.is_some(),
                ..TimeAccount::default()
            },
        }
    }

    /// An access by a load if `loads`, at `site`.
    fn access_by(&mut self, at: u64, bytes: u64, loads: bool, site: &PlainSite) {
        let Some(memory) = &mut self.memory else {
            return self.access(at, bytes);
        };
        for line in at / 64..=(at + bytes - 1) / 64 {
            let first = at.max(line * 64);
            memory.access(first, loads, self.ticks, self.account.instructions, site);
        }
        memory.write(&mut self.account);
    }

    fn access(&mut self, at: u64, bytes: u64) {
        let Some((levels, memory)) = &mut self.caches else {
            return;
        };
        for line in at / 64..=(at + bytes - 1) / 64 {
            let mut hit = None;
            for (number, level) in levels.iter_mut().enumerate() {
                if level.holds(line) {
                    hit = Some(number);
                    break;
                }
            }
            match hit {
                Some(0) => {}
                Some(number) => self.account.caches += levels[number].latency,
                None => self.account.memory += *memory,
            }
        }
    }

    /// Accounts for `instruction`, with the registers `before` it and `after` it.
    pub fn execute(&mut self, instruction: &Instruction, before: &Registers, after: &Registers) {
        use CostClass as K;
        let elements = before.gpr[1].wrapping_sub(after.gpr[1]);
        let class = match instruction.mnemonic() {
            M::Imul => K::Multiply,
            M::Div => K::Divide,
            M::Jmp | M::Jb | M::Je | M::Js | M::Jp | M::Jne | M::Call | M::Ret => K::Branch,
            M::Addsd => K::Fp,
            M::Mulpd => K::VectorFp,
            M::Movups => K::VectorInteger,
            M::Movsb | M::Scasw => K::String,
            M::Fxsave | M::Hlt => K::System,
            _ if instruction.has_lock_prefix() => K::Atomic,
            _ => K::Integer,
        };
        // Instructions that are executed outside of translated code access memory before their own time.
        let outside = matches!(
            instruction.mnemonic(),
            M::Movsb | M::Scasw | M::Fxsave | M::Bts
        );
        let mut site = PlainSite::default();
        let mut ticks = u64::from(self.costs.ticks(class));
        if let Some(path) = &mut self.path {
            (ticks, site) = path.ticks(instruction, before, after.rip, elements);
            self.account.branch += path.take_misprediction();
        }
        if self.memory.is_some() && outside {
            self.accesses(instruction, before, class, elements, &PlainSite::default());
            self.account.instructions += 1;
            self.ticks += ticks;
            return;
        }
        self.account.instructions += 1;
        self.ticks += ticks;
        self.accesses(instruction, before, class, elements, &site);
    }

    fn accesses(
        &mut self,
        instruction: &Instruction,
        before: &Registers,
        class: CostClass,
        elements: u64,
        site: &PlainSite,
    ) {
        match instruction.mnemonic() {
            M::Movsb | M::Scasw => self.string(instruction, before, elements),
            M::Fxsave => {
                let at = before.gpr[7].wrapping_add(instruction.memory_displacement64());
                self.access_by(at, 32, false, site);
                self.access_by(at + 32, 128, false, site);
                self.access_by(at + 160, 256, false, site);
            }
            M::Lea => {}
            _ => self.operands(instruction, before, class, site),
        }
    }

    fn operands(
        &mut self,
        instruction: &Instruction,
        before: &Registers,
        class: CostClass,
        site: &PlainSite,
    ) {
        let mut info = InstructionInfoFactory::new();
        let mut accesses = Vec::new();
        for memory in info.info(instruction).used_memory() {
            let mut at = memory
                .virtual_address(0, |register, _, _| {
                    Some(if register.is_segment_register() {
                        0
                    } else {
                        before.gpr[register.number()]
                    })
                })
                .expect("every register is known");
            if instruction.mnemonic() == M::Bts {
                at += before.gpr[5] / 64 * 8;
            }
            accesses.push((at, memory.memory_size().size() as u64, memory.access()));
        }
        // Operands of pushes and calls are read before the push.
        accesses.sort_by_key(|access| access.2 == OpAccess::Write);
        for (at, bytes, access) in accesses {
            if class != CostClass::Atomic && self.path.is_none() {
                let reads = matches!(access, OpAccess::Read | OpAccess::ReadWrite);
                let writes = matches!(access, OpAccess::Write | OpAccess::ReadWrite);
                assert!(reads || writes, "{access:?} of {instruction}");
                self.ticks += u64::from(reads) * u64::from(self.costs.ticks(CostClass::Load));
                self.ticks += u64::from(writes) * u64::from(self.costs.ticks(CostClass::Store));
            }
            self.access_by(at, bytes, access != OpAccess::Write, site);
        }
    }

    fn string(&mut self, instruction: &Instruction, before: &Registers, elements: u64) {
        let (from, to) = (before.gpr[6], before.gpr[7]);
        let mut last = [u64::MAX; 2];
        let moves = instruction.mnemonic() == M::Movsb;
        let bytes = if moves { elements } else { elements * 2 };
        for byte in 0..bytes {
            for (side, start) in [from, to].into_iter().enumerate() {
                let line = (start + byte) / 64;
                if (moves || side == 1) && last[side] != line {
                    last[side] = line;
                    self.access_by(start + byte, 1, false, &PlainSite::default());
                }
            }
        }
        if self.path.is_some() {
            return;
        }
        let units = if moves {
            elements.div_ceil(64)
        } else {
            elements
        };
        let more = u64::from(units.saturating_sub(1) as u32);
        self.ticks += more * u64::from(self.costs.ticks(CostClass::String));
    }

    pub fn cycles(&self) -> u64 {
        if let Some(memory) = &self.memory {
            return (self.ticks + memory.spent()) / u64::from(TICKS_PER_CYCLE);
        }
        self.ticks / u64::from(TICKS_PER_CYCLE) + self.account.caches + self.account.memory
    }
}
