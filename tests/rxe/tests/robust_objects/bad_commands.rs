//! Every call on contexts, domains, memory and paths with invalid arguments.
//!
//! # Safety
//!
//! What is registered here is memory of the test that outlives the region, or nothing at all, which
//! the kernel must detect.
#![allow(clippy::too_many_lines, reason = "a list of cases is as long as it is")]
#![allow(unsafe_code, reason = "registers memory that is not there")]

use std::os::fd::AsFd as _;
use std::ptr::{null_mut, without_provenance_mut};
use std::time::Duration;

use uverbs::ErrorKind::{Busy, InvalidInput, LimitExceeded, NotFound, OutOfResources, Unsupported};
use uverbs::address::GlobalRoute;
use uverbs::attr::SrqAttr;
use uverbs::memory::{DmabufRange, MwType, Reregister};
use uverbs::{AccessFlags, AddressVector, Gid};
use verbs_tests::Registered;

use crate::support::kernel_log::excuse;
use crate::support::refusal::Refusals;

#[test]
fn f21_queries() {
    let context = verbs_tests::open();
    let mut refusals = Refusals::on(&context);
    for port in [0, 2, 3, 127, 255] {
        refusals.check(
            &format!("query_port {port}"),
            context.query_port(port),
            &[InvalidInput],
        );
        refusals.check(
            &format!("query_port_speed {port}"),
            context.query_port_speed(port),
            &[InvalidInput, Unsupported],
        );
        refusals.check(
            &format!("gid of port {port}"),
            context.gid(port, 0),
            &[InvalidInput],
        );
        refusals.check(
            &format!("pkey of port {port}"),
            context.pkey(port, 0),
            &[NotFound, InvalidInput],
        );
        refusals.check(
            &format!("pkey_index of port {port}"),
            context.pkey_index(port, 0xffff),
            &[NotFound, InvalidInput],
        );
    }
    let table = context.query_port(1).expect("the port").gid_tbl_len;
    for index in [table, table + 1, 1 << 16, u32::MAX - 1, u32::MAX] {
        refusals.check(
            &format!("gid {index}"),
            context.gid(1, index),
            &[InvalidInput],
        );
    }
    refusals.any("the last gid", context.gid(1, table - 1));
    for index in [1, 1000, u16::MAX] {
        refusals.check(
            &format!("pkey {index}"),
            context.pkey(1, index),
            &[NotFound],
        );
    }
    refusals.hold(
        "no such pkey",
        context
            .pkey_index(1, 0x1234)
            .is_ok_and(|found| found.is_none()),
    );
    refusals.hold(
        "no event",
        context
            .async_event(Some(Duration::ZERO))
            .is_ok_and(|event| event.is_none()),
    );
    refusals.end();
}

