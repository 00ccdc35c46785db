//! Datagrams: one sender, any number of receivers, and no report of losses.

use uverbs_uapi::ib_user_verbs::IB_UVERBS_WR_SEND_WITH_IMM;

use super::complete::{SOLICITED, Status, WC_WITH_IMM};
use super::receive::{self, Arrival, RECV};
use super::request::{Outcome, Request};
use crate::device::{self, GIDS};
use crate::qp::{Group, Transport, is_multicast, qps};
use crate::state::State;

/// Bytes of the global routing header in front of a datagram.
const GRH: usize = 40;

/// Sends a datagram to one queue pair, or to all members of the group. Losses are not reported.
pub(super) fn datagram(state: &mut State, request: &Request) -> Outcome {
    let ud = request.wqe.wr.wr.ud();
    let (dgid, sgid_index) = match ud.ah_num {
        0 => (ud.av.grh.dgid.raw(), ud.av.grh.sgid_index),
        number => match state.ahs.get(&number) {
            Some(ah) if ah.pd == request.pd => (ah.dgid, ah.sgid_index),
            _ => return Outcome::Done(Status::LocalOperation),
        },
    };
    let Ok(sgid) = device::gid(u32::from(sgid_index)) else {
        return Outcome::Done(Status::LocalOperation);
    };
    // A queue key with the highest bit set stands for the sender's own.
    let own_qkey = state.qps.get(&request.sender).map_or(0, |qp| qp.attr.qkey);
    let qkey = if ud.remote_qkey >> 31 == 1 {
        own_qkey
    } else {
        ud.remote_qkey
    };
    let wanted = |id: &u32, groups: &[Group]| {
        if is_multicast(&dgid) {
            groups.iter().any(|(gid, _)| *gid == dgid)
        } else {
            GIDS.contains(&dgid) && *id == ud.remote_qpn
        }
    };
    let targets: Vec<u32> = state
        .qps
        .iter()
        .filter(|(id, qp)| {
            let listens =
                qp.transport == Transport::Ud && (qps::RTR..=qps::SQD).contains(&qp.state());
            listens && qp.attr.qkey == qkey && wanted(id, &qp.groups)
        })
        .map(|(id, _)| *id)
        .collect();
    let mut payload = grh(sgid, dgid, request.data.len());
    payload.extend(&request.data);
    let with_imm = request.wqe.wr.opcode == IB_UVERBS_WR_SEND_WITH_IMM;
    for target in targets {
        let Ok(buffer) = receive::take(state, target) else {
            continue;
        };
        let arrival = Arrival {
            payload: Some(&payload),
            byte_len: u32::try_from(payload.len()).unwrap_or(u32::MAX),
            opcode: RECV,
            flags: if with_imm { WC_WITH_IMM } else { 0 },
            ex: if with_imm {
                request.wqe.wr.ex.invalidate_rkey()
            } else {
                0
            },
            src_qp: request.sender,
            solicited: request.wqe.wr.send_flags & SOLICITED != 0,
        };
        receive::deliver(state, target, &buffer, &arrival);
    }
    Outcome::Done(Status::Success)
}

/// The 40 bytes in front of a datagram: an IPv6 header, or an IPv4 one in the last 20.
fn grh(sgid: [u8; 16], dgid: [u8; 16], len: usize) -> Vec<u8> {
    let len = u16::try_from(len).unwrap_or(u16::MAX).to_be_bytes();
    let mut bytes = vec![0; GRH];
    let is_v4 = |gid: &[u8; 16]| gid[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    if is_v4(&sgid) && is_v4(&dgid) {
        bytes[20] = 0x45;
        bytes[22..24].copy_from_slice(&len);
        bytes[28] = 64;
        bytes[29] = 17;
        bytes[32..36].copy_from_slice(&sgid[12..]);
        bytes[36..40].copy_from_slice(&dgid[12..]);
    } else {
        bytes[0] = 0x60;
        bytes[4..6].copy_from_slice(&len);
        bytes[6] = 17;
        bytes[7] = 64;
        bytes[8..24].copy_from_slice(&sgid);
        bytes[24..40].copy_from_slice(&dgid);
    }
    bytes
}
