//! Shapes of calls, regardless of their objects: the command, which attributes of which length, the
//! values of flags, masks and types, and the kernel's answer. A test suite that makes a hundred
//! thousand calls has a few hundred shapes.

pub mod agree;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use uverbs_uapi::ib_user_ioctl_verbs::{RDMA_DRIVER_MLX5, RDMA_DRIVER_RXE};

use crate::decode::{self, AsyncQueries, Value};
use crate::raw::{Attr, Call, What};

/// The shape of a call. Its text is one line: command, answer, attributes with their lengths,
/// fields with their values. An attribute that a kernel may ignore if it does not know it has the
/// value `optional`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Shape {
    /// The command: `CQ_CREATE`.
    pub command: String,
    /// `ok`, or the name of the errno.
    pub answer: String,
    /// Attributes have lengths, fields have values, which begin with `=`.
    pub parts: BTreeMap<String, String>,
}

/// `UVERBS_ATTR_F_MANDATORY`.
const MANDATORY: u16 = 1;

/// Parts of the names of fields whose values are chosen from a small set.
const CHOSEN: [&str; 13] = [
    "access",
    "caps",
    "cqe_size",
    "flags",
    "is_",
    "mask",
    "mtu",
    "opcode",
    "protection",
    "solicited_only",
    "state",
    "type",
    "version",
];

impl Shape {
    /// The shape of a call; `None` for irrelevant ones: closing, reads that found nothing, and
    /// queries whether the kernel supports an encoding, which are made to fail.
    fn of(call: &Call, driver: u32, queries: &mut AsyncQueries) -> Option<Self> {
        let command = decode::command(call, driver, queries);
        let mut parts = match &call.what {
            What::Ioctl {
                object,
                method,
                driver,
                attrs,
            } => of_attributes((*object, *method), *driver, attrs),
            What::Write { .. } => of_parts(&call.what),
            What::Map { .. } => BTreeMap::new(),
            What::Read { bytes } if call.errno == 0 => {
                [("length".to_owned(), bytes.0.len().to_string())].into()
            }
            What::Read { .. } | What::Cm { .. } | What::Close => return None,
        };
        if crate::normal::is_probe(&command) {
            return None;
        }
        for field in command.fields.iter().filter(|field| !field.out) {
            let last = field.name.rsplit('.').next().unwrap_or(&field.name);
            let lower = last.to_lowercase();
            match field.value {
                Value::Number(number)
                    if CHOSEN.iter().any(|part| lower.contains(part))
                        && !lower.ends_with("_key") =>
                {
                    parts.insert(field.name.clone() + "=", format!("{number:#x}"));
                }
                _ => {}
            }
        }
        let answer = match call.errno {
            0 => "ok".to_owned(),
            errno => format!("{:?}", Errno::from_raw(errno)),
        };
        Some(Self {
            command: command.name,
            answer,
            parts,
        })
    }

    fn parse(line: &str) -> anyhow::Result<Self> {
        let mut words = line.split(' ');
        let (Some(command), Some(answer)) = (words.next(), words.next()) else {
            bail!("no shape: {line}");
        };
        let parts = words.map(|word| {
            let at = word
                .find([':', '='])
                .with_context(|| format!("neither a length nor a value: {word}"))?;
            let (name, value) = word.split_at(at);
            Ok(match value.strip_prefix(':') {
                Some(length) => (name.to_owned(), length.to_owned()),
                None => (format!("{name}="), value[1..].to_owned()),
            })
        });
        Ok(Self {
            command: command.to_owned(),
            answer: answer.to_owned(),
            parts: parts.collect::<anyhow::Result<_>>()?,
        })
    }
}

fn of_attributes(
    (object, method): (u16, u16),
    driver: u32,
    attrs: &[Attr],
) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    for attr in attrs {
        let name = decode::attribute_name(object, method, attr.id, driver);
        if attr.flags & MANDATORY == 0 {
            parts.insert(format!("{name}="), "optional".to_owned());
        }
        parts.insert(name, attr.len.to_string());
    }
    parts
}

