//! Receives of scripted guests, whose libraries act as MPICH over UCX and Open MPI's ob1.

/// Requests of Open MPI's ob1.
mod open_mpi;

use std::sync::Arc;

use belljar_trace::{Ending, Event, MpiLibrary, Peer, Status};

use super::*;
use crate::interception::targets::{Target, Targets};
use crate::scripted::{Guest, int};
use crate::selection::Selection;

const HOOKS: [ReceiveHook; 4] = [
    ReceiveHook::UcxReceive,
    ReceiveHook::UcxReceiveProbed,
    ReceiveHook::Ob1Start,
    ReceiveHook::Ob1ReceiveProbed,
];

const CALLBACK: u64 = 0x7f11_0100_0000;
const WORLD: u64 = 0x4400_0000;
const INT: u64 = 0x4c00_0405;
const IGNORE: u64 = 1;
/// `MPI_ANY_SOURCE` of MPICH, `MPI_ANY_TAG`.
const ANY: i32 = -2;
const ANY_TAG: i32 = -1;

/// Tags and masks of MPICH for a receive of tag 7 from any source on its world, and from any source with any tag.
const TAG_7: [u64; 2] = [7, 0xffff_0000_9fff_ffff];
const ANYTHING: [u64; 2] = [0, 0xffff_0000_8000_0000];

struct Machine {
    tracer: NodeTracer,
    guest: Guest,
}

fn status(source: u32, tag: i32, bytes: u64) -> Option<Status> {
    Some(Status {
        source: Peer::Rank(source),
        tag,
        bytes,
        cancelled: false,
        observed: true,
    })
}

/// Reaches a hook, or a watched `rip`.
fn come_to(
    guest: &mut Guest,
    tracer: &mut NodeTracer,
    place: Result<ReceiveHook, u64>,
    arguments: &[u64],
) {
    let mut registers = MagicRegisters {
        cr3: guest.cr3,
        fs_base: guest.thread,
        ..MagicRegisters::default()
    };
    registers.gpr[RSP] = guest.stack - 0x200;
    for (register, word) in ARGUMENT_REGISTERS.into_iter().zip(arguments) {
        registers.gpr[register] = *word;
    }
    tracer.set_targets(Arc::new(Targets::of(
        HOOKS.map(Target::Receive).to_vec(),
        Vec::new(),
    )));
    match place {
        Ok(hook) => {
            let number = HOOKS.iter().position(|it| *it == hook).unwrap() as u32;
            tracer.probe(guest.clock, 0, number, &registers, &mut guest.memory);
        }
        Err(rip) => {
            registers.rip = rip;
            tracer.returned(guest.clock, &registers, &guest.memory);
        }
    }
}

/// MPICH posts a receive with its request at `request`.
fn ucx_post(guest: &mut Guest, tracer: &mut NodeTracer, request: u64, [tag, mask]: [u64; 2]) {
    let parameters = guest.words(&[0x1_0006, 0, CALLBACK, 0, request]);
    let arguments = [1, 2, 3, tag, mask, parameters];
    come_to(guest, tracer, Ok(ReceiveHook::UcxReceive), &arguments);
}

/// UCX calls back: the message's tag has context, source and tag.
fn ucx_match(guest: &mut Guest, tracer: &mut NodeTracer, request: u64, message: (i8, u64, u64)) {
    let (result, tag, bytes) = message;
    let info = guest.words(&[tag, bytes]);
    let result = u64::from(result.cast_unsigned());
    come_to(guest, tracer, Err(CALLBACK), &[5, result, info, request]);
}

impl Machine {
    /// An MPICH process of a world of four.
    fn mpich() -> Self {
        let mut tracer = NodeTracer::new(0, &Selection::default());
        let guest = Guest::mpich(&mut tracer, 1);
        let mut machine = Self { tracer, guest };
        machine.ask_size(WORLD);
        machine
    }

