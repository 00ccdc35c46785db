//! The Linux kernel's RDMA user API: every struct, enum and flag, under the kernel's own names.
//!
//! One module mirrors one header, in the header's order. The names are found by searching; what
//! they mean is told where they are used, in the crates above this one.
//!
//! # How C becomes Rust
//!
//! * **Structs** keep their names and fields. They are plain old data: made from bytes and seen as
//!   bytes by `zerocopy`, without `unsafe`. A keyword gets `r#`. Where C leaves a hole at the end,
//!   there is an `implicit_padding` field. Flexible arrays (`driver_data[]`, `attrs[]`) are left
//!   out and named in the docs: the bytes follow the struct.
//! * **Unions** with a name become a struct of plain words with one method per arm to read it and
//!   one `From` per arm to write it: `wr: rxe_send_wr_rdma { … }.into()`. They and the structs
//!   inside them are named after the path to them. Of an unnamed union the first arm is the field.
//! * **Enums** become constants: `u16` for ids that travel in 16 bits, `u64` for flags that need
//!   it, `u32` otherwise. A module named like the enum gives the name of a value:
//!   `uverbs_default_objects::name(3)` is `Some("UVERBS_OBJECT_CQ")`.
//! * **`__be16`, `__be32`, `__be64`** are [types](byte_order) that know their byte order.
//!
//! [`names`] finds the names of a command's object, method and attributes; [`tables`] holds
//! everything as data.
//!
//! # Proof
//!
//! Size, alignment and every offset are asserted beside each struct when this crate is compiled.
//! What is asserted comes from the headers: `cargo run -p abi-check -- check` compiles them with
//! the system's C compiler and compares both ways, for the headers of this machine and for the
//! newest that Debian has. `abi/linux-<version>.txt` is that result, for reading and for diffs.
//!
//! # Following a newer kernel
//!
//! 1. `cargo run -p abi-check -- check` lists what the newest headers have and this crate lacks.
//! 2. Add it to the module of its header, and to the list at that module's end.
//! 3. `cargo run -p abi-check -- bless` writes the table of the new version; remove the old one.
//!
//! What a kernel has once shown to user space never changes, so a step only adds. The one change
//! that happens is that reserved bytes become fields; the checker's list of reviewed exceptions
//! names those.

#![no_std]
#![forbid(unsafe_code)]
#![allow(
    non_camel_case_types,
    non_snake_case,
    clippy::struct_field_names,
    clippy::similar_names,
    reason = "the kernel's names, verbatim"
)]
#![allow(
    missing_docs,
    reason = "a field is documented where its name does not say enough"
)]
#![allow(clippy::pub_underscore_fields, reason = "the kernel's names, verbatim")]

#[macro_use]
pub mod layout;
#[macro_use]
mod enums;
#[macro_use]
pub mod tables;

pub mod byte_order;
pub mod ioctl;
pub mod names;

pub mod ib_user_ioctl_cmds;
pub mod ib_user_ioctl_verbs;
pub mod ib_user_sa;
pub mod ib_user_verbs;
pub mod linux_socket;
pub mod mlx5_abi;
pub mod mlx5_user_ioctl_cmds;
pub mod mlx5_user_ioctl_verbs;
pub mod rdma_netlink;
pub mod rdma_user_cm;
pub mod rdma_user_ioctl;
pub mod rdma_user_ioctl_cmds;
pub mod rdma_user_rxe;
