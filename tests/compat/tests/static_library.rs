//! A C program that is linked statically with musl and this project's `libibverbs.a`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use compat_tests::{Devices, SUITE, libraries, machine};
use testbed::cargo::workspace;
use testbed::{Command, Packages, host};

/// Lists devices as static programs do, opens the first, and listens for connections.
const PROGRAM: &str = r#"
#define RDMA_STATIC_PROVIDERS mlx5, rxe
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>

/* Listens at any address and port. */
static int port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	int port = 0;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return 0;
	if (!rdma_bind_addr(id, (struct sockaddr *)&address) && !rdma_listen(id, 1))
		port = ntohs(rdma_get_src_port(id));
	if (rdma_destroy_id(id))
		return 0;
	rdma_destroy_event_channel(channel);
	return port;
}

int main(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = list && count ? ibv_open_device(list[0]) : NULL;
	struct ibv_device_attr_ex attr;

	if (!context || ibv_query_device_ex(context, NULL, &attr))
		return 1;
	if (!port())
		return 2;
	printf("%s %d\n", ibv_get_device_name(list[0]), attr.orig_attr.phys_port_cnt);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
"#;

/// Compiles and links it, with musl's headers and start files.
fn compile(libraries: &Path) -> PathBuf {
    let packages = [
        "musl-dev",
        "libibverbs-dev",
        "librdmacm-dev",
        "linux-libc-dev",
    ];
    let root = Packages::new(SUITE, &packages).alone().folder().unwrap();
    let (headers, musl) = (
        root.join("usr/include"),
        root.join("usr/lib/x86_64-linux-musl"),
    );
    let folder = workspace().join("target/compat-static");
    fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&source, PROGRAM).unwrap();
    let own = |name: &str| {
        let found = Program::new("cc")
            .arg(format!("-print-file-name={name}"))
            .output();
        let found = String::from_utf8(found.expect("cc can be run").stdout).unwrap();
        found.trim().to_owned()
    };
    let mut link = Program::new("cc");
    link.args(["-static", "-nostdinc", "-nostdlib", "-O1", "-isystem"])
        .arg(own("include"))
        .arg("-isystem")
        .arg(root.join("usr/include/x86_64-linux-musl"))
        .arg("-isystem")
        .arg(&headers)
        .arg("-isystem")
        .arg(headers.join("x86_64-linux-gnu"))
        .arg("-o")
        .args([
            &program,
            &musl.join("crt1.o"),
            &musl.join("crti.o"),
            &source,
        ])
        .arg(format!("-L{}", libraries.display()))
        .args(["-l:librdmacm.a", "-l:libibverbs.a", "-l:libunwind.a"])
        .arg(musl.join("libc.a"))
        .arg(own("libgcc.a"))
        .arg(musl.join("libc.a"))
        .arg(musl.join("crtn.o"));
    host::run(&mut link).unwrap();
    program
}

#[test]
fn a_c_program_is_linked_static() {
    let libraries = libraries().unwrap();
    let program = compile(&libraries);
    let described = fs::read_to_string(libraries.join("pkgconfig/libibverbs.pc")).unwrap();
    assert!(described.contains("-libverbs"), "{described}");
    let machine = machine(Devices::Rxe).unwrap();
    let guest = machine.with_binary(program, "static-c").boot().unwrap();
    let output = guest.run(Command::new("static-c").namespace("a")).unwrap();
    let output = output.check().unwrap();
    let said = output.stdout_text();
    assert!(
        said.starts_with("rxe_") && said.trim().ends_with(" 1"),
        "{said}"
    );
    guest.power_off().unwrap();
}
