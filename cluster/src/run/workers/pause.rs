//! Waiting of threads for the next round.
//!
//! First awake, then yielding the processor, then, if allowed, asleep for short times: no result
//! depends on the duration. Called by the workers and by the run's thread while it waits for them.

use std::thread;
use std::time::Duration;

/// Polls of a waiting thread, some ten microseconds, before it uses the processor's pause instruction:
/// a hypervisor may deschedule a processor that uses it often.
const LOOKS: u32 = 20_000;
/// Polls before it yields its processor.
const SPINS: u32 = LOOKS + 4_000;
/// Yields before it sleeps.
const YIELDS: u32 = 200;
/// Duration of one sleep.
const NAP: Duration = Duration::from_micros(100);

/// Waits a moment, after `waited` earlier ones; after many it sleeps if it `may_sleep`.
pub(super) fn pause(waited: &mut u32, may_sleep: bool) {
    *waited = waited.saturating_add(1);
    match *waited {
        0..LOOKS => {}
        LOOKS..SPINS => std::hint::spin_loop(),
        waited if waited < SPINS + YIELDS || !may_sleep => thread::yield_now(),
        _ => thread::sleep(NAP),
    }
}
