//! Tests of a node with processors that follow scripts: ends, devices, timers, interrupts, frames
//! and calls.
/// Detours at given times.
mod absence;
/// The division of time into runs, and the function that runs them, have no effect.
mod cutting;
/// A processor for the tests.
mod fake;
/// Detours of processors.
mod noise;
/// Nodes that take the place of others.
mod succession;
/// Nodes of several processors, each with its own script.
mod vcpus;

use std::path::Path;
use std::sync::Arc;

use belljar_cpu::{ShutdownCause, Vcpu};
use belljar_devices::virtio::Disk;
use belljar_sim::{Seed, Span};

use super::*;
use crate::boot::{KernelImage, synthetic};
use crate::config::{DiskConfig, NetConfig};
use fake::{CACHES, Fake, Log, Op, Seen};

/// Cycles are nanoseconds here.
const GHZ: u64 = 1_000_000_000;
const NET: u64 = 0xd000_1000;
const NET_PIN: u64 = 17;
const TIMER_VECTOR: u8 = 0xec;
/// Above the timer's, so that it is delivered first when both are raised in one cycle.
const NET_VECTOR: u8 = 0xf1;
const NET_QUEUES: u64 = 0x20_0000;
const NET_BUFFERS: u64 = 0x30_0000;

fn config() -> NodeConfig {
    let kernel =
        KernelImage::from_bytes(Path::new("vmlinux"), &synthetic::elf(&[0xf4], 0)).unwrap();
    NodeConfig {
        index: 3,
        seed: Seed(1),
        memory: 64 << 20,
        huge_pages: false,
        vcpus: 1,
        slice: belljar_sim::Span::from_us(10),
        frequency: Frequency::from_hz(GHZ).unwrap(),
        instruction_set: belljar_cpu::InstructionSet::default(),
        kernel: Arc::new(kernel),
        initrd: None,
        command_line: String::new(),
        disks: vec![DiskConfig {
            disk: Disk::from_bytes(vec![5; 4096]),
            name: "root".into(),
            latency: Span::from_us(20),
        }],
        infiniband: None,
        net: Some(NetConfig {
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            speed: 10_000,
            offload: false,
        }),
        date: 0,
        streams: 0,
        exit_device: true,
    }
}

fn ns(cycle: u64) -> Time {
    Time::from_ps(cycle * 1000)
}

fn node_with(main: Vec<Op>, shape: impl Fn(&mut Fake)) -> (Node, Log) {
    let log = Log::default();
    let node = Node::new(&config(), |parts| {
        let mut fake = Fake::new(parts, main.clone(), log.clone());
        shape(&mut fake);
        Ok(Box::new(fake) as Box<dyn Vcpu + Send>)
    });
    (node.unwrap(), log)
}

fn node(main: Vec<Op>) -> (Node, Log) {
    node_with(main, |_| {})
}

fn seen(log: &Log) -> Vec<(Cycles, Seen)> {
    log.lock().unwrap().clone()
}

/// x2APIC on, timer in TSC-deadline mode.
fn apic_on() -> Vec<Op> {
    vec![
        Op::WriteMsr(0x1b, 0xfee0_0d00),
        Op::WriteMsr(0x80f, 0x1ff),
        Op::WriteMsr(0x832, 0x4_0000 | u64::from(TIMER_VECTOR)),
    ]
}

/// Sends a level interrupt of the network card to [`NET_VECTOR`], and sets both of
/// its queues up, with `buffers` for received frames.
fn net_on(buffers: u16) -> Vec<Op> {
    let mut ops = vec![
        Op::Store(0xfec0_0000, 4, 0x10 + 2 * NET_PIN),
        Op::Store(0xfec0_0010, 4, 0x8000 | u64::from(NET_VECTOR)),
    ];
    let mut set = |register: u64, value: u64| ops.push(Op::Store(NET + register, 4, value));
    for (register, value) in [(0x70, 3), (0x24, 1), (0x20, 1), (0x70, 0xb)] {
        set(register, value);
    }
    for queue in 0..2 {
        let base = NET_QUEUES + queue * 0x1_0000;
        for (register, value) in [
            (0x30, queue),
            (0x38, 256),
            (0x80, base),
            (0x90, base + 0x4000),
            (0xa0, base + 0x6000),
            (0x44, 1),
        ] {
            set(register, value);
        }
    }
    set(0x70, 0xf);
    for index in 0..buffers {
        let addr = NET_BUFFERS + u64::from(index) * 2048;
        ops.push(descriptor(NET_QUEUES, index, addr, 2048, 2));
        ops.push(Op::Poke(
            NET_QUEUES + 0x4004 + u64::from(index) * 2,
            index.to_le_bytes().to_vec(),
        ));
    }
    ops.push(Op::Poke(
        NET_QUEUES + 0x4002,
        buffers.to_le_bytes().to_vec(),
    ));
    ops.push(Op::Store(NET + 0x50, 4, 0));
    ops
}

