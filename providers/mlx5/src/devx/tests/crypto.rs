//! Encryption, and mappings of addresses: what the firmware is asked for.

use std::sync::Arc;

use uverbs_core::ErrorKind;
use uverbs_core::types::Address;
use uverbs_uapi::mlx5_user_ioctl_cmds::{
    MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
    MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
};

use super::*;
use crate::context::{Context, ProtectionDomain};
use crate::prm::{CAP_REPLY_LEN, field, word};

/// Bits of the words at these places of the capabilities. The script answers all queries alike.
fn answer(kernel: &Scripted, words: &[(usize, u32)]) {
    let mut caps = Mailbox::new(CAP_REPLY_LEN);
    for &(at, bits) in words {
        caps.set(word(0x10 + at), bits);
    }
    kernel.answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, caps.as_bytes());
}

/// Encryption of several blocks, logins and keys; 2⁵ keys, and a test that failed.
const EVERYTHING: [(usize, u32); 6] = [
    (0x00, 1 << 31 | 1 << 2),
    (0x04, 5 << 16),
    (0x08, 0x0102 << 16),
    (0x7c, 1 << 13),
    (0x84, 1 << 0x1f | 1 << 0x0c),
    (0x8c, 1 << 22),
];

fn created(kernel: &Scripted, number: u32) {
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &reply(0, 0, number));
}

#[test]
fn what_a_device_offers_is_read_from_two_groups() {
    let (kernel, file) = Scripted::new();
    answer(&kernel, &EVERYTHING);
    let caps = Devx::new(&file).crypto_caps().unwrap();
    assert!(caps.crypto && caps.single_block && caps.multi_block);
    assert!(caps.operational && !caps.commissioning && caps.wrapped_import);
    assert_eq!((caps.log_max_keys, caps.failed_selftests), (5, 0x0102));
    answer(&kernel, &[(0x7c, 1 << 14), (0x00, u32::MAX)]);
    let caps = Devx::new(&file).crypto_caps().unwrap();
    assert!(caps.single_block && !caps.multi_block);
    assert!(!caps.crypto && !caps.operational, "it has no such group");
}

#[test]
fn a_login_names_its_credential() {
    let (kernel, file) = Scripted::new();
    answer(&kernel, &EVERYTHING);
    created(&kernel, 0x77);
    let devx = Devx::new(&file);
    let login = devx.crypto_login(0x00ab_cdef, 0x12, &[9; 40]).unwrap();
    let bytes = sent(&kernel, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
    let mut expected = vec![0; 0x110];
    expected[..2].copy_from_slice(&[0x0a, 0]);
    expected[7] = 0x1f;
    expected[0x21..0x24].copy_from_slice(&[0xab, 0xcd, 0xef]);
    expected[0x27] = 0x12;
    expected[0x50..0x78].fill(9);
    assert!(bytes.contains(&expected));
    for (nibble, valid) in [(0, Some(true)), (1, Some(false)), (2, None)] {
        let mut state = Mailbox::new(0x110);
        state.set(field(0x20, 27, 24), nibble);
        kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, state.as_bytes());
        match (login.is_valid(), valid) {
            (Ok(got), Some(valid)) => assert_eq!(got, valid),
            (Err(error), None) => assert_eq!(error.kind(), ErrorKind::BadReply),
            other => panic!("{other:?}"),
        }
    }
    login.destroy().unwrap();
    for (credential, import_key, secret) in [(1 << 24, 0, 1), (0, 1 << 24, 1), (0, 0, 49)] {
        let refused = devx.crypto_login(credential, import_key, &vec![1; secret]);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_key_is_imported_as_the_device_wants_it() {
    let (kernel, context) = Scripted::context(0);
    let pd = kernel.pd(&context);
    let devx = Devx::new(context.file());
    answer(&kernel, &EVERYTHING);
    created(&kernel, 0x0100_0005);
    let login = devx.crypto_login(1, 2, b"secret").unwrap();
    let mut init = DataKeyInit::new(DataKeySize::Bits256, [3; 128]);
    let refused = devx
        .data_key((pd.object(), pd.number()), &init)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "not wrapped");
    (init.has_tag, init.opaque, init.login) = (true, [7; 8], Some(&login));
    assert!(!format!("{init:?}").contains('3'), "keys are not printed");
    kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
    let key = devx.data_key((pd.object(), pd.number()), &init).unwrap();
    assert_eq!(key.number(), 0x0100_0005);
    let bytes = sent(&kernel, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
    let mut expected = vec![0; 0x110];
    expected[..2].copy_from_slice(&[0x0a, 0]);
    expected[7] = 0x0c;
    expected[0x1a] = 1;
    expected[0x1b] = 0x83;
    expected[0x1d..0x20].copy_from_slice(&pd.number().to_be_bytes()[1..]);
    expected[0x40..0x48].fill(7);
    expected[0x50..0xd0].fill(3);
    assert!(bytes.contains(&expected));
    let mut state = Mailbox::new(0x110);
    state.as_mut_bytes()[0x40..0x48].fill(7);
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, state.as_bytes());
    let info = key.query().unwrap();
    assert!(info.is_ready && info.opaque == [7; 8]);
    state.set(field(0x18, 31, 24), 1);
    kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, state.as_bytes());
    assert!(!key.query().unwrap().is_ready);
    // The login stays while the key does.
    let refused = login.destroy().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy);
    let login = *refused.handle.unwrap();
    key.destroy().unwrap();
    login.destroy().unwrap();
}

