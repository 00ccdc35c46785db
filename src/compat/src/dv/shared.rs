//! Objects that another process made in a context that both have: `MLX5_1.27`. What one process
//! exports is bytes, which only this library reads.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;

use uverbs_mlx5::Var;
use uverbs_mlx5::devx::{DevxObject, Umem};

use super::abi::{mlx5dv_devx_obj, mlx5dv_devx_umem, mlx5dv_var};
use super::devx::Made;
use super::held::Held;
use super::own;
use super::pages::{Doorbells, Registered};
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::pointer::{Handle, In, Out};

/// An object of the firmware, or memory for one: the kernel's handle, and the device's number.
#[repr(C)]
#[derive(Clone, Copy)]
struct Numbered {
    handle: u32,
    number: u32,
}

/// A page of the device.
#[repr(C)]
#[derive(Clone, Copy)]
struct Page {
    handle: u32,
    number: u32,
    offset: u64,
    length: u32,
    reserved: u32,
}

/// `mlx5dv_export_sizes`
#[repr(C)]
#[derive(Clone, Copy)]
struct Sizes {
    var: u32,
    umem: u32,
    object: u32,
}

#[expect(clippy::cast_possible_truncation, reason = "a few bytes each")]
const SIZES: Sizes = Sizes {
    var: size_of::<Page>() as u32,
    umem: size_of::<Numbered>() as u32,
    object: size_of::<Numbered>() as u32,
};

/// A program of older or newer headers has another size.
#[unsafe(no_mangle)]
extern "C" fn _mlx5dv_get_export_sizes(sizes: Out<Sizes>, length: usize) {
    let _ = number(|| sizes.put_bytes(&SIZES, length));
}

/// Forgets an imported object, which whoever made it destroys.
fn forget<C, T>(held: Handle<Held<C, T>>) {
    let _ = number(|| {
        held.get()?.end(|object| {
            drop(object);
            Ok(())
        })
    });
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_obj_export(made: Handle<Made>, data: Out<Numbered>) -> c_int {
    number(|| {
        made.get()?.with(|made| {
            data.put(Numbered {
                handle: made.handle(),
                number: made.id(),
            })
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_obj_import(
    context: Handle<Context>,
    data: In<Numbered>,
) -> *mut mlx5dv_devx_obj {
    pointer(|| {
        let (opened, data) = (vendors(context)?, data.get()?);
        let made = DevxObject::import(opened.file(), data.handle, data.number);
        Made::give(context, mlx5dv_devx_obj::default(), made)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_obj_unimport(made: Handle<Made>) {
    forget(made);
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_umem_export(umem: Handle<Registered>, data: Out<Numbered>) -> c_int {
    number(|| {
        umem.get()?.with(|umem| {
            data.put(Numbered {
                handle: umem.handle(),
                number: umem.id(),
            })
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_umem_import(
    context: Handle<Context>,
    data: In<Numbered>,
) -> *mut mlx5dv_devx_umem {
    pointer(|| {
        let (opened, data) = (vendors(context)?, data.get()?);
        let umem = Umem::import(opened.file(), data.handle, data.number);
        let c = mlx5dv_devx_umem {
            umem_id: data.number,
        };
        Registered::give(context, c, umem)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_devx_umem_unimport(umem: Handle<Registered>) {
    forget(umem);
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_var_export(var: Handle<Doorbells>, data: Out<Page>) -> c_int {
    number(|| {
        var.get()?.with(|var| {
            data.put(Page {
                handle: var.handle(),
                number: var.page_id(),
                offset: var.offset(),
                length: var.length(),
                reserved: 0,
            })
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_var_import(context: Handle<Context>, data: In<Page>) -> *mut mlx5dv_var {
    pointer(|| {
        let (opened, data) = (vendors(context)?, data.get()?);
        let place = (data.offset, data.length);
        let var = Var::import(opened.file(), data.handle, data.number, place);
        let c = mlx5dv_var {
            page_id: data.number,
            length: data.length,
            mmap_off: data.offset.cast_signed(),
            comp_mask: 0,
        };
        Doorbells::give(context, c, var)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_var_unimport(var: Handle<Doorbells>) {
    forget(var);
}

/// A device of this vendor.
fn vendors<'a>(context: Handle<Context>) -> Answer<&'a Context> {
    let opened = context.get()?;
    own(opened)?;
    Ok(opened)
}
