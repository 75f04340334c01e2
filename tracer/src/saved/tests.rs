//! Continuation from saved state. Every call of every test's guest also checks that no state is lost: see
//! [`Guest::call_with`](crate::scripted::Guest).

use super::*;
use crate::scripted::{Guest, int};

#[test]
fn a_damaged_state_is_refused_or_harmless() {
    let mut tracer = NodeTracer::new(3, &Selection::default());
    let mut guest = Guest::mpich(&mut tracer, 1);
    let request = [0x5000, int(1), 0x4c00_080b, int(3), int(0), 0x4400_0000];
    guest.make(&mut tracer, "MPI_Isend", &request, 77);
    guest.enter(&mut tracer, "MPI_Barrier", &[0x4400_0000]);
    let saved = tracer.save().unwrap();
    for at in 0..saved.len() {
        let mut damaged = saved.clone();
        damaged[at] ^= 1 << (at % 8);
        if let Ok(mut other) = NodeTracer::restore(3, &Selection::default(), &damaged) {
            guest
                .clone()
                .call(&mut other, "MPI_Barrier", &[0x4400_0000]);
        }
        assert!(NodeTracer::restore(3, &Selection::default(), &saved[..at]).is_err());
    }
}
