//! The commands by which a program opens the device, queries it and creates a queue pair, with the
//! kernel's replies.
//!
//! They are for models of the device, which must reply the same. Whatever identifies an individual
//! adapter is left out.

use std::sync::Arc;

use serde_json::Value;
use uverbs::recorder::Collector;
use uverbs::{OpenOptions, QpType};

use super::check::{Outcome, Trouble};
use super::pair::{prepare, usual};
use super::subject::Subject;

/// Parts of the names of what is left out: keys, GUIDs, network addresses, and addresses in this
/// process, which drivers receive in driver data.
const PRIVATE: [&str; 7] = ["guid", "gid", "key", "addr", "_va", "fd", "uhw_in"];

/// The sizes of tables of such values, which are the same for all adapters of a kind.
const SIZES: [&str; 3] = ["gid_tbl_len", "pkey_tbl_len", "max_pkeys"];

/// The commands, in order.
pub(super) fn commands(subject: &Subject) -> Outcome<Vec<Value>> {
    let collector = Arc::new(Collector::new());
    let options = OpenOptions::new()
        .command_path(subject.path)
        .record(Arc::clone(&collector) as Arc<_>);
    let again = subject.through(subject.reopen(options)?, subject.path);
    for port in 1..=again.context.device_attr().phys_port_cnt {
        again.context.query_port(port)?;
    }
    let pd = again.context.alloc_pd()?;
    let cq = again.context.create_cq(64)?;
    drop(prepare(&again, &pd, QpType::Rc, (&cq, &cq), usual)?);
    drop((cq, pd, again));
    let records = collector.take();
    let parsed = records
        .iter()
        .map(|record| serde_json::from_str(&record.to_json(false)).map_err(Trouble::failed));
    let mut commands: Vec<Value> = parsed.collect::<Outcome<_>>()?;
    for command in &mut commands {
        let attributes = command.get_mut("attributes");
        if let Some(Value::Array(attributes)) = attributes {
            keep_public(attributes);
        }
        if let Some(command) = command.as_object_mut() {
            command
                .retain(|name, _| !["fd", "fd_class", "number", "nanoseconds"].contains(&&**name));
        }
    }
    Ok(commands)
}

/// Leaves out what is private, at any depth.
fn keep_public(attributes: &mut Vec<Value>) {
    attributes.retain(|attribute| {
        let name = attribute["name"].as_str().unwrap_or_default();
        let lower = name.to_ascii_lowercase();
        SIZES.contains(&name) || !PRIVATE.iter().any(|part| lower.contains(part))
    });
    for attribute in attributes {
        if let Some(Value::Array(fields)) = attribute.get_mut("value") {
            keep_public(fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_identifies_an_adapter_is_left_out_at_any_depth() {
        let field = |name: &str, value: Value| serde_json::json!({"name": name, "value": value});
        let mut attributes = vec![
            field("GET_CONTEXT_NUM_COMP_VECTORS", 2.into()),
            field("node_guid", 7.into()),
            field(
                "UHW_OUT",
                Value::Array(vec![
                    field("UHW_IN", 7.into()),
                    field("sys_image_guid", 7.into()),
                    field("max_qp", 8.into()),
                    field("gid_tbl_len", 9.into()),
                    field("max_pkeys", 10.into()),
                    field("bad_pkey_cntr", 11.into()),
                ]),
            ),
        ];
        keep_public(&mut attributes);
        let left = Value::Array(attributes).to_string();
        assert!(
            left.contains("max_qp") && left.contains("NUM_COMP_VECTORS"),
            "{left}"
        );
        assert!(
            left.contains("gid_tbl_len") && left.contains("max_pkeys"),
            "{left}"
        );
        assert!(!left.contains("guid") && !left.contains("cntr"), "{left}");
    }
}
