//! Contexts and protection domains that already exist. Other devices' drivers do not report enough
//! about theirs.

use std::sync::Arc;

use uverbs_any::{AnyContext, AnyPd};
use uverbs_core::UverbsFile;
use uverbs_core::hw::QueueMemory;
use uverbs_core::types::DriverId;
use uverbs_mlx5::{Context as Own, ProtectionDomain};

use super::own;
use crate::answer::Answer;
use crate::context::Context;
use crate::errno::Code;

/// The context of an opened file.
pub(crate) fn import(driver: DriverId, file: Arc<UverbsFile>) -> Answer<AnyContext> {
    if driver != DriverId::Mlx5 {
        return Err(Code::UNSUPPORTED);
    }
    Ok(Own::import(file)?.into())
}

/// A domain, by its handle.
pub(crate) fn import_pd(context: &Context, handle: u32) -> Answer<AnyPd> {
    Ok(AnyPd::new::<Own>(ProtectionDomain::import(
        own(context)?,
        handle,
    )?))
}

/// The same domain, whose queues have memory of the program's functions.
pub(crate) fn with_memory(domain: &AnyPd, memory: Arc<dyn QueueMemory>) -> Answer<AnyPd> {
    let domain: &ProtectionDomain = domain.of().ok_or(Code::UNSUPPORTED)?;
    Ok(AnyPd::new::<Own>(domain.with_memory(memory)))
}