#[test]
fn f21_buffers_and_exposed_memory() {
    excuse("rxe_reg_user_mr: returned err = -22");
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let mut refusals = Refusals::on(&context);
    refusals.check("no bytes", pd.buffers::<1>(0), &[InvalidInput]);
    refusals.check("no bytes often", pd.buffer_list(1000, 0), &[InvalidInput]);
    refusals.hold(
        "no buffers",
        pd.buffer_list(0, 64).is_ok_and(|list| list.is_empty()),
    );
    for len in [1 << 32, 1 << 40, 1 << 62, usize::MAX - 63, usize::MAX] {
        refusals.check(
            &format!("a buffer of {len}"),
            pd.buffers::<1>(len),
            &[LimitExceeded, OutOfResources],
        );
    }
    for (count, len) in [
        (usize::MAX, 1),
        (usize::MAX, 64),
        (1 << 58, 64),
        (1 << 40, u32::MAX as usize),
        (1 << 20, 1 << 30),
    ] {
        refusals.check(
            &format!("{count} buffers of {len}"),
            pd.buffer_list(count, len),
            &[InvalidInput, OutOfResources],
        );
    }
    let reads = AccessFlags::REMOTE_READ;
    refusals.check("expose no bytes", pd.expose(0, reads), &[InvalidInput]);
    let unregistered = pd.expose(64, AccessFlags::empty());
    refusals.check("expose to nobody", unregistered, &[InvalidInput]);
    for len in [
        1 << 40,
        1 << 62,
        usize::MAX / 2,
        usize::MAX - 4095,
        usize::MAX,
    ] {
        refusals.check(
            &format!("expose {len}"),
            pd.expose(len, reads),
            &[OutOfResources, InvalidInput],
        );
    }
    for bit in 0..32 {
        let access = AccessFlags::from_bits_retain(1 << bit);
        let known = AccessFlags::REMOTE_WRITE
            | AccessFlags::REMOTE_READ
            | AccessFlags::REMOTE_ATOMIC
            | AccessFlags::MW_BIND;
        let call = format!("expose with access bit {bit} ({access})");
        let result = pd.expose(64, access);
        match bit {
            // Only the kernel knows whether memory is persistent; it logs a complaint.
            8 | 9 => refusals.forgive(),
            // Bits that a kernel may not know and has to ignore.
            20.. => refusals.any(&call, result),
            _ if known.contains(access) => {
                let works = result.is_ok();
                drop(result);
                refusals.hold(&call, works);
            }
            _ => refusals.check(&call, result, &[InvalidInput, Unsupported]),
        }
    }
    let exposed = pd.expose(64, AccessFlags::REMOTE_WRITE).expect("memory");
    refusals.forgive();
    for (offset, len) in [
        (64, 1),
        (0, 65),
        (usize::MAX, 1),
        (usize::MAX, 0),
        (1, usize::MAX),
    ] {
        let mut bytes = vec![0; len.min(100)];
        if len <= 100 {
            refusals.hold(
                &format!("read {len} at {offset}"),
                !exposed.read(offset, &mut bytes),
            );
            refusals.hold(
                &format!("write {len} at {offset}"),
                !exposed.write(offset, &bytes),
            );
        }
    }
    for offset in [1, 57, 64, usize::MAX - 7, usize::MAX] {
        refusals.hold(&format!("load at {offset}"), exposed.load(offset).is_none());
        refusals.hold(&format!("store at {offset}"), !exposed.store(offset, 1));
    }
    drop(exposed);
    refusals.forgive();
    refusals.end();
}