#[test]
fn what_a_device_lacks_is_not_asked_for() {
    let (kernel, context) = Scripted::context(0);
    let pd = kernel.pd(&context);
    let devx = Devx::new(context.file());
    let init = DataKeyInit::new(DataKeySize::Bits128, [3; 128]);
    let address = Address::new(context.file(), None, 0, [0; 88]);
    // Nothing; and encryption, but no such objects.
    for caps in [
        &[][..],
        &[(0x7c, 1 << 14), (0x8c, 1 << 22), (0x00, 1 << 31)],
    ] {
        answer(&kernel, caps);
        let kinds = [
            devx.crypto_login(1, 2, b"secret").err(),
            devx.map_address(&address, 5).err(),
        ];
        for error in kinds {
            assert_eq!(error.unwrap().kind(), ErrorKind::Unsupported);
        }
    }
    let error = devx
        .data_key((pd.object(), pd.number()), &init)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        sent(&kernel, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN),
        [[0_u8; 0]; 0]
    );
}

#[test]
fn an_address_with_a_route_is_mapped() {
    let (kernel, file) = Scripted::new();
    let devx = Devx::new(&file);
    answer(&kernel, &[(0x80, 1 << (0x3a - 32))]);
    created(&kernel, 1);
    let mut vector = [0; 88];
    vector[12] = 0x35;
    vector[28..32].copy_from_slice(&(1_u32 << 30 | 0xab << 20).to_be_bytes());
    let local = Address::new(&file, None, 0, vector);
    let error = devx.map_address(&local, 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "without a GID");
    vector[32..48].fill(0xfe);
    let global = Address::new(&file, None, 0, vector);
    let mapped = devx.map_address(&global, 0x1234).unwrap();
    let bytes = sent(&kernel, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
    let mut expected = vec![0; 0x50];
    expected[..2].copy_from_slice(&[0x0a, 0]);
    expected[7] = 0x3a;
    expected[0x1e..0x20].copy_from_slice(&[0x12, 0x34]);
    expected[0x2c] = 5;
    expected[0x3c..0x3e].copy_from_slice(&[0x0a, 0xb0]);
    expected[0x40..].fill(0xfe);
    assert!(bytes.contains(&expected), "{bytes:x?}");
    // The address is the device's own from here on.
    kernel.take_calls();
    drop(global);
    assert_eq!(kernel.take_calls(), [""; 0]);
    mapped.destroy().unwrap();
    assert_eq!(kernel.take_calls().len(), 1);
}

fn wrapped(login: &CryptoLogin) -> DataKeyInit<'_> {
    DataKeyInit {
        login: Some(login),
        ..DataKeyInit::new(DataKeySize::Bits128, [3; 128])
    }
}

