//! Address vectors in the legacy structs.

use uverbs_uapi::ib_user_verbs::{ib_uverbs_ah_attr, ib_uverbs_global_route, ib_uverbs_qp_dest};

use crate::error::{Op, Result};
use crate::types::{AddressVector, FlowLabel, Gid, GlobalRoute, Rate};

/// For `CREATE_AH`.
pub(super) fn ah_attr(op: Op, av: &AddressVector) -> Result<ib_uverbs_ah_attr> {
    av.check(op)?;
    let grh = av
        .grh
        .map_or_else(ib_uverbs_global_route::default, |route| {
            ib_uverbs_global_route {
                dgid: route.dgid.to_bytes(),
                flow_label: route.flow_label.raw(),
                sgid_index: route.sgid_index,
                hop_limit: route.hop_limit,
                traffic_class: route.traffic_class,
                reserved: 0,
            }
        });
    Ok(ib_uverbs_ah_attr {
        grh,
        dlid: av.dlid,
        sl: av.sl,
        src_path_bits: av.src_path_bits,
        static_rate: av.static_rate.checked(op, "static_rate")?,
        is_global: av.grh.is_some().into(),
        port_num: av.port,
        reserved: 0,
    })
}

/// For `MODIFY_QP`.
pub(super) fn qp_dest(op: Op, av: &AddressVector) -> Result<ib_uverbs_qp_dest> {
    let ib_uverbs_ah_attr {
        grh,
        dlid,
        sl,
        src_path_bits,
        static_rate,
        is_global,
        port_num,
        reserved: _,
    } = ah_attr(op, av)?;
    Ok(ib_uverbs_qp_dest {
        dgid: grh.dgid,
        flow_label: grh.flow_label,
        dlid,
        reserved: 0,
        sgid_index: grh.sgid_index,
        hop_limit: grh.hop_limit,
        traffic_class: grh.traffic_class,
        sl,
        src_path_bits,
        static_rate,
        is_global,
        port_num,
    })
}

/// From `QUERY_QP`.
pub(super) fn address_vector(dest: &ib_uverbs_qp_dest) -> AddressVector {
    AddressVector {
        dlid: dest.dlid,
        sl: dest.sl,
        src_path_bits: dest.src_path_bits,
        static_rate: Rate::from_raw(dest.static_rate),
        port: dest.port_num,
        grh: (dest.is_global != 0).then(|| GlobalRoute {
            dgid: Gid::from_bytes(dest.dgid),
            flow_label: FlowLabel::from_raw(dest.flow_label),
            sgid_index: dest.sgid_index,
            hop_limit: dest.hop_limit,
            traffic_class: dest.traffic_class,
        }),
    }
}

/// From the connection manager, which answers with the struct of `CREATE_AH`.
pub(crate) fn address_of_ah(attr: &ib_uverbs_ah_attr) -> AddressVector {
    AddressVector {
        dlid: attr.dlid,
        sl: attr.sl,
        src_path_bits: attr.src_path_bits,
        static_rate: Rate::from_raw(attr.static_rate),
        port: attr.port_num,
        grh: (attr.is_global != 0).then(|| GlobalRoute {
            dgid: Gid::from_bytes(attr.grh.dgid),
            flow_label: FlowLabel::from_raw(attr.grh.flow_label),
            sgid_index: attr.grh.sgid_index,
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
        }),
    }
}
