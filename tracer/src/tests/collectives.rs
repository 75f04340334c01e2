//! Collective operations, for both implementations.

use belljar_trace::{Amount, Phase, Share, Who};

use super::script::{Script, scripts};
use crate::scripted::int;

fn amount(bytes: u64, each: bool, who: Who) -> Amount {
    Amount {
        bytes: Some(bytes),
        pieces: Vec::new(),
        share: if each { Share::Members } else { Share::Whole },
        who,
    }
}

/// Different pieces for each member.
fn pieces(bytes: &[u64], who: Who) -> Amount {
    Amount {
        pieces: bytes.to_vec(),
        ..amount(bytes.iter().sum(), false, who)
    }
}

/// A call, and its amounts sent and received.
type Case = (&'static str, Vec<u64>, Amount, Amount);

/// Checks collective operations in a world of three.
fn check(cases: impl Fn(&mut Script, u64, u64) -> Vec<Case>) {
    for mut it in scripts() {
        let size = it.guest.ints(&[3]);
        it.call("MPI_Comm_size", &[it.world, size]);
        let in_place = if it.ignore == 1 { u64::MAX } else { 1 };
        let counts = it.guest.ints(&[1, 2, 3]);
        for (name, arguments, sent, received) in cases(&mut it, in_place, counts) {
            let event = it.call(name, &arguments);
            let found = &event.collectives[0];
            assert_eq!((&found.sent, &found.received), (&sent, &received), "{name}");
            assert_eq!(event.bad, None, "{name}");
        }
    }
}

#[test]
fn rooted_collectives_tell_what_goes_in_and_out() {
    use Who::{Everyone, Others, Root};
    check(|it, in_place, counts| {
        let (double, integer, world) = (it.double, it.integer, it.world);
        vec![
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
                pieces(&[4, 8, 12], Root),
            ),
            (
                "MPI_Reduce",
                vec![0x5000, 0x6000, int(3), double, 0, int(0), world],
                amount(24, false, Everyone),
                amount(24, false, Root),
            ),
        ]
    });
}

#[test]
fn collectives_without_root_tell_what_goes_in_and_out() {
    let all = |bytes| amount(bytes, false, Who::Everyone);
    let each = |bytes| amount(bytes, true, Who::Everyone);
    check(|it, in_place, counts| {
        let (double, integer, world) = (it.double, it.integer, it.world);
        let types = it.guest.handles(&[double, integer, double]);
        vec![
            (
                "MPI_Allgatherv",
                vec![in_place, 0, 0, 0x6000, counts, counts, double, world],
                all(16),
                pieces(&[8, 16, 24], Who::Everyone),
            ),
            (
                "MPI_Alltoall",
                vec![0x5000, int(4), double, 0x6000, int(4), double, world],
                each(32),
                each(32),
            ),
            (
                "MPI_Alltoallw",
                vec![
                    0x5000, counts, counts, types, 0x6000, counts, counts, types, world,
                ],
                pieces(&[8, 8, 24], Who::Everyone),
                pieces(&[8, 8, 24], Who::Everyone),
            ),
            (
                "MPI_Allreduce",
                vec![0x5000, 0x6000, int(3), double, 0, world],
                all(24),
                all(24),
            ),
            (
                "MPI_Reduce_scatter",
                vec![0x5000, 0x6000, counts, double, 0, world],
                pieces(&[8, 16, 24], Who::Everyone),
                all(16),
            ),
            ("MPI_Barrier", vec![world], all(0), all(0)),
        ]
    });
}

#[test]
fn collectives_whose_size_is_unknown_keep_their_pieces() {
    for mut it in scripts() {
        let counts = it.guest.ints(&[1, 2, 3]);
        let world = it.world;
        let event = it.call(
            "MPI_Alltoallv",
            &[
                0x5000, counts, counts, it.double, 0x6000, counts, counts, it.double, world,
            ],
        );
        let sent = &event.collectives[0].sent;
        assert_eq!((sent.bytes, sent.share), (None, Share::Members));
        assert_eq!(sent.pieces[..3], [8, 16, 24]);
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
fn displacements_are_kept_for_each_piece() {
    for mut it in scripts() {
        let size = it.guest.ints(&[3]);
        it.call("MPI_Comm_size", &[it.world, size]);
        let counts = it.guest.ints(&[1, 2, 3]);
        let (sent, received) = (it.guest.ints(&[0, 4, -8]), it.guest.ints(&[9, 7, 5]));
        let (double, world) = (it.double, it.world);
        let event = it.call(
            "MPI_Alltoallv",
            &[
                0x5000, counts, sent, double, 0x6000, counts, received, double, world,
            ],
        );
        let details = event.details.0.expect("there are displacements");
        assert_eq!(details.send_displacements, [0, 4, -8]);
        assert_eq!(details.receive_displacements, [9, 7, 5]);
        let event = it.call(
            "MPI_Allgatherv",
            &[
                0x5000,
                int(1),
                double,
                0x6000,
                counts,
                received,
                double,
                world,
            ],
        );
        let details = event.details.0.expect("there are displacements");
        assert_eq!(details.send_displacements, []);
        assert_eq!(details.receive_displacements, [9, 7, 5]);
    }
}
