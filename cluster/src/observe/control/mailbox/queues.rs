//! Requests for the messages of MPI that wait, and the run's answers.
//!
//! The run answers between two rounds. Used by the socket's threads and by the coordinator.

use std::sync::PoisonError;

use super::{Inner, Mailbox};

/// Requests for the messages that wait, and the last answer.
#[derive(Debug, Default)]
pub(super) struct QueuesRequests {
    pub(super) wanted: bool,
    /// Number of answers so far.
    answers: u64,
    last: Option<Result<String, String>>,
}

impl Mailbox {
    /// Answers the requests for the messages that wait.
    pub(crate) fn publish_queues(&self, queues: Result<String, String>) {
        let mut inner = self.lock();
        inner.queues.last = Some(queues);
        inner.queues.answers += 1;
        self.answered.notify_all();
    }

    /// The messages that wait, as text; the reason if the run cannot find them.
    pub(crate) fn queues(&self) -> Result<String, String> {
        let mut inner = self.lock();
        let before = inner.queues.answers;
        inner.queues.wanted = true;
        self.call(&inner);
        let unanswered = |inner: &mut Inner| inner.queues.answers == before && !inner.closed;
        let inner = self.answered.wait_while(inner, unanswered);
        let inner = inner.unwrap_or_else(PoisonError::into_inner);
        match &inner.queues.last {
            Some(last) if inner.queues.answers != before => last.clone(),
            _ => Err("the run is ending".to_owned()),
        }
    }
}
