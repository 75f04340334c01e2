//! Messages, requests and collective operations, for both implementations.

use crate::event::{Amount, Direction, Event, Peer, Phase, Who};
use crate::guest::{Guest, int};
use crate::node::NodeTracer;
use crate::object::Datatype;
use crate::selection::Selection;

/// What differs between the implementations in a script.
struct Script {
    tracer: NodeTracer,
    guest: Guest,
    world: u64,
    double: u64,
    integer: u64,
    any_source: i32,
    ignore: u64,
    request_null: u64,
}

fn scripts() -> [Script; 2] {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let guest = Guest::mpich(&mut tracer, 1);
    let mpich = Script {
        tracer,
        guest,
        world: 0x4400_0000,
        double: 0x4c00_080b,
        integer: 0x4c00_0405,
        any_source: -2,
        ignore: 1,
        request_null: 0x2c00_0000,
    };
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let guest = Guest::open_mpi(&mut tracer, 1);
    let open_mpi = Script {
        tracer,
        world: guest.object("ompi_mpi_comm_world"),
        double: guest.object("ompi_mpi_double"),
        integer: guest.object("ompi_mpi_int"),
        request_null: guest.object("ompi_request_null"),
        guest,
        any_source: -1,
        ignore: 0,
    };
    [mpich, open_mpi]
}

impl Script {
    fn last(&mut self) -> Event {
        self.tracer.take_events().pop().unwrap()
    }

    fn call(&mut self, name: &str, arguments: &[u64]) -> Event {
        self.guest.call(&mut self.tracer, name, arguments);
        self.last()
    }

    fn call_with(&mut self, name: &str, arguments: &[u64], body: impl FnOnce(&mut Guest)) -> Event {
        self.guest
            .call_with(&mut self.tracer, name, arguments, |guest, _| body(guest));
        self.last()
    }

    /// A nonblocking or persistent call, its request being `handle`.
    fn begin(&mut self, name: &str, arguments: &[u64], handle: u64) -> Event {
        self.guest.make(&mut self.tracer, name, arguments, handle)
    }
}

#[test]
fn a_send_tells_peer_tag_and_bytes() {
    for mut it in scripts() {
        let event = it.call(
            "MPI_Send",
            &[0x5000, int(100), it.double, int(3), int(-7), it.world],
        );
        let [sent] = event.transfers.as_slice() else {
            panic!("{event:?}");
        };
        assert_eq!(sent.direction, Direction::Send);
        assert_eq!((sent.peer, sent.tag), (Peer::Rank(3), Some(-7)));
        assert_eq!((sent.count, sent.bytes, sent.exact), (100, 800, true));
        let Datatype::Predefined(index) = sent.datatype else {
            panic!("{sent:?}");
        };
        assert_eq!(crate::PREDEFINED[usize::from(index)].name, "MPI_DOUBLE");
        assert_eq!(event.communicator, Some(crate::WORLD));
        assert_eq!(event.arguments[4], (-7i64).cast_unsigned());
    }
}

#[test]
fn a_receive_counts_what_came() {
    for mut it in scripts() {
        let status = it.guest.room(24);
        let arguments = [
            0x5000,
            int(100),
            it.double,
            int(it.any_source),
            int(-1),
            it.world,
            status,
        ];
        let event = it.call_with("MPI_Recv", &arguments, |guest| {
            guest.put_status(status, 4, 11, 24);
        });
        let received = &event.transfers[0];
        assert_eq!((received.peer, received.tag), (Peer::Any, None));
        assert_eq!((received.bytes, received.exact), (24, true));
        let found = event.status.unwrap();
        assert_eq!((found.source, found.tag), (Peer::Rank(4), 11));
        let mut arguments = arguments;
        arguments[6] = it.ignore;
        let event = it.call("MPI_Recv", &arguments);
        let received = &event.transfers[0];
        assert_eq!((received.bytes, received.exact), (800, false));
        assert_eq!((event.status, event.bad), (None, None));
    }
}

