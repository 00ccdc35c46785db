//! Registered memory.

use uverbs_core::hw::Pages;
use uverbs_core::types::AccessFlags;
use uverbs_uapi::mlx5_user_ioctl_cmds::MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID;

use super::*;

#[test]
fn pages_are_registered_whole_and_kept() {
    let (kernel, file) = Scripted::new();
    kernel.answer(MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &0x31_u32.to_ne_bytes());
    let pages = Arc::new(Pages::new(8192).unwrap());
    let memory = Devx::new(&file).register_pages(&pages, AccessFlags::LOCAL_WRITE);
    let memory = memory.unwrap();
    assert_eq!(memory.id(), 0x31);
    let address = native(&pages.address().to_ne_bytes());
    let length = native(&(pages.len() as u64).to_ne_bytes());
    assert_eq!(
        kernel.take_calls(),
        [format!(
            "+2/+0 +0:new +1:in={address} +2:in={length} +3:const=0x1 +4:out4"
        )]
    );
    assert_eq!(Arc::strong_count(&pages), 2);
    let user = memory.parent();
    let refused = memory.deregister().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy, "{refused}");
    drop(user);
    assert_eq!(kernel.take_calls(), [""; 0]);
    refused.handle.unwrap().deregister().unwrap();
    assert_eq!(kernel.take_calls(), ["+2/+1 +0:obj=1"]);
    assert_eq!(Arc::strong_count(&pages), 1);
}

#[test]
fn a_refusal_says_how_much_was_to_be_registered() {
    let (kernel, file) = Scripted::new();
    let pages = Arc::new(Pages::new(8192).unwrap());
    let bytes = format!("bytes {}", pages.len());
    for (errno, hinted) in [(Errno::NOMEM, true), (Errno::INVAL, false)] {
        kernel.accept();
        kernel.refuse("", errno);
        let error = Devx::new(&file)
            .register_pages(&pages, AccessFlags::empty())
            .unwrap_err();
        assert_eq!(error.errno(), Some(errno));
        assert!(error.to_string().contains(&bytes), "{error}");
        let hint = error.known_hint().unwrap_or_default();
        assert_eq!(hint.contains("ulimit -l"), hinted, "{error}");
    }
    assert_eq!(Arc::strong_count(&pages), 1);
}
