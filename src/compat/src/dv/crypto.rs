//! Encryption: logins, and keys that data is encrypted with.
//!
//! # Safety
//!
//! Exports names of the library that this one stands for.
#![allow(unsafe_code, reason = "exports names")]

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uverbs_mlx5::devx::{CryptoCaps, CryptoLogin, DataKey, DataKeyInit, DataKeySize, Devx};

use super::abi::{
    mlx5dv_crypto_caps, mlx5dv_crypto_login_attr, mlx5dv_crypto_login_attr_ex,
    mlx5dv_crypto_login_obj, mlx5dv_crypto_login_query_attr, mlx5dv_dek, mlx5dv_dek_attr,
    mlx5dv_dek_init_attr,
};
use super::devx::firmware;
use super::held::Held;
use crate::answer::{Answer, number, pointer};
use crate::context::Context;
use crate::errno::Code;
use crate::pd::Pd;
use crate::pointer::{Handle, In, Out, items};

/// A login, and a key, of which C knows the address only.
type Login = Held<mlx5dv_crypto_login_obj, CryptoLogin>;
pub(super) type Key = Held<mlx5dv_dek, DataKey>;

/// The login of a device for everybody who names none.
#[derive(Default)]
pub(crate) struct OwnLogin(Mutex<Option<CryptoLogin>>);

