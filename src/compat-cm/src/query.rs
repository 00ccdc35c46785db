//! What the kernel knows of an id, into the fields that programs read.

use std::cell::Cell;
use std::sync::Arc;

use uverbs_compat_base::abi::ibv_gid;
use uverbs_core::cm::{self, CmAddress};

use crate::answer::Answer;
use crate::device;
use crate::errno::Code;
use crate::id::Id;
use crate::path;
use crate::peer;

/// Addresses, and the device, once the id has one.
pub(crate) fn addresses(id: &Id) -> Answer<()> {
    let found = cm::query_addresses(&id.channel()?.file, id.number())?;
    let address = &id.c.route.addr;
    if found.source.is_some() {
        address.src_storage.set(peer::store(found.source));
    }
    if found.destination.is_some() {
        address.dst_storage.set(peer::store(found.destination));
    }
    let mut state = id.state();
    if state.device.is_none()
        && let Some(bound) = found.device
    {
        let device = device::of(&bound)?;
        id.c.verbs.set(device.context());
        id.c.pd.set(device.pd());
        id.c.port_num.set(bound.port);
        let mut ib = address.addr.get();
        ib.pkey = found.pkey.to_be();
        address.addr.set(ib);
        state.device = Some(Arc::new(device));
    }
    Ok(())
}

/// The GIDs of both ends.
pub(crate) fn gids(id: &Id) -> Answer<()> {
    let found = cm::query_gids(&id.channel()?.file, id.number())?;
    let address = &id.c.route.addr.addr;
    let mut ib = address.get();
    for (place, gid) in [
        (&mut ib.sgid, found.source),
        (&mut ib.dgid, found.destination),
    ] {
        if let Some(CmAddress::Ib(gid)) = gid {
            *place = ibv_gid {
                raw: gid.gid.to_bytes(),
            };
        }
    }
    address.set(ib);
    Ok(())
}

/// The paths, if there are any.
pub(crate) fn paths(id: &Id) -> Answer<()> {
    let found = cm::query_paths(&id.channel()?.file, id.number())?;
    if found.is_empty() {
        return Ok(());
    }
    let count = i32::try_from(found.len()).map_err(|_| Code::INVALID)?;
    let paths: Box<[_]> = found
        .iter()
        .map(|path| Cell::new(path::to_c(path)))
        .collect();
    let mut state = id.state();
    state.paths.push(paths);
    if let Some(first) = state.paths.last().and_then(|paths| paths.first()) {
        id.c.route.path_rec.set(first.as_ptr());
        id.c.route.num_paths.set(count);
    }
    Ok(())
}
