//! Requests of Open MPI's point-to-point layer ob1.
//!
//! Offsets are those of 64-bit builds without debugging, which versions 4 and 5 share. A request keeps its status until it is reused,
//! which `mca_pml_ob1_recv_req_start` shows; so it can be read when the call that freed it has returned. Used where ob1 starts a request,
//! and when a call returns that completed one.

use belljar_trace::{Implementation, Peer};

use super::posted::ReceivedMessage;
use super::posting::Posting;
use crate::decode::implementation::{status, status_error};
use crate::guest::memory::{BadAddress, Reader};

/// Offsets in `ompi_request_t`: `req_type`, `req_status`, `req_complete`.
const TYPE: u64 = 56;
const STATUS: u64 = 64;
const COMPLETE: u64 = 88;

/// `OMPI_REQUEST_PML`, `REQUEST_COMPLETED`.
const POINT_TO_POINT: u32 = 0;
const COMPLETED: u64 = 1;

/// Offset in `ompi_message_t`: `req_ptr`.
const MESSAGE_REQUEST: u64 = 72;

/// Returns the receive of `mca_pml_ob1_recv_req_start(request)`.
pub(super) fn started(request: u64) -> Posting {
    Posting {
        request,
        is_own: true,
        ..Posting::default()
    }
}

/// Returns the receive of `mca_pml_ob1_mrecv` or `mca_pml_ob1_imrecv`, whose fourth argument points to the message's handle.
pub(super) fn probed(message: u64, memory: Reader<'_>) -> Result<Posting, BadAddress> {
    let message = memory.u64(message)?;
    let request = memory.u64(message.wrapping_add(MESSAGE_REQUEST))?;
    Ok(started(request))
}

/// Returns the message that a request received; `None` if it is incomplete, failed, or not a receive.
pub(crate) fn message(request: u64, memory: Reader<'_>) -> Option<ReceivedMessage> {
    let at = |offset: u64| request.wrapping_add(offset);
    let kind = memory.u64(at(TYPE)).ok()? as u32;
    let complete = memory.u64(at(COMPLETE)).ok()?;
    let error = status_error(Implementation::OpenMpi, at(STATUS), memory).ok()?;
    if (kind, complete, error) != (POINT_TO_POINT, COMPLETED, 0) {
        return None;
    }
    let status = status(Implementation::OpenMpi, at(STATUS), memory).ok()??;
    match status.source {
        _ if status.cancelled => Some(ReceivedMessage::CANCELLED),
        Peer::Rank(source) => Some(ReceivedMessage {
            source,
            tag: status.tag,
            bytes: status.bytes,
            cancelled: false,
        }),
        _ => None,
    }
}