    /// An Open MPI process of a world of four.
    fn open_mpi() -> Self {
        let mut tracer = NodeTracer::new(0, &Selection::default());
        let guest = Guest::open_mpi(&mut tracer, 1);
        let world = guest.object("ompi_mpi_comm_world");
        let mut machine = Self { tracer, guest };
        machine.ask_size(world);
        machine
    }

    fn ask_size(&mut self, world: u64) {
        let size = self.guest.ints(&[4]);
        self.call("MPI_Comm_size", &[world, size], |_, _| {});
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[u64],
        body: impl FnOnce(&mut Guest, &mut NodeTracer),
    ) -> Event {
        self.guest
            .call_with(&mut self.tracer, name, arguments, body);
        self.tracer.take_events().pop().unwrap()
    }

    /// `MPI_Recv` of MPICH of ten integers with this status, running `body` in it.
    fn receive(
        &mut self,
        tag: i32,
        status: u64,
        body: impl FnOnce(&mut Guest, &mut NodeTracer),
    ) -> Event {
        let arguments = [0x1000, int(10), INT, int(ANY), int(tag), WORLD, status];
        self.call("MPI_Recv", &arguments, body)
    }

    /// `MPI_Irecv` of MPICH with the library's request at `request`.
    fn begin(&mut self, handle: u64, request: u64) {
        let out = self.guest.handles(&[0]);
        let arguments = [0x1000, int(10), INT, int(ANY), int(ANY_TAG), WORLD, out];
        self.call("MPI_Irecv", &arguments, |guest, tracer| {
            ucx_post(guest, tracer, request, ANYTHING);
            guest.put_handle(out, handle);
        });
    }

    /// Returns the statuses of an `MPI_Waitall` that ignores statuses.
    fn wait_for(
        &mut self,
        handles: &[u64],
        body: impl FnOnce(&mut Guest, &mut NodeTracer),
    ) -> Vec<Option<Status>> {
        let count = int(handles.len() as i32);
        let handles = self.guest.handles(handles);
        let event = self.call("MPI_Waitall", &[count, handles, IGNORE], body);
        let completed = event.completed.iter();
        assert!(completed.clone().all(|one| one.ending == Ending::Well));
        completed.map(|one| one.status).collect()
    }
}

#[test]
fn a_blocking_receive_is_matched_by_the_callback() {
    let mut machine = Machine::mpich();
    let event = machine.receive(7, IGNORE, |guest, tracer| {
        ucx_post(guest, tracer, 0x9000, TAG_7);
        assert_eq!(tracer.take_return_to_watch(), Some(CALLBACK));
        assert!(tracer.open_returns().contains(&CALLBACK));
        *tracer = tracer.reborn();
        // An internal receive of the library, on the communicator's other context.
        ucx_post(guest, tracer, 0x9100, [1 << 48 | 7, u64::MAX]);
        assert_eq!(tracer.take_return_to_watch(), None);
        ucx_match(guest, tracer, 0x9100, (0, 1 << 48 | 2 << 32 | 7, 8));
        ucx_match(guest, tracer, 0x9000, (0, 3 << 32 | 7, 24));
    });
    assert_eq!(event.status, status(3, 7, 24));
    assert_eq!(
        (event.transfers[0].bytes, event.transfers[0].exact),
        (24, true)
    );
}

#[test]
fn a_status_that_the_library_wrote_goes_first() {
    let mut machine = Machine::mpich();
    let out = machine.guest.room(24);
    let event = machine.receive(7, out, |guest, tracer| {
        ucx_post(guest, tracer, 0x9000, TAG_7);
        ucx_match(guest, tracer, 0x9000, (0, 3 << 32 | 7, 24));
        guest.put_status(out, 2, 7, 16);
    });
    let own = status(2, 7, 16).map(|own| Status {
        observed: false,
        ..own
    });
    assert_eq!(event.status, own);
}

