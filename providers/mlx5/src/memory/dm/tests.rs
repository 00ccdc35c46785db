//! Tests of device memory.

#![allow(clippy::unwrap_used, reason = "tests")]

use uverbs_uapi::ib_user_ioctl_cmds::{
    UVERBS_ATTR_REG_DM_MR_RESP_LKEY, UVERBS_ATTR_REG_DM_MR_RESP_RKEY,
};

use super::*;
use crate::tests::native;
use crate::tests::scripted::Scripted;

/// 100 bytes at 64 of page 5.
fn hundred() -> (Arc<Scripted>, Context, DeviceMemory) {
    let (kernel, context) = Scripted::context(4096);
    kernel.answer(
        MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET,
        &64_u64.to_ne_bytes(),
    );
    kernel.answer(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, &5_u16.to_ne_bytes());
    let memory = DeviceMemory::alloc(&context, 100, 3).unwrap();
    (kernel, context, memory)
}

#[test]
fn memory_is_where_the_kernel_says() {
    let (kernel, _context, memory) = hundred();
    let [alloc, map]: [String; 2] = kernel.take_calls().try_into().unwrap();
    let length = format!("in={}", native(&100_u64.to_ne_bytes()));
    assert!(alloc.contains(&length), "{alloc}");
    let offset = mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, 5);
    assert_eq!(map, format!("map {offset:#x} {}", page_size()));
    assert_eq!(
        (memory.address().unwrap() % 4096, memory.length()),
        (64, 100)
    );
    memory.free().unwrap();
    assert_eq!(kernel.take_calls().len(), 1);
}

