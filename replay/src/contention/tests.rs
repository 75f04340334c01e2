//! Jobs that share a network, and jobs that have it alone.

use belljar_fabric::{LinkSpec, Settings, SwitchSpec, Topology};
use belljar_program::Builder;
use belljar_sim::{Frequency, Span};
use belljar_trace::Implementation;

use super::*;
use crate::costs::Costs;
use crate::replay::{NetworkModel, replay};

/// Rank 0 sends rank 1 some large messages, one after the other.
fn sends() -> Program {
    let mut builder = Builder::new(2);
    for tag in 0..20 {
        let slot = builder.send(0, 1, tag, 4_000_000);
        builder.wait(0, slot);
        builder.call(0, "MPI_Send", 0);
        let slot = builder.receive(1, 0, tag);
        builder.wait(1, slot);
        builder.call(1, "MPI_Recv", 0);
    }
    builder.finish()
}

fn setting(hosts: u32) -> Setting {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    let topology = Topology::star(hosts, link, switch).unwrap();
    Setting {
        network: NetworkModel::Flow(topology, Settings::default()),
        costs: Costs::of(Implementation::Mpich),
        clock: Frequency::from_hz(2_600_000_000).unwrap(),
        hosts: vec![0, 1],
        scale: 1.0,
    }
}

/// When each of these jobs ends: when it begins, and on which hosts.
fn ends(jobs: &[(u64, [u32; 2])]) -> Vec<u64> {
    let program = sends();
    let calibration = Calibration::nothing(&program);
    let mut joined = Joined::default();
    for _ in jobs {
        joined.add(&program, &calibration);
    }
    let setting = setting(8);
    let mut contention = Contention::new(&joined, &setting).unwrap();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|job| jobs[*job].0);
    let mut all = vec![0; jobs.len()];
    for job in order {
        let (begins, hosts) = jobs[job];
        while let NextEnd::Job(time, ended) = contention.next_end(Some(begins)) {
            all[ended] = time;
        }
        contention.begin(begins, job, &hosts);
    }
    while let NextEnd::Job(time, ended) = contention.next_end(None) {
        all[ended] = time;
    }
    all
}

#[test]
fn a_job_alone_is_its_replay_whenever_and_wherever_it_begins() {
    let program = sends();
    let calibration = Calibration::nothing(&program);
    let alone = replay(&program, &calibration, &setting(8), || true).unwrap();
    assert_eq!(ends(&[(0, [0, 1])]), [alone.total_ps]);
    let later = ends(&[
        (0, [0, 1]),
        (7_000_000, [2, 3]),
        (50 * alone.total_ps, [0, 1]),
    ]);
    let lasted = [
        later[0],
        later[1] - 7_000_000,
        later[2] - 50 * alone.total_ps,
    ];
    assert_eq!(lasted, [alone.total_ps; 3]);
}

#[test]
fn jobs_that_share_a_link_take_longer() {
    let alone = ends(&[(0, [0, 2])])[0];
    // To one host at once: its link is shared.
    let both = ends(&[(0, [0, 2]), (0, [1, 2])]);
    for end in both {
        let times = end as f64 / alone as f64;
        assert!((1.7..2.1).contains(&times), "{times}");
    }
    // The second begins when the first is half done: for half of its time it has the link alone.
    let late = ends(&[(0, [0, 2]), (alone / 2, [1, 2])]);
    let times = late[0] as f64 / alone as f64;
    assert!((1.35..1.6).contains(&times), "{times}");
    // On other hosts it does nothing to the first.
    assert_eq!(ends(&[(0, [0, 2]), (0, [1, 3])])[0], alone);
}
