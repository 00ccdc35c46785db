//! The Linux kernel's RDMA user API: every struct, enum and flag, under the kernel's own names.
//!
//! Each module mirrors one header, in the header's order. Names are meant to be found by searching;
//! what they mean is documented where they are used, in the crates above this one.
//!
//! # How C becomes Rust
//!
//! * **Structs** keep their names and fields. They are plain old data, which `zerocopy` converts
//!   from and to bytes without `unsafe`. Keywords are prefixed by `r#`. Where C has trailing
//!   padding, there is an `implicit_padding` field. Flexible arrays (`driver_data[]`, `attrs[]`)
//!   are omitted and mentioned in the docs: their bytes follow the struct.
//! * **Unions** with a name become a struct of plain words with one method per member to read it
//!   and one `From` per member to write it: `wr: rxe_send_wr_rdma { … }.into()`. They and the
//!   structs inside them are named after their path. An unnamed union is represented by its first
//!   member.
//! * **Enums** become constants: `u16` for ids that are passed in 16 bits, `u64` for flags that
//!   need it, `u32` otherwise. A module with the enum's name maps values to names:
//!   `uverbs_default_objects::name(3)` is `Some("UVERBS_OBJECT_CQ")`.
//! * **`__be16`, `__be32`, `__be64`** are [types](byte_order) that know their byte order.
//!
//! [`names`] looks up the names of a command's object, method and attributes; [`tables`] contains
//! everything as data.
//!
//! # Proof
//!
//! Size, alignment and every offset are asserted next to each struct at compile time. The asserted
//! values are checked against the headers: `cargo run -p abi-check -- check` compiles the headers
//! with the system's C compiler and compares in both directions, for the headers of this machine
//! and for the newest ones in Debian. `abi/linux-<version>.txt` is the result, for reading and for
//! diffs.
//!
//! # Following a newer kernel
//!
//! 1. `cargo run -p abi-check -- check` lists what this crate lacks compared with the newest
//!    headers.
//! 2. Add it to the module of its header, and to the list at that module's end.
//! 3. `cargo run -p abi-check -- bless` writes the table of the new version; remove the old one.
//!
//! The kernel's user-space interface never changes, so such a step only adds. The only kind of
//! change is that reserved bytes become fields; the checker has a list of these reviewed
//! exceptions.

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
