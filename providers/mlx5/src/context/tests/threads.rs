//! Thread domains.

use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
};

use super::*;

/// A context whose pages of registers have number 9.
fn context() -> (Arc<Scripted>, Context) {
    let (kernel, context) = Scripted::context_with(|replies| replies.opened.bf_reg_size = 512);
    let answers = [
        (MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4096_u32),
        (MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 9),
    ];
    for (id, number) in answers {
        kernel.answer(id, &number.to_ne_bytes());
    }
    (kernel, context)
}

#[test]
fn a_thread_domain_has_a_page_that_is_freed_with_it() {
    let (kernel, context) = context();
    let thread = ThreadDomain::alloc(&context).unwrap();
    let [alloc, map]: [String; 2] = kernel.take_calls().try_into().unwrap();
    assert!(alloc.contains(":const=0x0"), "copies are possible: {alloc}");
    assert!(map.ends_with(" 4096"), "{map}");
    let clone = thread.clone();
    let error = clone.dealloc().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(error.op(), Op::FreeUar);
    assert!(error.to_string().contains("users 1"), "{error}");
    assert_eq!(kernel.take_calls(), [""; 0]);
    thread.dealloc().unwrap();
    assert_eq!(kernel.take_calls().len(), 1);
}

#[test]
fn doorbells_of_a_thread_copy_through_its_page_and_keep_it() {
    let (kernel, context) = context();
    let thread = ThreadDomain::alloc(&context).unwrap();
    kernel.take_calls();
    let [one, other] = [thread.doorbell(), thread.doorbell()];
    assert_eq!((one.qp_index(), one.blue_flame_blocks()), (9, 4));
    assert_eq!(one.address(), other.address());
    assert_eq!(one.address() % 4096, 0x800 + 512, "the second is rung");
    assert!(one.object().is_some());
    let error = thread.dealloc().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("users 2"), "{error}");
    drop(one);
    assert_eq!(kernel.take_calls(), [""; 0], "the other one is left");
    drop(other);
    assert_eq!(kernel.take_calls().len(), 1);
}

#[test]
fn a_thread_domain_belongs_to_one_context() {
    let ((_, own), (_, other)) = (context(), context());
    let thread = ThreadDomain::alloc(&own).unwrap();
    assert!(thread.is_of(own.file()));
    assert!(!thread.is_of(other.file()));
}

#[test]
fn without_a_page_there_is_no_thread_domain() {
    let (kernel, context) = context();
    kernel.refuse("", Errno::NOMEM);
    let error = ThreadDomain::alloc(&context).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NOMEM), "{error}");
}
