//! The parameters of a user context, and the kernel's reply (`mlx5_ib_alloc_ucontext`).

use uverbs_core::sys::{Attr, Uhw, cells};
use uverbs_core::types::LocalKey;
use uverbs_core::{Error, ErrorKind, Op, Result, UverbsFile, cmd};
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET,
    MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY, MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE,
    MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG,
    MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS, MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS,
    MLX5_IB_ALLOC_UCTX_DEVX, MLX5_LIB_CAP_4K_UAR, MLX5_LIB_CAP_DYN_UAR,
    mlx5_ib_alloc_ucontext_req_v2, mlx5_ib_alloc_ucontext_resp,
};
use uverbs_uapi::mlx5_user_ioctl_cmds::MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX;
use zerocopy::IntoBytes;

use super::clock::ClockConfig;
use crate::doorbell::{Doorbells, UarConfig};
use crate::wqe::sizes::{self, ETH_MIN_INLINE};

/// The default number of doorbells of a context.
const TOTAL: u32 = 16;
/// The largest number of doorbells that is accepted: as many as the kernel's driver gives to those
/// who request the maximum.
const MOST: u32 = 512;
/// How many of a context's doorbells are each dedicated to one queue pair.
const LOW_LATENCY: u32 = 4;

/// Lengths of the request that kernels support, newest first: up to `lib_caps`, up to
/// `max_cqe_version`, and the length before those.
const REQUEST_LENGTHS: [usize; 3] = [32, 24, 16];

/// `MLX5_USER_INLINE_MODE_NONE`.
const INLINE_NONE: u8 = 1;

/// `MLX5_USER_CMDS_SUPP_UHW_CREATE_AH`: the kernel resolves addresses of address handles.
const CREATES_AH: u8 = 2;

/// The kernel's reply about the context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Firmware commands may be sent.
    pub(crate) devx: bool,
    /// 1: completions carry the number that the queue was created with; 0: only the device's own
    /// number.
    pub(crate) cqe_version: u8,
    pub(crate) max_sq_desc: u32,
    pub(crate) max_rq_desc: u32,
    pub(crate) max_send_blocks: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_srq_recv_wr: u32,
    /// The number of bytes of Ethernet headers that a send has to carry inline.
    pub(crate) eth_min_inline: u32,
    pub(crate) cache_line: u32,
    pub(crate) creates_ah: bool,
    /// `MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_…`
    offers: u32,
    pub(crate) uar: UarConfig,
    pub(crate) clock: ClockConfig,
    /// The key of the null memory region.
    pub(crate) null_key: Option<LocalKey>,
}

impl Config {
    /// The limits for the sizes of queues.
    pub(crate) fn sizes(&self) -> sizes::Limits {
        sizes::Limits {
            max_sq_desc: self.max_sq_desc,
            max_rq_desc: self.max_rq_desc,
            max_send_blocks: self.max_send_blocks,
            max_recv_wr: self.max_recv_wr,
        }
    }

    const fn offers(&self, bit: u32) -> bool {
        self.offers & bit != 0
    }

    /// Whether enhanced connection establishment is available.
    pub(crate) const fn ece(&self) -> bool {
        self.offers(MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_ECE)
    }

    /// Whether a drained send queue can be made ready again.
    pub(crate) const fn drained_goes_on(&self) -> bool {
        self.offers(MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_SQD2RTS)
    }

    /// Whether requests may change the variant of an indirect key.
    pub(crate) const fn changes_variants(&self) -> bool {
        self.offers(MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_MKEY_UPDATE_TAG)
    }

    /// For queues that only the number they were created with identifies in completions.
    ///
    /// # Errors
    /// Unsupported where completions carry only the device's own numbers.
    pub(crate) fn require_user_index(&self, op: Op) -> Result<()> {
        if self.cqe_version == 0 {
            return Err(Error::new(op, ErrorKind::Unsupported).fact("cqe_version", 0_u32));
        }
        Ok(())
    }

