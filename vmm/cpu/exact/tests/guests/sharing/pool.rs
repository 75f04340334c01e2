//! Nodes that share translated code of pages with the same bytes.
//!
//! Each behaves as it would alone: when another rewrites its own copy of the code, when all run at
//! once in separate threads, and when the pool is full. With `BELLJAR_POOL=1` the other tests'
//! guests share a pool, too.

use std::thread;

use belljar_cpu::{CpuidTable, Exit, GuestRam, InstructionSet, Registers, Vcpu};
use belljar_exact::{CodePool, CodeShare, CyclesPerInstruction, ExactConfig, ExactVcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest, STACK};
use belljar_sim::{Random, Seed};
use iced_x86::code_asm::*;
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

/// Room for more code than any test has.
pub(super) const ROOM: usize = 16 << 20;

pub(super) struct Node {
    ram: GuestRam,
    pub(super) vcpu: ExactVcpu,
}

impl Node {
    /// A node at the beginning of `code`, with `number` in RDI; its code is the pool's if there is
    /// one.
    pub(super) fn new(code: &[u8], number: u64, pool: Option<&CodePool>) -> Self {
        let Guest { ram, vcpu, .. } = Guest::new(code);
        let mut share = CodeShare::default();
        if let Some(pool) = pool {
            share = share.pooled(pool);
        }
        let config = ExactConfig {
            ram: ram.clone(),
            cpuid: CpuidTable::default(),
            instruction_set: InstructionSet::default(),
            ratio: CyclesPerInstruction::default(),
            timing: None,
            random: Random::new(Seed(1), "test", number),
            host_results: false,
        };
        let mut one = ExactVcpu::sharing(config, &share).unwrap();
        one.set_system(&vcpu.system());
        let mut registers = vcpu.registers();
        registers.gpr[Registers::RDI] = number;
        registers.gpr[Registers::RSP] = STACK;
        one.set_registers(&registers);
        Self { ram, vcpu: one }
    }

    pub(super) fn run(&mut self, instructions: u64) -> Exit {
        let until = self.vcpu.now() + instructions;
        self.vcpu.run(until).unwrap()
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.ram.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    /// The visible state of a guest.
    pub(super) fn outcome(&self) -> (Registers, u64, Vec<u8>) {
        let mut memory = vec![0; 0x2000];
        for (part, at) in memory.chunks_exact_mut(0x1000).zip([CODE, DATA]) {
            self.ram.read_slice(part, GuestAddress(at)).unwrap();
        }
        (self.vcpu.registers(), self.vcpu.retired(), memory)
    }
}

/// A loop of `rounds` that calls a function on its own page and adds up the results. Every `period`
/// rounds, a power of two, it stores to memory; in its second half, it stores to the function's
/// return value, so that frequently run code writes into its own page.
pub(super) fn program(rounds: u32, period: u32) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    let [mut again, mut skip, mut function, mut past] = [(); 4].map(|()| a.create_label());
    a.mov(rbx, DATA).unwrap();
    a.mov(ecx, rounds).unwrap();
    a.jmp(past).unwrap();
    a.set_label(&mut function).unwrap();
    a.mov(eax, 5).unwrap();
    a.ret().unwrap();
    a.set_label(&mut past).unwrap();
    a.lea(r8, ptr(function)).unwrap();
    a.mov(rsi, DATA + 0x100).unwrap();
    a.set_label(&mut again).unwrap();
    a.call(function).unwrap();
    a.cmp(ecx, rounds as i32 / 2).unwrap();
    a.cmovb(rsi, r8).unwrap();
    a.add(qword_ptr(rbx), rax).unwrap();
    a.inc(qword_ptr(rbx + 8)).unwrap();
    a.test(ecx, period as i32 - 1).unwrap();
    a.jne(skip).unwrap();
    a.add(dword_ptr(rsi + 1), edi).unwrap();
    a.set_label(&mut skip).unwrap();
    a.dec(ecx).unwrap();
    a.jne(again).unwrap();
    a.hlt().unwrap();
    a.assemble(CODE).unwrap()
}

/// A period so long that it never elapses.
pub(super) const NEVER: u32 = 1 << 30;

#[test]
fn the_second_translates_next_to_nothing() {
    let pool = CodePool::with_room(ROOM);
    let code = program(5_000, NEVER);
    let nodes = [0, 1].map(|number| {
        let mut node = Node::new(&code, number, Some(&pool));
        assert_eq!(node.run(1 << 30), Exit::Halt);
        node
    });
    let [first, second] = nodes.each_ref().map(|node| node.vcpu.statistics());
    assert!(first.translated > 0 && first.promoted > 0, "{first:?}");
    // An access beyond the range of a group's check continues in a block that begins there; its
    // existence depends on the addresses of each node's memory.
    assert!(second.translated * 5 < first.translated, "{second:?}");
    assert_eq!(second.promoted, 0, "{second:?}");
    assert_eq!((second.pages_shared, second.pages_left), (1, 0));
    let [first, second] = nodes.map(|node| node.outcome());
    assert_eq!((first.1, first.2), (second.1, second.2));
    let (pages, blocks) = pool.size();
    assert!(pages == 1 && blocks > 4, "{pages} pages, {blocks} blocks");
}

