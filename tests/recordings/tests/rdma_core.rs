//! Boots machines: what rdma-core requests of the kernel, and what this library requests for the
//! same.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod machine;

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level interop"]
fn calls_on_rxe_are_those_of_rdma_core() {
    machine::rxe();
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level interop"]
fn calls_on_connectx_are_those_of_rdma_core() {
    machine::mlx5();
}

#[test]
#[ignore = "boots a machine; run by: cargo xtask test --level interop"]
fn commands_of_the_connection_manager_are_those_of_librdmacm() {
    machine::connection_manager();
}