#[test]
fn words_inside_it_are_written_and_read() {
    let (_kernel, _context, memory) = hundred();
    memory.write(92, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    let mut read = [9; 12];
    memory.read(88, &mut read).unwrap();
    assert_eq!(read, [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    for (offset, length) in [(96, 8), (2, 4), (0, 6), (100, 4), (u64::MAX - 3, 4)] {
        for error in [
            memory.write(offset, &[0; 8][..length]).unwrap_err(),
            memory.read(offset, &mut read[..length]).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{offset} {length}");
        }
    }
    memory.read(88, &mut read).unwrap();
    assert_eq!(read[4..], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(memory.write(100, &[]).ok(), Some(()));
}

#[test]
fn what_cannot_be_allocated_is_refused() {
    let (kernel, context) = Scripted::context(4096);
    let refused = |length| DeviceMemory::alloc(&context, length, 0).unwrap_err().kind();
    assert_eq!(refused(0), ErrorKind::InvalidInput);
    assert_eq!(refused(4097), ErrorKind::LimitExceeded);
    let (_, without) = Scripted::context(0);
    let error = DeviceMemory::alloc(&without, 64, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(kernel.take_calls(), [""; 0]);
    // At the end of the page that is mapped.
    kernel.answer(
        MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET,
        &(page_size() as u64).to_ne_bytes(),
    );
    assert_eq!(refused(64), ErrorKind::BadReply);
    assert_eq!(kernel.take_calls().len(), 3, "it is freed again");
}

#[test]
fn a_region_of_device_memory_is_zero_based_and_keeps_it_allocated() {
    let (kernel, context, memory) = hundred();
    let pd = kernel.pd(&context);
    kernel.answer(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, &11_u32.to_ne_bytes());
    kernel.answer(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, &12_u32.to_ne_bytes());
    kernel.take_calls();
    let access = AccessFlags::LOCAL_WRITE;
    let region = memory.register(&context, &pd, 4, 8, access).unwrap();
    let keys = (region.lkey.raw(), region.rkey.raw());
    assert_eq!(keys, (11, 12));
    let [call]: [String; 1] = kernel.take_calls().try_into().unwrap();
    let access = access | AccessFlags::ZERO_BASED;
    assert!(
        call.contains(&format!("const={:#x}", access.bits())),
        "{call}"
    );
    let error = memory.free().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(region);
}

#[test]
fn operations_have_a_word_each() {
    let (kernel, _context, memory) = hundred();
    kernel.answer(
        MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET,
        &8_u64.to_ne_bytes(),
    );
    kernel.answer(
        MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_PAGE_INDEX,
        &6_u16.to_ne_bytes(),
    );
    kernel.take_calls();
    let word = memory.map_operation(3).unwrap();
    let [asked, map]: [String; 2] = kernel.take_calls().try_into().unwrap();
    assert!(asked.contains("in=03"), "{asked}");
    assert!(map.contains(&format!("{:#x}", mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, 6))));
    word.apply(7).unwrap();
    let mut stored = [0; 4];
    word.window.load(0, &mut stored).unwrap();
    assert_eq!(u32::from_ne_bytes(stored), 7);
    let error = memory.free().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

/// Has the kernel say of any memory that it is 100 bytes at 64 of page 5.
fn answer_query(kernel: &Scripted) {
    let offset = MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET;
    kernel.answer(offset, &64_u64.to_ne_bytes());
    kernel.answer(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, &5_u16.to_ne_bytes());
    kernel.answer(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, &100_u64.to_ne_bytes());
}

#[test]
fn its_place_can_be_queried() {
    let (kernel, _context, memory) = hundred();
    answer_query(&kernel);
    let info = DeviceMemoryInfo {
        start: 64,
        page: 5,
        length: 100,
    };
    assert_eq!(memory.query().unwrap(), info);
}

#[test]
fn imported_memory_is_used_and_not_freed() {
    let (kernel, context) = Scripted::context(4096);
    answer_query(&kernel);
    kernel.take_calls();
    let memory = DeviceMemory::import(&context, 77).unwrap();
    let [asked, map]: [String; 2] = kernel.take_calls().try_into().unwrap();
    assert!(asked.contains("obj=77"), "{asked}");
    let offset = mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, 5);
    assert_eq!(map, format!("map {offset:#x} {}", page_size()));
    assert_eq!(
        (memory.address().unwrap() % 4096, memory.length()),
        (64, 100)
    );
    memory.write(96, &[1; 4]).unwrap();
    assert!(memory.write(100, &[1; 4]).is_err());
    drop(memory);
    assert_eq!(kernel.take_calls(), [""; 0]);
    // A place that does not fit its page.
    let beyond = (page_size() as u64).to_ne_bytes();
    kernel.answer(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, &beyond);
    let error = DeviceMemory::import(&context, 77).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadReply);
}

#[test]
fn memory_for_steering_has_an_address_on_the_device_only() {
    // A device without general memory may have it.
    let (kernel, context) = Scripted::context(0);
    let at = 0x1234_5678_9abc_u64;
    kernel.answer(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, &at.to_ne_bytes());
    let kinds = [
        (SteeringMemory::Entries, 1),
        (SteeringMemory::HeaderChanges, 2),
        (SteeringMemory::HeaderPatterns, 3),
        (SteeringMemory::Encapsulations, 4),
    ];
    for (kind, number) in kinds {
        let memory = DeviceMemory::alloc_steering(&context, kind, 4096, 12).unwrap();
        let [alloc]: [String; 1] = kernel.take_calls().try_into().unwrap();
        assert!(alloc.contains(&format!("const={number:#x}")), "{alloc}");
        assert_eq!(memory.device_address(), Some(at));
        assert_eq!((memory.address(), memory.length()), (None, 4096));
        let refused = [
            memory.export().unwrap_err(),
            memory.write(0, &[0; 4]).unwrap_err(),
            memory.read(0, &mut [0; 4]).unwrap_err(),
            memory.map_operation(0).unwrap_err(),
        ];
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        assert_eq!(kernel.take_calls(), [""; 0]);
        memory.free().unwrap();
        assert_eq!(kernel.take_calls().len(), 1);
    }
    let error = DeviceMemory::alloc_steering(&context, SteeringMemory::Entries, 0, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert_eq!(kernel.take_calls(), [""; 0]);
}

#[test]
fn a_word_that_is_left_mapped_does_not_keep_the_memory() {
    let (kernel, _context, memory) = hundred();
    let offset = MLX5_IB_ATTR_DM_MAP_OP_ADDR_RESP_START_OFFSET;
    kernel.answer(offset, &8_u64.to_ne_bytes());
    let word = memory.map_operation(1).unwrap();
    let address = word.leak();
    assert_eq!(address % page_size() as u64, 8);
    memory.free().unwrap();
}

#[test]
fn it_is_exported_from_where_the_kernel_maps_it() {
    let (kernel, _context, memory) = hundred();
    kernel.take_calls();
    memory.export().unwrap();
    let [export]: [String; 1] = kernel.take_calls().try_into().unwrap();
    let offset = mmap::offset(MLX5_IB_MMAP_DEVICE_MEM, 5).to_ne_bytes();
    assert!(
        export.contains(&format!("in={}", native(&offset))),
        "{export}"
    );
}
