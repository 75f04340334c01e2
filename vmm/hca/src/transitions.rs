//! Changes of queue pairs' states, by command.
//!
//! A change sets the parameters that it requires and those that the driver marks. Others keep their values (InfiniBand Architecture Specification
//! volume 1, section 10.3.1; the mask's bits are the card's).

use crate::Step;
use crate::command::Status;
use crate::events::kind;
use crate::fields::{put, u32_at};
use crate::pair::{CONTEXT, PairState, QueuePair, at};

/// Offset of the context in a mailbox, after the mask of parameters.
const MAILBOX_CONTEXT: usize = 8;
/// The largest number of pairs: the binary logarithm that the card reports.
const MOST_PAIRS: usize = 1 << crate::limits::LOG_PAIRS;

/// Parameters of the mask.
mod parameter {
    pub(super) const READ: u32 = 1 << 1;
    pub(super) const ATOMIC: u32 = 1 << 2;
    pub(super) const WRITE: u32 = 1 << 3;
    pub(super) const PARTITION: u32 = 1 << 4;
    pub(super) const QUEUE_KEY: u32 = 1 << 5;
    pub(super) const READY_TIMER: u32 = 1 << 6;
    pub(super) const PATH: u32 = 1 << 7;
    pub(super) const OWN_READS: u32 = 1 << 8;
    pub(super) const PEER_READS: u32 = 1 << 9;
    pub(super) const RETRIES: u32 = 1 << 12;
    pub(super) const READY_RETRIES: u32 = 1 << 13;
    pub(super) const TIMEOUT: u32 = 1 << 14;
    pub(super) const SCHEDULE: u32 = 1 << 16;
}

/// A change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Init,
    InitAgain,
    Receive,
    Send,
    SendAgain,
    AfterSendError,
    Drain,
    DrainedAgain,
    Undrain,
    Error,
    Reset,
}

impl Change {
    /// The change of an opcode.
    pub(crate) fn of_opcode(opcode: u16) -> Option<Self> {
        Some(match opcode {
            0x19 => Self::Init,
            0x2d => Self::InitAgain,
            0x1a => Self::Receive,
            0x1b => Self::Send,
            0x1c => Self::SendAgain,
            0x1d => Self::AfterSendError,
            0x1f => Self::Drain,
            0x38 => Self::DrainedAgain,
            0x20 => Self::Undrain,
            0x1e => Self::Error,
            0x21 => Self::Reset,
            _ => return None,
        })
    }

    /// The states from which it is permitted, and the state that it leads to.
    fn states(self) -> (&'static [PairState], PairState) {
        use PairState::{Drained, Error, Init, Receive, Reset, Send, SendError};
        let any: &[PairState] = &[Init, Receive, Send, SendError, Drained, Error];
        match self {
            Self::Init => (&[Reset], Init),
            Self::InitAgain => (&[Init], Init),
            Self::Receive => (&[Init], Receive),
            Self::Send => (&[Receive], Send),
            Self::SendAgain => (&[Send], Send),
            Self::AfterSendError => (&[SendError], Send),
            Self::Drain => (&[Send], Drained),
            Self::DrainedAgain => (&[Drained], Drained),
            Self::Undrain => (&[Drained], Send),
            Self::Error => (any, Error),
            Self::Reset => (any, Reset),
        }
    }
}