impl OwnLogin {
    fn lock(&self) -> MutexGuard<'_, Option<CryptoLogin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `MLX5DV_CRYPTO_ENGINES_CAP_…` and `MLX5DV_CRYPTO_CAPS_…`.
mod cap {
    pub(super) const SINGLE_BLOCK: u32 = 1 << 1;
    pub(super) const MULTI_BLOCK: u32 = 1 << 2;
    pub(super) const CRYPTO: u32 = 1;
    pub(super) const OPERATIONAL: u32 = 1 << 1;
    pub(super) const COMMISSIONING: u32 = 1 << 2;
}

/// What the device offers, as C knows it; nothing, if the firmware does not answer.
pub(super) fn caps(context: &Context) -> mlx5dv_crypto_caps {
    let caps = Devx::new(context.file()).crypto_caps();
    let caps: CryptoCaps = caps.unwrap_or_default();
    let engines = [
        (caps.single_block, cap::SINGLE_BLOCK),
        (caps.multi_block, cap::MULTI_BLOCK),
    ];
    let flags = [
        (caps.crypto, cap::CRYPTO),
        (caps.operational, cap::OPERATIONAL),
        (caps.commissioning, cap::COMMISSIONING),
    ];
    let set = |bits: u32, (has, bit): (bool, u32)| if has { bits | bit } else { bits };
    mlx5dv_crypto_caps {
        failed_selftests: caps.failed_selftests,
        crypto_engines: engines.into_iter().fold(0, set).to_le_bytes()[0],
        wrapped_import_method: caps.wrapped_import.into(),
        log_max_num_deks: caps.log_max_keys,
        flags: flags.into_iter().fold(0, set),
    }
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_crypto_login_create(
    context: Handle<Context>,
    attr: In<mlx5dv_crypto_login_attr_ex>,
) -> *mut mlx5dv_crypto_login_obj {
    pointer(|| {
        let (devx, attr) = (firmware(context)?, attr.get()?);
        if attr.comp_mask != 0 {
            return Err(Code::INVALID);
        }
        let credential = items(attr.credential.cast::<u8>(), attr.credential_len)?;
        let made = devx.crypto_login(attr.credential_id, attr.import_kek_id, credential)?;
        Login::give(context, mlx5dv_crypto_login_obj::default(), made)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_crypto_login_query(
    login: Handle<Login>,
    into: Out<mlx5dv_crypto_login_query_attr>,
) -> c_int {
    number(|| {
        let (login, into) = (login.get()?, into.get()?);
        if into.comp_mask != 0 {
            return Err(Code::INVALID);
        }
        into.state = login.with(state)?;
        Ok(())
    })
}

/// `enum mlx5dv_crypto_login_state`.
const VALID: u32 = 0;
const NO_LOGIN: u32 = 1;
const INVALID: u32 = 2;

fn state(login: &CryptoLogin) -> Answer<u32> {
    Ok(if login.is_valid()? { VALID } else { INVALID })
}

/// Refused (EBUSY) while keys that were imported by it exist.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_crypto_login_destroy(login: Handle<Login>) -> c_int {
    number(|| login.get()?.end(CryptoLogin::destroy))
}

/// Refused (EEXIST) while there is a login of this kind.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_crypto_login(
    context: Handle<Context>,
    attr: In<mlx5dv_crypto_login_attr>,
) -> c_int {
    number(|| {
        let (opened, devx, attr) = (context.get()?, firmware(context)?, attr.get()?);
        if attr.comp_mask != 0 {
            return Err(Code::INVALID);
        }
        let mut login = opened.login.lock();
        if login.is_some() {
            return Err(Code::new(libc::EEXIST));
        }
        let (id, by) = (attr.credential_id, attr.import_kek_id);
        *login = Some(devx.crypto_login(id, by, &attr.credential)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_crypto_login_query_state(context: Handle<Context>, into: Out<u32>) -> c_int {
    number(|| {
        let opened = context.get()?;
        firmware(context)?;
        let login = opened.login.lock();
        into.put(login.as_ref().map_or(Ok(NO_LOGIN), state)?)
    })
}

/// ENOENT: nobody is logged in. EBUSY: keys that were imported by the login exist.
#[unsafe(no_mangle)]
extern "C" fn mlx5dv_crypto_logout(context: Handle<Context>) -> c_int {
    number(|| {
        let opened = context.get()?;
        firmware(context)?;
        let mut login = opened.login.lock();
        let Err(refused) = login.take().ok_or(Code::NO_ENTRY)?.destroy() else {
            return Ok(());
        };
        *login = refused.handle.map(|login| *login);
        Err(refused.error.into())
    })
}

/// `MLX5DV_DEK_INIT_ATTR_CRYPTO_LOGIN`: the login is named; NULL for a key as it is.
const NAMES_LOGIN: u64 = 1;

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_dek_create(
    context: Handle<Context>,
    attr: In<mlx5dv_dek_init_attr>,
) -> *mut mlx5dv_dek {
    pointer(|| {
        let (opened, devx, attr) = (context.get()?, firmware(context)?, attr.get()?);
        // Before anything else that is wrong.
        if !devx.crypto_caps()?.single_block {
            return Err(Code::UNSUPPORTED);
        }
        let size = match attr.key_size {
            0 => DataKeySize::Bits128,
            1 => DataKeySize::Bits256,
            _ => return Err(Code::INVALID),
        };
        // The only purpose is AES-XTS.
        if attr.key_purpose != 0 || attr.comp_mask & !NAMES_LOGIN != 0 {
            return Err(Code::INVALID);
        }
        let domain = Handle::<Pd>::of(attr.pd).get()?.domain()?;
        let domain: Option<&uverbs_mlx5::ProtectionDomain> = domain.of();
        let domain = domain.ok_or(Code::UNSUPPORTED)?;
        let domain = (domain.object(), domain.number());
        let mut init = DataKeyInit::new(size, attr.key);
        init.has_tag = attr.has_keytag != 0;
        init.opaque = attr.opaque;
        let made = if attr.comp_mask & NAMES_LOGIN == 0 {
            let login = opened.login.lock();
            init.login = Some(login.as_ref().ok_or(Code::INVALID)?);
            devx.data_key(domain, &init)?
        } else if attr.crypto_login.is_null() {
            devx.data_key(domain, &init)?
        } else {
            let login = Handle::<Login>::of(attr.crypto_login).get()?;
            login.with(|login| {
                let mut init = init.clone();
                init.login = Some(login);
                Ok(devx.data_key(domain, &init)?)
            })?
        };
        Key::give(context, mlx5dv_dek::default(), made)
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_dek_query(key: Handle<Key>, into: Out<mlx5dv_dek_attr>) -> c_int {
    number(|| {
        let (own, into) = (key.get()?, into.get()?);
        if into.comp_mask != 0 {
            return Err(Code::INVALID);
        }
        let found = own.with(|key| Ok(key.query()?))?;
        // `MLX5DV_DEK_STATE_READY`, `…_ERROR`
        into.state = u32::from(!found.is_ready);
        into.opaque = found.opaque;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn mlx5dv_dek_destroy(key: Handle<Key>) -> c_int {
    number(|| key.get()?.end(DataKey::destroy))
}