#[test]
fn sendrecv_has_its_last_arguments_on_the_stack() {
    for mut it in scripts() {
        let status = it.guest.room(24);
        let arguments = [
            0x5000,
            int(10),
            it.integer,
            int(2),
            int(21),
            0x6000,
            int(20),
            it.double,
            int(0),
            int(22),
            it.world,
            status,
        ];
        let event = it.call_with("MPI_Sendrecv", &arguments, |guest| {
            guest.put_status(status, 0, 22, 16);
        });
        let [sent, received] = event.transfers.as_slice() else {
            panic!("{event:?}");
        };
        assert_eq!(
            (sent.peer, sent.tag, sent.bytes),
            (Peer::Rank(2), Some(21), 40)
        );
        assert_eq!((received.peer, received.tag), (Peer::Rank(0), Some(22)));
        assert_eq!(
            (received.count, received.bytes, received.exact),
            (20, 16, true)
        );
    }
}

#[test]
fn waitall_completes_what_isend_and_irecv_began() {
    for mut it in scripts() {
        let send = [0x5000, int(5), it.double, int(0), int(1), it.world];
        let (a, b) = (it.begin("MPI_Isend", &send, 0xac00_0010), {
            let receive = [0x6000, int(9), it.double, int(0), int(1), it.world];
            it.begin("MPI_Irecv", &receive, 0xac00_0011)
        });
        assert_eq!((a.started.len(), b.started.len()), (1, 1));
        assert_ne!(a.started, b.started);
        assert_eq!(a.transfers[0].phase, Phase::Begun);
        assert_eq!((b.transfers[0].bytes, b.transfers[0].exact), (72, false));
        let null = it.request_null;
        let requests = it.guest.handles(&[0xac00_0010, null, 0xac00_0011]);
        let statuses = it.guest.room(72);
        let width: u64 = if it.ignore == 1 { 20 } else { 24 };
        let event = it.call_with("MPI_Waitall", &[int(3), requests, statuses], |guest| {
            guest.put_status(statuses + 2 * width, 0, 1, 64);
        });
        let [first, second] = event.completed.as_slice() else {
            panic!("{event:?}");
        };
        assert_eq!([first.request], a.started.as_slice());
        assert_eq!((first.received, first.status), (0, None));
        assert_eq!([second.request], b.started.as_slice());
        assert_eq!((second.received, second.exact), (64, true));
        // They are gone.
        let again = it.guest.handles(&[0xac00_0010]);
        let event = it.call("MPI_Wait", &[again, it.ignore]);
        assert!(event.completed.is_empty());
    }
}

#[test]
fn testsome_completes_by_index_and_test_by_flag() {
    for mut it in scripts() {
        let receive = [0x6000, int(9), it.integer, int(0), int(1), it.world];
        let started: Vec<u64> = (0..3)
            .map(|index| it.begin("MPI_Irecv", &receive, 0xac00_0020 + index).started[0])
            .collect();
        let requests = it.guest.handles(&[0xac00_0020, 0xac00_0021, 0xac00_0022]);
        let (count, indices) = (it.guest.ints(&[0]), it.guest.ints(&[0; 3]));
        let statuses = it.guest.room(72);
        let arguments = [int(3), requests, count, indices, statuses];
        let event = it.call("MPI_Testsome", &arguments);
        assert!(event.completed.is_empty());
        let width: u64 = if it.ignore == 1 { 20 } else { 24 };
        let event = it.call_with("MPI_Testsome", &arguments, |guest| {
            guest.put_ints(count, &[2]);
            guest.put_ints(indices, &[2, 0]);
            guest.put_status(statuses, 0, 1, 8);
            guest.put_status(statuses + width, 0, 1, 12);
        });
        let completed: Vec<_> = event
            .completed
            .iter()
            .map(|it| (it.request, it.received))
            .collect();
        assert_eq!(completed, [(started[2], 8), (started[0], 12)]);
        let (one, flag) = (it.guest.handles(&[0xac00_0021]), it.guest.ints(&[0]));
        let event = it.call("MPI_Test", &[one, flag, it.ignore]);
        assert!(event.completed.is_empty());
        let event = it.call_with("MPI_Test", &[one, flag, it.ignore], |guest| {
            guest.put_ints(flag, &[1]);
        });
        assert_eq!(event.completed[0].request, started[1]);
        assert_eq!(
            (event.completed[0].received, event.completed[0].exact),
            (36, false)
        );
    }
}

