//! The device of a report in the format of the fake kernel: what discovery found, and what its
//! kernel answered, line by line.

use super::Report;
use super::answers::{Attribute, Command};
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The attribute of a recorded command that holds driver data.
const DRIVER_DATA: &str = "UVERBS_ATTR_UHW_OUT";

/// The errors of a kernel whose core does not have a method.
const NO_METHOD: [&str; 2] = ["EPROTONOSUPPORT", "ENOTTY"];

const GET_CONTEXT: &str = "UVERBS_METHOD_GET_CONTEXT";
const GET_CONTEXT_LEGACY: &str = "IB_USER_VERBS_CMD_GET_CONTEXT";
const QUERY_DEVICE: &str = "IB_USER_VERBS_CMD_QUERY_DEVICE";
const QUERY_DEVICE_EX: &str = "IB_USER_VERBS_EX_CMD_QUERY_DEVICE";
const QUERY_PORT: &str = "UVERBS_METHOD_QUERY_PORT";
const QUERY_PORT_LEGACY: &str = "IB_USER_VERBS_CMD_QUERY_PORT";

pub(super) fn profile(report: &Report) -> anyhow::Result<String> {
    let mut text = String::from("# Written by cargo xtask report.\n");
    text.push_str(&facts(report)?);
    text.push_str(&methods(&report.opening)?);
    text.push_str(&context(&report.opening)?);
    text.push_str(&device(&report.opening)?);
    text.push_str(&ports(&report.opening)?);
    Ok(text)
}

/// What discovery found.
fn facts(report: &Report) -> anyhow::Result<String> {
    let word = |name: &str| -> anyhow::Result<&str> {
        let fact = report.facts[name].as_str();
        let fact = fact.with_context(|| format!("the report says no {name}"))?;
        checked(fact)
    };
    let abi = &report.facts["abi_version"];
    let abi = abi.as_u64().context("the report says no abi_version")?;
    let kernel = word("kernel")?;
    let mut numbers = kernel.split(|other: char| !other.is_ascii_digit());
    let version = numbers.next().zip(numbers.next());
    let (major, minor) = version
        .filter(|(major, minor)| !major.is_empty() && !minor.is_empty())
        .with_context(|| format!("{kernel:?} is no version of a kernel"))?;
    Ok(format!(
        "name {}\ndriver {}\nabi_version {abi}\nkernel {major}.{minor}\n",
        checked(&report.device)?,
        word("driver")?
    ))
}

/// Which methods the kernel's core was seen to have, and which it was seen not to have.
fn methods(commands: &[Command]) -> anyhow::Result<String> {
    let mut lines = BTreeSet::new();
    for command in commands {
        let (object, method) = match (&*command.call, &command.object, &command.method) {
            ("ioctl", Some(object), Some(method)) => (object.as_str(), method.as_str()),
            ("invoke_write", ..) => ("UVERBS_OBJECT_DEVICE", "UVERBS_METHOD_INVOKE_WRITE"),
            _ => continue,
        };
        // Methods of a driver are not the core's.
        if !object.starts_with("UVERBS_OBJECT_") || !method.starts_with("UVERBS_METHOD_") {
            continue;
        }
        let word = match command.error.as_deref() {
            None => "has",
            Some(error) if NO_METHOD.contains(&error) => "lacks",
            Some(_) => continue,
        };
        lines.insert(format!(
            "{word} {} {}\n",
            checked(object)?,
            checked(method)?
        ));
    }
    Ok(lines.into_iter().collect())
}

/// The answer to the first command that succeeded, and before it how others were refused.
fn context(commands: &[Command]) -> anyhow::Result<String> {
    let mut text = String::new();
    for command in commands
        .iter()
        .filter(|it| it.is_any(&[GET_CONTEXT, GET_CONTEXT_LEGACY]))
    {
        match &command.error {
            // The core refused the method, and another command follows.
            Some(error) if NO_METHOD.contains(&&**error) => {}
            Some(error) => writeln!(text, "context.refused {}", checked_words(error)?)?,
            None => {
                for (name, ours) in [
                    (
                        "UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS",
                        "num_comp_vectors",
                    ),
                    ("num_comp_vectors", "num_comp_vectors"),
                    ("UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT", "core_support"),
                    (DRIVER_DATA, "driver_data"),
                ] {
                    if let Some(answer) = command.answer(name) {
                        line(&mut text, "context.", ours, &answer.value)?;
                    }
                }
                return Ok(text);
            }
        }
    }
    bail!("the report has no answer to GET_CONTEXT")
}

