//! The commands that create, query and destroy objects.
#![allow(clippy::wildcard_imports, reason = "a table of the header's own names")]

use connectx::driver::{CqInit, MkeyInit, QpInit, Refused, SrqInit};
use uverbs_core::Errno;
use uverbs_uapi::ib_user_ioctl_verbs::{
    IB_UVERBS_ACCESS_LOCAL_WRITE, IB_UVERBS_ACCESS_REMOTE_ATOMIC, IB_UVERBS_ACCESS_REMOTE_READ,
    IB_UVERBS_ACCESS_REMOTE_WRITE, IB_UVERBS_QPT_RC, IB_UVERBS_QPT_UC, IB_UVERBS_QPT_UD,
};
use uverbs_uapi::ib_user_verbs::*;
use uverbs_uapi::mlx5_abi::*;

use super::kernel::{Legacy, given_away};
use super::{Card, Kind, Object, State};

const QUERY_DEVICE: u32 = IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE;

/// LID of the port.
const LID: u16 = 1;
/// `IBV_PORT_ACTIVE`, `IBV_MTU_4096`, `IBV_LINK_LAYER_INFINIBAND`.
const ACTIVE: u8 = 4;
const MTU_4096: u8 = 5;
const INFINIBAND: u8 = 1;

fn refused(refused: Refused) -> Errno {
    const BAD_RESOURCE_STATE: u8 = 0x09;
    const IN_USE: u32 = 0xc0_0005;
    match (refused.status, refused.syndrome) {
        (_, IN_USE) | (BAD_RESOURCE_STATE, _) => Errno::BUSY,
        _ => Errno::INVAL,
    }
}

impl State {
    /// The number of an object of a kind.
    fn number(&self, handle: u32, is: impl Fn(&Kind) -> bool) -> Result<u32, Errno> {
        match self.objects.get(&handle) {
            Some(object) if is(&object.kind) => Ok(object.number),
            Some(_) => Err(Errno::INVAL),
            None => Err(Errno::NOENT),
        }
    }

    fn pd(&self, handle: u32) -> Result<u32, Errno> {
        self.number(handle, |kind| *kind == Kind::Pd)
    }

    fn cq(&self, handle: u32) -> Result<u32, Errno> {
        self.number(handle, |kind| matches!(kind, Kind::Cq { .. }))
    }
}

