//! `mlx5dv_init_obj`: the device's numbers of objects.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_mlx5::ProtectionDomain;

use super::abi::{mlx5dv_devx, mlx5dv_obj, mlx5dv_pd};
use super::devx::Made;
use crate::answer::{Answer, number};
use crate::errno::Code;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Out};

/// `enum mlx5dv_obj_type`, as far as it is answered: queues are not handed over.
const DOMAIN: u64 = 1 << 6;
const FIRMWARE_OBJECT: u64 = 1 << 7;

fn domain(pd: Handle<Pd>) -> Answer<mlx5dv_pd> {
    let inner = pd.get()?.domain()?;
    let inner: &ProtectionDomain = inner.of().ok_or(Code::UNSUPPORTED)?;
    Ok(mlx5dv_pd {
        pdn: inner.number(),
        comp_mask: 0,
    })
}

fn firmware_object(made: Handle<Made>) -> Answer<mlx5dv_devx> {
    made.get()?.with(|made| {
        Ok(mlx5dv_devx {
            handle: made.handle(),
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_init_obj(objects: In<mlx5dv_obj>, kinds: u64) -> c_int {
    number(|| {
        let objects = objects.get()?;
        if kinds & !(DOMAIN | FIRMWARE_OBJECT) != 0 {
            return Err(Code::UNSUPPORTED);
        }
        if kinds & DOMAIN != 0 {
            Out::of(objects.pd.out).put(domain(Handle::of(objects.pd.r#in))?)?;
        }
        if kinds & FIRMWARE_OBJECT != 0 {
            Out::of(objects.devx.out).put(firmware_object(Handle::of(objects.devx.r#in))?)?;
        }
        Ok(())
    })
}
