//! What a model of the device has to answer: the kernel's replies field by field, and the
//! firmware's capabilities as bytes.

use super::Check;
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;

/// Prefix of the names of capability groups.
const CAPABILITIES: &str = "capabilities ";

/// Length of a reply's header, in front of the requested data.
const HEAD: usize = 16;

/// A command as `uverbs selftest` records it.
#[derive(Debug, Deserialize)]
pub(super) struct Command {
    pub(super) call: String,
    pub(super) object: Option<String>,
    pub(super) method: Option<String>,
    #[serde(rename = "command")]
    pub(super) legacy: Option<String>,
    #[serde(default)]
    pub(super) attributes: Vec<Attribute>,
    pub(super) error: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) direction: String,
    pub(super) value: Value,
}

/// A line for each command: its name, what was sent, and after arrows what was returned.
pub(super) fn golden(commands: &[Command]) -> String {
    let mut text = String::new();
    for command in commands {
        text.push_str(&command.title());
        for attribute in &command.attributes {
            attribute.write("", &mut text);
        }
        if let Some(error) = &command.error {
            let _ = write!(text, " = {error}");
        }
        text.push('\n');
    }
    text
}

impl Command {
    fn title(&self) -> String {
        match (&self.object, &self.method, &self.legacy) {
            (Some(object), Some(method), _) => format!(
                "{}/{}",
                short(object, "UVERBS_OBJECT_"),
                short(method, "UVERBS_METHOD_")
            ),
            (_, _, Some(command)) => {
                let command = short(command, "IB_USER_VERBS_EX_CMD_");
                short(command, "IB_USER_VERBS_CMD_").to_owned()
            }
            _ => self.call.clone(),
        }
    }
}

impl Attribute {
    /// Its fields, if it is a struct.
    pub(super) fn fields(&self) -> Option<Vec<Self>> {
        match &self.value {
            Value::Array(fields) => serde_json::from_value(fields.clone().into()).ok(),
            _ => None,
        }
    }

    fn write(&self, before: &str, text: &mut String) {
        let name = format!("{before}{}", short(&self.name, "UVERBS_ATTR_"));
        if let Some(fields) = self.fields() {
            for field in fields {
                field.write(&format!("{name}."), text);
            }
            return;
        }
        let arrow = if self.direction == "out" { "→" } else { "" };
        let _ = match &self.value {
            Value::String(value) => write!(text, " {arrow}{name}={value}"),
            value => write!(text, " {arrow}{name}={value}"),
        };
    }
}

fn short<'a>(name: &'a str, prefix: &str) -> &'a str {
    name.strip_prefix(prefix).unwrap_or(name)
}

/// A file for each group of capabilities that the firmware reported.
pub(super) fn capabilities(checks: &[Check]) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for check in checks {
        let group = check.name.strip_prefix(CAPABILITIES);
        let (Some(group), Some(text)) = (group, &check.detail) else {
            continue;
        };
        let number = u16::from_str_radix(group.trim_start_matches("0x"), 16)
            .with_context(|| format!("{group:?} is no group"))?;
        let bytes = bytes(text).with_context(|| format!("capabilities {group}"))?;
        let page = bytes.get(HEAD..).context("a reply without its head")?;
        files.push((format!("capabilities-{number:#x}.bin"), page.to_vec()));
    }
    Ok(files)
}

fn bytes(text: &str) -> anyhow::Result<Vec<u8>> {
    ensure!(
        text.is_ascii() && text.len().is_multiple_of(2),
        "no pairs of digits"
    );
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| Ok(u8::from_str_radix(&text[at..at + 2], 16)?))
        .collect()
}
