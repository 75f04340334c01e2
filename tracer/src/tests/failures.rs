//! Calls that return errors, for both implementations.

use belljar_trace::{Ending, Event};

use super::script::{Script, scripts};
use crate::scripted::int;

/// Begins a receive of up to 9 integers with this handle, and returns its request.
fn receive(it: &mut Script, handle: u64) -> u64 {
    let arguments = [0x6000, int(9), it.integer, int(0), int(1), it.world];
    it.begin("MPI_Irecv", &arguments, handle).started[0]
}

fn ends(event: &Event) -> Vec<(u64, u64, Ending)> {
    let completed = event.completed.iter();
    completed
        .map(|it| (it.request, it.received, it.ending))
        .collect()
}

#[test]
fn failed_calls_move_nothing() {
    for mut it in scripts() {
        let send = [0x5000, int(4), it.double, int(77), int(1), it.world];
        let event = it.fail("MPI_Send", &send, 6, |_| {});
        assert!(event.transfers.is_empty() && event.failed());
        let reduce = [0x5000, 0x6000, int(4), it.double, 0, it.world];
        let event = it.fail("MPI_Allreduce", &reduce, 9, |_| {});
        assert!(event.collectives.is_empty());
        let status = it.guest.room(32);
        let receive = [0x5000, int(4), it.double, int(0), int(1), it.world, status];
        let event = it.fail("MPI_Recv", &receive, it.errors()[2], |guest| {
            guest.put_status(status, 0, 1, 64);
        });
        assert_eq!((event.transfers.len(), event.status), (0, None));
    }
}

#[test]
fn a_failed_begin_has_no_request() {
    for mut it in scripts() {
        let send = [0x5000, int(4), it.double, int(77), int(1), it.world];
        let out = it.guest.handles(&[0xac00_0010]);
        let arguments = [&send[..], &[out]].concat();
        let event = it.fail("MPI_Isend", &arguments, 6, |_| {});
        assert_eq!((event.transfers.len(), event.started.len()), (0, 0));
        let event = it.call("MPI_Wait", &[out, it.ignore]);
        assert!(event.completed.is_empty());
    }
}

#[test]
fn each_status_tells_how_its_request_ended() {
    for mut it in scripts() {
        let [in_status, pending, truncated, _] = it.errors();
        let started: Vec<u64> = (0..3)
            .map(|place| receive(&mut it, 0xac00_0010 + place))
            .collect();
        let requests = it.guest.handles(&[0xac00_0010, 0xac00_0011, 0xac00_0012]);
        let (statuses, size) = (it.guest.room(96), it.status_size());
        let arguments = [int(3), requests, statuses];
        let event = it.fail("MPI_Waitall", &arguments, in_status, |guest| {
            guest.put_status(statuses, 0, 1, 0);
            guest.put_status_error(statuses, truncated);
            guest.put_status_error(statuses + size, pending);
            guest.put_status(statuses + 2 * size, 0, 1, 12);
        });
        let error = Ending::Error(truncated);
        let expected = [(started[0], 0, error), (started[2], 12, Ending::Well)];
        assert_eq!(ends(&event), expected);
        assert_eq!(event.completed[0].status, None);
        let one = it.guest.handles(&[0xac00_0011]);
        let event = it.call_with("MPI_Wait", &[one, statuses], |guest| {
            guest.put_status(statuses, 0, 1, 20);
        });
        assert_eq!(ends(&event), [(started[1], 20, Ending::Well)]);
    }
}

#[test]
fn without_statuses_the_handles_tell_which_requests_are_gone() {
    for mut it in scripts() {
        let in_status = it.errors()[0];
        let first = receive(&mut it, 0xac00_0010);
        let second = receive(&mut it, 0xac00_0011);
        let requests = it.guest.handles(&[0xac00_0010, 0xac00_0011]);
        let (null, ignore) = (it.request_null, it.ignore);
        let event = it.fail(
            "MPI_Waitall",
            &[int(2), requests, ignore],
            in_status,
            |it| {
                it.put_handle(requests, null);
            },
        );
        assert_eq!(ends(&event), [(first, 36, Ending::Untold)]);
        let one = it.guest.handles(&[0xac00_0011]);
        let event = it.call("MPI_Wait", &[one, ignore]);
        assert_eq!(ends(&event), [(second, 36, Ending::Well)]);
    }
}

#[test]
fn waitsome_goes_by_the_places_that_it_tells() {
    for mut it in scripts() {
        let [in_status, _, truncated, _] = it.errors();
        let first = receive(&mut it, 0xac00_0010);
        let second = receive(&mut it, 0xac00_0011);
        let requests = it.guest.handles(&[0xac00_0010, 0xac00_0011]);
        let (count, indices) = (it.guest.ints(&[0]), it.guest.ints(&[0; 2]));
        let (statuses, size) = (it.guest.room(64), it.status_size());
        let arguments = [int(2), requests, count, indices, statuses];
        let event = it.fail("MPI_Waitsome", &arguments, in_status, |guest| {
            guest.put_ints(count, &[2]);
            guest.put_ints(indices, &[1, 0]);
            guest.put_status(statuses, 0, 1, 8);
            guest.put_status_error(statuses + size, truncated);
        });
        let expected = [
            (second, 8, Ending::Well),
            (first, 0, Ending::Error(truncated)),
        ];
        assert_eq!(ends(&event), expected);
    }
}

#[test]
fn a_failed_wait_ends_its_request_unless_it_refused_it() {
    for mut it in scripts() {
        let [_, _, truncated, refused] = it.errors();
        let started = receive(&mut it, 0xac00_0010);
        let request = it.guest.handles(&[0xac00_0010]);
        let (null, ignore) = (it.request_null, it.ignore);
        let event = it.fail("MPI_Wait", &[request, ignore], refused, |_| {});
        assert!(event.completed.is_empty());
        let event = it.fail("MPI_Wait", &[request, ignore], truncated, |guest| {
            guest.put_handle(request, null);
        });
        assert_eq!(ends(&event), [(started, 0, Ending::Error(truncated))]);
    }
}

#[test]
fn a_failed_wait_leaves_a_persistent_request_to_be_started_again() {
    for mut it in scripts() {
        let truncated = it.errors()[2];
        let receive = [0x6000, int(9), it.integer, int(0), int(1), it.world];
        it.begin("MPI_Recv_init", &receive, 0xac00_0030);
        let request = it.guest.handles(&[0xac00_0030]);
        let started = it.call("MPI_Start", &[request]).started[0];
        let ignore = it.ignore;
        let event = it.fail("MPI_Wait", &[request, ignore], truncated, |_| {});
        assert_eq!(ends(&event), [(started, 0, Ending::Error(truncated))]);
        let again = it.call("MPI_Start", &[request]).started[0];
        assert_ne!(again, started);
    }
}