#[test]
fn f21_registrations() {
    excuse("rxe_reg_user_mr: returned err");
    excuse("Unable to pin memory region");
    excuse("unable to allocate memory for map");
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let memory = Registered::local(&pd, 8192);
    let start: *mut u8 =
        without_provenance_mut(usize::try_from(memory.mr().address()).expect("an address"));
    let mut refusals = Refusals::on(&context);
    let local = AccessFlags::LOCAL_WRITE;
    // SAFETY: see the module.
    let register = |address, length, access| unsafe { pd.register(address, length, access) };
    refusals.check("no bytes", register(start, 0, local), &[InvalidInput]);
    refusals.check(
        "nothing at all",
        register(null_mut(), 0, local),
        &[InvalidInput],
    );
    refusals.check(
        "a range that wraps",
        register(start, usize::MAX, local),
        &[InvalidInput],
    );
    let last: *mut u8 = without_provenance_mut(usize::MAX - 4095);
    refusals.check(
        "the end of all memory",
        register(last, 4096, local),
        &[InvalidInput],
    );
    refusals.check(
        "remote writing without local",
        register(start, 64, AccessFlags::REMOTE_WRITE),
        &[InvalidInput],
    );
    refusals.check(
        "atomics without local writing",
        register(start, 64, AccessFlags::REMOTE_ATOMIC),
        &[InvalidInput],
    );
    for access in [AccessFlags::ZERO_BASED, AccessFlags::HUGETLB] {
        refusals.check(
            &format!("{access}"),
            register(start, 64, local | access),
            &[InvalidInput, Unsupported],
        );
    }
    for bit in 10..20 {
        let access = local | AccessFlags::from_bits_retain(1 << bit);
        refusals.check(
            &format!("access bit {bit}"),
            register(start, 64, access),
            &[InvalidInput, Unsupported],
        );
    }
    for iova in [1, 0xfff, u64::MAX] {
        // SAFETY: see the module.
        let result = unsafe { pd.register_at(start, 64, iova ^ memory.mr().address(), local) };
        refusals.check(
            &format!("{iova:#x} elsewhere on its page"),
            result,
            &[InvalidInput],
        );
    }
    if context.device_attr().odp.general.is_empty() {
        refusals.check(
            "on demand",
            register(start, 64, local | AccessFlags::ON_DEMAND),
            &[InvalidInput, Unsupported],
        );
        refusals.check(
            "everything on demand",
            register(null_mut(), usize::MAX, local | AccessFlags::ON_DEMAND),
            &[InvalidInput, Unsupported],
        );
    } else {
        println!("the device pages on demand");
    }
    // Only the kernel can detect this, and rxe since 6.4 logs it.
    let hole: *mut u8 = without_provenance_mut(1 << 46);
    for (call, address, length) in [
        ("memory that is not mapped", hole, 4096),
        ("the first page", without_provenance_mut(0), 4096),
        (
            "the kernel's memory",
            without_provenance_mut(0xffff_8000_0000_0000),
            4096,
        ),
        ("half the address space", start, 1 << 62),
        ("more than there is", start, 1 << 40),
        (
            "memory that cannot be written",
            c"text".as_ptr().cast_mut().cast(),
            4,
        ),
    ] {
        let result = register(address, length, local);
        refusals.forgive();
        refusals.check(call, result, &[InvalidInput, OutOfResources]);
    }
    let (pipe, _other) = std::io::pipe().expect("a pipe");
    let null = std::fs::File::open("/dev/null").expect("the null device");
    // SAFETY: (1, 2) the kernel finds out that the device is no dmabuf.
    let device = unsafe { context.device_fd() };
    for fd in [pipe.as_fd(), null.as_fd(), device] {
        let range = DmabufRange {
            fd,
            offset: 0,
            length: 4096,
            iova: 0,
        };
        refusals.check(
            "no dmabuf",
            pd.register_dmabuf(&range, local),
            &[InvalidInput, Unsupported],
        );
    }
    for kind in [0, 3, 77, 255] {
        let kind = MwType::from_raw(kind);
        refusals.check(
            &format!("a window of {kind:?}"),
            pd.alloc_mw(kind),
            &[InvalidInput, Unsupported],
        );
    }
    drop(memory);
    refusals.forgive();
    refusals.end();
}

