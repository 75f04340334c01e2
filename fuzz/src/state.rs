//! Saved states of nodes, from checkpoints or snapshots: restored and run.
//!
//! A state is refused, or the node runs for a while without a panic. Called by name from `lib.rs`, with
//! nodes of [`boot`](crate::boot).

use belljar_sim::{Distribution, Seed, Span};
use belljar_vmm::{KernelImage, Node, NodeError, NodeStop, NoiseSource};

use crate::boot::{MEMORY, at, config, elf, engine};

/// Virtual microseconds for which a restored node runs.
const RUN: u64 = 40;

/// Restores a node from `data` and lets it run.
pub(crate) fn node(data: &[u8]) {
    let Ok(ram) = Node::blank_ram(MEMORY) else {
        return;
    };
    // Errors are expected; only panics are defects.
    let Ok(mut node) = Node::restore(&config(kernel()), ram, data, engine) else {
        return;
    };
    run(&mut node, RUN);
    node.take_frames();
    node.take_console();
    let _ = node.next_event();
    let _ = node.state_hashes();
    // The time may be anything now, even near its end.
    if let Ok(saved) = node.save()
        && let Ok(ram) = Node::blank_ram(MEMORY)
    {
        let again = Node::restore(&config(kernel()), ram, &saved, engine);
        assert!(
            matches!(again, Ok(_) | Err(NodeError::Memory { .. })),
            "what was saved is not restored"
        );
    }
}

/// Runs a node for a while from its current time.
fn run(node: &mut Node, microseconds: u64) {
    let end = node.now() + (at(microseconds).since(at(0)));
    for _ in 0..100 {
        match node.run_until(end) {
            Ok(NodeStop::Magic { .. }) => node.complete_magic(0),
            _ => return,
        }
    }
}

fn kernel() -> KernelImage {
    // sti; mov al, 'A'; mov dx, 0x3f8; out dx, al; inc ecx; jmp back to inc
    let code = [
        0xfb, 0xb0, 0x41, 0x66, 0xba, 0xf8, 0x03, 0xee, 0xff, 0xc1, 0xeb, 0xfc,
    ];
    KernelImage::from_bytes(std::path::Path::new("kernel"), &elf(&code, None))
        .expect("it is a kernel")
}

/// Nodes that have not begun, that run, that have pending events, and whose processors have detours.
pub(crate) fn node_seeds() -> Vec<Vec<u8>> {
    let mut node = Node::new(&config(kernel()), engine).expect("a node");
    let mut seeds = vec![node.save().expect("plain values")];
    run(&mut node, 3);
    seeds.push(node.save().expect("plain values"));
    node.write_console(at(30), b"a line\n".to_vec());
    node.write_control(at(31), b"another\n".to_vec());
    node.deliver_frame(at(32), vec![0xff; 64]);
    seeds.push(node.save().expect("plain values"));
    node.begin_noise(&noise(), Seed(1), 0, at(33));
    seeds.push(node.save().expect("plain values"));
    run(&mut node, 20);
    seeds.push(node.save().expect("plain values"));
    seeds
}

/// Detours with all spacings.
fn noise() -> Vec<NoiseSource> {
    let source = |(number, spacing, distribution)| NoiseSource {
        period: Span::from_us(5),
        spacing,
        lengths: vec![Span::from_us(1), Span::from_us(2)],
        distribution,
        is_synchronised: number == 0,
        number,
    };
    let (fixed, chance) = (Distribution::Fixed, Distribution::Exponential);
    [(0, fixed, fixed), (1, chance, chance)]
        .map(source)
        .to_vec()
}
