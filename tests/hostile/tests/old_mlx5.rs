//! mlx5 on kernels that lack newer features: 4.18's driver has no methods, no firmware commands,
//! and no doorbells on demand. What such kernels answer was read in their sources
//! (`drivers/infiniband/hw/mlx5`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use hostile_tests::{mlx5_kernel, open_mlx5};
use uverbs::link::Mtu;
use uverbs::mlx5::pacing::RateLimit;
use uverbs::mlx5::steering::{
    HeaderChange, HeaderField, MatchParameters, MatcherInit, Reformat, TableKind,
};
use uverbs::mlx5::{Adapter, VarKind};
use uverbs::{Context, ErrorKind, OpenOptions, QpType, Result, owned};
use uverbs_core::Errno;
use uverbs_core::sys::{Attr, Call, Command, Kernel, Reply, Uhw, Value, WriteCommand};
use uverbs_fake::{Feature, Profile};
use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_WRITE_CMD, UVERBS_ID_NS_SHIFT, UVERBS_METHOD_GET_CONTEXT,
    UVERBS_METHOD_INVOKE_WRITE, UVERBS_OBJECT_DEVICE,
};
use uverbs_uapi::ib_user_verbs::IB_USER_VERBS_CMD_GET_CONTEXT;
use uverbs_uapi::mlx5_abi::{
    MLX5_IB_ALLOC_UCTX_DEVX, MLX5_LIB_CAP_DYN_UAR, mlx5_ib_alloc_ucontext_req_v2,
};
use zerocopy::{FromBytes, IntoBytes};

/// A kernel of a certain age, in front of one that carries out everything.
#[derive(Debug)]
struct Old {
    newest: Arc<dyn Kernel>,
    age: Profile,
    /// The driver's context requests: with firmware commands or without.
    requests: Mutex<Vec<bool>>,
}

impl Old {
    fn of(age: Profile) -> Arc<Self> {
        Arc::new(Self {
            newest: mlx5_kernel(),
            age,
            requests: Mutex::default(),
        })
    }

    /// A context as returned by a driver that knows no newer request.
    fn context(&self, input: &[u8]) -> Result<Vec<u8>, Errno> {
        let (mut request, rest) =
            mlx5_ib_alloc_ucontext_req_v2::read_from_prefix(input).map_err(|_| Errno::INVAL)?;
        let devx = request.flags & MLX5_IB_ALLOC_UCTX_DEVX != 0;
        self.requests.lock().unwrap().push(devx);
        if devx && self.age.version() < (4, 19) {
            return Err(Errno::INVAL);
        }
        if self.age.version() < (5, 7) {
            request.lib_caps &= !MLX5_LIB_CAP_DYN_UAR;
        }
        Ok([request.as_bytes(), rest].concat())
    }

    fn has(&self, command: &Command<'_>) -> bool {
        let of_driver = |id: u16| id >> UVERBS_ID_NS_SHIFT != 0;
        let methods = (5, 7);
        if of_driver(command.object) || of_driver(command.method) {
            return self.age.version() >= methods;
        }
        self.age.has_method(command.object, command.method)
    }
}

/// Whether a context is requested, in either encoding.
fn opens(command: &Command<'_>) -> bool {
    let wanted = u64::from(IB_USER_VERBS_CMD_GET_CONTEXT);
    let opens = |attr: &Attr<'_>| {
        attr.id == UVERBS_ATTR_WRITE_CMD
            && matches!(attr.value, Value::Constant(number) if number == wanted)
    };
    match (command.object, command.method) {
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT) => true,
        (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE) => command.attrs.iter().any(opens),
        _ => false,
    }
}

// SAFETY: it returns what the kernel behind it returns, and nothing else.
#[expect(unsafe_code, reason = "plays an older kernel")]
unsafe impl Kernel for Old {
    unsafe fn call(&self, fd: BorrowedFd<'_>, call: Call<'_>) -> Result<Reply, Errno> {
        // SAFETY: the caller's promise.
        let newest = |call| unsafe { self.newest.call(fd, call) };
        match call {
            Call::Ioctl(_) if !self.age.has(Feature::Ioctl) => Err(Errno::NOTTY),
            Call::Ioctl(command) if !self.has(command) => Err(Errno::PROTONOSUPPORT),
            Call::Ioctl(command) if opens(command) => {
                let input = self.context(command.uhw.input)?;
                newest(Call::Ioctl(&Command {
                    uhw: Uhw {
                        input: &input,
                        ..command.uhw
                    },
                    ..*command
                }))
            }
            Call::Write(command) if command.number() == IB_USER_VERBS_CMD_GET_CONTEXT => {
                let input = self.context(command.uhw.input)?;
                newest(Call::Write(&WriteCommand {
                    uhw: Uhw {
                        input: &input,
                        ..command.uhw
                    },
                    ..*command
                }))
            }
            call => newest(call),
        }
    }
}

