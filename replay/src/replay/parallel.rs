//! Independent work on all processors.
//!
//! Results depend neither on the number of threads nor on their speed. Used by searches whose steps are whole plays, and by the exploration of orders.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Returns the number of processors of this machine for this process.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the results of `work` for all numbers below `count`, in their order, computed by up to `threads` threads.
pub fn map<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let some = || {
        let numbers = std::iter::from_fn(|| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            (number < count).then_some(number)
        });
        numbers
            .map(|number| (number, work(number)))
            .collect::<Vec<_>>()
    };
    let mut done = thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(count)).map(|_| scope.spawn(some)).collect();
        let mut done = some();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_on_any_number_of_threads() {
        for threads in 0..6 {
            for count in [0, 1, 2, 50] {
                let squares: Vec<usize> = (0..count).map(|number| number * number).collect();
                assert_eq!(map(threads, count, |number| number * number), squares);
            }
        }
    }
}
