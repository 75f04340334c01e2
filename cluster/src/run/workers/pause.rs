//! How threads wait for the next round.
//!
//! First awake, then offering the processor to others, then, where they may, asleep for short naps: no
//! result depends on how long. Called by the workers and by the run's thread while it waits for them.

use std::thread;
use std::time::Duration;

/// Looks of a waiting thread, some ten microseconds, before it tells the processor that it
/// waits: a hypervisor may take the processor away from who tells it often.
const LOOKS: u32 = 20_000;
/// Looks before it offers its processor to others.
const SPINS: u32 = LOOKS + 4_000;
/// Offers before it sleeps.
const YIELDS: u32 = 200;
/// How long it sleeps at a time.
const NAP: Duration = Duration::from_micros(100);

/// Waits a moment, `waited` of which there were before; sleeps after many if it `may_sleep`.
pub(super) fn pause(waited: &mut u32, may_sleep: bool) {
    *waited = waited.saturating_add(1);
    match *waited {
        0..LOOKS => {}
        LOOKS..SPINS => std::hint::spin_loop(),
        waited if waited < SPINS + YIELDS || !may_sleep => thread::yield_now(),
        _ => thread::sleep(NAP),
    }
}
