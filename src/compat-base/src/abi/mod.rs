//! The structs of `infiniband/verbs.h`, with their names there. `tests/compat` compares sizes and
//! offsets with the real header.
//!
//! Members of unnamed unions have the name of one of them. What this library changes after it gave
//! a struct to C is a `Cell`, or an atomic if no lock protects it.
#![allow(
    clippy::pub_underscore_fields,
    clippy::struct_field_names,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    reason = "the names of the header"
)]

mod attributes;
mod device;
mod objects;
mod path;
mod work;

pub use attributes::*;
pub use device::*;
pub use objects::*;
pub use path::*;
pub use work::*;

/// The layout of one struct.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its name in the header.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Names and offsets of its fields.
    pub fields: &'static [(&'static str, usize)],
}

/// The layouts of all structs of `infiniband/verbs.h`.
pub fn layouts() -> impl Iterator<Item = &'static Layout> {
    [ATTRIBUTES, DEVICES, OBJECTS, WORK].into_iter().flatten()
}

/// Defines structs and the table of their layouts.
#[macro_export]
macro_rules! structs {
    (
        $vis:vis const $table:ident;
        $( $(#[$meta:meta])* struct $name:ident { $($field:ident: $kind:ty,)* } )*
    ) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            $vis struct $name {
                $($vis $field: $kind,)*
            }
        )*

        $vis const $table: &[$crate::abi::Layout] = &[$(
            $crate::abi::Layout {
                name: stringify!($name),
                size: size_of::<$name>(),
                fields: &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*],
            },
        )*];
    };
}
pub use structs;