/// The parts of a legacy command.
fn of_parts(what: &What) -> BTreeMap<String, String> {
    let What::Write {
        request,
        request_driver,
        reply,
        reply_driver,
        ..
    } = what
    else {
        return BTreeMap::new();
    };
    let lengths = [
        ("write_in", request),
        ("write_driver_in", request_driver),
        ("write_out", reply),
        ("write_driver_out", reply_driver),
    ];
    let there = lengths.into_iter().filter(|(_, bytes)| !bytes.0.is_empty());
    there
        .map(|(name, bytes)| (name.to_owned(), bytes.0.len().to_string()))
        .collect()
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.command, self.answer)?;
        for (name, value) in &self.parts {
            let between = if name.ends_with('=') { "" } else { ":" };
            write!(f, " {name}{between}{value}")?;
        }
        Ok(())
    }
}

/// The shapes of all calls of a program.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Shapes(pub BTreeSet<Shape>);

impl Shapes {
    /// Adds the calls in a recorder's lines; `driver` is the device's.
    ///
    /// # Errors
    /// A line that is not a call.
    pub fn record(&mut self, lines: &str, driver: u32) -> anyhow::Result<()> {
        let mut queries = AsyncQueries::default();
        for line in lines.lines() {
            let call: Call = serde_json::from_str(line)?;
            self.0.extend(Shape::of(&call, driver, &mut queries));
        }
        Ok(())
    }

    /// Parses the output of [`Display`](fmt::Display).
    ///
    /// # Errors
    /// A line that is not a shape.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Ok(Self(lines.map(Shape::parse).collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|shape| writeln!(f, "{shape}"))
    }
}

/// The number of a driver, by its name.
///
/// # Errors
/// Neither `rxe` nor `mlx5`.
pub fn driver(name: &str) -> anyhow::Result<u32> {
    match name {
        "rxe" => Ok(RDMA_DRIVER_RXE),
        "mlx5" => Ok(RDMA_DRIVER_MLX5),
        _ => bail!("no driver {name}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use uverbs_uapi::ib_user_ioctl_cmds::{
        UVERBS_ATTR_CREATE_CQ_CQE, UVERBS_ATTR_CREATE_CQ_FLAGS, UVERBS_METHOD_CQ_CREATE,
        UVERBS_OBJECT_CQ,
    };

    use super::*;
    use crate::raw::Hex;

    #[test]
    fn sizes_are_left_out_and_flags_are_not() {
        let attr = |id, flags, data| Attr {
            id,
            flags,
            flags_after: flags,
            len: 4,
            element: 0,
            data,
            data_after: data,
            before: Hex::default(),
            after: Hex::default(),
        };
        let create = |cqe| Call {
            pid: 1,
            fd: 3,
            file: "/dev/infiniband/uverbs0".to_owned(),
            errno: 22,
            what: What::Ioctl {
                object: UVERBS_OBJECT_CQ,
                method: UVERBS_METHOD_CQ_CREATE,
                driver: RDMA_DRIVER_RXE,
                attrs: vec![
                    attr(UVERBS_ATTR_CREATE_CQ_CQE, 1, cqe),
                    attr(UVERBS_ATTR_CREATE_CQ_FLAGS, 1, 2),
                ],
            },
        };
        let lines = [create(7), create(8)].map(|call| serde_json::to_string(&call).unwrap());
        let mut shapes = Shapes::default();
        shapes.record(&lines.join("\n"), RDMA_DRIVER_RXE).unwrap();
        let text = shapes.to_string();
        assert_eq!(
            text,
            "CQ_CREATE EINVAL CREATE_CQ_CQE:4 CREATE_CQ_FLAGS:4 CREATE_CQ_FLAGS=0x2\n"
        );
        assert_eq!(Shapes::parse(&text).unwrap(), shapes);
        assert!(Shapes::parse("CQ_CREATE").is_err());
        assert!(Shapes::parse("CQ_CREATE ok nothing").is_err());
    }
}
