//! Signatures: calls without the parts that differ between ranks and iterations.
//!
//! A [`Signature`](signature::Signature) is an event without its thread and times, with relative ranks, symbolic requests, and zeros for operands, the
//! argument words that are stored separately: pointers, displacements, large handles. [`abstract_from`](signature::abstract_from) creates it from an event
//! and [`restore`](signature::restore) recreates the event; both use and update an `Outlook` in the same way. Used by the writer and the readers.

use belljar_mpi::Base;
use belljar_trace::{Accounts, Detailed, Details, Event, Fact, Folded, Site, not_encoded};
use bincode::{Decode, Encode};

use crate::calls::stream::{ELSEWHERE, Outlook, Stream};

/// The slot of an operand that is the call's result.
pub(crate) const RESULT: u8 = 254;

/// The slot of an operand that is the completed request.
pub(crate) const REQUEST: u8 = 255;

/// A function's number in a file of an earlier version, which selects contexts of the file's columns. Not encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlierNumber(pub(crate) Option<u16>);

not_encoded!(EarlierNumber);

/// A call without its thread, times and operands.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Signature {
    pub(crate) event: Event,
    /// The slot of each operand: an argument's index, [`RESULT`] or [`REQUEST`].
    pub(crate) slots: Vec<u8>,
    /// The number of its site; 0 for no site. Stored only in files whose calls have sites.
    pub(crate) site: u32,
    /// Its details. Stored from version 9 on.
    pub(crate) details: Option<Box<Details>>,
    /// True if it stands for several calls, whose sums are stored with the times. Stored from version 10 on.
    pub(crate) folded: bool,
    /// The function's number in the file, if it differs from today's.
    pub(crate) earlier: EarlierNumber,
}

impl Signature {
    /// Returns the function's number in the file.
    pub(crate) fn context(&self) -> u16 {
        self.earlier.0.unwrap_or(self.event.function)
    }
}

/// Moves the parts that a signature lacks out of `event`, which then is the signature's event. Words go to `operands`, and their positions to `slots`; both
/// are cleared first.
pub(crate) fn abstract_from(
    event: &mut Event,
    outlook: &mut Outlook,
    slots: &mut Vec<u8>,
    operands: &mut Vec<u64>,
) {
    slots.clear();
    operands.clear();
    let fact = short_fact(event);
    take_arguments(event, outlook, slots, operands);
    let own = event.rank;
    let communicator = event.communicator;
    for transfer in &mut event.transfers {
        outlook.relative_peer(transfer.communicator, &mut transfer.peer);
    }
    if let Some(status) = &mut event.status {
        outlook.relative_peer(communicator, &mut status.source);
    }
    let of = starting(event);
    for request in &mut event.started {
        *request = outlook.start(of, *request);
    }
    for completion in &mut event.completed {
        let (told, of) = outlook.complete(completion.request);
        if told == ELSEWHERE {
            slots.push(REQUEST);
            operands.push(completion.request);
        }
        completion.request = told;
        if let Some(status) = &mut completion.status {
            outlook.relative_peer(of, &mut status.source);
        }
    }
    if let Some(Fact::Rank { rank, .. }) = &mut event.fact {
        *rank = rank.wrapping_sub(own);
    }
    outlook.learn(fact.as_ref());
    forget_place(event);
}

/// The fact from which an [`Outlook`] is updated.
fn short_fact(event: &Event) -> Option<Fact> {
    match &event.fact {
        Some(fact @ (Fact::Rank { .. } | Fact::Size { .. } | Fact::Launch(_))) => {
            Some(fact.clone())
        }
        _ => None,
    }
}

/// The communicator of the requests that a call starts.
fn starting(event: &Event) -> Option<u32> {
    let transfer = event.transfers.first();
    transfer.map_or(event.communicator, |transfer| transfer.communicator)
}

fn forget_place(event: &mut Event) {
    (event.node, event.process, event.thread, event.rank) = (0, 0, 0, 0);
    (event.vcpu, event.entry) = (0, 0);
    event.implementation = belljar_trace::Implementation::Mpich;
    event.exit = event.exit.map(|_| 0);
    event.accounts = Accounts(None);
    event.site = Site(None);
    event.details = Detailed(None);
    event.folded = Folded(None);
}

/// The treatment of an argument word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Treatment {
    Keep,
    Relative,
    Apart,
}

