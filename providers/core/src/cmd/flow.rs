//! Flow steering rules (`UVERBS_OBJECT_FLOW`).

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_DESTROY_FLOW_HANDLE, UVERBS_METHOD_FLOW_DESTROY, UVERBS_OBJECT_FLOW,
};
use uverbs_uapi::ib_user_verbs::{
    IB_USER_VERBS_EX_CMD_CREATE_FLOW, IB_USER_VERBS_EX_CMD_DESTROY_FLOW, ib_uverbs_create_flow,
    ib_uverbs_create_flow_resp, ib_uverbs_flow_attr, ib_uverbs_flow_spec_hdr,
};
use zerocopy::{FromBytes, IntoBytes};

use super::legacy::{Legacy, NO_HANDLE, explain_create, new_handle};
use crate::error::{Errno, Error, Op, Result};
use crate::file::UverbsFile;
use crate::kind;
use crate::sys::{Uhw, cells};
use crate::types::macros::request_flags;

/// `ibv_flow_attr_type`—which packets a rule matches (`enum ib_flow_attr_type`).
#[doc(alias = "ibv_flow_attr_type")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Those that match its specifications.
    Normal,
    /// Everything that no other rule matches.
    AllDefault,
    /// All multicast that no other rule matches.
    MulticastDefault,
    /// A copy of everything.
    Sniffer,
}

impl Kind {
    const fn raw(self) -> u32 {
        match self {
            Self::Normal => 0,
            Self::AllDefault => 1,
            Self::MulticastDefault => 2,
            Self::Sniffer => 3,
        }
    }
}

request_flags! {
    /// `ibv_flow_flags`—options of a rule (`enum ib_flow_flags`).
    #[doc(alias = "ibv_flow_flags")]
    pub struct Flags: u32 {
        /// Packets continue to the next rule as well.
        DONT_TRAP = 1 << 1, "IBV_FLOW_ATTR_FLAGS_DONT_TRAP";
        /// The rule applies to outgoing packets.
        EGRESS = 1 << 2, "IBV_FLOW_ATTR_FLAGS_EGRESS";
    }
}

/// A rule to create.
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// The queue pair that receives the packets.
    pub qp: u32,
    /// Which packets it matches.
    pub kind: Kind,
    /// Its priority; 0 is the highest.
    pub priority: u16,
    /// The port, from 1.
    pub port: u8,
    /// Options.
    pub flags: Flags,
    /// The specifications in the kernel's format, back to back: `ib_uverbs_flow_spec_*`, each with
    /// its type and size.
    pub specs: &'a [u8],
}

/// The most specifications of one rule (`IB_FLOW_SPEC_SUPPORT_LAYERS`).
const MAX_SPECS: u8 = 10;

/// `ibv_create_flow`—creates a rule that steers packets to a queue pair, and returns its handle.
///
/// One system call, the extended command since 3.12.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput): the specifications' sizes do not add up, or a
/// flag without a name. EPERM: no `CAP_NET_RAW`. EINVAL: no such port, or contradictory
/// specifications. EOPNOTSUPP: the driver lacks a specification. ENOMEM.
#[doc(alias = "ibv_create_flow")]
pub fn create(file: &UverbsFile, request: &Create<'_>, uhw: &Uhw<'_>) -> Result<u32> {
    let op = Op::CreateFlow;
    let num_of_specs = count_specs(request.specs).ok_or_else(|| Error::invalid(op, "specs"))?;
    if num_of_specs > MAX_SPECS {
        return Err(Error::limit(
            op,
            "specifications",
            num_of_specs.into(),
            MAX_SPECS.into(),
        ));
    }
    let Ok(size) = u16::try_from(request.specs.len()) else {
        return Err(Error::limit(
            op,
            "specification_bytes",
            request.specs.len() as u64,
            u16::MAX.into(),
        ));
    };
    let command = ib_uverbs_create_flow {
        comp_mask: 0,
        qp_handle: request.qp,
        flow_attr: ib_uverbs_flow_attr {
            r#type: request.kind.raw(),
            size,
            priority: request.priority,
            num_of_specs,
            reserved: [0; 2],
            port: request.port,
            flags: request.flags.checked(op, "flags")?,
        },
    };
    let mut reply = ib_uverbs_create_flow_resp {
        comp_mask: 0,
        flow_handle: NO_HANDLE,
    };
    Legacy::extended(op, IB_USER_VERBS_EX_CMD_CREATE_FLOW)
        .send(
            file,
            &[command.as_bytes(), request.specs].concat(),
            cells(&mut reply),
            uhw,
        )
        .map_err(|error| {
            let error = explain_create(error).fact("specifications", num_of_specs);
            match error.errno() {
                Some(Errno::PERM) => error.hint("grant CAP_NET_RAW"),
                _ => error,
            }
        })?;
    new_handle(op, reply.flow_handle)
}

/// The number of specifications, if they fill `specs` exactly, in whole 8-byte words.
fn count_specs(mut specs: &[u8]) -> Option<u8> {
    let mut count = 0_u8;
    while !specs.is_empty() {
        let (header, _) = ib_uverbs_flow_spec_hdr::read_from_prefix(specs).ok()?;
        let size = usize::from(header.size);
        if size < size_of::<ib_uverbs_flow_spec_hdr>() || !size.is_multiple_of(8) {
            return None;
        }
        specs = specs.get(size..)?;
        count = count.checked_add(1)?;
    }
    Some(count)
}

/// Rules, which `ibv_destroy_flow` destroys.
///
/// One system call; `FLOW/DESTROY` since 5.0, else the extended command.
///
/// # Errors
/// The driver's.
#[doc(alias = "ibv_destroy_flow")]
pub static KIND: kind::Kind = kind::Kind {
    name: "Flow",
    op: Op::DestroyFlow,
    object: UVERBS_OBJECT_FLOW,
    method: UVERBS_METHOD_FLOW_DESTROY,
    attr: UVERBS_ATTR_DESTROY_FLOW_HANDLE,
    counts: kind::Counts::None,
    legacy: kind::Legacy::Extended(IB_USER_VERBS_EX_CMD_DESTROY_FLOW),
};