#[test]
fn a_match_that_contradicts_the_call_is_not_recorded() {
    for (tag, message) in [
        // A rank beyond the communicator, another tag, too large a message, an error, an invalid tag.
        (7, (0, 4 << 32 | 7, 24)),
        (7, (0, 3 << 32 | 8, 24)),
        (7, (0, 3 << 32 | 7, 44)),
        (7, (-9, 3 << 32 | 7, 24)),
        (ANY_TAG, (0, 3 << 32 | 0xffff_fff0, 24)),
    ] {
        let mut machine = Machine::mpich();
        let event = machine.receive(tag, IGNORE, |guest, tracer| {
            let asked = if tag == 7 { TAG_7 } else { ANYTHING };
            ucx_post(guest, tracer, 0x9000, asked);
            ucx_match(guest, tracer, 0x9000, message);
        });
        assert_eq!(event.status, None, "{message:?}");
    }
    // Posted for another receive.
    let mut machine = Machine::mpich();
    let event = machine.receive(7, IGNORE, |guest, tracer| {
        ucx_post(guest, tracer, 0x9000, [9, 0xffff_0000_9fff_ffff]);
        ucx_match(guest, tracer, 0x9000, (0, 3 << 32 | 7, 24));
    });
    assert_eq!(event.status, None);
}

#[test]
fn requests_are_known_until_they_are_waited_for() {
    let mut machine = Machine::mpich();
    let handles = [0xac00_0001, 0xac00_0002, 0xac00_0003];
    for (handle, request) in handles.into_iter().zip([0x9000, 0x9100, 0x9200]) {
        machine.begin(handle, request);
    }
    let statuses = machine.wait_for(&handles, |guest, tracer| {
        ucx_match(guest, tracer, 0x9100, (0, 2 << 32 | 5, 4));
        ucx_match(guest, tracer, 0x9000, (0, 3 << 32 | 6, 8));
        ucx_match(guest, tracer, 0x9200, (-16, 0, 0));
        // The library reuses the second one's request.
        ucx_post(guest, tracer, 0x9100, ANYTHING);
        ucx_match(guest, tracer, 0x9100, (0, 1 << 32 | 5, 12));
    });
    assert_eq!(statuses[..2], [status(3, 6, 8), None]);
    assert!(statuses[2].is_some_and(|status| status.cancelled && status.observed));
}

#[test]
fn a_transport_that_gives_up_cancels_no_receive() {
    // A program cannot cancel a blocking receive.
    let mut machine = Machine::mpich();
    let event = machine.receive(7, IGNORE, |guest, tracer| {
        ucx_post(guest, tracer, 0x9000, TAG_7);
        ucx_match(guest, tracer, 0x9000, (-16, 0, 0));
    });
    assert_eq!((event.status, event.transfers[0].exact), (None, false));
    // MPICH's requests begin with their handles.
    let mut machine = Machine::mpich();
    let [own, other] = [0xac00_0001, 0xac00_0002];
    let requests = [own, 7].map(|word| machine.guest.words(&[word, 0]));
    for (handle, request) in [own, other].into_iter().zip(requests) {
        machine.begin(handle, request);
    }
    let statuses = machine.wait_for(&[own, other], |guest, tracer| {
        for request in requests {
            ucx_match(guest, tracer, request, (-16, 0, 0));
        }
    });
    assert!(statuses[0].is_some_and(|status| status.cancelled));
    assert_eq!(statuses[1], None);
}

