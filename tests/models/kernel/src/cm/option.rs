//! Options of an id.

use uverbs_core::error::Errno;
use uverbs_uapi::ib_user_sa::{IB_PATH_BIDIRECTIONAL, IB_PATH_GMP, IB_PATH_PRIMARY};
use uverbs_uapi::rdma_user_cm::{
    RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
    RDMA_OPTION_ID_AFONLY, RDMA_OPTION_ID_REUSEADDR, RDMA_OPTION_ID_TOS, rdma_ucm_event_resp_param,
    rdma_ucm_set_option,
};

use super::Phase;
use super::event::{kind, raise};
use crate::files::FileId;
use crate::state::State;

/// Flags, a reserved word, and a record of the wire.
const PATH_RECORD: usize = 72;
/// The path of messages in both directions.
const WHOLE: u32 = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;

/// # Errors
/// ENOSYS: no such option; EINVAL: another length, or the id's state.
pub(super) fn set(
    state: &mut State,
    file: FileId,
    request: &rdma_ucm_set_option,
    value: &[u8],
) -> Result<(), Errno> {
    let value = value.get(..request.optlen as usize).ok_or(Errno::FAULT)?;
    let found = state.cm.id(file, request.id)?;
    let word = || {
        let bytes: Result<[u8; 4], _> = value.try_into();
        bytes.map(i32::from_ne_bytes).map_err(|_| Errno::INVAL)
    };
    let byte = || match value {
        [byte] => Ok(*byte),
        _ => Err(Errno::INVAL),
    };
    match (request.level, request.optname) {
        (RDMA_OPTION_ID, RDMA_OPTION_ID_TOS) => found.tos = byte()?,
        (RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR) => {
            let reuse = word()? != 0;
            if !(reuse && found.phase != Phase::Listen) && found.phase != Phase::Idle {
                return Err(Errno::INVAL);
            }
            found.reuse = reuse;
        }
        (RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY) => {
            let only = word()? != 0;
            if !matches!(found.phase, Phase::Idle | Phase::Bound) {
                return Err(Errno::INVAL);
            }
            found.family_only = only;
        }
        (RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT) => {
            let timeout = byte()?;
            if found.datagram {
                return Err(Errno::INVAL);
            }
            found.ack_timeout = Some(timeout);
        }
        (RDMA_OPTION_IB, RDMA_OPTION_IB_PATH) => {
            let has_whole = value.chunks_exact(PATH_RECORD).any(|record| {
                record
                    .first_chunk()
                    .is_some_and(|flags| u32::from_ne_bytes(*flags) == WHOLE)
            });
            let is_list = value.len().is_multiple_of(PATH_RECORD) && has_whole;
            if !is_list || found.phase != Phase::AddressResolved {
                return Err(Errno::INVAL);
            }
            found.phase = Phase::RouteResolved;
            let none = rdma_ucm_event_resp_param::default();
            raise(state, request.id, kind::ROUTE_RESOLVED, 0, &none);
        }
        _ => return Err(Errno::NOSYS),
    }
    Ok(())
}
