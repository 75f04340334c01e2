use belljar_program::{AccessCompletion, Locking};

use super::*;

/// Operations of rank 0 between two locks of the window of rank 1, which waits in a barrier.
#[derive(Clone, Copy)]
enum Body {
    Nothing,
    Put,
    Get,
    Accumulate,
}

impl Body {
    fn begin(self, builder: &mut Builder) -> Option<u32> {
        let (bytes, completion) = match self {
            Self::Nothing => return None,
            Self::Put => ((800, 0), AccessCompletion::Flush),
            Self::Get => ((0, 800), AccessCompletion::Flush),
            Self::Accumulate => ((800, 0), AccessCompletion::Answer),
        };
        Some(builder.access(0, 1, bytes.0, bytes.1, completion))
    }
}

fn barrier(builder: &mut Builder, rank: u32, inside: u64) {
    meet(builder, rank);
    builder.call(rank, "MPI_Barrier", inside);
}

fn meet(builder: &mut Builder, rank: u32) {
    let part = Participation::Library {
        algorithm: Algorithm::BarrierDissemination,
        call: Call::new(Operation::Barrier, 2, rank),
        stages: Vec::new(),
        times: 1,
    };
    let slot = builder.take_part(rank, part);
    builder.wait(rank, slot);
}

/// Returns the legs of each call of rank 0, from its longer time on a network where each leg takes two milliseconds
/// longer.
fn legs(program: &Program, ranks: u32) -> Vec<u64> {
    let [near, ..] = settings(ranks, Span::from_us(1));
    let [far, ..] = settings(ranks, Span::from_us(1001));
    let none = Calibration::nothing(program);
    let times = |setting: &Setting| {
        let outcome = replay(program, &none, setting, || true).unwrap();
        assert!(outcome.stuck.is_empty(), "{:?}", outcome.stuck);
        outcome.times[0].clone()
    };
    let leg = 2 * 1000 * US;
    let calls = times(&near).into_iter().zip(times(&far));
    calls
        .map(|((entry, exit), (begin, end))| {
            let more = (end - begin) - (exit - entry);
            let legs = (more + leg / 2) / leg;
            assert!(more.abs_diff(legs * leg) < 50 * US, "{more} ps");
            legs
        })
        .collect()
}

fn locked(body: Body) -> Program {
    let mut builder = Builder::new(2);
    let slot = builder.lock(0, 1, Locking::Exclusive);
    builder.wait(0, slot);
    builder.call(0, "MPI_Win_lock", US);
    let access = body.begin(&mut builder);
    builder.call(0, "MPI_Put", US);
    builder.flush(0, 1);
    let slot = builder.lock(0, 1, Locking::Release);
    access.into_iter().for_each(|slot| builder.wait(0, slot));
    builder.wait(0, slot);
    builder.call(0, "MPI_Win_unlock", US);
    barrier(&mut builder, 0, US);
    barrier(&mut builder, 1, US);
    builder.finish()
}

#[test]
fn an_unlock_flushes_first_and_each_is_a_round_trip() {
    for (body, unlock) in [
        (Body::Nothing, 2),
        (Body::Put, 4),
        (Body::Get, 4),
        (Body::Accumulate, 4),
    ] {
        let legs = legs(&locked(body), 2);
        assert_eq!(legs[..3], [2, 0, unlock]);
    }
}

#[test]
fn a_flush_is_a_round_trip_only_if_something_is_to_be_completed() {
    let mut builder = Builder::new(2);
    for body in [Body::Put, Body::Get, Body::Accumulate, Body::Nothing] {
        let access = body.begin(&mut builder);
        builder.call(0, "MPI_Put", US);
        builder.flush(0, 1);
        access.into_iter().for_each(|slot| builder.wait(0, slot));
        builder.call(0, "MPI_Win_flush", US);
    }
    // The data of a put has left when its call returns; a get has to come back.
    for body in [Body::Put, Body::Get] {
        let access = body.begin(&mut builder);
        access.into_iter().for_each(|slot| builder.wait(0, slot));
        builder.call(0, "MPI_Win_flush_local", US);
    }
    barrier(&mut builder, 0, US);
    barrier(&mut builder, 1, US);
    let legs = legs(&builder.finish(), 2);
    assert_eq!(legs[..10], [0, 2, 0, 2, 0, 2, 0, 0, 0, 2]);
}

#[test]
fn a_fence_flushes_before_its_barrier() {
    for (body, fence) in [
        (Body::Nothing, 1),
        (Body::Put, 2),
        (Body::Get, 2),
        (Body::Accumulate, 2),
    ] {
        let mut builder = Builder::new(2);
        let access = body.begin(&mut builder);
        builder.call(0, "MPI_Put", US);
        builder.flush(0, 1);
        meet(&mut builder, 0);
        access.into_iter().for_each(|slot| builder.wait(0, slot));
        builder.call(0, "MPI_Win_fence", US);
        barrier(&mut builder, 0, US);
        for _ in 0..2 {
            barrier(&mut builder, 1, US);
        }
        let program = builder.finish();
        // The other process's part of the barrier comes with the flush.
        assert_eq!(legs(&program, 2)[1], fence);
    }
}

#[test]
fn accesses_to_the_own_window_send_nothing() {
    let mut builder = Builder::new(1);
    let slot = builder.lock(0, 0, Locking::Exclusive);
    builder.wait(0, slot);
    builder.call(0, "MPI_Win_lock", US);
    let put = builder.access(0, 0, 800, 0, AccessCompletion::Flush);
    builder.call(0, "MPI_Put", US);
    builder.flush(0, 0);
    let slot = builder.lock(0, 0, Locking::Release);
    builder.wait(0, put);
    builder.wait(0, slot);
    builder.call(0, "MPI_Win_unlock", US);
    assert_eq!(legs(&builder.finish(), 1), [0, 0, 0]);
}

#[test]
fn a_lock_after_an_early_unlock_is_had() {
    // In the trace, calls took less time than in the model: the next lock is requested before the unlock has flushed.
    let mut builder = Builder::new(2);
    for _ in 0..3 {
        let slot = builder.lock(0, 1, Locking::Exclusive);
        builder.wait(0, slot);
        builder.call(0, "MPI_Win_lock", US / 10);
        let get = builder.access(0, 1, 0, 800, AccessCompletion::Flush);
        builder.call(0, "MPI_Get", US / 10);
        builder.flush(0, 1);
        let slot = builder.lock(0, 1, Locking::Release);
        builder.wait(0, get);
        builder.wait(0, slot);
        builder.call(0, "MPI_Win_unlock", US / 10);
    }
    barrier(&mut builder, 0, US);
    barrier(&mut builder, 1, 10_000 * US);
    let program = builder.finish();
    for setting in settings(2, Span::from_us(1)) {
        let calibration = calibrate(&program, &setting).unwrap();
        let least = -200 * US as i64;
        for residual in &calibration.of_thread(0)[..9] {
            assert!(
                (least..0).contains(residual) || *residual == 0,
                "{residual}"
            );
        }
        let outcome = replay(&program, &calibration, &setting, || true).unwrap();
        assert!(outcome.stuck.is_empty());
    }
}