/// While one node is in the middle of the pool's hot code, another writes to its copy.
#[test]
fn who_rewrites_its_code_does_so_for_itself() {
    let pool = CodePool::with_room(ROOM);
    let code = program(20_000, NEVER);
    let mut nodes = [0, 1].map(|number| Node::new(&code, number, Some(&pool)));
    for node in &mut nodes {
        assert_eq!(node.run(50_000), Exit::Deadline);
    }
    // The constant of MOV EAX, after MOV RBX, MOV ECX and JMP.
    let at = code.windows(5).position(|five| five == [0xb8, 5, 0, 0, 0]);
    nodes[0].write(CODE + at.unwrap() as u64 + 1, &[7]);
    for node in &mut nodes {
        assert_eq!(node.run(1 << 30), Exit::Halt);
    }
    let [mut alone, mut other] = [0, 1].map(|number| Node::new(&code, number, None));
    assert_eq!(alone.run(50_000), Exit::Deadline);
    alone.write(CODE + at.unwrap() as u64 + 1, &[7]);
    for node in [&mut alone, &mut other] {
        assert_eq!(node.run(1 << 30), Exit::Halt);
    }
    assert_eq!(nodes[0].outcome(), alone.outcome());
    assert_eq!(nodes[1].outcome(), other.outcome());
    let left = nodes
        .each_ref()
        .map(|node| node.vcpu.statistics().pages_left);
    assert_eq!(left, [1, 0]);
}

/// Runs `count` nodes by turns, until all have ended.
pub(super) fn by_turns(
    code: &[u8],
    count: u64,
    turns: &[u64],
    pool: Option<&CodePool>,
) -> Vec<Node> {
    let mut nodes: Vec<Node> = (0..count).map(|n| Node::new(code, n, pool)).collect();
    let mut going: Vec<usize> = (0..nodes.len()).collect();
    let mut turns = turns.iter().cycle();
    while !going.is_empty() {
        going.retain(|&number| nodes[number].run(*turns.next().unwrap()) != Exit::Halt);
    }
    nodes
}

pub(super) fn outcomes(nodes: &[Node]) -> Vec<(Registers, u64, Vec<u8>)> {
    nodes.iter().map(Node::outcome).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// The node with zero in RDI writes the bytes that are already there.
    #[test]
    fn nodes_that_rewrite_their_code_end_as_if_alone(
        turns in proptest::collection::vec(1u64..3000, 1..20),
        period in 6u32..11,
    ) {
        let code = program(6_000, 1 << period);
        let pool = CodePool::with_room(ROOM);
        let shared = by_turns(&code, 3, &turns, Some(&pool));
        prop_assert!(shared.iter().all(|node| node.vcpu.statistics().pages_left == 1));
        let alone = by_turns(&code, 3, &turns, None);
        prop_assert_eq!(outcomes(&shared), outcomes(&alone));
    }
}

/// Different code in each round, in more threads than most machines have processors.
#[test]
fn threads_add_and_run_at_once() {
    let pool = CodePool::with_room(ROOM);
    let codes: Vec<_> = (0..24)
        .map(|n| program(3_000 + n, 1 << (8 + n % 6)))
        .collect();
    let run = |pool: Option<&CodePool>, first: usize| -> Vec<_> {
        let order = (0..codes.len()).map(|n| &codes[(n + first) % codes.len()]);
        order
            .map(|code| by_turns(code, 1, &[777], pool)[0].outcome())
            .collect()
    };
    let expected = run(None, 0);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|thread| {
                scope.spawn({
                    let (run, pool) = (&run, &pool);
                    move || run(Some(pool), thread / 2)
                })
            })
            .collect();
        for (number, thread) in threads.into_iter().enumerate() {
            let mut found = thread.join().unwrap();
            found.rotate_right(number / 2);
            assert!(found == expected, "thread {number}");
        }
    });
    assert_eq!(pool.size().0, codes.len(), "a page for each program");
}

/// More pages of code than the pool keeps: the others are each node's own.
#[test]
fn a_pool_without_room_is_left() {
    let pool = CodePool::with_room(0);
    let mut left = 0;
    for number in 0..700 {
        let code = program(700 + number, NEVER);
        let mut nodes = [Some(&pool), None].map(|pool| Node::new(&code, 1, pool));
        for node in &mut nodes {
            assert_eq!(node.run(1 << 30), Exit::Halt);
        }
        assert_eq!(nodes[0].outcome(), nodes[1].outcome(), "program {number}");
        left += u64::from(nodes[0].vcpu.statistics().pages_shared == 0);
    }
    assert!(left > 100, "only {left} found no room");
}