#[test]
fn requests_that_share_a_handle_are_told_apart() {
    for mut it in scripts() {
        let send = [0x5000, int(5), it.double, int(0), int(1), it.world];
        let started: Vec<u64> = (0..3)
            .map(|_| it.begin("MPI_Isend", &send, 0xac00_0001).started[0])
            .collect();
        let requests = it.guest.handles(&[0xac00_0001; 3]);
        let event = it.call("MPI_Waitall", &[int(3), requests, it.ignore]);
        let completed: Vec<_> = event.completed.iter().map(|it| it.request).collect();
        assert_eq!(completed, started);
    }
}

#[test]
fn persistent_requests_move_data_when_started() {
    for mut it in scripts() {
        let send = [0x5000, int(4), it.double, int(0), int(1), it.world];
        let event = it.begin("MPI_Send_init", &send, 0xac00_0030);
        assert_eq!(event.transfers[0].phase, Phase::Prepared);
        assert!(event.started.is_empty());
        let request = it.guest.handles(&[0xac00_0030]);
        let mut numbers = Vec::new();
        for _ in 0..2 {
            let event = it.call("MPI_Start", &[request]);
            assert_eq!(event.transfers[0].phase, Phase::Begun);
            assert_eq!(event.transfers[0].bytes, 32);
            numbers.extend(event.started.clone());
            let event = it.call("MPI_Wait", &[request, it.ignore]);
            assert_eq!(event.completed[0].request, *numbers.last().unwrap());
            let event = it.call("MPI_Wait", &[request, it.ignore]);
            assert!(
                event.completed.is_empty(),
                "inactive requests complete at once"
            );
        }
        assert_ne!(numbers[0], numbers[1]);
        it.call("MPI_Request_free", &[request]);
        assert!(it.call("MPI_Start", &[request]).started.is_empty());
    }
}

#[test]
fn nothing_goes_to_the_null_process() {
    for mut it in scripts() {
        let null = if it.ignore == 1 { -1 } else { -2 };
        let event = it.call(
            "MPI_Send",
            &[0x5000, int(100), it.double, int(null), int(0), it.world],
        );
        assert_eq!(event.transfers[0].peer, Peer::Null);
        assert_eq!(event.transfers[0].bytes, 0);
    }
}

#[test]
fn matched_probes_carry_their_message_to_the_receive() {
    for mut it in scripts() {
        let status = it.guest.room(24);
        let (flag, message) = (it.guest.ints(&[0]), it.guest.handles(&[0]));
        let arguments = [int(it.any_source), int(-1), it.world, flag, message, status];
        assert_eq!(it.call("MPI_Improbe", &arguments).status, None);
        let event = it.call_with("MPI_Improbe", &arguments, |guest| {
            guest.put_ints(flag, &[1]);
            guest.put_handle(message, 0xac00_0040);
            guest.put_status(status, 6, 9, 80);
        });
        assert_eq!(event.status.unwrap().bytes, 80);
        let event = it.call_with(
            "MPI_Mrecv",
            &[0x5000, int(20), it.double, message, status],
            |_| {},
        );
        let received = &event.transfers[0];
        assert_eq!((received.peer, received.tag), (Peer::Rank(6), Some(9)));
        assert_eq!(
            (received.bytes, received.communicator),
            (80, Some(crate::WORLD))
        );
    }
}

fn amount(bytes: u64, each: bool, who: Who) -> Amount {
    Amount {
        bytes: Some(bytes),
        each,
        who,
    }
}