#[test]
fn f21_regions() {
    let context = verbs_tests::open();
    let other_context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let stranger = other_context.alloc_pd().expect("a domain");
    let mut memory = Registered::local(&pd, 4096);
    let mut refusals = Refusals::on(&context);
    for (offset, length) in [
        (0, 4097),
        (4096, 1),
        (1, 4096),
        (u64::MAX, 1),
        (u64::MAX, 0),
        (1 << 40, 0),
    ] {
        refusals.hold(
            &format!("a piece of {length} at {offset}"),
            memory.mr().sge(offset, length).is_none(),
        );
    }
    refusals.hold(
        "the empty piece at its end",
        memory.mr().sge(4096, 0).is_some(),
    );
    let clone = memory.mr().clone();
    // SAFETY: see the module.
    let mut reregister = |change: &Reregister<'_>| unsafe { memory.mr_mut().reregister(change) };
    refusals.check(
        "a region with clones",
        reregister(&Reregister::default()),
        &[Busy],
    );
    refusals.check("end of a region with clones", clone.deregister(), &[Busy]);
    let domain = Reregister {
        pd: Some(&stranger),
        ..Reregister::default()
    };
    refusals.check(
        "another context's domain",
        reregister(&domain),
        &[InvalidInput],
    );
    refusals.check(
        "no change",
        reregister(&Reregister::default()),
        &[InvalidInput, Unsupported],
    );
    for (address, length) in [(4096_usize, 0), (usize::MAX, 2), (4096, usize::MAX)] {
        let memory = Reregister {
            memory: Some((without_provenance_mut(address), length)),
            ..Reregister::default()
        };
        refusals.check(
            &format!("{length} bytes at {address:#x}"),
            reregister(&memory),
            &[InvalidInput],
        );
    }
    let elsewhere = Reregister {
        memory: Some((without_provenance_mut(1 << 46), 4096)),
        ..Reregister::default()
    };
    refusals.check(
        "other memory",
        reregister(&elsewhere),
        &[InvalidInput, Unsupported],
    );
    for access in [
        AccessFlags::REMOTE_WRITE,
        AccessFlags::from_bits_retain(1 << 19),
        AccessFlags::HUGETLB,
    ] {
        let change = Reregister {
            access: Some(access),
            ..Reregister::default()
        };
        refusals.check(
            &format!("access {access}"),
            reregister(&change),
            &[InvalidInput, Unsupported],
        );
    }
    refusals.check(
        "end of a domain with a region",
        pd.clone().dealloc(),
        &[Busy],
    );
    drop(memory);
    refusals.forgive();
    refusals.end();
}

#[test]
fn f21_paths() {
    let context = verbs_tests::open();
    let pd = context.alloc_pd().expect("a domain");
    let gid = context.gid_table().expect("the table")[0];
    let table = context.query_port(1).expect("the port").gid_tbl_len;
    let mut refusals = Refusals::on(&context);
    let to = |dgid: Gid, sgid_index: u8| AddressVector {
        grh: Some(GlobalRoute::new(dgid, sgid_index)),
        ..AddressVector::default()
    };
    refusals.check(
        "no route",
        pd.create_ah(&AddressVector::default()),
        &[InvalidInput],
    );
    refusals.check(
        "a lid",
        pd.create_ah(&AddressVector::local(1, 77)),
        &[InvalidInput],
    );
    for port in [0, 2, 255] {
        let vector = AddressVector {
            port,
            ..to(gid.gid, 0)
        };
        refusals.check(
            &format!("port {port}"),
            pd.create_ah(&vector),
            &[InvalidInput],
        );
    }
    let used: Vec<_> = context
        .gid_table()
        .expect("the table")
        .iter()
        .map(|entry| entry.index)
        .collect();
    for index in [100_u8, 200, 255] {
        assert!(!used.contains(&index.into()) && table > 0);
        refusals.check(
            &format!("gid index {index}"),
            pd.create_ah(&to(gid.gid, index)),
            &[InvalidInput, NotFound],
        );
    }
    refusals.any(
        "the zero gid",
        pd.create_ah(&to(Gid::from_bytes([0; 16]), 0)),
    );
    refusals.any(
        "service level 255",
        pd.create_ah(&AddressVector {
            sl: 255,
            ..to(gid.gid, 0)
        }),
    );
    let ah = pd
        .create_ah(&to(gid.gid, u8::try_from(gid.index).expect("small")))
        .expect("a path to itself");
    refusals.forgive();
    let clone = ah.clone();
    refusals.check("end of a path with clones", ah.destroy(), &[Busy]);
    clone.destroy().expect("the last one");
    refusals.forgive();
    for attr in [
        SrqAttr {
            max_wr: 0,
            max_sge: 1,
            limit: 0,
        },
        SrqAttr {
            max_wr: 1,
            max_sge: 1,
            limit: 2,
        },
    ] {
        refusals.check(
            "srq",
            pd.shared_receive_queue(attr.max_wr)
                .max_sge(attr.max_sge)
                .limit(attr.limit)
                .build(),
            &[InvalidInput, LimitExceeded],
        );
    }
    refusals.end();
}