impl Card {
    pub(super) fn carry_out(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        match command.number {
            IB_USER_VERBS_CMD_GET_CONTEXT => self.open_context(command),
            QUERY_DEVICE => query_device(command, self.on_demand),
            IB_USER_VERBS_CMD_QUERY_PORT => {
                command.answer(&ib_uverbs_query_port_resp {
                    lid: LID,
                    state: ACTIVE,
                    max_mtu: MTU_4096,
                    active_mtu: MTU_4096,
                    link_layer: INFINIBAND,
                    ..Default::default()
                });
                Ok(())
            }
            IB_USER_VERBS_CMD_ALLOC_PD => {
                let number = self.lock().function.create_pd().map_err(refused)?;
                let pd_handle = self.add(Kind::Pd, number, Vec::new());
                command.reply(&mlx5_ib_alloc_pd_resp { pdn: number });
                command.answer(&ib_uverbs_alloc_pd_resp { pd_handle });
                Ok(())
            }
            // Of events that never come.
            IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL => {
                command.answer(&ib_uverbs_create_comp_channel_resp { fd: given_away()? });
                Ok(())
            }
            IB_USER_VERBS_CMD_REG_MR => self.register(command),
            IB_USER_VERBS_CMD_CREATE_CQ => self.create_cq(command),
            IB_USER_VERBS_CMD_RESIZE_CQ => self.resize_cq(command),
            IB_USER_VERBS_CMD_CREATE_QP => self.create_qp(command),
            IB_USER_VERBS_CMD_MODIFY_QP => self.modify_qp(&command.request()?),
            IB_USER_VERBS_CMD_QUERY_QP => self.query_qp(command),
            IB_USER_VERBS_CMD_CREATE_SRQ => self.create_srq(command),
            // Limits have no effect without events.
            IB_USER_VERBS_CMD_MODIFY_SRQ => Ok(()),
            IB_USER_VERBS_CMD_DEALLOC_PD
            | IB_USER_VERBS_CMD_DEREG_MR
            | IB_USER_VERBS_CMD_DESTROY_CQ
            | IB_USER_VERBS_CMD_DESTROY_QP
            | IB_USER_VERBS_CMD_DESTROY_SRQ => self.end(command),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn open_context(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        command.reply(&mlx5_ib_alloc_ucontext_resp {
            cache_line_size: 64,
            max_sq_desc_sz: 1024,
            max_rq_desc_sz: 512,
            max_send_wqebb: 32768,
            max_recv_wr: 32768,
            max_srq_recv_wr: 32767,
            num_ports: 1,
            cqe_version: self.cqe_version,
            num_uars_per_page: 1,
            ..Default::default()
        });
        command.answer(&ib_uverbs_get_context_resp {
            async_fd: given_away()?,
            num_comp_vectors: 1,
        });
        Ok(())
    }

    /// Adds an object; returns its handle.
    fn add(&self, kind: Kind, number: u32, memory: Vec<super::Range>) -> u32 {
        let handle = self.handle();
        let object = Object {
            kind,
            number,
            memory,
        };
        self.lock().objects.insert(handle, object);
        handle
    }

    /// Lets the device access memory; revokes that if the operation it was for fails.
    fn reaching<T>(
        &self,
        memory: &[super::Range],
        make: impl FnOnce(&mut State) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        for range in memory {
            self.memory.name(*range);
        }
        let outcome = make(&mut self.lock());
        if outcome.is_err() {
            for range in memory {
                self.memory.forget(*range);
            }
        }
        outcome
    }

    fn register(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        let request: ib_uverbs_reg_mr = command.request()?;
        let has = |bit: u32| request.access_flags & bit != 0;
        let memory = vec![(request.start, request.length)];
        let key = self.reaching(&memory, |state| {
            let init = MkeyInit {
                pd: state.pd(request.pd_handle)?,
                start: request.start,
                iova: request.hca_va,
                length: request.length,
                rights: [
                    has(IB_UVERBS_ACCESS_LOCAL_WRITE),
                    has(IB_UVERBS_ACCESS_REMOTE_READ),
                    has(IB_UVERBS_ACCESS_REMOTE_WRITE),
                    has(IB_UVERBS_ACCESS_REMOTE_ATOMIC),
                ],
            };
            state.function.create_mkey(&init).map_err(refused)
        })?;
        let mr_handle = self.add(Kind::Mr, key, memory);
        command.answer(&ib_uverbs_reg_mr_resp {
            mr_handle,
            lkey: key,
            rkey: key,
        });
        Ok(())
    }

    fn create_cq(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        let request: ib_uverbs_create_cq = command.request()?;
        let driver_data: mlx5_ib_create_cq = command.driver()?;
        let count = request.cqe.checked_add(1).ok_or(Errno::INVAL)?;
        let log_size = count.next_power_of_two().ilog2();
        let memory = vec![
            (driver_data.buf_addr, 64 << log_size),
            (driver_data.db_addr, 8),
        ];
        let init = CqInit {
            log_size,
            buffer: driver_data.buf_addr,
            record: driver_data.db_addr,
        };
        let cqn = self.reaching(&memory, |state| {
            state.function.create_cq(&init).map_err(refused)
        })?;
        let record = driver_data.db_addr;
        let cq_handle = self.add(Kind::Cq { record }, cqn, memory);
        command.reply(&mlx5_ib_create_cq_resp { cqn, reserved: 0 });
        let cqe = (1 << log_size) - 1;
        command.answer(&ib_uverbs_create_cq_resp { cq_handle, cqe });
        Ok(())
    }

    fn resize_cq(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        let request: ib_uverbs_resize_cq = command.request()?;
        let driver_data: mlx5_ib_resize_cq = command.driver()?;
        let count = request.cqe.checked_add(1).ok_or(Errno::INVAL)?;
        let log_size = count.next_power_of_two().ilog2();
        let ring = (driver_data.buf_addr, 64 << log_size);
        let old = self.reaching(&[ring], |state| {
            let number = state.cq(request.cq_handle)?;
            let Some(Object {
                kind: Kind::Cq { record },
                memory,
                ..
            }) = state.objects.get_mut(&request.cq_handle)
            else {
                return Err(Errno::NOENT);
            };
            let init = CqInit {
                log_size,
                buffer: driver_data.buf_addr,
                record: *record,
            };
            state.function.resize_cq(number, &init).map_err(refused)?;
            let first = memory.first_mut().ok_or(Errno::NOENT)?;
            Ok(std::mem::replace(first, ring))
        })?;
        self.memory.forget(old);
        command.answer(&ib_uverbs_resize_cq_resp {
            cqe: (1 << log_size) - 1,
            reserved: 0,
        });
        Ok(())
    }

    fn create_qp(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        let request: ib_uverbs_create_qp = command.request()?;
        let driver_data: mlx5_ib_create_qp = command.driver()?;
        let service = match u32::from(request.qp_type) {
            IB_UVERBS_QPT_RC => 0,
            IB_UVERBS_QPT_UC => 1,
            IB_UVERBS_QPT_UD => 2,
            _ => return Err(Errno::OPNOTSUPP),
        };
        let recv = (request.is_srq == 0 && driver_data.rq_wqe_count != 0)
            .then_some((driver_data.rq_wqe_count, driver_data.rq_wqe_shift));
        let bytes = u64::from(driver_data.sq_wqe_count) * 64
            + recv.map_or(0, |(count, shift)| u64::from(count) << shift);
        let memory = vec![(driver_data.buf_addr, bytes), (driver_data.db_addr, 8)];
        let qpn = self.reaching(&memory, |state| {
            let srq = match request.is_srq {
                0 => None,
                _ => Some(state.number(request.srq_handle, |kind| *kind == Kind::Srq)?),
            };
            let init = QpInit {
                service,
                pd: state.pd(request.pd_handle)?,
                send_cq: state.cq(request.send_cq_handle)?,
                recv_cq: state.cq(request.recv_cq_handle)?,
                srq,
                send_blocks: driver_data.sq_wqe_count,
                recv,
                user_index: driver_data.uidx,
                buffer: driver_data.buf_addr,
                record: driver_data.db_addr,
            };
            state.function.create_qp(&init).map_err(refused)
        })?;
        let qp_handle = self.add(Kind::Qp { service }, qpn, memory);
        command.reply(&mlx5_ib_create_qp_resp::default());
        command.answer(&ib_uverbs_create_qp_resp {
            qp_handle,
            qpn,
            max_send_wr: request.max_send_wr,
            max_recv_wr: request.max_recv_wr,
            max_send_sge: request.max_send_sge,
            max_recv_sge: request.max_recv_sge,
            max_inline_data: request.max_inline_data,
            reserved: 0,
        });
        Ok(())
    }

    fn query_qp(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        let request: ib_uverbs_query_qp = command.request()?;
        let state = self.lock().state_of(request.qp_handle)?;
        command.answer(&ib_uverbs_query_qp_resp {
            qp_state: state,
            cur_qp_state: state,
            ..Default::default()
        });
        Ok(())
    }

    fn create_srq(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        let request: ib_uverbs_create_srq = command.request()?;
        let driver_data: mlx5_ib_create_srq = command.driver()?;
        let count = request.max_wr.checked_add(1).ok_or(Errno::INVAL)?;
        let log_size = count.next_power_of_two().ilog2();
        let stride = (16 + 16 * request.max_sge).next_power_of_two().max(32);
        let log_stride = stride.ilog2();
        let bytes = 1 << (log_size + log_stride);
        let memory = vec![(driver_data.buf_addr, bytes), (driver_data.db_addr, 8)];
        let srqn = self.reaching(&memory, |state| {
            let init = SrqInit {
                pd: state.pd(request.pd_handle)?,
                log_size,
                log_stride,
                buffer: driver_data.buf_addr,
                record: driver_data.db_addr,
            };
            state.function.create_srq(&init).map_err(refused)
        })?;
        let srq_handle = self.add(Kind::Srq, srqn, memory);
        command.reply(&mlx5_ib_create_srq_resp { srqn, reserved: 0 });
        command.answer(&ib_uverbs_create_srq_resp {
            srq_handle,
            max_wr: (1 << log_size) - 1,
            max_sge: request.max_sge,
            srqn,
        });
        Ok(())
    }

    /// Destroys an object; the memory that it let the device access is inaccessible afterwards.
    fn end(&self, command: &Legacy<'_>) -> Result<(), Errno> {
        // The handle comes first, or after the address of the reply.
        let handle = match command.number {
            IB_USER_VERBS_CMD_DEALLOC_PD | IB_USER_VERBS_CMD_DEREG_MR => {
                command.request::<u32>()?
            }
            _ => command.request::<[u32; 3]>()?[2],
        };
        let mut state = self.lock();
        let Some(Object { kind, number, .. }) = state.objects.get(&handle).cloned() else {
            return Err(Errno::NOENT);
        };
        let function = &mut state.function;
        let ended = match kind {
            Kind::Pd => function.destroy_pd(number),
            Kind::Mr => function.destroy_mkey(number),
            Kind::Cq { .. } => function.destroy_cq(number),
            Kind::Qp { .. } => function.destroy_qp(number),
            Kind::Srq => function.destroy_srq(number),
        };
        ended.map_err(refused)?;
        let gone = state.objects.remove(&handle);
        drop(state);
        for range in gone.into_iter().flat_map(|object| object.memory) {
            self.memory.forget(range);
        }
        Ok(())
    }
}

fn query_device(command: &Legacy<'_>, on_demand: bool) -> Result<(), Errno> {
    let mut device = ib_uverbs_ex_query_device_resp::default();
    device.response_length = u32::try_from(size_of_val(&device)).map_err(|_| Errno::INVAL)?;
    device.base.max_qp_wr = 32768;
    device.base.max_sge = 30;
    device.base.max_cqe = 4_194_303;
    device.base.max_srq_wr = 32767;
    device.base.max_srq_sge = 31;
    device.base.phys_port_cnt = 1;
    device.base.max_qp_rd_atom = 16;
    device.base.max_qp_init_rd_atom = 16;
    device.base.atomic_cap = 1;
    device.odp_caps.general_caps = u64::from(on_demand);
    command.answer(&device);
    command.reply(&mlx5_ib_query_device_resp::default());
    Ok(())
}
