use belljar_fabric::{Fabric, LinkSpec, Settings, SwitchSpec};
use belljar_program::Builder;
use belljar_sim::{Frequency, Span};
use belljar_trace::Implementation;

use super::*;
use crate::calibration::Calibration;
use crate::costs::Costs;

/// Two ranks send each other small and large messages, and meet in a barrier.
fn job() -> Arc<PreparedJob> {
    let mut builder = Builder::new(2);
    for tag in 0..4 {
        for (from, to) in [(0, 1), (1, 0)] {
            let slot = builder.send(from, to, tag, 100_000 * u64::from(tag as u32) + 10);
            let other = builder.receive(from, to, tag);
            builder.wait(from, other);
            builder.wait(from, slot);
            builder.call(from, "MPI_Sendrecv", 30_000_000);
        }
    }
    let program = builder.finish();
    let calibration = Calibration::nothing(&program);
    let clock = Frequency::from_hz(2_600_000_000).unwrap();
    let clocks = vec![clock; program.processes.len()];
    let costs = Costs::of(Implementation::Mpich);
    Arc::new(PreparedJob::new(program, calibration, costs, clocks).unwrap())
}

fn star() -> Topology {
    let link = LinkSpec {
        bandwidth: 1_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };
    Topology::star(5, link, switch).unwrap()
}

fn background(times: Option<u64>) -> Background {
    let setting = BackgroundSetting {
        hosts: vec![3, 4],
        start: Time::from_ps(5_000_000),
        scale: 1.0,
        times,
    };
    Background::new(job(), &setting, &star(), &Settings::default().routes()).unwrap()
}

/// Plays for a tenth of a second, in steps of this length; between two steps the state is saved and restored if wanted. Returns the times at which
/// all frames were sent.
fn played(times: Option<u64>, step: u64, saves: bool) -> (BackgroundFigures, Vec<(u64, u32)>) {
    let (mut job, mut fabric) = (background(times), Fabric::new(star()));
    let (mut all, mut sent) = (Vec::new(), Vec::new());
    let mut now = 0;
    while now < 100_000_000_000 {
        now += step;
        let end = Time::from_ps(now);
        job.advance(end, &mut sent);
        for own in sent.drain(..) {
            all.push((own.time.as_ps(), own.host));
            fabric.send_background(own.time, own.host, own.sequence, own.frame);
        }
        for delivery in fabric.advance(end) {
            job.hand_in(delivery.time, delivery.host, delivery.frame);
        }
        if saves {
            let bytes = belljar_sim::encode(&job.save()).unwrap();
            let frames = fabric.save();
            job = background(times);
            job.restore(belljar_sim::decode(&bytes).unwrap()).unwrap();
            fabric = Fabric::new(star());
            fabric.restore(frames).unwrap();
        }
    }
    (job.figures(), all)
}

#[test]
fn a_job_is_played_again_and_again_in_the_same_way_however_it_is_looked_at() {
    let (figures, frames) = played(None, 700_000, false);
    assert!(figures.ended > 5, "{figures:?}");
    assert_eq!(figures.begun, figures.ended + 1);
    // It is alone on the network, so the repetitions differ only in the windows of its connections.
    assert!(figures.longest_ps < figures.shortest_ps + figures.shortest_ps / 2);
    assert_eq!(figures.stuck, None);
    assert!(frames.iter().all(|(_, host)| [3, 4].contains(host)));
    assert_eq!(frames.len() as u64, figures.frames);
    assert_eq!(played(None, 1_000_000, false), (figures, frames.clone()));
    assert_eq!(played(None, 1_000_000, true), (figures, frames));
}

#[test]
fn a_job_that_is_wanted_twice_is_played_twice() {
    let (figures, _) = played(Some(2), 1_000_000, false);
    assert_eq!((figures.begun, figures.ended), (2, 2));
}

#[test]
fn a_prepared_job_comes_back_and_damage_is_found() {
    let bytes = job().to_bytes().unwrap();
    assert_eq!(PreparedJob::size_of(&bytes[..]).unwrap(), (2, 2));
    let back = PreparedJob::from_bytes(&bytes).unwrap();
    assert_eq!(back.program, job().program);
    assert_eq!(back.calibration, job().calibration);
    for length in (0..bytes.len()).step_by(7) {
        PreparedJob::from_bytes(&bytes[..length]).unwrap_err();
    }
    for at in (0..bytes.len()).step_by(7) {
        for bit in [1, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= bit;
            // Undetected damage must be playable.
            if let Ok(job) = PreparedJob::from_bytes(&damaged) {
                let setting = BackgroundSetting {
                    hosts: vec![3, 4],
                    start: Time::ZERO,
                    scale: 1.0,
                    times: Some(1),
                };
                let routes = Settings::default().routes();
                let mut job = Background::new(Arc::new(job), &setting, &star(), &routes).unwrap();
                job.advance(Time::from_ps(10_000_000), &mut Vec::new());
            }
        }
    }
}
