//! Features that some kernels lack, and the low limits of some.

use std::sync::Arc;

use uverbs::memory::MwType;
use uverbs::{AccessFlags, ErrorKind, QpType};
use uverbs_core::cmd::context::GetContext;
use uverbs_core::sys::Uhw;
use uverbs_core::types::{MrAdvice, MrAdviceFlags, ReregFlags};
use uverbs_core::{Result, UverbsFile, cmd};
use uverbs_fake::{Feature, Profile};
use uverbs_uapi::ib_user_ioctl_cmds::UVERBS_OBJECT_PD;

use crate::heart::bench;

/// A command, the feature it needs, and whether rxe has it where the kernel does.
type Lacking = (Feature, bool, fn(&UverbsFile, u32) -> Result<()>);

const LACKING: [Lacking; 7] = [
    (Feature::FirstMethods, true, |ch, _| {
        cmd::device::info_handles(ch, UVERBS_OBJECT_PD, 8).map(drop)
    }),
    (Feature::FirstMethods, false, |ch, pd| {
        let request = cmd::mr::Advise {
            pd,
            advice: MrAdvice::Prefetch,
            flags: MrAdviceFlags::empty(),
            ranges: &[],
        };
        cmd::mr::advise(ch, &request, &Uhw::NONE)
    }),
    (Feature::QueryMethods, false, |ch, _| {
        cmd::mr::query(ch, 1).map(drop)
    }),
    (Feature::QueryMethods, false, |ch, _| {
        cmd::context::query(ch, &Uhw::NONE).map(drop)
    }),
    (Feature::SpeedMethod, false, |ch, _| {
        cmd::device::query_port_speed(ch, 1).map(drop)
    }),
    (Feature::MemoryWindows, true, |ch, pd| {
        let window = cmd::mw::alloc(ch, pd, MwType::Type2, &Uhw::NONE)?;
        cmd::mw::KIND.destroy(ch, window.handle).map(drop)
    }),
    (Feature::Reregister, true, |ch, pd| {
        let memory = [0_u8; 64];
        let start = memory.as_ptr().expose_provenance() as u64;
        let access = AccessFlags::LOCAL_WRITE;
        let register = cmd::mr::Register {
            pd,
            start,
            length: 64,
            iova: start,
            access,
        };
        let mr = cmd::mr::register(ch, &register, &Uhw::NONE)?.handle;
        let again = cmd::mr::Reregister {
            mr,
            flags: ReregFlags::CHANGE_ACCESS,
            start: 0,
            length: 0,
            iova: 0,
            pd: 0,
            access,
        };
        let done = cmd::mr::reregister(ch, &again, &Uhw::NONE).map(drop);
        cmd::mr::KIND.destroy(ch, mr)?;
        done
    }),
];

#[test]
fn what_a_kernel_lacks_is_unsupported() {
    for profile in Profile::ALL {
        let bench = bench(*profile);
        let version = profile.version();
        let file: Arc<UverbsFile> = bench.file().unwrap();
        let fds = [bench.fake.open().unwrap()];
        let fds = fds.each_ref().map(std::os::fd::AsFd::as_fd);
        if !profile.has(Feature::ContextDescriptors) {
            let request = GetContext { ucap_fds: &fds };
            let error = cmd::context::get(&file, &request, &Uhw::NONE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{version:?}: {error}");
        }
        let _context = cmd::context::get(&file, &GetContext::default(), &Uhw::NONE).unwrap();
        let pd = cmd::pd::alloc(&file, &Uhw::NONE).unwrap();
        for (place, (feature, of_rxe, ask)) in LACKING.iter().enumerate() {
            let answer = ask(&file, pd);
            if profile.has(*feature) && *of_rxe {
                answer.unwrap_or_else(|error| panic!("{version:?} {place}: {error}"));
            } else {
                let error = answer.expect_err("a kernel, or a driver, without it");
                let kind = error.kind();
                assert_eq!(kind, ErrorKind::Unsupported, "{version:?} {place}: {error}");
            }
        }
        let error = cmd::mr::register_dmabuf(
            &file,
            &cmd::mr::RegisterDmabuf {
                pd,
                fd: fds[0],
                offset: 0,
                length: 64,
                iova: 0,
                access: AccessFlags::LOCAL_WRITE,
            },
            &Uhw::NONE,
        )
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{version:?}: {error}");
    }
}

#[test]
fn limits_are_the_kernel_s() {
    for profile in Profile::ALL {
        let bench = bench(*profile);
        let version = profile.version();
        let context = bench.context().unwrap();
        let attr = context.device_attr();
        let limits = (attr.max_qp_wr, attr.max_mr, attr.max_mw);
        let wanted = match version {
            (4, _) | (5, ..=10) => (0x4000, 0x4_0000, 0),
            (5, _) => (0x4000, 0x1000, 0x1000),
            _ => (1 << 20, (1 << 19) - 1, (1 << 19) - 1),
        };
        assert_eq!(limits, wanted, "{version:?}");
        let message = context.query_port(1).unwrap().max_msg_sz;
        let long = version >= (6, 12);
        assert_eq!(message, if long { 1 << 31 } else { 1 << 23 }, "{version:?}");
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(8).unwrap();
        let inline = |bytes| {
            let builder = pd
                .queue_pair(QpType::Rc, &cq, &cq)
                .gid_index(1)
                .max_send_wr(5)
                .max_inline_data(bytes);
            builder.build()
        };
        let most = if version >= (5, 6) { 512 } else { 400 };
        drop(inline(most).unwrap());
        let error = inline(most + 1).unwrap_err();
        // What no kernel permits is refused before the kernel is called.
        let kind = if most == 512 {
            ErrorKind::LimitExceeded
        } else {
            ErrorKind::InvalidInput
        };
        assert_eq!(error.kind(), kind, "{version:?}: {error}");
    }
}