#[test]
fn collectives_tell_what_goes_in_and_out() {
    use Who::{Everyone, Others, Root};
    for mut it in scripts() {
        let size = it.guest.ints(&[3]);
        it.call("MPI_Comm_size", &[it.world, size]);
        let (double, integer, world) = (it.double, it.integer, it.world);
        let in_place = if it.ignore == 1 { u64::MAX } else { 1 };
        let counts = it.guest.ints(&[1, 2, 3]);
        let cases: [(&str, Vec<u64>, Amount, Amount); 9] = [
            (
                "MPI_Bcast",
                vec![0x5000, int(4), double, int(1), world],
                amount(32, false, Root),
                amount(32, false, Others),
            ),
            (
                "MPI_Gather",
                vec![
                    0x5000,
                    int(4),
                    double,
                    0x6000,
                    int(8),
                    integer,
                    int(1),
                    world,
                ],
                amount(32, false, Everyone),
                amount(32, true, Root),
            ),
            (
                "MPI_Scatter",
                vec![0x5000, int(4), double, in_place, 0, 0, int(1), world],
                amount(32, true, Root),
                amount(0, false, Everyone),
            ),
            (
                "MPI_Gatherv",
                vec![
                    0x5000,
                    int(4),
                    double,
                    0x6000,
                    counts,
                    counts,
                    integer,
                    int(1),
                    world,
                ],
                amount(32, false, Everyone),
                amount(24, false, Root),
            ),
            (
                "MPI_Allgatherv",
                vec![in_place, 0, 0, 0x6000, counts, counts, double, world],
                amount(16, false, Everyone),
                amount(48, false, Everyone),
            ),
            (
                "MPI_Alltoall",
                vec![0x5000, int(4), double, 0x6000, int(4), double, world],
                amount(32, true, Everyone),
                amount(32, true, Everyone),
            ),
            (
                "MPI_Allreduce",
                vec![0x5000, 0x6000, int(3), double, 0x5800_0003, world],
                amount(24, false, Everyone),
                amount(24, false, Everyone),
            ),
            (
                "MPI_Reduce_scatter",
                vec![0x5000, 0x6000, counts, double, 0x5800_0003, world],
                amount(48, false, Everyone),
                amount(16, false, Everyone),
            ),
            (
                "MPI_Barrier",
                vec![world],
                amount(0, false, Everyone),
                amount(0, false, Everyone),
            ),
        ];
        for (name, arguments, sent, received) in cases {
            let event = it.call(name, &arguments);
            let collective = &event.collectives[0];
            assert_eq!(
                (collective.sent, collective.received),
                (sent, received),
                "{name}"
            );
            assert_eq!(event.bad, None, "{name}");
        }
        let types = it.guest.handles(&[double, integer, double]);
        let event = it.call(
            "MPI_Alltoallw",
            &[
                0x5000, counts, counts, types, 0x6000, counts, counts, types, world,
            ],
        );
        assert_eq!(
            event.collectives[0].sent,
            amount(8 + 8 + 24, false, Everyone)
        );
    }
}

#[test]
fn collectives_whose_size_is_unknown_say_so() {
    for mut it in scripts() {
        let counts = it.guest.ints(&[1, 2, 3]);
        let world = it.world;
        let event = it.call(
            "MPI_Alltoallv",
            &[
                0x5000, counts, counts, it.double, 0x6000, counts, counts, it.double, world,
            ],
        );
        assert_eq!(event.collectives[0].sent.bytes, None);
        assert_eq!(event.bad, None);
    }
}

#[test]
fn nonblocking_collectives_have_requests() {
    for mut it in scripts() {
        let arguments = [0x5000, 0x6000, int(3), it.double, 0, it.world];
        let event = it.begin("MPI_Iallreduce", &arguments, 0xac00_0050);
        assert_eq!(event.collectives[0].phase, Phase::Begun);
        let request = it.guest.handles(&[0xac00_0050]);
        let done = it.call("MPI_Wait", &[request, it.ignore]);
        assert_eq!([done.completed[0].request], event.started.as_slice());
        assert_eq!(done.completed[0].received, 0);
    }
}

#[test]
fn one_sided_accesses_go_by_the_windows_communicator() {
    for mut it in scripts() {
        let out = it.guest.handles(&[0]);
        it.call_with(
            "MPI_Win_create",
            &[0x5000, 4096, int(8), 0, it.world, out],
            |guest| guest.put_handle(out, 0xa000_0001),
        );
        it.last_is_gone();
        let arguments = [
            0x5000,
            int(6),
            it.double,
            int(0),
            0,
            int(6),
            it.double,
            0xa000_0001,
        ];
        let put = it.call("MPI_Put", &arguments);
        assert_eq!(put.transfers[0].direction, Direction::Send);
        assert_eq!((put.transfers[0].bytes, put.transfers[0].tag), (48, None));
        assert_eq!(put.transfers[0].communicator, Some(crate::WORLD));
        let get = it.call("MPI_Get", &arguments);
        assert_eq!(get.transfers[0].direction, Direction::Receive);
        assert!(get.transfers[0].exact);
    }
}

impl Script {
    fn last_is_gone(&mut self) {
        assert!(self.tracer.take_events().is_empty());
    }
}
