use belljar_collectives::{Algorithm, Call, Operation};
use belljar_fabric::{LinkSpec, SwitchSpec};
use belljar_program::{Builder, Participation};
use belljar_sim::Span;
use belljar_trace::Implementation;

use super::*;

const US: u64 = 1_000_000;

fn star(hosts: u32, latency: Span) -> Topology {
    let link = LinkSpec {
        bandwidth: 10_000_000_000,
        latency,
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    Topology::star(hosts, link, switch).unwrap()
}

/// Settings with a network of this latency, for all models.
fn settings(hosts: u32, latency: Span) -> [Setting; 3] {
    let topology = star(hosts, latency);
    let parameters = Parameters {
        latency: latency + latency + Span::from_ns(300),
        gap: Span::ZERO,
        bandwidth: 10_000_000_000,
    };
    [
        NetworkModel::Packet(topology.clone(), Settings::default()),
        NetworkModel::Flow(topology, Settings::default()),
        NetworkModel::LogGops(hosts, parameters),
    ]
    .map(|network| Setting {
        network,
        costs: Costs::of(Implementation::Mpich),
        clocks: vec![Frequency::from_hz(2_600_000_000).unwrap()],
        hosts: (0..hosts).collect(),
        scale: 1.0,
    })
}

/// Rank 0 sends a message of this many bytes to rank 1, which waits for it; calls take this many microseconds.
fn message(bytes: u64, late: u64, [send, receive]: [u64; 2]) -> Program {
    let mut builder = Builder::new(2);
    let slot = builder.send(0, 1, 7, bytes);
    builder.wait(0, slot);
    builder.call(0, "MPI_Send", send * US);
    builder.work(0, 1000 * US);
    builder.call(0, "MPI_Wtime", US);
    builder.call(1, "MPI_Wtime", US);
    builder.work(1, late * US);
    let slot = builder.receive(1, 0, 7);
    builder.wait(1, slot);
    builder.call(1, "MPI_Recv", receive * US);
    builder.finish()
}

fn played(program: &Program, traced: &Setting, wanted: &Setting) -> Outcome {
    let calibration = calibrate(program, traced).unwrap();
    replay(program, &calibration, wanted, || true).unwrap()
}

#[test]
fn on_the_traced_network_a_replay_is_the_trace() {
    for bytes in [0, 1000, 10_000, 1_000_000] {
        let program = message(bytes, 50, [5000, 6000]);
        for setting in settings(2, Span::from_us(1)) {
            let outcome = played(&program, &setting, &setting);
            assert_eq!(outcome.total_ps, outcome.traced_ps, "{bytes} bytes");
            for (thread, times) in program.threads.iter().zip(&outcome.times) {
                let mut now = thread.start;
                for (call, (entry, exit)) in thread.calls.iter().zip(times) {
                    assert_eq!(*entry, now + call.before);
                    assert_eq!(*exit, *entry + call.inside);
                    now = *exit;
                }
            }
        }
    }
}

#[test]
fn latency_adds_once_for_each_leg() {
    // A small message has one leg. The first large one has seven, and its send is complete after six.
    for (bytes, sender, receiver) in [(1000, 0, 1), (1_000_000, 6, 7)] {
        let program = message(bytes, 0, [5000, 6000]);
        let near = settings(2, Span::from_us(1));
        let far = settings(2, Span::from_us(1001));
        for (traced, wanted) in near.iter().zip(&far) {
            let outcome = played(&program, traced, wanted);
            // A leg goes over two links, each a millisecond longer.
            let more = 2 * 1000 * US;
            let took = |thread: usize, call: usize| {
                let (entry, exit) = outcome.times[thread][call];
                exit - entry
            };
            // Frames have a window, small at first: a large message takes more round trips.
            let window = match wanted.network {
                NetworkModel::Packet(..) if bytes > 14_480 => 20 * more,
                _ => 0,
            };
            for (took, was, legs) in [(took(0, 0), 5000, sender), (took(1, 1), 6000, receiver)] {
                let least = was * US + legs * more;
                assert!(took + 200 * US >= least, "{bytes} bytes: {took} ps");
                assert!(
                    took <= least + window + 200 * US,
                    "{bytes} bytes: {took} ps"
                );
            }
        }
    }
}

#[test]
fn a_first_large_message_takes_two_legs_more() {
    let mut builder = Builder::new(2);
    for _ in 0..2 {
        let slot = builder.send(0, 1, 7, 30_000);
        builder.wait(0, slot);
        builder.call(0, "MPI_Send", 9000 * US);
        builder.work(0, 100_000 * US);
        let slot = builder.receive(1, 0, 7);
        builder.wait(1, slot);
        builder.call(1, "MPI_Recv", 9000 * US);
        builder.work(1, 90_000 * US);
    }
    let program = builder.finish();
    let [near, ..] = settings(2, Span::from_us(1));
    let [far, ..] = settings(2, Span::from_us(1001));
    let outcome = played(&program, &near, &far);
    // The first send has six legs of two milliseconds instead of four, and one round trip more, as the congestion window is the initial one.
    let took = |call: usize| outcome.times[0][call].1 - outcome.times[0][call].0;
    let more = took(0) - took(1);
    assert!(more.abs_diff(4 * 2000 * US) < 200 * US, "{more} ps");
}

#[test]
fn waiting_for_lost_frames_stays_on_the_network_that_loses_them() {
    // Three ranks send to one at once, and waited 300 ms for a timer of TCP.
    let mut builder = Builder::new(4);
    for rank in 1..4 {
        let slot = builder.send(rank, 0, 7, 200_000);
        builder.wait(rank, slot);
        builder.call(rank, "MPI_Send", 300_000 * US);
    }
    let slots: Vec<_> = (1..4).map(|rank| builder.receive(0, rank, 7)).collect();
    slots.into_iter().for_each(|slot| builder.wait(0, slot));
    builder.call(0, "MPI_Waitall", 300_000 * US);
    let program = builder.finish();
    let [wide, ..] = settings(4, Span::from_us(1));
    let link = LinkSpec {
        bandwidth: 1_000_000_000,
        latency: Span::from_us(10),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 20_000,
    };
    let topology = Topology::star(4, link, switch).unwrap();
    let short = Setting {
        network: NetworkModel::Packet(topology, Settings::default()),
        ..wide.clone()
    };
    let own = played(&program, &short, &short);
    assert!(own.as_traced && own.lost_in_trace > 0);
    assert_eq!(own.total_ps, own.traced_ps);
    let other = played(&program, &short, &wide);
    assert!(!other.as_traced && other.stuck.is_empty());
    assert!(other.total_ps < 5_000 * US, "{} ps", other.total_ps);
    // On a network without losses the same waiting is a regular residual.
    let worked = played(&program, &wide, &wide);
    assert_eq!(
        (worked.as_traced, worked.total_ps),
        (false, worked.traced_ps)
    );
}

#[test]
fn a_large_message_waits_for_who_computes() {
    let setting = &settings(2, Span::from_us(1))[1];
    let program = message(1_000_000, 3000, [9000, 6000]);
    let soon = message(1_000_000, 0, [9000, 6000]);
    let calibration = calibrate(&program, setting).unwrap();
    let late = replay(&program, &calibration, setting, || true).unwrap();
    // The same residuals, with the receiver's work removed.
    let early = replay(&soon, &calibration, setting, || true).unwrap();
    let took = |outcome: &Outcome| outcome.times[0][0].1 - outcome.times[0][0].0;
    let less = took(&late) - took(&early);
    assert!(less.abs_diff(3000 * US) < 100 * US, "{less} ps");
}

#[test]
fn all_leave_a_barrier_after_the_last_has_come() {
    for ranks in [2, 5, 8] {
        let mut builder = Builder::new(ranks);
        for rank in 0..ranks {
            builder.call(rank, "MPI_Wtime", US);
            builder.work(rank, u64::from(rank) * 100 * US);
            let part = Participation::Library {
                algorithm: Algorithm::BarrierDissemination,
                call: Call::new(Operation::Barrier, ranks, rank),
                stages: Vec::new(),
                times: 1,
            };
            let slot = builder.take_part(rank, part);
            builder.wait(rank, slot);
            builder.call(rank, "MPI_Barrier", 2000 * US);
        }
        let program = builder.finish();
        for setting in settings(ranks, Span::from_us(1)) {
            let none = Calibration::nothing(&program);
            let outcome = replay(&program, &none, &setting, || true).unwrap();
            let last = u64::from(ranks - 1) * 100 * US;
            assert!(outcome.stuck.is_empty());
            for times in &outcome.times {
                assert!(times[1].1 >= last, "{ranks} ranks: {times:?}");
                assert!(times[1].1 < last + 200 * US, "{ranks} ranks: {times:?}");
            }
        }
    }
}

#[test]
fn what_nobody_sends_is_never_received() {
    let mut builder = Builder::new(2);
    let slot = builder.receive(1, 0, 3);
    builder.wait(1, slot);
    builder.call(1, "MPI_Recv", US);
    builder.call(0, "MPI_Wtime", US);
    let program = builder.finish();
    for setting in settings(2, Span::from_us(1)) {
        let outcome = played(&program, &setting, &setting);
        assert_eq!(outcome.stuck.len(), 1);
        assert_eq!((outcome.stuck[0].rank, outcome.stuck[0].call), (1, 0));
    }
}

#[test]
fn faster_processors_work_less() {
    let program = message(100, 2000, [5000, 6000]);
    let setting = &settings(2, Span::from_us(1))[0];
    let faster = Setting {
        scale: 0.5,
        ..setting.clone()
    };
    let outcome = played(&program, setting, &faster);
    let (entry, _) = outcome.times[1][1];
    assert_eq!(entry, (2000 * US + US) / 2);
}

#[test]
fn each_process_works_at_its_own_clock() {
    let program = message(10_000, 2000, [5000, 6000]);
    let [full, half] = [2_600_000_000, 1_300_000_000].map(|hz| Frequency::from_hz(hz).unwrap());
    for setting in settings(2, Span::from_us(1)) {
        let with = |clocks: [Frequency; 2]| {
            let other = Setting {
                clocks: clocks.to_vec(),
                ..setting.clone()
            };
            let outcome = played(&program, &setting, &other);
            let length = |rank: usize, call: usize| {
                let (entry, exit) = outcome.times[rank][call];
                exit - entry
            };
            (length(0, 0), length(1, 1))
        };
        let (sends, receives) = with([full, full]);
        let costs = Costs::of(Implementation::Mpich);
        let more = |cycles: f64| (cycles * 1e12 / full.as_hz() as f64) as u64;
        let slow = with([half, full]);
        assert!(
            slow.0.abs_diff(sends + more(costs.send.cycles(10_000))) < 10,
            "{slow:?} {sends}"
        );
        let slow = with([full, half]);
        assert_eq!(slow.0, sends);
        let takes = more(costs.receive.cycles(10_000) + costs.begin);
        assert!(
            slow.1.abs_diff(receives + takes) < 10,
            "{slow:?} {receives}"
        );
    }
}

#[test]
fn a_rank_must_have_a_host() {
    let program = message(100, 0, [5, 6]);
    let setting = Setting {
        hosts: vec![0, 9],
        ..settings(2, Span::from_us(1))[0].clone()
    };
    let error = calibrate(&program, &setting).unwrap_err().to_string();
    assert_eq!(
        error,
        "rank 1 is placed on host 9, and the network has 2 hosts"
    );
}

#[test]
fn the_main_part_is_between_the_first_start_and_the_last_end() {
    let mut builder = Builder::new(2);
    // Rank 0: start until 10 us, work until 60, end from 60 to 70. Rank 1: start until 30, work until 50, end until 90.
    for (rank, [start, work, end]) in [(0, [10, 50, 10]), (1, [30, 20, 40])] {
        builder.call(rank, "MPI_Init", start * US);
        builder.work(rank, work * US);
        builder.call(rank, "MPI_Finalize", end * US);
    }
    let program = builder.finish();
    let [setting, ..] = settings(2, Span::from_us(1));
    let outcome = played(&program, &setting, &setting);
    assert_eq!(
        (outcome.main_ps, outcome.traced_main_ps),
        (50 * US, 50 * US)
    );
    let fast = Setting {
        scale: 0.5,
        ..setting.clone()
    };
    let outcome = played(&program, &setting, &fast);
    assert_eq!(
        (outcome.main_ps, outcome.traced_main_ps),
        (25 * US, 50 * US)
    );
}

/// One-sided operations.
mod one_sided;
mod scheduled;
mod shared_memory;
