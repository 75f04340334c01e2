//! Meanings of functions: forms follow from base functions, and every header's functions have one.

use std::collections::BTreeSet;

use belljar_mpi::{
    Access, Boundary, CallKind, Completes, Epoch, FUNCTIONS, Meaning, Meeting, Object, Operation,
    Phase, SendMode, Standard, meaning, meaning_of, number, renumbered,
};

fn of(name: &str) -> &'static Meaning {
    meaning_of(name).unwrap_or_else(|| panic!("{name} is not in the table"))
}

#[test]
fn forms_of_one_operation_share_its_kind() {
    for operation in Operation::ALL {
        let name = operation.name();
        let (first, rest) = name.split_at(1);
        let blocking = format!("MPI_{}{rest}", first.to_uppercase());
        let forms = [
            (blocking.clone(), Phase::Done),
            (format!("MPI_I{name}"), Phase::Begun),
            (format!("{blocking}_init"), Phase::Prepared),
        ];
        for (form, phase) in forms {
            for form in [form.clone(), format!("{form}_c")] {
                // A barrier and similar functions have no counts, and so no large ones.
                let Some(meaning) = meaning_of(&form) else {
                    assert!(form.ends_with("_c"), "{form}");
                    continue;
                };
                assert_eq!(meaning.kind, CallKind::Collective(operation), "{form}");
                assert_eq!(meaning.phase, phase, "{form}");
                assert!(blocking.ends_with(meaning.base), "{form}: {}", meaning.base);
            }
        }
    }
}

#[test]
fn the_main_part_has_a_start_and_an_end() {
    for (name, boundary) in [
        ("MPI_Init", Some(Boundary::Start)),
        ("MPI_Init_thread", Some(Boundary::Start)),
        ("MPI_Session_init", Some(Boundary::Start)),
        ("MPI_Finalize", Some(Boundary::End)),
        ("MPI_Session_finalize", Some(Boundary::End)),
        ("MPI_Initialized", None),
        ("MPI_Finalized", None),
        ("MPI_Send_init", None),
        ("MPI_Win_create", None),
        ("MPI_Session_get_info", None),
    ] {
        assert_eq!(of(name).boundary(), boundary, "{name}");
    }
}

#[test]
fn messages_have_modes_and_phases() {
    for (letter, mode) in [
        ("", SendMode::Standard),
        ("b", SendMode::Buffered),
        ("s", SendMode::Synchronous),
        ("r", SendMode::Ready),
    ] {
        let blocking = match letter {
            "" => "Send".to_owned(),
            letter => format!("{}send", letter.to_uppercase()),
        };
        for (name, phase) in [
            (format!("MPI_{blocking}"), Phase::Done),
            (format!("MPI_I{letter}send"), Phase::Begun),
            (format!("MPI_{blocking}_init"), Phase::Prepared),
            (format!("MPI_{blocking}_init_c"), Phase::Prepared),
        ] {
            assert_eq!(of(&name).kind, CallKind::Send(mode), "{name}");
            assert_eq!(of(&name).phase, phase, "{name}");
        }
    }
    assert_eq!(of("MPI_Irecv").kind, CallKind::Receive);
    assert_eq!(of("MPI_Isendrecv_replace_c").kind, CallKind::SendReceive);
    assert_eq!(of("MPI_Psend_init").kind, CallKind::SendPartitioned);
    assert_eq!(of("MPI_Psend_init").phase, Phase::Prepared);
    assert_eq!(of("MPI_Imrecv").phase, Phase::Begun);
    assert_eq!(of("MPI_Improbe").phase, Phase::Done);
}