fn open(kernel: &Arc<Old>) -> Context {
    let kernel: Arc<dyn Kernel> = Arc::clone(kernel) as _;
    open_mlx5(OpenOptions::new().kernel(kernel)).unwrap()
}

/// A method, and a function that requests it.
type Method = (&'static str, fn(&Adapter) -> Result<()>);

/// Functions that request its methods; each is one that 4.18 lacks.
const METHODS: [Method; 12] = [
    ("VAR", |device| device.alloc_var(VarKind::Virtio).map(drop)),
    ("DEVICE/QUERY_PORT", |device| {
        device.switch_port(1).map(drop)
    }),
    ("GET_DATA_DIRECT_SYSFS_PATH", |device| {
        device.data_direct_path().map(drop)
    }),
    ("STEERING_ANCHOR", |device| {
        let made = device.create_steering_anchor(TableKind::default(), 0);
        made.map(drop)
    }),
    ("DEVX/QUERY_EQN", |device| {
        device.devx()?.event_queue(0).map(drop)
    }),
    ("DEVX_ASYNC_CMD_FD", |device| {
        device.devx()?.query_replies().map(drop)
    }),
    ("DEVX_ASYNC_EVENT_FD", |device| {
        device.devx()?.event_channel(true).map(drop)
    }),
    ("UAR", |device| device.devx()?.uar(false).map(drop)),
    ("PP", |device| {
        device.devx()?.pace(&RateLimit::kbps(1), false).map(drop)
    }),
    ("FLOW_MATCHER", |device| {
        let mask = MatchParameters::new();
        device
            .create_flow_matcher(&MatcherInit::new(&mask))
            .map(drop)
    }),
    ("FLOW_ACTION, headers", |device| {
        let change = HeaderChange::Set {
            field: HeaderField::IP_TTL,
            offset: 0,
            length: 8,
            value: 7,
        };
        device
            .create_header_change(TableKind::default(), &[change])
            .map(drop)
    }),
    ("FLOW_ACTION, reformat", |device| {
        device
            .create_reformat(TableKind::default(), Reformat::OutOfFrameTunnel)
            .map(drop)
    }),
];

#[test]
fn queue_pairs_work_on_a_driver_without_methods() {
    for age in [Profile::v4_9(), Profile::v4_18(), Profile::v5_4()] {
        let kernel = Old::of(age);
        let context = open(&kernel);
        let devx = age.version() >= (4, 19);
        let requests = kernel.requests.lock().unwrap().clone();
        assert_eq!(requests.contains(&false), !devx, "{age:?} {requests:?}");
        assert_eq!(context.mlx5().unwrap().devx().is_ok(), devx, "{age:?}");
        let mut pairs = Vec::new();
        for _ in 0..20 {
            let pd = context.alloc_pd().unwrap();
            let cq = context.create_cq(4).unwrap();
            let builder = pd
                .queue_pair(QpType::Rc, &cq, &cq)
                .path_mtu(Mtu::B1024)
                .max_rd_atomic(0)
                .max_dest_rd_atomic(0);
            let prepared = builder.build().unwrap();
            let endpoint = prepared.endpoint();
            let connected = prepared.handshake(endpoint).map_err(|failed| failed.error);
            let mut qp = owned::QueuePair::new(connected.unwrap());
            let [buffer] = pd.buffers::<1>(16).unwrap();
            qp.send(buffer, 16, 7).unwrap();
            pairs.push((qp, cq, pd));
        }
    }
}

#[test]
fn methods_that_a_driver_lacks_are_unsupported() {
    for age in [Profile::v4_18(), Profile::v5_4()] {
        let context = open(&Old::of(age));
        let device = context.mlx5().unwrap();
        for (name, ask) in METHODS {
            let error = ask(&device).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Unsupported,
                "{name} {age:?}: {error}"
            );
        }
    }
    // Otherwise the refusals could be the library's own.
    let newest = Old::of(Profile::v7_2());
    let context = open(&newest);
    let device = context.mlx5().unwrap();
    device
        .create_flow_matcher(&MatcherInit::new(&MatchParameters::new()))
        .unwrap();
}
