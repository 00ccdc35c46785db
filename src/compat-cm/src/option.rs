//! Options of ids.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::{c_int, c_void};

use uverbs_core::cm::{self, CmFile, PathRecord};
use uverbs_core::types::AckTimeout;

use crate::answer::{Answer, minus_one};
use crate::errno::Code;
use crate::failure::NO_OPTION;
use crate::id::Id;
use crate::pointer::{Handle, items};

/// An option, and the value that it is to have.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Setting {
    TypeOfService(u8),
    ReuseAddress(bool),
    FamilyOnly(bool),
    AckTimeout(u8),
    Paths(Vec<PathRecord>),
}

/// Bytes of a path record with its flags.
const PATH: usize = 72;

impl Setting {
    fn new(level: c_int, name: c_int, value: &[u8]) -> Answer<Self> {
        // `RDMA_OPTION_ID`, `RDMA_OPTION_IB`, and their options.
        match (level, name) {
            (0, 0) => Ok(Self::TypeOfService(byte(value)?)),
            (0, 1) => Ok(Self::ReuseAddress(flag(value)?)),
            (0, 2) => Ok(Self::FamilyOnly(flag(value)?)),
            (0, 3) => Ok(Self::AckTimeout(byte(value)?)),
            (1, 1) => paths(value).map(Self::Paths),
            _ => Err(NO_OPTION),
        }
    }

    fn apply(&self, file: &CmFile, id: u32) -> uverbs_core::Result<()> {
        match self {
            Self::TypeOfService(value) => cm::set_type_of_service(file, id, *value),
            Self::ReuseAddress(value) => cm::set_reuse_address(file, id, *value),
            Self::FamilyOnly(value) => cm::set_address_family_only(file, id, *value),
            Self::AckTimeout(value) => cm::set_ack_timeout(file, id, AckTimeout::from_raw(*value)),
            Self::Paths(paths) => cm::set_paths(file, id, paths),
        }
    }
}

fn byte(value: &[u8]) -> Answer<u8> {
    match value {
        [byte] => Ok(*byte),
        _ => Err(Code::INVALID),
    }
}

fn flag(value: &[u8]) -> Answer<bool> {
    let number: [u8; 4] = value.try_into().map_err(|_| Code::INVALID)?;
    Ok(u32::from_ne_bytes(number) != 0)
}

fn paths(value: &[u8]) -> Answer<Vec<PathRecord>> {
    if value.is_empty() || !value.len().is_multiple_of(PATH) {
        return Err(Code::INVALID);
    }
    let path = |bytes: &[u8]| {
        let (flags, rest) = bytes.split_first_chunk()?;
        Some(PathRecord {
            flags: u32::from_ne_bytes(*flags),
            record: rest.get(4..)?.try_into().ok()?,
        })
    };
    value
        .chunks_exact(PATH)
        .map(|bytes| path(bytes).ok_or(Code::INVALID))
        .collect()
}

/// Sets an option.
pub(crate) fn set(
    id: &Id,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: usize,
) -> Answer<()> {
    let value = items(value.cast::<u8>(), length)?;
    let setting = Setting::new(level, name, value)?;
    Ok(setting.apply(&id.channel()?.file, id.number())?)
}

#[unsafe(no_mangle)]
extern "C" fn rdma_set_option(
    id: Handle<Id>,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: usize,
) -> c_int {
    minus_one(|| set(id.get()?, level, name, value, length).map(|()| 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_length_of_their_option() {
        let on = 1_i32.to_ne_bytes();
        assert_eq!(Setting::new(0, 0, &[40]), Ok(Setting::TypeOfService(40)));
        assert_eq!(Setting::new(0, 0, &on), Err(Code::INVALID));
        assert_eq!(Setting::new(0, 1, &on), Ok(Setting::ReuseAddress(true)));
        assert_eq!(Setting::new(0, 2, &[0; 4]), Ok(Setting::FamilyOnly(false)));
        assert_eq!(Setting::new(0, 2, &[0]), Err(Code::INVALID));
        assert_eq!(Setting::new(0, 3, &[14]), Ok(Setting::AckTimeout(14)));
        assert_eq!(Setting::new(0, 9, &on), Err(NO_OPTION));
        assert_eq!(Setting::new(1, 1, &[0; 71]), Err(Code::INVALID));
    }

    #[test]
    fn paths_have_flags_and_a_record() {
        let mut value = [7_u8; 144];
        value[72..76].copy_from_slice(&5_u32.to_ne_bytes());
        let Ok(Setting::Paths(paths)) = Setting::new(1, 1, &value) else {
            panic!("refused");
        };
        assert_eq!(paths.len(), 2);
        assert_eq!((paths[1].flags, paths[1].record), (5, [7; 64]));
    }
}
