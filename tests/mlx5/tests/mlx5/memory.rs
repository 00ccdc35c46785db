//! Device memory, and the null region.

use mlx5_tests::Model;
use uverbs::mlx5::{DeviceMemory, NullRegion};
use uverbs::{AccessFlags, ErrorKind, Operation, Payload, QpType, Remote, SendRequest};
use verbs_tests::{Pair, Registered, next, open, raw};

const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_READ)
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_ATOMIC);

fn allocate(context: &uverbs::Context, length: u64) -> DeviceMemory {
    let adapter = context.mlx5().unwrap();
    adapter.alloc_device_memory(length, 6).unwrap()
}

fn read(memory: &DeviceMemory, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    memory.read(offset, &mut bytes).unwrap();
    bytes
}

#[test]
fn device_memory_is_written_and_read_by_this_side_and_by_peers() {
    let mut pair = Pair::new(QpType::Rc);
    let memory = allocate(&pair.b.context, 8192);
    assert_eq!(memory.length(), 8192);
    // Beyond a registered part, and with unaligned words.
    let bytes: Vec<u8> = (0..100).collect();
    memory.write(4092, &bytes).unwrap();
    assert_eq!(read(&memory, 4092, 100), bytes);
    let pd = &pair.b.pd;
    let region = pd
        .register_device_memory(&memory, 4096, 4096, ACCESS)
        .unwrap();
    assert_eq!((region.address(), region.length()), (0, 4096));
    let here = Registered::local(&pair.a.pd, 4096);
    let remote = |address| Remote {
        address,
        key: region.rkey(),
    };
    let sges = [here.sge(0, 96)];
    let fetch = SendRequest::read(&sges, remote(0)).signaled();
    raw::send(&mut pair.a.qp, &[fetch]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    assert_eq!(here.get(0, 96), bytes[4..]);
    here.fill(|at| u8::try_from(at % 7).unwrap());
    let sges = [here.sge(0, 4096)];
    let write = SendRequest::write(&sges, remote(0)).signaled();
    raw::send(&mut pair.a.qp, &[write]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    assert_eq!(read(&memory, 4096, 4096), here.all());
    assert_eq!(read(&memory, 4092, 4), bytes[..4]);
    // Local scatter/gather entries in it: sent from one device memory.
    let sges = [region.sge(16, 64).unwrap()];
    let to = Registered::local(&pair.a.pd, 64);
    raw::recv(&mut pair.a.qp, 1, &[to.sge(0, 64)]).unwrap();
    raw::send(&mut pair.b.qp, &[SendRequest::send(&sges).signaled()]).unwrap();
    assert!(next(&mut pair.b.cq).is_success() && next(&mut pair.a.cq).is_success());
    assert_eq!(to.all(), here.get(16, 64));
}

#[test]
fn atomics_change_device_memory() {
    let mut pair = Pair::new(QpType::Rc);
    let memory = allocate(&pair.b.context, 64);
    memory.write(8, &41_u64.to_ne_bytes()).unwrap();
    let pd = &pair.b.pd;
    let region = pd.register_device_memory(&memory, 0, 64, ACCESS).unwrap();
    let here = Registered::local(&pair.a.pd, 8);
    let remote = Remote {
        address: 8,
        key: region.rkey(),
    };
    let sges = [here.sge(0, 8)];
    let operation = Operation::FetchAdd { remote, add: 1 };
    let request = SendRequest::new(operation, Payload::Gather(&sges)).signaled();
    raw::send(&mut pair.a.qp, &[request]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    assert_eq!(here.word(0), 41);
    assert_eq!(read(&memory, 8, 8), 42_u64.to_ne_bytes());
}

#[test]
fn device_memory_outlives_its_handle_and_comes_back() {
    let mut model = Model::open();
    let context = open();
    let census = model.ask("census 0");
    let pd = context.alloc_pd().unwrap();
    let memory = allocate(&context, 4096);
    let region = pd.register_device_memory(&memory, 0, 4096, ACCESS).unwrap();
    let error = memory.free().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    region.deregister().unwrap();
    drop(pd);
    assert_eq!(model.ask("census 0"), census);
    allocate(&context, 64).free().unwrap();
    assert_eq!(model.ask("census 0"), census);
    assert_eq!(context.leaked(), 0);
}

#[test]
fn impossible_device_memory_is_refused() {
    let (context, other) = (open(), open());
    let adapter = context.mlx5().unwrap();
    let most = context.device_attr().max_dm_size;
    assert_ne!(most, 0);
    for (length, kind) in [
        (0, ErrorKind::InvalidInput),
        (most + 64, ErrorKind::LimitExceeded),
        (u64::MAX, ErrorKind::LimitExceeded),
    ] {
        let error = adapter.alloc_device_memory(length, 6).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
    let error = adapter.alloc_device_memory(64, 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let memory = allocate(&context, 128);
    for (offset, length) in [(2, 4), (0, 6), (128, 4), (u64::MAX - 3, 4)] {
        let error = memory.write(offset, &vec![0; length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let error = memory.read(offset, &mut vec![0; length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    memory.write(128, &[]).unwrap();
    let pd = other.alloc_pd().unwrap();
    let error = pd.register_device_memory(&memory, 0, 64, ACCESS);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
    let pd = context.alloc_pd().unwrap();
    let error = pd.register_device_memory(&memory, 64, 128, ACCESS);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
    // The software ConnectX supports no operations on its memory.
    let error = memory.map_operation(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    match memory.query() {
        Ok(info) => assert_eq!((info.length, info.start), (128, 0)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_null_region_discards_writes_and_reads_as_zeros() {
    let mut pair = Pair::new(QpType::Rc);
    let null: NullRegion = pair.a.pd.null_region().unwrap();
    let there = Registered::remote_all(&pair.b.pd, 256);
    there.fill(|at| u8::try_from(at).unwrap());
    let here = Registered::local(&pair.a.pd, 256);
    // The first 100 bytes of a read are discarded.
    let sges = [null.sge(100), here.sge(0, 156)];
    let fetch = SendRequest::read(&sges, there.remote(0)).signaled();
    raw::send(&mut pair.a.qp, &[fetch]).unwrap();
    assert!(next(&mut pair.a.cq).is_success());
    assert_eq!(here.get(0, 156), there.get(100, 156));
    // So is the middle of a message; the rest of the gap is filled with zeros.
    let sges = [here.sge(0, 8), null.sge(8), here.sge(8, 8)];
    raw::recv(
        &mut pair.a.qp,
        1,
        &[here.sge(200, 4), null.sge(12), here.sge(204, 8)],
    )
    .unwrap();
    raw::recv(&mut pair.b.qp, 2, &[there.sge(0, 24)]).unwrap();
    raw::send(&mut pair.a.qp, &[SendRequest::send(&sges).signaled()]).unwrap();
    assert!(next(&mut pair.a.cq).is_success() && next(&mut pair.b.cq).is_success());
    assert_eq!(there.get(0, 8), here.get(0, 8));
    assert_eq!(there.get(8, 8), [0; 8]);
    assert_eq!(there.get(16, 8), here.get(8, 8));
    let sges = [there.sge(0, 24)];
    raw::send(&mut pair.b.qp, &[SendRequest::send(&sges).signaled()]).unwrap();
    assert!(next(&mut pair.b.cq).is_success() && next(&mut pair.a.cq).is_success());
    assert_eq!(here.get(200, 4), there.get(0, 4));
    assert_eq!(here.get(204, 8), there.get(16, 8));
}
