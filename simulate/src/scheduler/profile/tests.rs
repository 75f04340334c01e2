use proptest::prelude::*;

use super::*;

/// The same function as a plain list of steps, as the reference.
struct ListedProfile(Vec<(Nanos, u32)>);

impl ListedProfile {
    fn of(now: Nanos, free: u32, running: &[Running]) -> Self {
        let mut steps = vec![(now, free)];
        for job in running {
            let (last, free) = steps[steps.len() - 1];
            let ends = job.ends.max(now);
            match last == ends {
                true => *steps.last_mut().unwrap() = (last, free + job.hosts),
                false => steps.push((ends, free + job.hosts)),
            }
        }
        Self(steps)
    }

    fn first(&self, job: &WaitingJob) -> Option<Nanos> {
        let mut from: Option<Nanos> = None;
        for (time, free) in &self.0 {
            if from.is_some_and(|began| *time >= began.saturating_add(job.estimate)) {
                break;
            }
            from = match *free >= job.hosts {
                true => from.or(Some(*time)),
                false => None,
            };
        }
        from
    }

    fn reserve(&mut self, at: Nanos, job: &WaitingJob) {
        let ends = at.saturating_add(job.estimate);
        for edge in [at, ends] {
            let place = self.0.partition_point(|(time, _)| *time < edge);
            if self.0.get(place).is_none_or(|(time, _)| *time != edge) {
                self.0.insert(place, (edge, self.0[place - 1].1));
            }
        }
        for (time, free) in &mut self.0 {
            if (at..ends).contains(time) {
                *free -= job.hosts;
            }
        }
    }
}

fn steps(profile: &FreeHostProfile) -> Vec<(Nanos, u32)> {
    let blocks = profile.heads.iter().zip(&profile.blocks);
    let steps = blocks.flat_map(|(head, block)| {
        assert_eq!(head.start, block[0].time);
        let each = block.iter().map(|step| step.free - head.reserved);
        assert_eq!(each.clone().min(), Some(head.least));
        assert_eq!(each.max(), Some(head.most));
        block
            .iter()
            .map(|step| (step.time, step.free - head.reserved))
    });
    steps.collect()
}

/// Hosts and estimates of jobs: often equal ones, also none, and estimates beyond the end of time.
fn estimates() -> impl Strategy<Value = (u32, Nanos)> {
    let estimate = prop_oneof![0..30_u64, 0..100_000_u64, Just(Nanos::MAX)];
    (0..70_u32, estimate)
}

proptest! {
    #[test]
    fn profiles_are_those_of_lists(
        now in 0..50_u64,
        free in 0..40_u32,
        runs in prop::collection::vec(estimates(), 0..300),
        waits in prop::collection::vec(estimates(), 0..500),
    ) {
        let running = runs.iter().map(|(hosts, ends)| Running { ends: *ends, hosts: *hosts });
        let mut running: Vec<Running> = running.collect();
        running.sort_unstable_by_key(|job| job.ends);
        let mut profile = FreeHostProfile::of(Queue { now, waiting: &[], running: &running, free });
        let mut listed = ListedProfile::of(now, free, &running);
        for (job, (hosts, estimate)) in waits.into_iter().enumerate() {
            let job = WaitingJob { job, hosts, estimate };
            let at = listed.first(&job);
            prop_assert_eq!(profile.first(&job), at);
            if let Some(at) = at {
                profile.reserve(at, &job);
                listed.reserve(at, &job);
            }
            prop_assert_eq!(profile.free_now(), listed.0[0].1);
        }
        prop_assert_eq!(steps(&profile), listed.0);
    }
}