fn descriptor(queue: u64, index: u16, addr: u64, len: u32, flags: u16) -> Op {
    let mut bytes = addr.to_le_bytes().to_vec();
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&[0, 0]);
    Op::Poke(queue + u64::from(index) * 16, bytes)
}

/// Sends `frame` from the guest as its `count`th frame (from 1).
fn send(frame: &[u8], count: u16) -> Vec<Op> {
    let queue = NET_QUEUES + 0x1_0000;
    let buffer = NET_BUFFERS + 0x8_0000;
    vec![
        Op::Poke(buffer, [&[0; 12], frame].concat()),
        descriptor(queue, 0, buffer, 12 + frame.len() as u32, 0),
        Op::Poke(queue + 0x4002, count.to_le_bytes().to_vec()),
        Op::Store(NET + 0x50, 4, 1),
    ]
}

/// Acknowledges the network card, then ends the interrupt.
fn net_handler() -> Vec<Op> {
    vec![
        Op::Load(NET + 0x60, 4),
        Op::Store(NET + 0x64, 4, 3),
        Op::WriteMsr(0x80b, 0),
        Op::Return,
    ]
}

fn idle_loop(mut ops: Vec<Op>) -> Vec<Op> {
    let at = ops.len();
    ops.extend([Op::EnableInterrupts, Op::Halt, Op::Jump(at)]);
    ops
}

#[test]
fn the_processor_starts_at_the_kernel() {
    let (node, _) = node(vec![Op::Halt]);
    assert_eq!(node.registers().rip, synthetic::LOAD);
    assert_eq!(node.now(), Time::ZERO);
}

#[test]
fn a_run_stops_at_its_limit_and_goes_on() {
    let (mut node, _) = node_with(vec![Op::Work, Op::Jump(0)], |fake| fake.pace = 3);
    assert_eq!(node.run_until(ns(10)).unwrap(), NodeStop::Limit);
    assert_eq!(
        node.now_cycles(),
        12,
        "the first boundary at or after the limit"
    );
    assert_eq!(node.run_until(ns(12)).unwrap(), NodeStop::Limit);
    assert_eq!(node.retired(), 4);
    assert_eq!(node.next_event(), Some(ns(12)));
}

/// Also within an instruction that reads a device, and with several events in one cycle.
#[test]
fn a_pause_comes_at_its_instruction_and_changes_nothing() {
    let program = vec![
        Op::Work,
        Op::In(0x3fd, 1),
        Op::Out(0x3f8, 1, 65),
        Op::Jump(0),
    ];
    for pace in [0, 1, 3] {
        let run = |pauses: bool| {
            let (mut node, log) = node_with(program.clone(), |fake| fake.pace = pace);
            for at in (1..=40).filter(|at| pauses || *at == 40) {
                node.pause_at(at);
                assert_eq!(node.run_until(ns(1000)).unwrap(), NodeStop::Paused);
                assert_eq!(node.retired(), at);
                // The paused node does not move.
                assert_eq!(node.run_until(ns(1000)).unwrap(), NodeStop::Paused);
            }
            (node.state_hashes(), seen(&log), node.take_console())
        };
        assert_eq!(run(true), run(false));
    }
}

#[test]
fn hashes_of_states_show_registers_memory_and_devices() {
    let change = |program: Vec<Op>| {
        let (mut node, _) = node_with(program, |_| {});
        node.pause_at(1);
        node.run_until(ns(1000)).unwrap();
        node.state_hashes()
    };
    let plain = change(vec![Op::Work]);
    let memory = change(vec![Op::Poke(0x30_0000, vec![1])]);
    assert_ne!(memory.memory, plain.memory);
    assert_eq!(
        (memory.processor, memory.devices),
        (plain.processor, plain.devices)
    );
    let flag = change(vec![Op::EnableInterrupts]);
    assert_ne!(flag.processor, plain.processor);
    assert_eq!((flag.memory, flag.devices), (plain.memory, plain.devices));
    let devices = change(vec![Op::WriteMsr(0x1b, 0xfee0_0c00)]);
    assert_ne!(devices.devices, plain.devices);
    assert_eq!(
        (devices.memory, devices.processor),
        (plain.memory, plain.processor)
    );
}

