//! Jobs that share a network, and jobs that have it alone.

use belljar_collectives::{Algorithm, Call, Operation};
use belljar_fabric::{LinkSpec, Settings, SwitchSpec, Topology};
use belljar_program::{Builder, Participation};
use belljar_sim::{Frequency, Random, Seed, Span, decode, encode};
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
        clocks: vec![Frequency::from_hz(2_600_000_000).unwrap()],
        hosts: vec![0, 1],
        scale: 1.0,
    }
}

/// Returns the end of each of these jobs, given by begin and hosts.
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
    // On other hosts it does not affect the first.
    assert_eq!(ends(&[(0, [0, 2]), (0, [1, 3])])[0], alone);
}

/// Three ranks that send each other small and large messages, and reduce.
fn mixed() -> Program {
    let mut builder = Builder::new(3);
    for round in 0..6_u32 {
        for (rank, to, from) in [(0, 1, 2), (1, 2, 0), (2, 0, 1)] {
            builder.work(rank, 700_000 * u64::from(round));
            let sent = builder.send(rank, to, 1, 1 + 90_000 * u64::from(round));
            let received = builder.receive(rank, from, 1);
            builder.wait(rank, received);
            builder.wait(rank, sent);
            builder.call(rank, "MPI_Sendrecv", 0);
        }
        for rank in 0..3 {
            let mut call = Call::new(Operation::Allreduce, 3, rank);
            call.count = 6_000;
            let part = Participation::Library {
                algorithm: Algorithm::AllreduceRecursiveDoubling,
                call,
                stages: Vec::new(),
                times: 1,
            };
            let slot = builder.take_part(rank, part);
            builder.wait(rank, slot);
            builder.call(rank, "MPI_Allreduce", 0);
        }
    }
    builder.finish()
}

/// Frames or flows, on a network with shared links.
fn shared(model: usize) -> Setting {
    let mut setting = setting(8);
    let NetworkModel::Flow(star, _) = &setting.network else {
        unreachable!("flows are what that is");
    };
    setting.network = match model {
        0 => NetworkModel::Packet(star.clone(), Settings::default()),
        _ => NetworkModel::Flow(star.clone(), Settings::default()),
    };
    setting
}

/// Returns the ends of three jobs on the same hosts, and the load of links; saved and restored after these numbers of
/// events.
fn in_parts(setting: &Setting, parts: &[u32]) -> (Vec<(u64, usize)>, Vec<LinkLoad>) {
    let program = mixed();
    let calibration = Calibration::nothing(&program);
    let mut joined = Joined::default();
    for _ in 0..3 {
        joined.add(&program, &calibration);
    }
    let mut contention = Contention::new(&joined, setting).unwrap();
    for (job, begins) in (0..).zip([0, 0, 20_000_000]) {
        contention.begin(begins, job, &[1, 2, 3 + job as u32]);
    }
    let mut parts = parts.iter().copied().chain(std::iter::repeat(u32::MAX));
    let mut ends = Vec::new();
    loop {
        contention.at_once = parts.next().unwrap();
        match contention.next_end(None) {
            NextEnd::Job(time, job) => ends.push((time, job)),
            NextEnd::Nothing => return (ends, contention.links()),
            NextEnd::NotYet => {}
        }
        let bytes = encode(&contention.save().unwrap()).unwrap();
        contention = Contention::new(&joined, setting).unwrap();
        contention.restore(decode(&bytes).unwrap()).unwrap();
    }
}

#[test]
fn broken_off_anywhere_they_end_the_same() {
    for model in 0..2 {
        let setting = shared(model);
        let whole = in_parts(&setting, &[]);
        assert_eq!(whole.0.len(), 3);
        let mut random = Random::new(Seed(5), "parts", model as u64);
        for most in [2_u32, 8, 100] {
            let parts: Vec<u32> = (0..20_000 / most)
                .map(|_| 1 + (random.next_u64() % u64::from(most)) as u32)
                .collect();
            assert_eq!(in_parts(&setting, &parts), whole);
        }
    }
}

#[test]
fn states_of_other_jobs_are_refused() {
    let (program, setting) = (mixed(), shared(1));
    let calibration = Calibration::nothing(&program);
    let joined = |jobs: usize| {
        let mut joined = Joined::default();
        (0..jobs).for_each(|_| joined.add(&program, &calibration));
        joined
    };
    let (two, three) = (joined(2), joined(3));
    let mut contention = Contention::new(&two, &setting).unwrap();
    contention.begin(0, 1, &[1, 2, 3]);
    contention.at_once = 100;
    assert_eq!(contention.next_end(None), NextEnd::NotYet);
    let state = contention.save().unwrap();
    let refused = |joined: &Joined, setting: &Setting, state: &ContentionState| {
        let mut other = Contention::new(joined, setting).unwrap();
        other.restore(state.clone()).is_err()
    };
    assert!(!refused(&two, &setting, &state));
    assert!(refused(&three, &setting, &state));
    assert!(refused(&two, &shared(0), &state));
    let nowhere = ContentionState {
        hosts: vec![8; 6],
        ..state
    };
    assert!(refused(&two, &setting, &nowhere));
}
