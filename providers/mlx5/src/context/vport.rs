//! Ports of the embedded switch (`drivers/infiniband/hw/mlx5/std_types.c`).

use uverbs_core::sys::{Attr, Uhw, cells};
use uverbs_core::{Errno, Error, Op, Result, UverbsFile};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_DEVICE;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_QUERY_PORT, MLX5_IB_ATTR_QUERY_PORT_PORT_NUM, MLX5_IB_METHOD_QUERY_PORT,
};
use uverbs_uapi::mlx5_user_ioctl_verbs::{
    MLX5_IB_UAPI_QUERY_PORT_ESW_OWNER_VHCA_ID, MLX5_IB_UAPI_QUERY_PORT_VPORT,
    MLX5_IB_UAPI_QUERY_PORT_VPORT_REG_C0, MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_RX,
    MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_TX, MLX5_IB_UAPI_QUERY_PORT_VPORT_VHCA_ID,
    mlx5_ib_uapi_query_port,
};

/// Bits of a register that identify a port's packets.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct RegisterBits {
    /// The value.
    pub value: u32,
    /// The relevant bits.
    pub mask: u32,
}

/// `mlx5dv_port`—a port of the embedded switch. Fields that do not apply to the port are `None`:
/// all of them, for a port that represents no function.
#[doc(alias = "mlx5dv_port")]
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub struct SwitchPort {
    /// The number of the virtual port that it represents.
    pub vport: Option<u16>,
    /// The device's number of the function that it represents.
    pub vhca_id: Option<u16>,
    /// The device's number of the function that manages the switch.
    pub switch_owner_vhca_id: Option<u16>,
    /// The ICM address for software steering of packets that the port receives.
    pub receive_icm: Option<u64>,
    /// The ICM address for software steering of packets that the port sends.
    pub transmit_icm: Option<u64>,
    /// The bits of register C 0 that the port's packets have.
    pub register_c0: Option<RegisterBits>,
}

impl SwitchPort {
    /// `mlx5dv_query_port`—queries the kernel about port `port`, from 1.
    ///
    /// One system call, since 5.14; it waits for the firmware where functions are represented.
    ///
    /// # Errors
    /// EINVAL: there is no such port. EOPNOTSUPP: a port of a switch that represents no function.
    /// EPROTONOSUPPORT: an older kernel.
    #[doc(alias = "mlx5dv_query_port")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn query(file: &UverbsFile, port: u32) -> Result<Self> {
        let op = Op::QuerySwitchPort;
        let mut reply = mlx5_ib_uapi_query_port::default();
        file.ioctl_only(op, || {
            let attrs = [
                Attr::input(MLX5_IB_ATTR_QUERY_PORT_PORT_NUM, &port),
                Attr::output(MLX5_IB_ATTR_QUERY_PORT, cells(&mut reply)),
            ];
            file.ioctl(
                op,
                UVERBS_OBJECT_DEVICE,
                MLX5_IB_METHOD_QUERY_PORT,
                &attrs,
                &Uhw::NONE,
            )
        })
        .map_err(|error| explain(error).fact("port", port))?;
        Ok(Self::new(&reply))
    }

    fn new(reply: &mlx5_ib_uapi_query_port) -> Self {
        let has = |flag: u64| reply.flags & flag != 0;
        Self {
            vport: has(MLX5_IB_UAPI_QUERY_PORT_VPORT).then_some(reply.vport),
            vhca_id: has(MLX5_IB_UAPI_QUERY_PORT_VPORT_VHCA_ID).then_some(reply.vport_vhca_id),
            switch_owner_vhca_id: has(MLX5_IB_UAPI_QUERY_PORT_ESW_OWNER_VHCA_ID)
                .then_some(reply.esw_owner_vhca_id),
            receive_icm: has(MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_RX)
                .then_some(reply.vport_steering_icm_rx),
            transmit_icm: has(MLX5_IB_UAPI_QUERY_PORT_VPORT_STEERING_ICM_TX)
                .then_some(reply.vport_steering_icm_tx),
            register_c0: has(MLX5_IB_UAPI_QUERY_PORT_VPORT_REG_C0).then_some(RegisterBits {
                value: reply.reg_c0.value,
                mask: reply.reg_c0.mask,
            }),
        }
    }
}

fn explain(error: Error) -> Error {
    match error.errno() {
        Some(Errno::OPNOTSUPP) => error.hint("the port represents no function"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::ErrorKind;

    use super::*;
    use crate::tests::native;
    use crate::tests::scripted::Scripted;

    #[test]
    fn a_port_is_required() {
        let (kernel, file) = Scripted::new();
        let driver_data = mlx5_ib_uapi_query_port {
            flags: 1,
            vport: 0xffff,
            ..mlx5_ib_uapi_query_port::default()
        };
        kernel.answer(0x1001, zerocopy::IntoBytes::as_bytes(&driver_data));
        let port = SwitchPort::query(&file, 2).unwrap();
        assert_eq!(port.vport, Some(0xffff));
        kernel.refuse("0/+0", Errno::OPNOTSUPP);
        let error = SwitchPort::query(&file, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(
            kernel.take_calls(),
            [2_u32, 1].map(|port| format!("0/+0 +0:in={} +1:out40", native(&port.to_ne_bytes())))
        );
    }

    #[test]
    fn what_the_kernel_did_not_fill_in_is_absent() {
        let mut reply = mlx5_ib_uapi_query_port {
            vport: 3,
            vport_vhca_id: 4,
            esw_owner_vhca_id: 5,
            vport_steering_icm_rx: 6,
            vport_steering_icm_tx: 7,
            ..mlx5_ib_uapi_query_port::default()
        };
        assert_eq!(SwitchPort::new(&reply), SwitchPort::default());
        reply.flags = 0x11;
        reply.reg_c0.mask = 0xffff;
        let port = SwitchPort::new(&reply);
        assert_eq!((port.vport, port.vhca_id), (Some(3), None));
        let bits = RegisterBits {
            value: 0,
            mask: 0xffff,
        };
        assert_eq!(port.register_c0, Some(bits));
        reply.flags = u64::MAX;
        let port = SwitchPort::new(&reply);
        assert_eq!(
            (port.vhca_id, port.switch_owner_vhca_id),
            (Some(4), Some(5))
        );
        assert_eq!((port.receive_icm, port.transmit_icm), (Some(6), Some(7)));
    }
}