fn treatment(event: &Event, index: usize) -> Treatment {
    let Some(parameter) = event.description().parameters.get(index) else {
        return Treatment::Apart;
    };
    match (parameter.base, parameter.pointer) {
        (Base::Int, 0) => match parameter.name {
            "dest" | "source" | "target_rank" => Treatment::Relative,
            _ => Treatment::Keep,
        },
        (Base::Count | Base::Fint | Base::Double, 0) => Treatment::Keep,
        _ => Treatment::Apart,
    }
}

/// True for a word that is effectively a constant: null, `MPI_IN_PLACE`, or an MPICH handle.
fn is_constant(event: &Event, index: usize, word: u64) -> bool {
    let parameter = event.description().parameters.get(index);
    let handle = parameter.is_some_and(|it| {
        it.pointer == 0 && !matches!(it.base, Base::Aint | Base::Offset | Base::Callback)
    });
    word <= 1 || word == u64::MAX || handle && u32::try_from(word).is_ok()
}

fn take_arguments(
    event: &mut Event,
    outlook: &Outlook,
    slots: &mut Vec<u8>,
    operands: &mut Vec<u64>,
) {
    for index in 0..event.arguments.len() {
        let word = event.arguments[index];
        match treatment(event, index) {
            Treatment::Relative => {
                if let Some(rank) = rank_of(word) {
                    let distance = outlook.relative(event.communicator, rank);
                    event.arguments[index] = distance.into();
                }
            }
            Treatment::Apart if index < usize::from(RESULT) && !is_constant(event, index, word) => {
                slots.push(index as u8);
                operands.push(word);
                event.arguments[index] = 0;
            }
            _ => {}
        }
    }
    if let Some(result) = &mut event.result
        && !matches!(*result, 0 | 1)
        && u32::try_from(result.unsigned_abs()).is_err()
    {
        slots.push(RESULT);
        operands.push(result.cast_unsigned());
        *result = 0;
    }
}

/// Returns a rank argument, except for constants such as `MPI_ANY_SOURCE`, which are negative.
fn rank_of(word: u64) -> Option<u32> {
    u32::try_from(word).ok()
}

/// Recreates the event of this signature; its times and vCPU are zero. `None` if the signature, the operands and the earlier calls do not fit together.
pub(crate) fn restore(
    signature: &Signature,
    stream: &Stream,
    outlook: &mut Outlook,
    operands: &[u64],
) -> Option<Event> {
    let mut event = signature.event.clone();
    (event.node, event.process) = (stream.node, stream.process);
    (event.thread, event.rank) = (stream.thread, stream.rank);
    event.implementation = stream.implementation;
    event.details = Detailed(signature.details.clone());
    if signature.slots.len() != operands.len() {
        return None;
    }
    put_arguments(&mut event, outlook, &signature.slots, operands)?;
    for transfer in &mut event.transfers {
        outlook.absolute_peer(transfer.communicator, &mut transfer.peer);
    }
    if let Some(status) = &mut event.status {
        outlook.absolute_peer(event.communicator, &mut status.source);
    }
    let of = starting(&event);
    for request in &mut event.started {
        *request = outlook.started(of, *request);
    }
    let mut apart = requests_apart(signature, operands);
    for completion in &mut event.completed {
        let (request, of) = match completion.request {
            ELSEWHERE => (apart.next()?, None),
            later => outlook.completed(later)?,
        };
        completion.request = request;
        if let Some(status) = &mut completion.status {
            outlook.absolute_peer(of, &mut status.source);
        }
    }
    if let Some(Fact::Rank { rank, .. }) = &mut event.fact {
        *rank = rank.wrapping_add(stream.rank);
    }
    outlook.learn(event.fact.as_ref());
    Some(event)
}

fn requests_apart<'a>(
    signature: &'a Signature,
    operands: &'a [u64],
) -> impl Iterator<Item = u64> + 'a {
    let slots = signature.slots.iter().zip(operands);
    slots.filter_map(|(slot, operand)| (*slot == REQUEST).then_some(*operand))
}

fn put_arguments(
    event: &mut Event,
    outlook: &Outlook,
    slots: &[u8],
    operands: &[u64],
) -> Option<()> {
    for (slot, operand) in slots.iter().zip(operands) {
        match *slot {
            REQUEST => {}
            RESULT => event.result = Some(operand.cast_signed()),
            index => *event.arguments.get_mut(usize::from(index))? = *operand,
        }
    }
    for index in 0..event.arguments.len() {
        if treatment(event, index) == Treatment::Relative
            && let Some(distance) = rank_of(event.arguments[index])
        {
            let rank = outlook.absolute(event.communicator, distance);
            event.arguments[index] = rank.into();
        }
    }
    Some(())
}