impl Step<'_> {
    /// Changes the state of pair `number` with the parameters of `mailbox`; `announces` the end of draining.
    pub(crate) fn change_pair(
        &mut self,
        number: u32,
        change: Change,
        mailbox: &[u8],
        announces: bool,
    ) -> Status {
        let (from, to) = change.states();
        if change == Change::Init {
            return self.create_pair(number, mailbox);
        }
        let done = self.with_pair(number, |step, pair| {
            if !from.contains(&pair.state) {
                return Status::BadPairState;
            }
            take_parameters(pair, change, mailbox);
            match to {
                PairState::Error => step.enter_error(pair),
                state => pair.state = state,
            }
            match change {
                Change::Receive => pair.responder.start(pair.first_receive_psn()),
                Change::Send => pair.requester.start(pair.first_send_psn()),
                _ => {}
            }
            if change == Change::Drain && announces {
                step.post_event(kind::DRAINED, 0, &[(4, &number.to_be_bytes())]);
            }
            if to == PairState::Send {
                step.proceed(pair, step.now + step.config.delays.send);
            }
            Status::Done
        });
        match (done, change) {
            (Some(status), _) => status,
            // A pair that is reset does not exist here.
            (None, Change::Reset) => Status::Done,
            (None, _) => Status::BadPairState,
        }
    }

    fn create_pair(&mut self, number: u32, mailbox: &[u8]) -> Status {
        let Some(context) = mailbox.get(MAILBOX_CONTEXT..MAILBOX_CONTEXT + CONTEXT) else {
            return Status::BadParameter;
        };
        if self.core.pairs.contains_key(&number) {
            return Status::BadPairState;
        }
        // Drivers count on beyond the number of pairs, so that a number is not used again soon.
        if self.core.pairs.len() >= MOST_PAIRS {
            return Status::BadIndex;
        }
        let pair = QueuePair::new(number, context);
        self.core.pairs.insert(number, pair);
        Status::Done
    }

    /// The mailbox of a query; `None` if there is no such pair.
    pub(crate) fn query_pair(&self, number: u32) -> Option<Vec<u8>> {
        let pair = self.core.pairs.get(&number)?;
        let mut context = pair.context.clone();
        let flags = u32_at(&context, at::FLAGS) & 0x0fff_ffff;
        put(
            &mut context,
            at::FLAGS,
            &((pair.state as u32) << 28 | flags).to_be_bytes(),
        );
        put(
            &mut context,
            at::SEND_PSN,
            &pair.requester.next.to_be_bytes(),
        );
        put(
            &mut context,
            at::MESSAGES,
            &pair.responder.messages().to_be_bytes(),
        );
        let timer = pair.ready_timer() << 24;
        let expected = timer | pair.responder.next_number();
        put(&mut context, at::RECEIVE_PSN, &expected.to_be_bytes());
        let mut mailbox = vec![0; MAILBOX_CONTEXT];
        mailbox.extend(context);
        Some(mailbox)
    }
}

/// Copies the parameters that a change requires or that the mask marks.
fn take_parameters(pair: &mut QueuePair, change: Change, mailbox: &[u8]) {
    use parameter as p;
    let marked = u32_at(mailbox, 0);
    let Some(new) = mailbox.get(MAILBOX_CONTEXT..MAILBOX_CONTEXT + CONTEXT) else {
        return;
    };
    let own = &mut pair.context;
    if change == Change::Receive {
        own[at::MTU] = new[at::MTU];
        copy_bits(own, new, at::PEER, 0xff_ffff);
        own[at::PATH..at::PATH_END].copy_from_slice(&new[at::PATH..at::PATH_END]);
        copy_bits(own, new, at::RECEIVE_PSN, 0xff_ffff);
    }
    if change == Change::Send {
        copy_bits(own, new, at::SEND_PSN, 0xff_ffff);
    }
    let fields = [
        (p::READ, at::ANSWERS, 1 << 15),
        (p::WRITE, at::ANSWERS, 1 << 14),
        (p::ATOMIC, at::ANSWERS, 1 << 13),
        (p::PEER_READS, at::ANSWERS, 7 << 21),
        (p::OWN_READS, at::REQUESTS, 7 << 21),
        (p::RETRIES, at::REQUESTS, 7 << 16),
        (p::READY_RETRIES, at::REQUESTS, 7 << 13),
        (p::READY_TIMER, at::RECEIVE_PSN, 0x1f << 24),
        (p::QUEUE_KEY, at::QUEUE_KEY, u32::MAX),
    ];
    for (parameter, at, bits) in fields {
        if marked & parameter != 0 {
            copy_bits(own, new, at, bits);
        }
    }
    if marked & p::PATH != 0 {
        let timeout = own[at::TIMEOUT];
        own[at::PATH..at::PATH_END].copy_from_slice(&new[at::PATH..at::PATH_END]);
        own[at::TIMEOUT] = timeout;
    }
    let bytes = [
        (p::PARTITION, at::PARTITION),
        (p::TIMEOUT, at::TIMEOUT),
        (p::SCHEDULE, at::SCHEDULE),
    ];
    for (parameter, at) in bytes {
        if marked & parameter != 0 {
            own[at] = new[at];
        }
    }
}

/// Copies `bits` of the 32 bits at `at`.
fn copy_bits(own: &mut [u8], new: &[u8], at: usize, bits: u32) {
    let value = u32_at(own, at) & !bits | u32_at(new, at) & bits;
    put(own, at, &value.to_be_bytes());
}
