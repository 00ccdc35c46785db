//! The messages: the first to speak sends one of each length, and the other replies with one of the
//! same length.

use uverbs::address::Grh;
use uverbs::link::Mtu;
use uverbs::owned::{Buffer, Work};
use uverbs::{
    AddressHandle, CompletionQueue, PreparedQueuePair, ProtectionDomain, QpType, QueuePairEndpoint,
};

use super::super::check::{Outcome, Trouble, ensure};
use super::super::pair::{End, buffer_of, compare, fill, prepare};
use super::super::subject::Subject;
use crate::failure::{Failure, Result};

/// An unprivileged queue key.
const QKEY: u32 = 0x0011_7e58;

/// The longest message; datagrams are limited to one packet.
const MOST: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    First,
    Second,
}

/// One side of a conversation.
#[derive(Debug)]
pub(super) struct Side {
    kind: QpType,
    lengths: Vec<usize>,
    pub(super) pd: ProtectionDomain,
    /// `Some` until it is connected.
    prepared: Option<(CompletionQueue, PreparedQueuePair)>,
    end: Option<End>,
    /// The destination of datagrams.
    to: Option<(AddressHandle, u32)>,
}

impl Side {
    pub(super) fn new(subject: &Subject, kind: QpType, mtu: Mtu) -> Outcome<Self> {
        let pd = subject.context.alloc_pd()?;
        let cq = subject.context.create_cq(64)?;
        let prepared = prepare(subject, &pd, kind, (&cq, &cq), |builder| {
            if kind == QpType::Ud {
                builder.qkey(QKEY)
            } else {
                builder.path_mtu(mtu)
            }
        })?;
        Ok(Self {
            kind,
            lengths: lengths(kind, mtu),
            pd,
            prepared: Some((cq, prepared)),
            end: None,
            to: None,
        })
    }

    pub(super) fn endpoint(&self) -> Outcome<QueuePairEndpoint> {
        let prepared = self
            .prepared
            .as_ref()
            .map(|(_, prepared)| prepared.endpoint());
        prepared.ok_or_else(|| Trouble::failed("it is connected already"))
    }

    /// Connects it to its one peer, and posts a receive.
    pub(super) fn connect(&mut self, peers: &[QueuePairEndpoint]) -> Result<()> {
        let (Some((cq, prepared)), [peer]) = (self.prepared.take(), peers) else {
            return Err(Failure::new("the peer must have one queue pair"));
        };
        let qp = if self.kind == QpType::Ud {
            let path = prepared.path_to(peer)?;
            self.to = Some((self.pd.create_ah(&path)?, peer.qp_num));
            prepared.activate()?
        } else {
            prepared.handshake(*peer)?
        };
        let mut end = End::new(cq, qp);
        let [room] = self.pd.buffers::<1>(self.room())?;
        end.qp.recv(room, 0).map_err(|refused| refused.error)?;
        self.end = Some(end);
        Ok(())
    }

    /// The size of the header in front of a message.
    fn header(&self) -> usize {
        if self.kind == QpType::Ud { Grh::LEN } else { 0 }
    }

    fn room(&self) -> usize {
        self.header() + self.lengths.iter().max().copied().unwrap_or(0)
    }

    /// Exchanges the messages; returns how many lengths there were.
    pub(super) fn talk(&mut self, role: Role) -> Outcome<usize> {
        let [mut text] = self.pd.buffers::<1>(self.room())?;
        for (len, number) in self.lengths.clone().into_iter().zip(0_u64..) {
            let seeds = (2 * number + 1, 2 * number + 2);
            let turn = match role {
                Role::First => self
                    .say(text, len, seeds.0)
                    .and_then(|text| self.hear(len, seeds.1).map(|()| text)),
                Role::Second => self
                    .hear(len, seeds.0)
                    .and_then(|()| self.say(text, len, seeds.1)),
            };
            text = turn.map_err(|trouble| trouble.with(format_args!("{len} bytes")))?;
        }
        Ok(self.lengths.len())
    }

    pub(super) fn end(&mut self) -> Outcome<&mut End> {
        let end = self.end.as_mut();
        end.ok_or_else(|| Trouble::failed("it is not connected"))
    }

    /// Sends the first bytes of a buffer, and waits for the completion.
    fn say(&mut self, mut text: Buffer, len: usize, seed: u64) -> Outcome<Buffer> {
        let bytes = text.get_mut(..len);
        fill(
            bytes.ok_or_else(|| Trouble::failed("a short buffer"))?,
            seed,
        );
        let work = Work::send().memory((text, len)).user_data(seed);
        let end = self.end.as_mut();
        let end = end.ok_or_else(|| Trouble::failed("it is not connected"))?;
        match &self.to {
            Some((address, number)) => end.qp.post(work.to(address, *number, QKEY))?,
            None => end.qp.post(work)?,
        }
        buffer_of(end.success()?)
    }

    /// Waits for a message, and posts the next receive.
    fn hear(&mut self, len: usize, seed: u64) -> Outcome<()> {
        let header = self.header();
        let end = self.end()?;
        let finished = end.success()?;
        ensure(finished.reported.byte_len as usize == header + len, || {
            format!("{} bytes arrived", finished.reported.byte_len)
        })?;
        let room = buffer_of(finished)?;
        let bytes = room.get(header..header + len);
        let compared = compare(
            bytes.ok_or_else(|| Trouble::failed("a short buffer"))?,
            seed,
        );
        end.qp.recv(room, seed)?;
        compared
    }
}

/// Lengths around that of a packet, and longer ones if a message may have several packets.
fn lengths(kind: QpType, mtu: Mtu) -> Vec<usize> {
    let mtu = mtu.bytes().unwrap_or(256) as usize;
    let mut lengths = vec![0, 1, 7, 64, mtu - 1, mtu];
    if kind != QpType::Ud {
        lengths.extend([mtu + 1, 5 * mtu + 3, 1 << 16, MOST]);
    }
    lengths
}