#[test]
fn names_that_look_like_forms_are_not() {
    assert_eq!(of("MPI_Init").kind, CallKind::Init);
    assert_eq!(of("MPI_Initialized").kind, CallKind::Local);
    assert_eq!(of("MPI_Finalized").kind, CallKind::Local);
    assert_eq!(of("MPI_Finalize").kind, CallKind::Finalize);
    assert_eq!(of("MPI_Session_init").phase, Phase::Done);
    assert_eq!(of("MPI_Info_get").kind, CallKind::Ask(Object::Other));
    assert_eq!(of("MPI_Get").kind, CallKind::Access(Access::Get));
    assert_eq!(of("MPI_Get_count").kind, CallKind::Local);
    assert_eq!(of("MPI_Request_get_status").kind, CallKind::Local);
    assert_eq!(of("MPI_Recv").meeting, Meeting::Nobody);
    assert_eq!(of("MPI_Reduce_local").collective(), None);
    assert_eq!(of("MPI_Win_start").epoch(), Some(Epoch::Start));
    assert_eq!(of("MPI_Start").kind, CallKind::Start);
    assert_eq!(of("MPI_Waitsome").kind, CallKind::Complete(Completes::Some));
}

#[test]
fn accesses_begin_where_a_request_completes_them() {
    for (name, access, phase) in [
        ("MPI_Put", Access::Put, Phase::Done),
        ("MPI_Rput_c", Access::Put, Phase::Begun),
        ("MPI_Rget", Access::Get, Phase::Begun),
        ("MPI_Raccumulate", Access::Accumulate, Phase::Begun),
        ("MPI_Rget_accumulate", Access::GetAccumulate, Phase::Begun),
        ("MPI_Fetch_and_op", Access::FetchAndOp, Phase::Done),
        ("MPI_Compare_and_swap", Access::CompareAndSwap, Phase::Done),
    ] {
        assert_eq!(of(name).access(), Some(access), "{name}");
        assert_eq!(of(name).phase, phase, "{name}");
    }
}

#[test]
fn calls_that_need_others_name_whom() {
    for (name, meeting) in [
        ("MPI_Init_thread", Meeting::World),
        ("MPI_Comm_split", Meeting::Communicator),
        ("MPI_Comm_idup_with_info", Meeting::Communicator),
        ("MPI_Comm_create_group", Meeting::NewCommunicator),
        ("MPI_Win_create_c", Meeting::Communicator),
        ("MPI_Win_fence", Meeting::Window),
        ("MPI_Win_free", Meeting::Window),
        ("MPI_File_write_at_all_c", Meeting::File),
        ("MPI_Comm_spawn", Meeting::Others),
        ("MPI_Comm_rank", Meeting::Nobody),
        ("MPI_Win_lock", Meeting::Nobody),
    ] {
        assert_eq!(of(name).meeting, meeting, "{name}");
    }
}

#[test]
fn polls_are_what_programs_repeat() {
    let polls = FUNCTIONS.iter().zip(0..);
    let polls = polls.filter(|(_, number)| meaning(*number).polls);
    let polls: BTreeSet<&str> = polls.map(|(function, _)| function.name).collect();
    let expected = [
        "MPI_Improbe",
        "MPI_Iprobe",
        "MPI_Parrived",
        "MPI_Request_get_status",
        "MPI_Request_get_status_all",
        "MPI_Request_get_status_any",
        "MPI_Request_get_status_some",
        "MPI_Test",
        "MPI_Testall",
        "MPI_Testany",
        "MPI_Testsome",
        "MPI_Win_test",
        "MPI_Wtick",
        "MPI_Wtime",
    ];
    assert_eq!(polls, expected.into());
    assert!(!meaning(u16::MAX).polls);
}

#[test]
fn later_standards_have_their_functions_and_earlier_numbers_stay_known() {
    assert_eq!(FUNCTIONS.len(), 659);
    let earlier: Vec<_> = FUNCTIONS
        .iter()
        .filter(|it| it.standard == Standard::Mpi40)
        .collect();
    assert_eq!(earlier.len(), 590);
    for (function, before) in earlier.iter().zip(0..) {
        assert_eq!(renumbered(before), number(function.name));
    }
    assert_eq!(renumbered(590), None);
    assert_eq!(of("MPI_Comm_iflush_buffer").phase, Phase::Begun);
    assert_eq!(of("MPI_Buffer_iflush").kind, CallKind::Set(Object::Buffer));
    assert_eq!(
        of("MPI_Comm_toint").kind,
        CallKind::Ask(Object::Communicator)
    );
    assert_eq!(of("MPIX_Comm_ishrink").phase, Phase::Begun);
    assert_eq!(of("MPIX_Comm_agree").meeting, Meeting::Communicator);
}
