//! Names for ids, groups and queue pairs, whose numbers differ from run to run.

use std::collections::{BTreeMap, BTreeSet};

use super::{Command, PROBE, values};
use crate::decode::{Field, Value};

/// What numbers stand for.
#[derive(Debug, Default)]
pub(super) struct Names {
    ids: BTreeMap<u32, String>,
    groups: BTreeMap<u32, String>,
    /// By the number that the program gave.
    by_uid: BTreeMap<u64, String>,
    datagrams: BTreeSet<u64>,
    queue_pairs: BTreeMap<u64, String>,
    count: usize,
    group_count: usize,
}

impl Names {
    pub(super) fn created(&mut self, id: u32, uid: u64, is_probe: bool, datagrams: bool) -> String {
        if datagrams {
            self.datagrams.insert(uid);
        }
        let name = if is_probe {
            PROBE.to_owned()
        } else {
            self.next()
        };
        self.ids.insert(id, name.clone());
        self.by_uid.insert(uid, name.clone());
        name
    }

    /// Whether events with this number carry what datagrams do.
    pub(super) fn is_of_datagrams(&self, uid: u64) -> bool {
        self.datagrams.contains(&uid)
    }

    fn next(&mut self) -> String {
        self.count += 1;
        format!("ID{}", self.count)
    }

    /// The id of an event; a new one for a request.
    pub(super) fn told(&mut self, id: u32, is_new: bool) -> String {
        if is_new {
            let name = self.next();
            self.ids.insert(id, name);
        }
        self.id(id)
    }

    pub(super) fn id(&self, id: u32) -> String {
        self.ids
            .get(&id)
            .cloned()
            .unwrap_or_else(|| "ID".to_owned())
    }

    pub(super) fn joined(&mut self, id: u32) -> String {
        self.group_count += 1;
        let name = format!("GROUP{}", self.group_count);
        self.groups.insert(id, name.clone());
        name
    }

    pub(super) fn group(&self, id: u32) -> String {
        let known = self.groups.get(&id).cloned();
        known.unwrap_or_else(|| "GROUP".to_owned())
    }

    /// The fields, in the order of their names.
    pub(super) fn fields(&mut self, command: &Command, life: &str) -> Vec<(String, String)> {
        if command.name == "ACCEPT" {
            self.by_uid
                .insert(command.value("uid", false), life.to_owned());
        }
        let mut fields: Vec<_> = command
            .fields
            .iter()
            .filter_map(|field| {
                let value = self.value(field, life)?;
                let arrow = if field.out { "→" } else { "" };
                Some((format!("{arrow}{}", field.name), value))
            })
            .collect();
        fields.sort();
        fields
    }

    fn value(&mut self, field: &Field, life: &str) -> Option<String> {
        match (field.name.as_str(), &field.value) {
            // The program's own number, which its events carry.
            ("uid", Value::Number(uid)) if field.out && !life.starts_with("GROUP") => {
                let owner = self.by_uid.get(uid).map_or("unknown", String::as_str);
                (owner != life).then(|| owner.to_owned())
            }
            // In the names of lives and commands, or of this run.
            ("response" | "optval" | "id" | "uid" | "event", _) => None,
            ("qp_num", Value::Number(number)) => {
                if !field.out {
                    let name = format!("{life}.qp");
                    self.queue_pairs.insert(*number, name);
                }
                let known = self.queue_pairs.get(number).cloned();
                Some(known.unwrap_or_else(|| values::plain(&field.name, &field.value)))
            }
            ("dest_qp_num", Value::Number(number)) => {
                let known = self.queue_pairs.get(number).cloned();
                Some(known.unwrap_or_else(|| "unknown".to_owned()))
            }
            (name, value) => Some(values::plain(name, value)),
        }
    }
}
