use belljar_collectives::{Algorithm, Call, Operation};
use belljar_fabric::{LinkSpec, SwitchSpec, Topology};
use belljar_program::{Builder, Participation};
use belljar_sim::Span;

use super::*;

const AMOUNTS: Amounts = Amounts {
    flops_per_second: 1e9,
};

#[test]
fn what_is_waited_for_at_once_is_one_action() {
    let mut builder = Builder::new(2);
    builder.work(0, 3_000_000);
    let sent = builder.send(0, 1, 0, 100);
    builder.wait(0, sent);
    builder.call(0, "MPI_Send", 1);
    let slot = builder.receive(1, 0, 0);
    builder.call(1, "MPI_Irecv", 0);
    builder.work(1, 2_000_000);
    builder.wait(1, slot);
    builder.call(1, "MPI_Wait", 0);
    let program = builder.finish();
    let messages = Messages::new(&program, true);
    let text = |rank| {
        let mut out = Vec::new();
        write_rank(&messages, rank, AMOUNTS, &mut out).expect("memory");
        String::from_utf8(out).expect("text")
    };
    assert_eq!(
        text(0),
        "0 init\n0 compute 3000\n0 send 1 0 100\n0 finalize\n"
    );
    assert_eq!(
        text(1),
        "1 init\n1 irecv 0 0 100\n1 compute 2000\n1 wait 0 1 0\n1 finalize\n"
    );
}

#[test]
fn a_reduce_scatter_has_the_blocks_of_all_ranks_and_no_work() {
    let mut builder = Builder::new(2);
    for rank in [0, 1] {
        let part = Participation::Library {
            algorithm: Algorithm::ReduceScatterPairwise,
            call: Call::new(Operation::ReduceScatterBlock, 2, rank).elements(23, 8),
            stages: Vec::new(),
            times: 1,
        };
        let slot = builder.take_part(rank, part);
        builder.wait(rank, slot);
        builder.call(rank, "MPI_Reduce_scatter_block", 5);
    }
    let program = builder.finish();
    let messages = Messages::new(&program, true);
    let mut out = Vec::new();
    write_rank(&messages, 0, AMOUNTS, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(text, "0 init\n0 reducescatter 184 184 0\n0 finalize\n");
}

#[test]
fn a_platform_has_every_host_and_every_link() {
    let link = LinkSpec {
        bandwidth: 8_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    let topology = Topology::star(3, link, switch).expect("a star");
    let layout = Layout {
        topology: &topology,
        flops_per_second: 1e9,
        hosts: &[0, 1, 2],
    };
    let mut out = Vec::new();
    write_platform(&layout, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    assert_eq!(text.matches("<host id=").count(), 3);
    assert_eq!(text.matches("<link id=").count(), 3);
    // A link's own microsecond, and half of the switch's latency.
    assert_eq!(
        text.matches("bandwidth=\"1000000000Bps\" latency=\"1.15us\"")
            .count(),
        3
    );
    assert_eq!(text.matches("<route ").count(), 3);
}
