//! What a command of the connection manager chose, by its name in the headers.

use uverbs::cm::EventKind;
use uverbs::recorder::{Body, CommandPath, Record, Value};
use uverbs_uapi::rdma_user_cm::{
    RDMA_OPTION_IB, RDMA_OPTION_ID, rdma_mc_join_flags, rdma_option_ib, rdma_option_id,
    rdma_ucm_port_space, rdma_ucm_query_option,
};

/// The name; `None` for other commands, and for values that have none.
pub(crate) fn of(record: &Record) -> Option<&'static str> {
    let Body::Command {
        command,
        path: CommandPath::ConnectionManager,
        attributes,
    } = &record.body
    else {
        return None;
    };
    let value = |name: &str| {
        let mut fields = attributes.iter();
        let field = fields.find(|field| field.name.to_string() == name)?;
        match field.value {
            Value::Number(number) => u32::try_from(number).ok(),
            _ => None,
        }
    };
    match command.full()?.strip_prefix("RDMA_USER_CM_CMD_")? {
        "CREATE_ID" => rdma_ucm_port_space::name(value("ps")?),
        "GET_EVENT" => EventKind::from_raw(value("event")?).c_name(),
        "QUERY" => rdma_ucm_query_option::name(value("option")?),
        "JOIN_MCAST" => rdma_mc_join_flags::name(value("join_flags")?),
        "SET_OPTION" => match (value("level")?, value("optname")?) {
            (RDMA_OPTION_ID, name) => rdma_option_id::name(name),
            (RDMA_OPTION_IB, name) => rdma_option_ib::name(name),
            _ => None,
        },
        _ => None,
    }
}