#[test]
fn nothing_of_another_context_makes_a_key() {
    let [(kernel, context), (other_kernel, other)] = [(); 2].map(|()| Scripted::context(0));
    for kernel in [&kernel, &other_kernel] {
        answer(kernel, &EVERYTHING);
        created(kernel, 0x11);
    }
    let [pd, other_pd] = [(&kernel, &context), (&other_kernel, &other)].map(|(kernel, context)| {
        let pd = kernel.pd(context);
        created(kernel, 0x11);
        pd
    });
    let devx = Devx::new(context.file());
    let login = devx.crypto_login(1, 2, b"secret").unwrap();
    let foreign = Devx::new(other.file())
        .crypto_login(1, 2, b"secret")
        .unwrap();
    sent(&kernel, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
    for (pd, login) in [(&other_pd, &login), (&pd, &foreign), (&other_pd, &foreign)] {
        let refused = devx.data_key((pd.object(), pd.number()), &wrapped(login));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert!(sent(&kernel, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN).is_empty());
    devx.data_key((pd.object(), pd.number()), &wrapped(&login))
        .unwrap();
}

fn logged_in() -> (Arc<Scripted>, Context, ProtectionDomain, CryptoLogin) {
    let (kernel, context) = Scripted::context(0);
    let pd = kernel.pd(&context);
    answer(&kernel, &EVERYTHING);
    created(&kernel, 0x11);
    let login = Devx::new(context.file())
        .crypto_login(1, 2, b"secret")
        .unwrap();
    (kernel, context, pd, login)
}

#[test]
fn a_login_and_a_domain_end_after_their_keys_in_whatever_order_they_are_dropped() {
    let (kernel, context, pd, login) = logged_in();
    let devx = Devx::new(context.file());
    let keys = [(); 2].map(|()| {
        devx.data_key((pd.object(), pd.number()), &wrapped(&login))
            .unwrap()
    });
    kernel.take_calls();
    drop((login, pd, devx));
    assert_eq!(kernel.take_calls(), [""; 0], "the keys are there");
    let [first, second] = keys;
    drop(first);
    assert_eq!(kernel.take_calls().len(), 1);
    drop(second);
    assert_eq!(kernel.take_calls().len(), 3, "the key, domain and login");
}

#[test]
fn a_forgotten_key_keeps_its_login() {
    let (kernel, context, pd, login) = logged_in();
    let devx = Devx::new(context.file());
    let key = devx
        .data_key((pd.object(), pd.number()), &wrapped(&login))
        .unwrap();
    #[expect(clippy::mem_forget, reason = "programs may")]
    std::mem::forget(key);
    let refused = login.destroy().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy);
    kernel.take_calls();
    drop((refused, pd));
    assert_eq!(kernel.take_calls(), [""; 0], "the device may use them");
}

#[test]
fn a_key_that_the_kernel_does_not_destroy_is_returned_and_keeps_its_login() {
    let (kernel, context, pd, login) = logged_in();
    let devx = Devx::new(context.file());
    let key = devx
        .data_key((pd.object(), pd.number()), &wrapped(&login))
        .unwrap();
    kernel.refuse("", Errno::BUSY);
    let refused = key.destroy().unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Busy);
    assert_eq!(login.destroy().unwrap_err().error.kind(), ErrorKind::Busy);
    let leaked = context.file().leaked();
    drop(refused);
    assert_eq!(context.file().leaked(), leaked + 1);
}
