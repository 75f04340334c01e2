//! Receives of scripted guests by Open MPI's ob1.

use super::*;

/// A request of ob1: its type, status and completion.
fn ob1_request(guest: &mut Guest, kind: u64, complete: u64, status: [i32; 6]) -> u64 {
    let request = guest.room(160);
    guest.put_words(request + 56, &[kind]);
    guest.put_ints(request + 64, &status);
    guest.put_words(request + 88, &[complete]);
    request
}

impl Machine {
    /// `MPI_Recv` of Open MPI of ten integers with tag 7 from any source, running `body` in it.
    fn ob1_receive(&mut self, body: impl FnOnce(&mut Guest, &mut NodeTracer)) -> Event {
        let world = self.guest.object("ompi_mpi_comm_world");
        let integer = self.guest.object("ompi_mpi_int");
        let arguments = [0x1000, int(10), integer, int(-1), int(7), world, 0];
        self.call("MPI_Recv", &arguments, body)
    }
}

#[test]
fn ob1_keeps_the_match_in_its_request() {
    for (kind, complete, fields, expected) in [
        (0, 1, [3, 7, 0, 0, 24, 0], status(3, 7, 24)),
        // Another kind, incomplete, failed, beyond the communicator, another tag, an invalid source, too large.
        (3, 1, [3, 7, 0, 0, 24, 0], None),
        (0, 0, [3, 7, 0, 0, 24, 0], None),
        (0, 1, [3, 7, 15, 0, 24, 0], None),
        (0, 1, [4, 7, 0, 0, 24, 0], None),
        (0, 1, [3, 8, 0, 0, 24, 0], None),
        (0, 1, [-2, 7, 0, 0, 24, 0], None),
        (0, 1, [3, 7, 0, 0, 24, 1], None),
    ] {
        let mut machine = Machine::open_mpi();
        let event = machine.ob1_receive(|guest, tracer| {
            let request = ob1_request(guest, kind, complete, fields);
            come_to(guest, tracer, Ok(ReceiveHook::Ob1Start), &[request]);
        });
        assert_eq!(event.status, expected, "{fields:?}");
    }
}

#[test]
fn ob1_requests_that_are_used_again_or_are_nowhere_match_nothing() {
    let mut machine = Machine::open_mpi();
    let event = machine.ob1_receive(|guest, tracer| {
        let request = ob1_request(guest, 0, 1, [3, 7, 0, 0, 24, 0]);
        come_to(guest, tracer, Ok(ReceiveHook::Ob1Start), &[request]);
        come_to(guest, tracer, Ok(ReceiveHook::Ob1Start), &[request]);
    });
    assert_eq!(event.status, None);
    for request in [0, u64::MAX - 60, u64::MAX] {
        let event = machine.ob1_receive(|guest, tracer| {
            come_to(guest, tracer, Ok(ReceiveHook::Ob1Start), &[request]);
            come_to(
                guest,
                tracer,
                Ok(ReceiveHook::Ob1ReceiveProbed),
                &[1, 2, 3, request],
            );
        });
        assert_eq!(event.status, None);
    }
}

#[test]
fn ob1_requests_are_their_handles() {
    let mut machine = Machine::open_mpi();
    let guest = &mut machine.guest;
    let (world, integer) = (
        guest.object("ompi_mpi_comm_world"),
        guest.object("ompi_mpi_int"),
    );
    let own = ob1_request(guest, 0, 1, [3, 7, 0, 0, 24, 0]);
    let other = ob1_request(guest, 0, 1, [1, 5, 0, 0, 8, 0]);
    let out = guest.handles(&[0]);
    let arguments = [0x1000, int(10), integer, int(-1), int(-1), world, out];
    machine.call("MPI_Irecv", &arguments, |guest, tracer| {
        // An internal one of the library comes first.
        come_to(guest, tracer, Ok(ReceiveHook::Ob1Start), &[other]);
        come_to(guest, tracer, Ok(ReceiveHook::Ob1Start), &[own]);
        guest.put_handle(out, own);
    });
    let handles = machine.guest.handles(&[own]);
    let event = machine.call("MPI_Waitall", &[int(1), handles, 0], |_, _| {});
    assert_eq!(event.completed[0].status, status(3, 7, 24));
}

#[test]
fn ob1_receives_what_a_probe_took_off_the_queue() {
    let mut machine = Machine::open_mpi();
    let guest = &mut machine.guest;
    let request = ob1_request(guest, 0, 1, [2, 9, 0, 0, 12, 0]);
    let message = guest.room(96);
    guest.put_words(message + 72, &[request]);
    let handle = guest.words(&[message]);
    let integer = guest.object("ompi_mpi_int");
    let arguments = [0x1000, int(10), integer, handle, 0];
    let event = machine.call("MPI_Mrecv", &arguments, |guest, tracer| {
        let arguments = [0x1000, 10, integer, handle, 0];
        come_to(guest, tracer, Ok(ReceiveHook::Ob1ReceiveProbed), &arguments);
        guest.put_words(handle, &[0]);
    });
    assert_eq!(event.status, status(2, 9, 12));
}
