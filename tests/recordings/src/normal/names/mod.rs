//! Names for values that the kernel and the process choose as they like.

mod numbers;

use std::collections::BTreeMap;

use crate::decode::{Command, Field, Value, makes};
use crate::raw::digits;
use numbers::Numbers;

/// In a modification: the size.
const IB_SRQ_MAX_WR: u64 = 1;

/// The objects that numbers refer to, as far as they were seen.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Handles are per device descriptor.
    handles: BTreeMap<(i32, u32), String>,
    fds: BTreeMap<i32, String>,
    user_data: BTreeMap<u64, String>,
    /// Offsets that rings are mapped from: the object, and which of its rings.
    offsets: BTreeMap<u64, (String, String)>,
    /// The object whose new ring will be mapped next, from an offset that the kernel wrote to
    /// memory.
    moved: Option<String>,
    numbers: Numbers,
    counts: BTreeMap<String, usize>,
}

impl Names {
    /// The object of a command; a new name if the command creates it.
    pub(super) fn life(&mut self, command: &Command) -> String {
        let field = |name: &str| command.fields.iter().find(|field| field.name == name);
        match command.name.as_str() {
            "mmap" => {
                let offset = field("offset").map_or(0, |field| number(&field.value));
                if let Some((owner, _)) = self.offsets.get(&offset) {
                    return owner.clone();
                }
                let Some(owner) = self.moved.take() else {
                    return "CONTEXT".to_owned();
                };
                self.offsets
                    .insert(offset, (owner.clone(), "new_ring".to_owned()));
                return owner;
            }
            "close" => {
                let known = self.fds.remove(&command.fd);
                return known.unwrap_or_else(|| "CONTEXT".to_owned());
            }
            "read_devx_event" | "read_devx_reply" => {
                let known = self.fds.get(&command.fd);
                return known.unwrap_or(&command.object).clone();
            }
            "read_event" | "read_completion" | "read" => {
                let user_data = command
                    .fields
                    .iter()
                    .find(|field| ["element", "cq_handle"].contains(&field.name.as_str()))
                    .map_or(0, |field| number(&field.value));
                return self
                    .user_data
                    .get(&user_data)
                    .cloned()
                    .unwrap_or_else(|| command.object.clone());
            }
            _ => {}
        }
        if command.object == "CONTEXT" {
            return "CONTEXT".to_owned();
        }
        let makes = makes(&command.name) && command.errno == 0;
        let Some(own) = own(command) else {
            // Queries of the firmware in general.
            let general = command.object == "MLX5_DEVX";
            return if general { "CONTEXT" } else { &command.object }.to_owned();
        };
        if makes {
            let name = self.made(&command.object);
            if let Some(fd) = descriptor(own) {
                self.fds.insert(fd, name.clone());
            } else {
                let handle = u32::try_from(number(&own.value)).unwrap_or(u32::MAX);
                self.handles.insert((command.fd, handle), name.clone());
            }
            self.learn(command, &name, true);
            return name;
        }
        let name = self
            .reference(command.fd, own)
            .unwrap_or_else(|| command.object.clone());
        self.learn(command, &name, false);
        name
    }

    fn made(&mut self, object: &str) -> String {
        let count = self.counts.entry(object.to_owned()).or_default();
        *count += 1;
        format!("{object}{count}")
    }

    /// Records cookies, ring offsets and numbers that belong to an object.
    fn learn(&mut self, command: &Command, name: &str, made: bool) {
        let value = |wanted: &str| {
            let field = command.fields.iter().find(|field| field.name == wanted);
            field.map_or(0, |field| number(&field.value))
        };
        // rxe's answer is at an address in the request.
        if value("uhw.mmap_info_addr") != 0 && value("attr_mask") & IB_SRQ_MAX_WR != 0 {
            self.moved = Some(name.to_owned());
        }
        for field in &command.fields {
            let number = number(&field.value);
            let last = last(&field.name);
            if last == "user_handle" || last.ends_with("_USER_HANDLE") {
                self.user_data.insert(number, name.to_owned());
            } else if field.out && field.name.ends_with("mi.offset") {
                let of = field.name.trim_start_matches("uhw.");
                let ring = of.replace("mi.offset", "ring");
                self.offsets.insert(number, (name.to_owned(), ring));
            } else if field.out && last.ends_with("MMAP_OFFSET") {
                let pages = (name.to_owned(), "pages".to_owned());
                self.offsets.insert(number, pages);
            } else if field.out && made {
                self.numbers.learn(&field.name, number, name);
            }
        }
    }

    fn reference(&self, fd: i32, field: &Field) -> Option<String> {
        if let Some(fd) = descriptor(field) {
            return self.fds.get(&fd).cloned();
        }
        let handle = u32::try_from(number(&field.value)).ok()?;
        self.handles.get(&(fd, handle)).cloned()
    }

    /// The fields in their normal form.
    pub(super) fn fields(&self, command: &Command, life: &str) -> Vec<(String, String)> {
        let mut fields: Vec<(String, String)> = command
            .fields
            .iter()
            .filter_map(|field| {
                let arrow = if field.out { "→" } else { "" };
                let value = self.value(command, field, life)?;
                Some((format!("{arrow}{}", field.name), value))
            })
            .collect();
        if command.name != "mmap" {
            // The order of attributes is irrelevant.
            fields.sort();
        }
        fields
    }