    /// # Errors
    /// More doorbells than a context can have.
    fn new(reply: &mlx5_ib_alloc_ucontext_resp, devx: bool) -> Result<Self> {
        if reply.tot_bfregs > MOST {
            return Err(
                Error::bad_reply(Op::GetContext, "more doorbells than there can be")
                    .fact("doorbells", reply.tot_bfregs),
            );
        }
        let has = |bit: u32| reply.comp_mask & bit != 0;
        Ok(Self {
            devx,
            cqe_version: reply.cqe_version,
            max_sq_desc: reply.max_sq_desc_sz.into(),
            max_rq_desc: reply.max_rq_desc_sz.into(),
            max_send_blocks: reply.max_send_wqebb.min(sizes::MAX_BLOCKS),
            max_recv_wr: reply.max_recv_wr,
            max_srq_recv_wr: reply.max_srq_recv_wr,
            eth_min_inline: match reply.eth_min_inline {
                INLINE_NONE => 0,
                _ => ETH_MIN_INLINE,
            },
            cache_line: reply.cache_line_size,
            creates_ah: reply.cmds_supp_uhw & CREATES_AH != 0,
            offers: reply.comp_mask,
            uar: UarConfig {
                fixed: reply.tot_bfregs,
                per_page: reply.num_uars_per_page.max(1),
                register_size: reply.bf_reg_size,
                dedicated: LOW_LATENCY,
                shared: TOTAL - LOW_LATENCY,
                extra: reply.num_dyn_bfregs,
            },
            null_key: has(MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY)
                .then(|| LocalKey::from_raw(reply.dump_fill_mkey)),
            clock: ClockConfig {
                counter: has(MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET)
                    .then_some(reply.hca_core_clock_offset),
                versions: reply.clock_info_versions,
                real_time: has(MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS),
            },
        })
    }
}

/// Opens a user context: with firmware commands unless the kernel refuses them for any reason (the
/// firmware may have no resources for another such context), with the newest request that the
/// kernel accepts.
///
/// One system call on kernels of recent years; up to six.
pub(crate) fn open(
    file: &UverbsFile,
    doorbells: Doorbells,
) -> Result<(cmd::context::Context, Config)> {
    let mut first = None;
    for devx in [true, false] {
        for length in REQUEST_LENGTHS {
            match open_with(file, length, devx, doorbells) {
                Ok(done) => return Ok(done),
                // Only a request that the kernel does not understand is retried in another form.
                Err(error) if is_not_understood(&error) => {
                    first.get_or_insert(error);
                }
                Err(error) if devx && error.errno().is_some() => {
                    first.get_or_insert(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Err(first.unwrap_or_else(|| Error::bad_reply(Op::GetContext, "nothing")))
}

/// Asks about a context that another process has opened, or another part of this one.
///
/// One system call, since 5.9.
pub(crate) fn query(file: &UverbsFile) -> Result<(cmd::context::Context, Config)> {
    let mut reply = mlx5_ib_alloc_ucontext_resp::default();
    let attrs = [Attr::output(
        MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX,
        cells(&mut reply),
    )];
    let uhw = Uhw {
        attrs: &attrs,
        ..Uhw::NONE
    };
    let info = cmd::context::query(file, &uhw)?;
    let opened = cmd::context::Context {
        num_comp_vectors: info.num_comp_vectors,
        core_support: info.core_support,
        async_fd: None,
    };
    // Whether it may send firmware commands is not reported; if it may not, they are refused.
    Ok((opened, Config::new(&reply, true)?))
}

fn is_not_understood(error: &Error) -> bool {
    use uverbs_core::Errno;
    error.is_unsupported()
        || matches!(
            error.errno(),
            Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS)
        )
}

fn open_with(
    file: &UverbsFile,
    length: usize,
    devx: bool,
    doorbells: Doorbells,
) -> Result<(cmd::context::Context, Config)> {
    let request = mlx5_ib_alloc_ucontext_req_v2 {
        total_num_bfregs: TOTAL,
        num_low_latency_bfregs: LOW_LATENCY,
        flags: if devx { MLX5_IB_ALLOC_UCTX_DEVX } else { 0 },
        max_cqe_version: 1,
        lib_caps: match doorbells {
            Doorbells::AsNeeded => MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR,
            Doorbells::Fixed => MLX5_LIB_CAP_4K_UAR,
        },
        ..mlx5_ib_alloc_ucontext_req_v2::default()
    };
    let bytes = request.as_bytes();
    let mut reply = mlx5_ib_alloc_ucontext_resp::default();
    let uhw = Uhw::new(bytes.get(..length).unwrap_or(bytes), cells(&mut reply));
    let opened = cmd::context::get(file, &cmd::context::GetContext::default(), &uhw)?;
    Ok((opened, Config::new(&reply, devx)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_user_index_is_required_where_it_can_be_had() {
        for (cqe_version, refused) in [(0, true), (1, false)] {
            let reply = mlx5_ib_alloc_ucontext_resp {
                cqe_version,
                ..mlx5_ib_alloc_ucontext_resp::default()
            };
            let config = Config::new(&reply, false).unwrap();
            let kind = config
                .require_user_index(Op::CreateWorkQueue)
                .map_err(|error| error.kind());
            assert_eq!(kind.err(), refused.then_some(ErrorKind::Unsupported));
        }
    }
}
