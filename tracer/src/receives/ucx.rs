//! Receives through UCX, as MPICH posts them.
//!
//! The structures are UCX's interface (`ucp.h`), which is stable; the tag's layout is MPICH's (`ucx_types.h`). The callback has MPICH's
//! request as its last argument. Used where MPICH calls UCX, and where UCX calls back.

use super::posted::{ReceiveCriteria, ReceivedMessage};
use super::posting::Posting;
use crate::guest::memory::{BadAddress, Reader};

/// Offsets in `ucp_request_param_t`: the mask of fields, the callback, the user's data.
const CALLBACK: u64 = 16;
const USER_DATA: u64 = 32;

/// `UCP_OP_ATTR_FIELD_CALLBACK`, `UCP_OP_ATTR_FIELD_USER_DATA`.
const HAS_CALLBACK: u64 = 1 << 1;
const HAS_USER_DATA: u64 = 1 << 2;

/// `UCS_OK` and `UCS_ERR_CANCELED`, as `ucs_status_t` is a signed byte.
const OK: i8 = 0;
const CANCELLED: i8 = -16;

/// Set in the context of MPICH's internal messages, which belong to collective operations.
const COLLECTIVE: u64 = 1 << 48;

/// Returns the receive with the parameters at `parameters`; `tag` is the wanted tag and the mask of its significant bits.
pub(super) fn posting(
    parameters: u64,
    tag: Option<(u64, u64)>,
    memory: Reader<'_>,
) -> Option<Posting> {
    let (callback, request) = fields(parameters, memory).ok().flatten()?;
    Some(Posting {
        request,
        asked: tag.map(|(tag, mask)| asked(tag, mask)),
        callback: Some(callback),
        is_own: tag.is_none_or(|(tag, _)| tag & COLLECTIVE == 0),
    })
}

/// Returns the callback and MPICH's request.
fn fields(parameters: u64, memory: Reader<'_>) -> Result<Option<(u64, u64)>, BadAddress> {
    let has = HAS_CALLBACK | HAS_USER_DATA;
    if memory.u64(parameters)? & has != has {
        return Ok(None);
    }
    let callback = memory.u64(parameters.wrapping_add(CALLBACK))?;
    let request = memory.u64(parameters.wrapping_add(USER_DATA))?;
    Ok(Some((callback, request)))
}

/// Returns the source and tag that a receive requests.
fn asked(tag: u64, mask: u64) -> ReceiveCriteria {
    ReceiveCriteria {
        source: (rank(mask) != 0).then(|| rank(tag)),
        // The bits of a tag that report errors never count.
        tag: (mask as u32 & 0xffff != 0).then_some(tag as u32 as i32),
    }
}

fn rank(tag: u64) -> u32 {
    u32::from((tag >> 32) as u16)
}

/// Returns the message that the callback reports; `None` after an error.
pub(super) fn message(status: u64, info: u64, memory: Reader<'_>) -> Option<ReceivedMessage> {
    match status as i8 {
        CANCELLED => Some(ReceivedMessage::CANCELLED),
        OK => {
            let tag = memory.u64(info).ok()?;
            Some(ReceivedMessage {
                source: rank(tag),
                tag: tag as u32 as i32,
                bytes: memory.u64(info.wrapping_add(8)).ok()?,
                cancelled: false,
            })
        }
        _ => None,
    }
}
