//! What the kernel's headers define: objects, methods and attributes, commands, netlink.

use anyhow::bail;
use std::collections::BTreeSet;
use uverbs_uapi::ib_user_ioctl_cmds::{
    HEADER as CORE, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT, uverbs_default_objects,
};
use uverbs_uapi::ib_user_ioctl_verbs::{RDMA_DRIVER_MLX5, RDMA_DRIVER_UNKNOWN};
use uverbs_uapi::ib_user_verbs::{ib_uverbs_ex_write_cmds, ib_uverbs_write_cmds};
use uverbs_uapi::mlx5_user_ioctl_cmds::{HEADER as MLX5, mlx5_ib_objects};
use uverbs_uapi::names;
use uverbs_uapi::rdma_netlink::{rdma_nldev_attr, rdma_nldev_command};
use uverbs_uapi::rdma_user_cm::{
    rdma_mc_join_flags, rdma_option_ib, rdma_option_id, rdma_ucm_cmd, rdma_ucm_port_space,
    rdma_ucm_query_option,
};

/// Enums of these headers whose members are not ids, and the bounds of the id spaces.
const OTHER_ENUMS: [&str; 3] = [
    "uverbs_driver_namespace",
    "mlx5_ib_flow_type",
    "mlx5_ib_create_flow_flags",
];

/// Members that only end their enum.
const ENDS: [&str; 1] = ["RDMA_MC_JOIN_FLAG_RESERVED"];

/// Number of ids examined in each half of an id space.
const IDS: u16 = 0x80;

/// An object of the verbs ioctl.
pub(super) struct Object {
    pub(super) name: &'static str,
    pub(super) methods: Vec<Method>,
}

/// One of its methods.
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) attributes: Vec<&'static str>,
}

/// Everything that is to be covered.
pub(super) struct Abi {
    pub(super) objects: Vec<Object>,
    pub(super) commands: Vec<&'static str>,
    pub(super) extended_commands: Vec<&'static str>,
    pub(super) cm_commands: Vec<&'static str>,
    /// What commands of the connection manager choose.
    pub(super) cm_choices: Vec<&'static str>,
    pub(super) netlink_commands: Vec<&'static str>,
    pub(super) netlink_attributes: Vec<&'static str>,
}

impl Abi {
    /// Reads them from the Rust mirrors of the headers, by the functions that name commands for the
    /// recorder.
    ///
    /// # Errors
    /// An id of the headers that these functions have no name for: the recorder would print a
    /// number.
    pub(super) fn read() -> anyhow::Result<Self> {
        let core = uverbs_default_objects::NAMES.iter();
        let ids = core.chain(mlx5_ib_objects::NAMES);
        let objects: Vec<_> = ids.map(|(name, id)| object(name, *id)).collect();
        let abi = Self {
            objects,
            commands: members(ib_uverbs_write_cmds::NAMES),
            extended_commands: members(ib_uverbs_ex_write_cmds::NAMES),
            cm_commands: members(rdma_ucm_cmd::NAMES),
            cm_choices: choices(),
            netlink_commands: members(rdma_nldev_command::NAMES),
            netlink_attributes: members(rdma_nldev_attr::NAMES),
        };
        let known: BTreeSet<_> = abi.ioctl_names().collect();
        let nameless: Vec<_> = CORE
            .enums
            .iter()
            .chain(MLX5.enums)
            .filter(|ids| !OTHER_ENUMS.contains(&ids.name))
            .flat_map(|ids| ids.members)
            .map(|(name, _)| *name)
            .filter(|name| !known.contains(name))
            .collect();
        if !nameless.is_empty() {
            bail!(
                "uverbs_uapi::names does not find, so the recorder cannot print: {}",
                nameless.join(", ")
            );
        }
        Ok(abi)
    }

    /// Every object, method and attribute.
    pub(super) fn ioctl_names(&self) -> impl Iterator<Item = &'static str> {
        self.objects.iter().flat_map(|object| {
            let below = object.methods.iter().flat_map(|method| {
                [method.name]
                    .into_iter()
                    .chain(method.attributes.iter().copied())
            });
            [object.name].into_iter().chain(below)
        })
    }

    /// Every name that is implemented or has a reason not to be. Parts of netlink that discovery
    /// does not need are not included.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.ioctl_names()
            .chain(self.commands.iter().copied())
            .chain(self.extended_commands.iter().copied())
            .chain(self.cm_commands.iter().copied())
            .chain(self.cm_choices.iter().copied())
    }
}

/// Port spaces, what is queried, how groups are joined, options.
fn choices() -> Vec<&'static str> {
    let mut all = members(rdma_ucm_port_space::NAMES);
    all.extend(members(rdma_ucm_query_option::NAMES));
    all.extend(members(rdma_mc_join_flags::NAMES));
    all.extend(members(rdma_option_id::NAMES));
    all.extend(members(rdma_option_ib::NAMES));
    all.retain(|name| !ENDS.contains(name));
    all
}

fn members<T>(names: &'static [(&'static str, T)]) -> Vec<&'static str> {
    names.iter().map(|(name, _)| *name).collect()
}

fn object(name: &'static str, id: u16) -> Object {
    let method = |method: u16| {
        let name = names::method(id, method, RDMA_DRIVER_MLX5)?;
        let attributes = ids().filter_map(|attribute| attribute_name(id, method, attribute));
        Some(Method {
            name,
            attributes: attributes.collect(),
        })
    };
    Object {
        name,
        methods: ids().filter_map(method).collect(),
    }
}

/// Driver data accompany nearly every command and are not an attribute of one method.
fn attribute_name(object: u16, method: u16, attribute: u16) -> Option<&'static str> {
    let name = names::attribute(object, method, attribute, RDMA_DRIVER_MLX5)?;
    let driver_data = [UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT].contains(&attribute)
        && names::attribute(object, method, attribute, RDMA_DRIVER_UNKNOWN) == Some(name);
    (!driver_data).then_some(name)
}

/// The core's ids, then a driver's.
fn ids() -> impl Iterator<Item = u16> {
    (0..IDS).chain(UVERBS_ATTR_UHW_IN..UVERBS_ATTR_UHW_IN + IDS)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn nothing_is_without_a_name() {
        let abi = Abi::read().unwrap();
        let cq = abi.objects.iter().find(|o| o.name == "UVERBS_OBJECT_CQ");
        let create = &cq.unwrap().methods[0];
        assert_eq!(create.name, "UVERBS_METHOD_CQ_CREATE");
        assert!(create.attributes.contains(&"UVERBS_ATTR_CREATE_CQ_CQE"));
        assert!(
            create
                .attributes
                .contains(&"MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX")
        );
        assert!(!create.attributes.contains(&"UVERBS_ATTR_UHW_IN"));
    }
}
