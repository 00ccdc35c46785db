//! Flow rules and counters in the kernel's own terms: the same for every provider.

use std::sync::Arc;

use crate::cmd;
use crate::error::Result;
use crate::file::UverbsFile;
use crate::object::Object;
use crate::sys::Uhw;

pub use crate::cmd::flow::{Create as Rule, Flags, Kind};

/// `ibv_create_flow`: creates a rule, with driver data. Its queue pair must outlive it.
///
/// # Errors
/// Those of the command.
#[doc(alias = "ibv_create_flow")]
pub fn create(file: &Arc<UverbsFile>, rule: &Rule<'_>, data: &[u8]) -> Result<Object> {
    let handle = cmd::flow::create(file, rule, &Uhw::new(data, &[]))?;
    Ok(Object::new(file, &cmd::flow::KIND, handle, []))
}

/// `ibv_create_counters`: creates a set of counters.
///
/// # Errors
/// Those of the command.
#[doc(alias = "ibv_create_counters")]
pub fn create_counters(file: &Arc<UverbsFile>) -> Result<Object> {
    let handle = cmd::counters::create(file, &Uhw::NONE)?;
    Ok(Object::new(file, &cmd::counters::KIND, handle, []))
}

/// `ibv_read_counters`: reads a set of counters, if `cached` as the kernel knows them.
///
/// # Errors
/// Those of the command.
#[doc(alias = "ibv_read_counters")]
pub fn read_counters(counters: &Object, values: &mut [u64], cached: bool) -> Result<()> {
    let handle = counters.handle();
    cmd::counters::read(counters.file(), handle, values, cached, &Uhw::NONE)
}