#[test]
fn every_end_is_told_and_kept() {
    let fault = ShutdownCause::TripleFault { vector: 14, rip: 0 };
    for (op, stop) in [
        (Op::Out(0x600, 1, 5 << 2 | 1 << 5), NodeStop::PoweredOff),
        (Op::Out(0x602, 1, 6), NodeStop::Reset),
        (Op::Out(0x64, 1, 0xfe), NodeStop::Reset),
        (Op::Out(0xf4, 4, 7), NodeStop::Exited(7)),
        (Op::Halt, NodeStop::Hung),
        (Op::Fail, NodeStop::Shutdown(fault)),
    ] {
        let (mut node, _) = node(vec![Op::Work, op, Op::Halt]);
        assert_eq!(node.run_until(ns(100)).unwrap(), stop);
        assert_eq!(node.run_until(ns(200)).unwrap(), stop);
        assert!(node.is_idle() && node.next_event().is_none());
    }
}

#[test]
fn ports_and_registers_answer() {
    let (mut node, log) = node(vec![
        Op::Out(0x3f8, 1, u32::from(b'B')),
        Op::Out(0xcf8, 4, 0x8000_ff00),
        Op::In(0x20, 1),
        Op::In(0xcf8, 4),
        Op::In(0x3fd, 1),
        Op::ReadMsr(0x1b),
        Op::ReadMsr(0x179),
        Op::ReadMsr(0x1234),
        Op::WriteMsr(0x8b, 0),
        Op::WriteMsr(0x1234, 1),
        Op::Load(0xd000_0000, 4),
        Op::Load(0xd000_3008, 4),
        Op::Load(0xd000_7000, 4),
        Op::Load(0xfee0_0030, 4),
        Op::Halt,
    ]);
    node.run_until(ns(100)).unwrap();
    assert_eq!(node.take_console(), b"B");
    let values: Vec<Seen> = seen(&log).into_iter().map(|(_, seen)| seen).collect();
    let value = Seen::Value;
    assert_eq!(
        values,
        [
            value(0xff),
            value(u64::MAX),
            value(0x60),
            value(0xfee0_0900),
            value(0),
            Seen::Fault,
            Seen::Fault,
            value(0x7472_6976),
            value(3),
            value(u64::MAX),
            value(0x5_0014),
        ]
    );
    assert_eq!(node.unknown_msrs().collect::<Vec<_>>(), [0x1234]);
    let counts = node.exit_counts();
    assert_eq!(
        (
            counts.port_accesses,
            counts.msr_accesses,
            counts.mmio_accesses
        ),
        (5, 5, 4)
    );
}

#[test]
fn a_halted_node_sleeps_to_its_timer_and_beyond() {
    let mut main = apic_on();
    main.push(Op::Arm(5_000));
    let (mut node, log) = node(idle_loop(main));
    assert_eq!(node.run_until(ns(1_000)).unwrap(), NodeStop::Limit);
    assert_eq!((node.next_event(), node.is_idle()), (Some(ns(5_003)), true));
    assert_eq!(node.run_until(ns(5_003)).unwrap(), NodeStop::Limit);
    assert!(!node.is_idle(), "the timer is due");
    assert_eq!(node.run_until(ns(9_000)).unwrap(), NodeStop::Limit);
    assert_eq!(seen(&log), [(5_003, Seen::Interrupt(TIMER_VECTOR))]);
    assert_eq!((node.next_event(), node.is_idle()), (None, true));
}

#[test]
fn an_interrupt_waits_for_its_window_to_the_instruction() {
    let mut main = apic_on();
    main.extend([Op::Arm(5), Op::EnableInterrupts, Op::DisableInterrupts]);
    main.extend(std::iter::repeat_n(Op::Work, 20));
    main.extend([
        Op::TaskPriority(15),
        Op::EnableInterrupts,
        Op::Work,
        Op::TaskPriority(0),
        Op::Halt,
        Op::Halt,
    ]);
    let (mut node, log) = node(main);
    node.run_until(ns(1_000)).unwrap();
    // 3 to set up, one to arm, STI and CLI, 20 of work, then CR8, STI, work, CR8.
    assert_eq!(seen(&log), [(30, Seen::Interrupt(TIMER_VECTOR))]);
}

#[test]
fn a_read_s_own_interrupt_comes_behind_it() {
    let mut main = apic_on();
    // The serial port's pin, edge triggered, and its receive interrupt.
    main.extend([
        Op::Store(0xfec0_0000, 4, 0x10 + 2 * 4),
        Op::Store(0xfec0_0010, 4, 0x44),
    ]);
    main.extend([Op::Out(0x3f9, 1, 1), Op::EnableInterrupts]);
    main.extend(std::iter::repeat_n(Op::In(0x3f8, 1), 70));
    main.push(Op::Halt);
    let (mut node, log) = node(main);
    node.write_console(ns(20), vec![b'x'; 66]);
    node.run_until(ns(1_000)).unwrap();
    let interrupts = seen(&log)
        .iter()
        .filter(|(_, seen)| *seen == Seen::Interrupt(0x44))
        .count();
    assert!(
        interrupts >= 2,
        "the fake's own checks hold for each of {interrupts}"
    );
}