#[test]
fn handles_of_the_standard_abi_are_mpichs_requests() {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let mut guest = Guest::standard_abi(&mut tracer, MpiLibrary::Mpich, 1);
    let out = guest.handles(&[0, 0, 0]);
    for (place, (handle, request)) in [(0x9000, 0x9000), (0x9100, 0x9100), (0x9200, 0x9300)]
        .into_iter()
        .enumerate()
    {
        let place = out + 8 * place as u64;
        let arguments = [0x1000, int(10), 0x209, int(-1), int(-2), 0x101, place];
        guest.call_with(&mut tracer, "MPI_Irecv", &arguments, |guest, tracer| {
            ucx_post(guest, tracer, request, ANYTHING);
            guest.put_handle(place, handle);
        });
    }
    let arguments = [int(3), out, 0];
    guest.call_with(&mut tracer, "MPI_Waitall", &arguments, |guest, tracer| {
        ucx_match(guest, tracer, 0x9000, (0, 3 << 32 | 6, 8));
        ucx_match(guest, tracer, 0x9100, (-16, 0, 0));
        ucx_match(guest, tracer, 0x9300, (-16, 0, 0));
    });
    let event = tracer.take_events().pop().unwrap();
    let statuses: Vec<_> = event.completed.iter().map(|one| one.status).collect();
    assert_eq!(statuses[0], status(3, 6, 8));
    assert!(statuses[1].is_some_and(|status| status.cancelled && status.observed));
    assert_eq!(statuses[2], None);
}

#[test]
fn persistent_receives_are_told_apart_by_what_they_ask_for() {
    let mut machine = Machine::mpich();
    let handles = [0xac00_0001, 0xac00_0002];
    for (handle, (source, tag)) in handles.into_iter().zip([(ANY, 7), (2, ANY_TAG)]) {
        let arguments = [0x1000, int(10), INT, int(source), int(tag), WORLD];
        let tracer = &mut machine.tracer;
        machine
            .guest
            .make(tracer, "MPI_Recv_init", &arguments, handle);
    }
    for bytes in [4, 8] {
        let both = machine.guest.handles(&handles);
        machine.call("MPI_Startall", &[int(2), both], |guest, tracer| {
            ucx_post(guest, tracer, 0x9100, [2 << 32, 0xffff_ffff_8000_0000]);
            ucx_post(guest, tracer, 0x9000, TAG_7);
        });
        let statuses = machine.wait_for(&handles, |guest, tracer| {
            ucx_match(guest, tracer, 0x9100, (0, 2 << 32 | 5, bytes));
            ucx_match(guest, tracer, 0x9000, (0, 7, bytes));
        });
        assert_eq!(statuses, [status(0, 7, bytes), status(2, 5, bytes)]);
    }
}

#[test]
fn hostile_postings_harm_nobody() {
    let mut machine = Machine::mpich();
    let event = machine.receive(7, IGNORE, |guest, tracer| {
        for parameters in [0, 5, u64::MAX, u64::MAX - 20] {
            let arguments = [1, 2, 3, 7, u64::MAX, parameters];
            come_to(guest, tracer, Ok(ReceiveHook::UcxReceive), &arguments);
            let arguments = [1, 2, 3, 7, parameters];
            come_to(guest, tracer, Ok(ReceiveHook::UcxReceiveProbed), &arguments);
            come_to(guest, tracer, Ok(ReceiveHook::Ob1Start), &arguments);
        }
        // Without a callback.
        let parameters = guest.words(&[4, 0, CALLBACK, 0, 0x9000]);
        let arguments = [1, 2, 3, 7, u64::MAX, parameters];
        come_to(guest, tracer, Ok(ReceiveHook::UcxReceive), &arguments);
        assert_eq!(tracer.take_return_to_watch(), None);
        // More callbacks than a library has, and more requests than are kept.
        let parameters = guest.room(40);
        for number in 0..70_000 {
            let callback = CALLBACK + number;
            guest.put_words(parameters, &[6, 0, callback, 0, 0x9000 + number]);
            let arguments = [1, 2, 3, 7, u64::MAX, parameters];
            come_to(guest, tracer, Ok(ReceiveHook::UcxReceive), &arguments);
        }
        assert!(tracer.open_returns().len() < 300);
        *tracer = tracer.reborn();
        come_to(guest, tracer, Err(CALLBACK), &[1, 0, u64::MAX - 3, 0x9000]);
    });
    assert_eq!(event.status, None);
}