    fn value(&self, command: &Command, field: &Field, life: &str) -> Option<String> {
        let raw = number(&field.value);
        let last = last(&field.name);
        let lower = last.to_lowercase();
        if let Some(fd) = descriptor(field) {
            let known = self.fds.get(&fd).map_or("descriptor", String::as_str);
            return Some(if fd < 0 { "-1" } else { known }.to_owned());
        }
        if let Some(known) = self.numbers.find(&field.name, raw) {
            return Some(known);
        }
        Some(match &field.value {
            Value::Unwritten => "unwritten".to_owned(),
            Value::Bytes(bytes) => shown(&lower, bytes),
            _ if lower.ends_with("user_handle") => "cookie".to_owned(),
            Value::Handle(_) => self
                .reference(command.fd, field)
                .unwrap_or_else(|| raw.to_string()),
            _ if lower.ends_with("_handle") || lower == "element" => {
                let named = if lower == "element" || command.name.starts_with("read") {
                    self.user_data.get(&raw).cloned()
                } else {
                    self.reference(command.fd, field)
                };
                // The number of an object that does not exist, or that is of another kind than the
                // field says, is nobody's.
                match named {
                    Some(name) if fits(&lower, &name) || lower == "element" => name,
                    _ if raw == 0 => return None,
                    _ => raw.to_string(),
                }
            }
            _ if lower.ends_with("lkey") || lower.ends_with("rkey") => "key".to_owned(),
            _ if lower.ends_with("mmap_offset")
                || lower == "offset" && (command.name == "mmap" || field.name.contains("mi.")) =>
            {
                let known = self.offsets.get(&raw).map(|(_, ring)| ring.clone());
                known.unwrap_or_else(|| fixed(raw))
            }
            // For the program's other files.
            _ if lower.ends_with("fd_num") => "descriptor".to_owned(),
            // For the program's stack.
            _ if lower == "mmap_info_addr" => "address".to_owned(),
            _ if is_address(&lower) && !is_key(command, &lower) => address(command, raw),
            _ if lower == "ah_num" || lower == "dctn" || lower.ends_with("srq_num") => {
                format!("{life}.number")
            }
            _ if raw >= 1 << 16 || lower.contains("flags") || lower.contains("mask") => {
                format!("{raw:#x}")
            }
            _ => raw.to_string(),
        })
    }
}

/// Fixed offsets of a driver: mlx5's clocks.
fn fixed(offset: u64) -> String {
    match offset {
        0x50_0000 => "core_clock".to_owned(),
        0x70_0000 => "clock_info".to_owned(),
        _ => format!("{offset:#x}"),
    }
}

/// The attribute or field that holds the object itself.
fn own(command: &Command) -> Option<&Field> {
    let expected = format!("{}_handle", command.object.to_lowercase());
    let named = |name: &str| command.fields.iter().find(|field| field.name == name);
    // Of several handles of a method, the object's own one has the least specific name.
    let shortest = |wanted: fn(&Value) -> bool| {
        let fields = command.fields.iter().filter(|field| wanted(&field.value));
        fields.min_by_key(|field| field.name.len())
    };
    named(&expected)
        .or_else(|| shortest(|value| matches!(value, Value::Handle(_))))
        .or_else(|| shortest(|value| matches!(value, Value::Fd(_))))
        .or_else(|| named("fd"))
}

fn fits(field: &str, name: &str) -> bool {
    let object = field.trim_end_matches("_handle");
    let kind = name
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .to_lowercase();
    object.rsplit('_').next() == Some(kind.as_str()) || object == kind
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Number(number) => *number,
        Value::Handle(handle) => u64::from(*handle),
        Value::Fd(fd) => u64::from(fd.cast_unsigned()),
        _ => 0,
    }
}

/// The descriptor in an attribute, or in a field of a legacy struct.
fn descriptor(field: &Field) -> Option<i32> {
    match &field.value {
        Value::Fd(fd) => Some(*fd),
        Value::Number(number)
            if ["fd", "async_fd", "comp_channel"].contains(&field.name.as_str()) =>
        {
            Some(u32::try_from(*number).ok()?.cast_signed())
        }
        _ => None,
    }
}

/// Dynamically connected ends have a key where raw packet queue pairs have the address of their
/// send queue.
fn is_key(command: &Command, lower: &str) -> bool {
    const DRIVER: u64 = 0xff;
    let kind = |field: &&Field| field.name == "CREATE_QP_TYPE";
    let kind = command.fields.iter().find(kind);
    let is_driver = kind.is_some_and(|field| number(&field.value) == DRIVER);
    is_driver && (lower.ends_with("access_key") || lower.ends_with("sq_buf_addr"))
}

fn is_address(lower: &str) -> bool {
    let ends = [
        "start",
        "hca_va",
        "iova",
        "addr",
        "_va",
        "virt_addr",
        "access_key",
    ];
    ends.iter().any(|end| lower.ends_with(end))
}

/// The process chooses its addresses freely; whether two addresses are equal matters.
fn address(command: &Command, raw: u64) -> String {
    let starts = |field: &&Field| last(&field.name) == "start";
    match command.fields.iter().find(starts) {
        Some(start) if number(&start.value) == raw => "start".to_owned(),
        // The address at which peers find a region is the caller's choice.
        Some(_) => format!("{raw:#x}"),
        None => format!("address+{:#x}", raw & 0xfff),
    }
}

/// Bytes; values derived from the machine's own addresses are replaced by a name.
fn shown(lower: &str, bytes: &[u8]) -> String {
    if lower.ends_with("guid") {
        return "guid".to_owned();
    }
    if bytes.len() == 16 && bytes.starts_with(&[0xfe, 0x80]) {
        return "link-local".to_owned();
    }
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    let zeros = bytes.len() - end;
    let text = digits(&bytes[..end]);
    if zeros > 4 {
        format!("{text}+{zeros}")
    } else {
        text + &"00".repeat(zeros)
    }
}
