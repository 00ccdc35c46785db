//! Parses the device description that `cargo xtask report` writes: a line for each answer, with a
//! name and a value.
//!
//! ```text
//! name mlx5_0
//! driver mlx5
//! abi_version 1
//! kernel 6.12
//! has UVERBS_OBJECT_DEVICE UVERBS_METHOD_GET_CONTEXT
//! context.num_comp_vectors 4
//! context.driver_data 0x0100…
//! device.max_qp 131072
//! port.1.state 4
//! ```
//!
//! The names after `device.` and `port.N.` are those of the kernel's headers. Numbers are decimal;
//! raw bytes are in the byte order of the machine that they come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use uverbs_uapi::ib_user_ioctl_verbs::ib_uverbs_query_port_resp_ex;
use uverbs_uapi::ib_user_verbs::ib_uverbs_ex_query_device_resp;
use uverbs_uapi::names;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::device_profile::DeviceProfile;
use crate::feature::Feature;
use crate::profile::Profile;
use uverbs_core::error::{Errno, errno_of};
use uverbs_core::sys::{struct_layout, struct_places};
use uverbs_core::types::DriverId;

const DEVICE: &str = "ib_uverbs_ex_query_device_resp";
const PORT: &str = "ib_uverbs_query_port_resp_ex";

/// Upper bounds for the numbers of the core's objects, and of their methods.
const OBJECTS: u16 = 64;
const METHODS: u16 = 64;

/// The longest driver data in any answer, in bytes.
const LONGEST: usize = 4096;

/// Why a text is not a valid device profile.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProfileError {
    /// Line number, from 1; `None` if a line is missing.
    line: Option<usize>,
    why: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for ProfileError {}

type Result<T> = std::result::Result<T, String>;

/// What was parsed so far.
#[derive(Default)]
struct Draft {
    seen: BTreeSet<String>,
    name: Option<String>,
    driver: Option<DriverId>,
    abi_version: Option<u32>,
    kernel: Option<Profile>,
    has: Vec<Feature>,
    lacks: Vec<Feature>,
    refusals: Vec<Errno>,
    comp_vectors: Option<u32>,
    core_support: u64,
    context_data: Vec<u8>,
    device: ib_uverbs_ex_query_device_resp,
    device_data: Vec<u8>,
    ports: BTreeMap<u8, ib_uverbs_query_port_resp_ex>,
}

impl DeviceProfile {
    /// Parses the text that `cargo xtask report FILE --to FOLDER` writes to `device.txt`.
    ///
    /// # Errors
    /// A malformed line, a name that is not in the kernel's headers, a value that does not fit, or
    /// a missing line that every device must have.
    pub fn parse(text: &str) -> std::result::Result<Self, ProfileError> {
        let mut draft = Draft::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            draft.line(line).map_err(|why| ProfileError {
                line: Some(number),
                why,
            })?;
        }
        draft.finish().map_err(|name| ProfileError {
            line: None,
            why: format!("there is no line for {name}"),
        })
    }
}

impl Draft {
    fn line(&mut self, line: &str) -> Result<()> {
        let (name, value) = line
            .split_once(' ')
            .ok_or_else(|| format!("{line:?} has no value"))?;
        // All other names may occur only once.
        if !["has", "lacks", "context.refused"].contains(&name)
            && !self.seen.insert(name.to_owned())
        {
            return Err(format!("{name} was said already"));
        }
        match name {
            "name" => self.name = Some(value.to_owned()),
            "driver" => self.driver = Some(driver(value)?),
            "abi_version" => self.abi_version = Some(number(value)?),
            "kernel" => self.kernel = Some(kernel(value)?),
            "has" => self.has.push(feature(value)?),
            "lacks" => self.lacks.push(feature(value)?),
            "context.refused" => {
                let errno = errno_of(value).ok_or_else(|| format!("{value} is no error"))?;
                self.refusals.push(errno);
            }
            "context.num_comp_vectors" => self.comp_vectors = Some(number(value)?),
            "context.core_support" => self.core_support = number(value)?,
            "context.driver_data" => self.context_data = bytes(value)?,
            "device.driver_data" => self.device_data = bytes(value)?,
            _ => return self.field(name, value),
        }
        Ok(())
    }

    /// A field of the device's or a port's attributes.
    fn field(&mut self, name: &str, value: &str) -> Result<()> {
        if let Some(field) = name.strip_prefix("device.") {
            return set(&mut self.device, DEVICE, field, value);
        }
        let port = name
            .strip_prefix("port.")
            .and_then(|rest| rest.split_once('.'));
        let Some((port, field)) = port else {
            return Err(format!("nothing is called {name:?}"));
        };
        let port = port.parse().ok().filter(|port| *port != 0);
        let port: u8 = port.ok_or_else(|| format!("{name:?} is of no port"))?;
        set(self.ports.entry(port).or_default(), PORT, field, value)
    }

