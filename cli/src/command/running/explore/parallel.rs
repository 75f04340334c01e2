//! Work on all processors of this machine. Called for the runs of a round.

use std::thread;

/// Calls `work` with the place and the value of each of `items` on all processors; results have the order of the items.
pub(super) fn on_all_processors<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let workers = processors.min(items.len());
    let work = &work;
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let each: Vec<_> = (0..workers)
            .map(|worker| {
                let own = items.iter().enumerate().skip(worker).step_by(workers);
                scope.spawn(move || {
                    own.map(|(at, item)| (at, work(at, item)))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let joined = each.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.flatten().collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