/// The device's attributes: all of them if the kernel has the extended command.
fn device(commands: &[Command]) -> anyhow::Result<String> {
    let answered = |name| {
        let mut all = commands.iter();
        all.find(move |command| command.error.is_none() && command.is_any(&[name]))
    };
    let command = answered(QUERY_DEVICE_EX).or_else(|| answered(QUERY_DEVICE));
    let command = command.context("the report has no answer to QUERY_DEVICE")?;
    let mut text = String::new();
    for answer in command.answers() {
        let name = if answer.name == DRIVER_DATA {
            "driver_data"
        } else {
            &answer.name
        };
        line(&mut text, "device.", name, &answer.value)?;
    }
    Ok(text)
}

/// The attributes of each port that was queried, as first returned.
fn ports(commands: &[Command]) -> anyhow::Result<String> {
    let mut seen = BTreeSet::new();
    let mut text = String::new();
    for command in commands.iter().filter(|it| it.error.is_none()) {
        let (number, fields) = if command.is_any(&[QUERY_PORT]) {
            let response = command.answer("UVERBS_ATTR_QUERY_PORT_RESP");
            let fields = response.and_then(Attribute::fields);
            (
                "UVERBS_ATTR_QUERY_PORT_PORT_NUM",
                fields.unwrap_or_default(),
            )
        } else if command.is_any(&[QUERY_PORT_LEGACY]) {
            ("port_num", Vec::new())
        } else {
            continue;
        };
        let mut inputs = command.attributes.iter().filter(|it| it.direction == "in");
        let number = inputs
            .find(|it| it.name == number)
            .and_then(|it| it.value.as_u64());
        let number = number.context("QUERY_PORT of no port")?;
        if !seen.insert(number) {
            continue;
        }
        let own = command.answers().filter(|_| fields.is_empty());
        for field in own.chain(&fields).filter(|field| field.name != DRIVER_DATA) {
            line(
                &mut text,
                &format!("port.{number}."),
                &field.name,
                &field.value,
            )?;
        }
    }
    ensure!(!text.is_empty(), "the report has no answer to QUERY_PORT");
    Ok(text)
}

impl Command {
    fn is_any(&self, names: &[&str]) -> bool {
        let own = [self.method.as_deref(), self.legacy.as_deref()];
        names.iter().any(|name| own.contains(&Some(name)))
    }

    fn answers(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes.iter().filter(|it| it.direction == "out")
    }

    fn answer(&self, name: &str) -> Option<&Attribute> {
        self.answers().find(|it| it.name == name)
    }
}

/// Writes a line, unless the kernel did not return the value.
fn line(text: &mut String, before: &str, name: &str, value: &Value) -> anyhow::Result<()> {
    let value = match value {
        Value::Null => return Ok(()),
        Value::Number(number) if number.is_u64() => number.to_string(),
        Value::String(digits) if is_hexadecimal(digits) => format!("0x{digits}"),
        other => bail!("{before}{name} is {other}, neither a number nor bytes"),
    };
    writeln!(text, "{before}{} {value}", checked(name)?)?;
    Ok(())
}

fn is_hexadecimal(text: &str) -> bool {
    text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Checks that a word remains one word in a file of lines.
fn checked(word: &str) -> anyhow::Result<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.+-~".contains(c);
    ensure!(
        !word.is_empty() && word.chars().all(is_plain),
        "{word:?} is no name"
    );
    Ok(word)
}

/// As [`checked`], for several words: `errno 99`.
fn checked_words(words: &str) -> anyhow::Result<&str> {
    for word in words.split(' ') {
        checked(word)?;
    }
    Ok(words)
}