    /// # Errors
    /// The name of the missing line.
    fn finish(self) -> std::result::Result<DeviceProfile, &'static str> {
        let mut kernel = self.kernel.ok_or("kernel")?;
        // `has` overrides `lacks`: if a command was refused once and succeeded later, the device
        // may have refused it, but the kernel has it.
        for feature in self.lacks {
            kernel = kernel.without(feature);
        }
        for feature in self.has {
            kernel = kernel.with(feature);
        }
        if self.device == ib_uverbs_ex_query_device_resp::default() {
            return Err("device.");
        }
        Ok(DeviceProfile {
            name: self.name.ok_or("name")?,
            driver: self.driver.ok_or("driver")?,
            abi_version: self.abi_version.ok_or("abi_version")?,
            kernel,
            refusals: self.refusals,
            comp_vectors: self.comp_vectors.ok_or("context.num_comp_vectors")?,
            core_support: self.core_support,
            context_data: self.context_data,
            device: self.device,
            device_data: self.device_data,
            ports: self.ports,
        })
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T> {
    value
        .parse()
        .map_err(|_| format!("{value:?} is no number that fits"))
}

fn bytes(value: &str) -> Result<Vec<u8>> {
    let wrong = || format!("{value:?} is no 0x and pairs of hexadecimal digits");
    let digits = value.strip_prefix("0x").ok_or_else(wrong)?.as_bytes();
    let (pairs, odd) = digits.as_chunks::<2>();
    if !odd.is_empty() {
        return Err(wrong());
    }
    if pairs.len() > LONGEST {
        return Err(format!("more than {LONGEST} bytes"));
    }
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pair = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    pairs
        .iter()
        .map(pair)
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

fn driver(name: &str) -> Result<DriverId> {
    let known = DriverId::ALL.iter();
    let mut known = known.filter(|driver| driver.to_string() == name);
    known
        .next()
        .copied()
        .ok_or_else(|| format!("there is no driver {name:?}"))
}

fn kernel(version: &str) -> Result<Profile> {
    let parts = version.split_once('.');
    let parts = parts.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let (major, minor) = parts.ok_or_else(|| format!("{version:?} is no version"))?;
    Ok(Profile::of(major, minor))
}

/// The feature that introduced a method of the core, or legacy commands inside the ioctl.
fn feature(names: &str) -> Result<Feature> {
    let (object, method) = names.split_once(' ').unwrap_or((names, ""));
    let number = (0..OBJECTS).find(|id| names::object(*id, 0) == Some(object));
    let found = number.and_then(|number| {
        let method = (0..METHODS).find(|id| names::method(number, *id, 0) == Some(method))?;
        Some(Feature::of_method(number, method))
    });
    found.ok_or_else(|| format!("there is no method {names:?}"))
}

/// Sets a field of a struct of the kernel's headers.
fn set<T: FromBytes + IntoBytes + Immutable>(
    to: &mut T,
    layout: &'static str,
    field: &str,
    value: &str,
) -> Result<()> {
    let places = struct_layout(layout).map(struct_places).unwrap_or_default();
    let place = places.iter().find(|place| place.name == field);
    let place = place.ok_or_else(|| format!("{layout} has no field {field:?}"))?;
    let bytes = match value.strip_prefix("0x") {
        Some(_) => bytes(value)?,
        None => number_bytes(number(value)?, place.size)
            .ok_or_else(|| format!("{value} is too large for {field}"))?,
    };
    if bytes.len() != place.size {
        return Err(format!("{field} has {} bytes", place.size));
    }
    let room = to
        .as_mut_bytes()
        .get_mut(place.offset..place.offset + place.size);
    room.ok_or_else(|| format!("{field} is outside of {layout}"))?
        .copy_from_slice(&bytes);
    Ok(())
}

/// A number's bytes in the machine's byte order; `None` if it does not fit `size` bytes, or `size`
/// is not that of an integer.
fn number_bytes(value: u64, size: usize) -> Option<Vec<u8>> {
    Some(match size {
        1 => u8::try_from(value).ok()?.to_ne_bytes().to_vec(),
        2 => u16::try_from(value).ok()?.to_ne_bytes().to_vec(),
        4 => u32::try_from(value).ok()?.to_ne_bytes().to_vec(),
        8 => value.to_ne_bytes().to_vec(),
        _ => return None,
    })
}