#[test]
fn frames_come_and_go_at_their_times() {
    let mut main = apic_on();
    main.extend(net_on(4));
    main.extend(send(&[7; 60], 1));
    let sent_at = main.len() as u64;
    let (mut node, log) = node_with(idle_loop(main), |fake| {
        fake.handlers.insert(NET_VECTOR, net_handler());
    });
    node.deliver_frame(ns(5_000), vec![8; 64]);
    node.deliver_frame(ns(4_000), vec![9; 61]);
    assert_eq!(node.run_until(ns(6_000)).unwrap(), NodeStop::Limit);
    assert_eq!(node.take_frames(), [(ns(sent_at), vec![7; 60])]);
    let interrupts: Vec<Cycles> = seen(&log)
        .into_iter()
        .filter(|(_, seen)| *seen == Seen::Interrupt(NET_VECTOR))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(
        interrupts[1..],
        [4_000, 5_000],
        "the first is the sent frame's own"
    );
    let mut received = [0; 61];
    vm_memory::Bytes::read_slice(
        &node.devices.ram,
        &mut received,
        vm_memory::GuestAddress(NET_BUFFERS + 12),
    )
    .unwrap();
    assert_eq!(received, [9; 61]);
    assert_eq!(node.net_counters().received, 2);
    assert!(node.complaints().is_empty());
}

#[test]
fn magic_stops_until_it_is_completed() {
    let (mut node, log) = node(vec![Op::Work, Op::Magic, Op::Work, Op::Halt]);
    assert_eq!(
        node.run_until(ns(50)).unwrap(),
        NodeStop::Magic { at: 1, vcpu: 0 }
    );
    assert_eq!(
        node.run_until(ns(50)).unwrap(),
        NodeStop::Magic { at: 1, vcpu: 0 }
    );
    node.complete_magic(0x1234);
    node.complete_magic(0x9999);
    assert_eq!(node.run_until(ns(50)).unwrap(), NodeStop::Hung);
    assert_eq!(seen(&log), [(1, Seen::Target(0x1234))]);
}

#[test]
fn virtual_memory_is_read_across_pages_and_written_whole_or_not() {
    let (mut node, _) = node(vec![Op::Halt]);
    let alias = 0xffff_8000_0000_0000u64;
    node.write_virtual(alias + 0xffe, b"ab").unwrap();
    let mut bytes = [0; 4];
    node.read_virtual(alias + 0xffe, &mut bytes).unwrap();
    assert_eq!(&bytes, b"ab\0\0");
    assert_eq!(
        node.write_virtual(alias + 0xffe, b"xyz"),
        Err(BadAddress(alias + 0x1000))
    );
    node.read_virtual(alias + 0xffe, &mut bytes).unwrap();
    assert_eq!(&bytes, b"ab\0\0");
    assert_eq!(
        node.read_virtual(u64::MAX - 1, &mut bytes),
        Err(BadAddress(u64::MAX - 1))
    );
    assert_eq!(node.read_virtual(0, &mut bytes), Err(BadAddress(0)));
    assert_eq!(node.read_virtual(alias, &mut []), Ok(()));
}

#[test]
fn unfit_configurations_are_refused() {
    let build = |change: fn(&mut NodeConfig)| {
        let mut config = config();
        change(&mut config);
        let engine = |parts| {
            Ok(Box::new(Fake::new(parts, Vec::new(), Log::default())) as Box<dyn Vcpu + Send>)
        };
        Node::new(&config, engine)
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(build(|config| config.memory = 1 << 20).contains("64 MiB"));
    assert!(build(|config| config.vcpus = 65).contains("1 to 64"));
    assert!(build(|config| config.slice = Span::from_ns(99)).contains("100 ns to 1 ms"));
    assert!(
        build(|config| config.frequency = Frequency::from_hz(2_600_000_001).unwrap())
            .contains("1 kHz")
    );
    assert!(
        build(|config| config.disks = vec![config.disks[0].clone(); 8])
            .contains("10 virtio devices")
    );
    assert!(
        build(|config| config.net = Some(NetConfig {
            mac: [1; 6],
            mtu: 1500,
            speed: 10_000,
            offload: false,
        }))
        .contains("unicast")
    );
}
