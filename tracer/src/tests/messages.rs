//! Messages and requests, for both implementations.

use belljar_trace::datatypes::PREDEFINED;
use belljar_trace::{Datatype, Direction, Event, Peer, Phase, WORLD};

use super::script::scripts;
use crate::scripted::int;

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
        assert_eq!(PREDEFINED[usize::from(index)].name, "MPI_DOUBLE");
        assert_eq!(event.communicator, Some(WORLD));
        assert_eq!(event.arguments[4], (-7i64).cast_unsigned());
    }
}

#[test]
fn a_receive_counts_what_came() {
    for mut it in scripts() {
        let status = it.guest.room(32);
        let arguments = [
            0x5000,
            int(100),
            it.double,
            int(it.any_source),
            int(it.any_tag),
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
        let status = it.guest.room(32);
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
        let statuses = it.guest.room(96);
        let width = it.status_size();
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
        // The requests are gone.
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
        let statuses = it.guest.room(96);
        let arguments = [int(3), requests, count, indices, statuses];
        let event = it.call("MPI_Testsome", &arguments);
        assert!(event.completed.is_empty());
        let width = it.status_size();
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
fn a_partitioned_request_has_one_number_however_often_it_is_started() {
    let partitioned = |event: &Event| {
        event
            .details
            .0
            .clone()
            .unwrap_or_default()
            .partitioned
            .clone()
    };
    for mut it in scripts() {
        let shape = [0x5000, int(3), 4, it.double, int(1), int(7), it.world];
        let with = |shape: &[u64]| [shape, &[0]].concat();
        let event = it.begin("MPI_Psend_init", &with(&shape), 0xac00_0031);
        assert_eq!(event.transfers[0].bytes, 96, "{event:?}");
        assert_eq!(partitioned(&event), [Some(0)]);
        let event = it.begin("MPI_Precv_init", &with(&shape), 0xac00_0032);
        assert_eq!(partitioned(&event), [Some(1)]);
        let send = [0x5000, int(4), it.double, int(0), int(1), it.world];
        it.begin("MPI_Send_init", &send, 0xac00_0030);
        let all = it.guest.handles(&[0xac00_0030, 0xac00_0032, 0xac00_0031]);
        for _ in 0..2 {
            let event = it.call("MPI_Startall", &[int(3), all]);
            assert_eq!(partitioned(&event), [None, Some(1), Some(0)]);
            let event = it.call("MPI_Pready", &[int(2), 0xac00_0031]);
            assert_eq!(partitioned(&event), [Some(0)]);
            let flag = it.guest.handles(&[1]);
            let event = it.call("MPI_Parrived", &[0xac00_0032, int(1), flag]);
            assert_eq!(partitioned(&event), [Some(1)]);
            assert!(event.details.0.as_ref().is_some_and(|it| it.over));
            let flag = it.guest.handles(&[0]);
            let event = it.call("MPI_Parrived", &[0xac00_0032, int(1), flag]);
            assert!(event.details.0.as_ref().is_some_and(|it| !it.over));
            it.call("MPI_Waitall", &[int(3), all, it.ignore]);
        }
        let request = it.guest.handles(&[0xac00_0030]);
        assert!(partitioned(&it.call("MPI_Start", &[request])).is_empty());
    }
}

#[test]
fn nothing_goes_to_the_null_process() {
    for mut it in scripts() {
        let null = it.null;
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
        let status = it.guest.room(32);
        let (flag, message) = (it.guest.ints(&[0]), it.guest.handles(&[0]));
        let arguments = [
            int(it.any_source),
            int(it.any_tag),
            it.world,
            flag,
            message,
            status,
        ];
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
        assert_eq!((received.bytes, received.communicator), (80, Some(WORLD)));
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
        assert!(it.tracer.take_events().is_empty());
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
        assert_eq!(put.transfers[0].communicator, Some(WORLD));
        let details = put.details.0.as_deref().expect("it is about a window");
        assert_eq!(details.window, Some(0));
        assert_eq!(details.target_datatype, Some(put.transfers[0].datatype));
        let fence = it.call("MPI_Win_fence", &[int(0), 0xa000_0001]);
        assert_eq!(fence.details.0.map(|it| it.window), Some(Some(0)));
        let get = it.call("MPI_Get", &arguments);
        assert_eq!(get.transfers[0].direction, Direction::Receive);
        assert!(get.transfers[0].exact);
    }
}

/// A fetch with `MPI_NO_OP` is a get: no data of the origin's buffer is sent.
#[test]
fn what_fetches_without_an_operation_sends_nothing() {
    for mut it in scripts() {
        let (two, one, sum) = (int(2), int(1), it.no_op + 0x40);
        for (op, sent) in [(sum, 1), (it.no_op, 0)] {
            let several = [
                0x5000,
                one,
                it.double,
                0x6000,
                two,
                it.double,
                one,
                0,
                two,
                it.double,
                op,
                0xa000_0001,
            ];
            let single = [0x5000, 0x6000, it.double, one, 0, op, 0xa000_0001];
            for (name, arguments, bytes) in [
                ("MPI_Get_accumulate", &several[..], 16),
                ("MPI_Fetch_and_op", &single, 8),
            ] {
                let event = it.call(name, arguments);
                let of = |direction| {
                    let transfers = event.transfers.iter();
                    let own = transfers.filter(move |transfer| transfer.direction == direction);
                    own.map(|transfer| transfer.bytes).collect::<Vec<_>>()
                };
                assert_eq!(of(Direction::Send), vec![8; sent], "{name}");
                assert_eq!(of(Direction::Receive), [bytes], "{name}");
            }
        }
    }
}

/// Unsuccessful polls are marked as such, with their subject.
#[test]
fn polls_that_find_nothing_are_known() {
    for mut it in scripts() {
        let polls = |event: &belljar_trace::Event| {
            let polls = event.folded.0.as_deref();
            polls.map(|polls| (polls.calls, polls.inside, polls.subject))
        };
        let (no, yes) = (it.guest.words(&[0]), it.guest.words(&[1]));
        let probe = |flag| [int(0), int(7), it.world, flag, it.ignore];
        let [nothing, found] = [no, yes].map(probe);
        let event = it.call("MPI_Iprobe", &nothing);
        let inside = event.exit.map(|exit| exit - event.entry);
        let told = polls(&event).map(|(calls, inside, _)| (calls, Some(inside)));
        assert_eq!(told, Some((1, inside)));
        assert_eq!(polls(&it.call("MPI_Iprobe", &found)), None);
        let clock = it.call("MPI_Wtime", &[]);
        assert!(polls(&clock).is_some());
        // Other requests at the same address are a different subject.
        let place = it.guest.words(&[0x9800_0001]);
        let test = [place, no, it.ignore];
        let first = polls(&it.call("MPI_Test", &test));
        it.guest.put_handle(place, 0x9800_0002);
        let second = polls(&it.call("MPI_Test", &test));
        assert!(first.is_some() && second.is_some());
        assert_ne!(first.map(|it| it.2), second.map(|it| it.2));
        assert_eq!(polls(&it.call("MPI_Barrier", &[it.world])), None);
    }
}
