//! Encryption: what the device offers, logins by credentials, and keys that data is encrypted with.

use std::fmt;
use std::sync::Arc;

use uverbs_core::{DestroyError, Error, ErrorKind, Object, Op, Result};

use super::{Devx, DevxObject};
use crate::prm::{Field, Mailbox, bit, field, opcode};

/// The group of capabilities for encryption, and the general one.
const CRYPTO: u16 = 0x1a;
const GENERAL: u16 = 0;

/// A field of a group of capabilities, in the reply.
const fn cap(field: Field) -> Field {
    field.at(0x10)
}

// Of the general group.
const HAS_CRYPTO: Field = cap(bit(0x8c, 22));
const SINGLE_BLOCK: Field = cap(bit(0x7c, 14));
const MULTI_BLOCK: Field = cap(bit(0x7c, 13));
// Of the group for encryption.
const OPERATIONAL: Field = cap(bit(0x00, 31));
const COMMISSIONING: Field = cap(bit(0x00, 30));
const IMPORT_BY_AES: Field = cap(bit(0x00, 2));
const LOG_KEYS: Field = cap(field(0x04, 20, 16));
const FAILED_TESTS: Field = cap(field(0x08, 31, 16));

/// A general object's type; the object itself begins behind the header.
const OBJECT_TYPE: Field = field(0x04, 15, 0);
const OBJECT_ID: Field = field(0x08, 31, 0);
const HEADER: usize = 0x10;
const LENGTH: usize = HEADER + 0x100;

// Of a login.
const LOGIN_STATE: Field = field(0x20, 27, 24);
const CREDENTIAL_ID: Field = field(0x20, 23, 0);
const IMPORT_KEY: Field = field(0x24, 23, 0);
const CREDENTIAL: usize = HEADER + 0x40;

// Of a key.
const KEY_STATE: Field = field(0x18, 31, 24);
const KEY_SIZE: Field = field(0x18, 11, 8);
const HAS_TAG: Field = bit(0x18, 7);
const KEY_PURPOSE: Field = field(0x18, 3, 0);
const KEY_DOMAIN: Field = field(0x1c, 23, 0);
const OPAQUE: usize = HEADER + 0x30;
const KEY: usize = HEADER + 0x40;
/// The purpose: AES-XTS.
const AES_XTS: u32 = 3;

/// Numbers of credentials and of keys that import others have 24 bits.
const IDS: u32 = 0xff_ffff;

/// What a device offers for encryption.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the device's capabilities are single bits"
)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CryptoCaps {
    /// It can encrypt at all.
    pub crypto: bool,
    /// It encrypts messages of one block by AES-XTS.
    pub single_block: bool,
    /// It encrypts messages of several blocks by AES-XTS.
    pub multi_block: bool,
    /// It is set up for logins and for keys that are wrapped.
    pub operational: bool,
    /// It is about to be set up for them.
    pub commissioning: bool,
    /// Keys are imported wrapped by AES, and not otherwise.
    pub wrapped_import: bool,
    /// log₂ of the number of keys.
    pub log_max_keys: u8,
    /// Tests of its own that have failed, as the vendor numbers them.
    pub failed_selftests: u16,
}

/// A program's login: while it is there, and valid, wrapped keys can be imported.
#[derive(Debug)]
pub struct CryptoLogin {
    object: DevxObject,
}

/// How large a key is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DataKeySize {
    /// 128 bits.
    Bits128,
    /// 256 bits.
    Bits256,
}

/// A key to be imported.
#[derive(Clone)]
#[non_exhaustive]
pub struct DataKeyInit<'a> {
    /// Its size.
    pub size: DataKeySize,
    /// Whether its last 8 bytes are a tag, which requests repeat.
    pub has_tag: bool,
    /// The key, wrapped if it is imported so.
    pub key: [u8; 128],
    /// What the program recognises it by.
    pub opaque: [u8; 8],
    /// The login by which it is imported wrapped; without one it is imported as it is.
    pub login: Option<&'a CryptoLogin>,
}

impl DataKeyInit<'_> {
    /// A key that is imported as it is, without a tag.
    pub fn new(size: DataKeySize, key: [u8; 128]) -> Self {
        Self {
            size,
            has_tag: false,
            key,
            opaque: [0; 8],
            login: None,
        }
    }
}

/// Without the key.
impl fmt::Debug for DataKeyInit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKeyInit")
            .field("size", &self.size)
            .field("has_tag", &self.has_tag)
            .field("opaque", &self.opaque)
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

/// A key that the device has, with which data is encrypted.
#[derive(Debug)]
pub struct DataKey {
    object: DevxObject,
}

/// What a device says about a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DataKeyInfo {
    /// Whether it can be used.
    pub is_ready: bool,
    /// What the program recognises it by.
    pub opaque: [u8; 8],
}

fn lacking(what: &'static str) -> Error {
    Error::new(Op::DevxCreate, ErrorKind::Unsupported).fact("device_lacks", what)
}

/// A state of two: 0 is the good one.
fn state(reply: &Mailbox, field: Field) -> Result<bool> {
    match reply.get(field) {
        0 => Ok(true),
        1 => Ok(false),
        other => Err(Error::new(Op::DevxCommand, ErrorKind::BadReply).fact("state", other)),
    }
}

impl Devx {
    /// What the device offers for encryption; nothing, if it has no such group of capabilities.
    ///
    /// Two system calls.
    ///
    /// # Errors
    /// As [`command`](Self::command).
    #[doc(alias = "mlx5dv_crypto_caps")]
    pub fn crypto_caps(&self) -> Result<CryptoCaps> {
        let general = self.capabilities(GENERAL)?;
        let multi_block = general.get(MULTI_BLOCK) != 0;
        let mut caps = CryptoCaps {
            crypto: general.get(HAS_CRYPTO) != 0,
            // Who encrypts several blocks encrypts one, too.
            single_block: multi_block || general.get(SINGLE_BLOCK) != 0,
            multi_block,
            ..CryptoCaps::default()
        };
        if caps.crypto {
            let group = self.capabilities(CRYPTO)?;
            caps.operational = group.get(OPERATIONAL) != 0;
            caps.commissioning = group.get(COMMISSIONING) != 0;
            caps.wrapped_import = group.get(IMPORT_BY_AES) != 0;
            caps.log_max_keys = group.get(LOG_KEYS).to_le_bytes()[0];
            let [low, high, ..] = group.get(FAILED_TESTS).to_le_bytes();
            caps.failed_selftests = u16::from_le_bytes([low, high]);
        }
        Ok(caps)
    }

    /// Creates a general object, if the device has such ones.
    fn general_object(
        &self,
        (kind, what): (u16, &'static str),
        create: &mut Mailbox,
        parents: impl IntoIterator<Item = Arc<Object>>,
    ) -> Result<DevxObject> {
        if self.general_caps()?.general_objects >> kind & 1 == 0 {
            return Err(lacking(what));
        }
        create.set(OBJECT_TYPE, kind.into());
        self.create_harmless(create, HEADER, parents)
    }

    /// `mlx5dv_crypto_login_create`—logs in with a credential, of at most 48 bytes, for the keys
    /// that are wrapped by the import key of that number.
    ///
    /// Four system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device is not set up for logins.
    /// [`InvalidInput`](ErrorKind::InvalidInput): a number of more than 24 bits, a credential that
    /// is too long. Otherwise the errno for the firmware's status.
    #[doc(alias = "mlx5dv_crypto_login_create")]
    #[doc(alias = "mlx5dv_crypto_login")]
    pub fn crypto_login(
        &self,
        credential_id: u32,
        import_key: u32,
        credential: &[u8],
    ) -> Result<CryptoLogin> {
        let caps = self.crypto_caps()?;
        if !(caps.crypto && caps.operational) {
            return Err(lacking("logins to encryption"));
        }
        for (name, id) in [("credential_id", credential_id), ("import_key", import_key)] {
            if id > IDS {
                return Err(Error::invalid(Op::DevxCreate, name).fact(name, id));
            }
        }
        let mut create = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, LENGTH);
        create.set(CREDENTIAL_ID, credential_id);
        create.set(IMPORT_KEY, import_key);
        let place = create.as_mut_bytes().get_mut(CREDENTIAL..CREDENTIAL + 48);
        let place = place.and_then(|place| place.get_mut(..credential.len()));
        let Some(place) = place else {
            return Err(Error::invalid(Op::DevxCreate, "credential").fact("len", credential.len()));
        };
        place.copy_from_slice(credential);
        let kind = (opcode::CRYPTO_LOGIN, "logins to encryption");
        let object = self.general_object(kind, &mut create, [])?;
        Ok(CryptoLogin { object })
    }

    /// `mlx5dv_dek_create`—gives the device a key for data of a protection domain, which has this
    /// number in firmware commands.
    ///
    /// Four system calls; they wait for the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): the device does not encrypt data.
    /// [`InvalidInput`](ErrorKind::InvalidInput): it imports keys only wrapped and there is no
    /// login, or only as they are and there is one; domain or login is of another context.
    /// Otherwise the errno for the firmware's status.
    #[doc(hidden)] // Users have no such domain: the facade calls it.
    #[doc(alias = "mlx5dv_dek_create")]
    pub fn data_key(
        &self,
        (pd, number): (&Arc<Object>, u32),
        init: &DataKeyInit<'_>,
    ) -> Result<DataKey> {
        let op = Op::DevxCreate;
        super::check_context(op, pd, self.file())?;
        if let Some(login) = init.login {
            super::check_context(op, login.object.object(), self.file())?;
        }
        let caps = self.crypto_caps()?;
        if !caps.single_block {
            return Err(lacking("encryption of data"));
        }
        if caps.wrapped_import != init.login.is_some() {
            return Err(Error::invalid(op, "login").fact("wrapped_import", caps.wrapped_import));
        }
        let mut create = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, LENGTH);
        let size = match init.size {
            DataKeySize::Bits128 => 0,
            DataKeySize::Bits256 => 1,
        };
        create.set(KEY_SIZE, size);
        create.set(HAS_TAG, init.has_tag.into());
        create.set(KEY_PURPOSE, AES_XTS);
        create.set(KEY_DOMAIN, number);
        for (at, bytes) in [(OPAQUE, &init.opaque[..]), (KEY, &init.key)] {
            let place = create.as_mut_bytes().get_mut(at..at + bytes.len());
            if let Some(place) = place {
                place.copy_from_slice(bytes);
            }
        }
        let login = init.login.map(|login| Arc::clone(login.object.object()));
        let parents = [Arc::clone(pd)].into_iter().chain(login);
        let kind = (opcode::DATA_KEY, "keys of data");
        let object = self.general_object(kind, &mut create, parents)?;
        Ok(DataKey { object })
    }
}

/// The firmware's answer about an object.
fn ask(object: &DevxObject, kind: u16) -> Result<Mailbox> {
    let mut query = Mailbox::command(opcode::QUERY_GENERAL_OBJECT, 0, HEADER);
    query.set(OBJECT_TYPE, kind.into());
    query.set(OBJECT_ID, object.id());
    object.query(&query, LENGTH)
}

impl CryptoLogin {
    /// `mlx5dv_crypto_login_query`—whether it is valid: keys can be imported by it.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status. [`BadReply`](ErrorKind::BadReply): a state without a
    /// name.
    #[doc(alias = "mlx5dv_crypto_login_query")]
    #[doc(alias = "mlx5dv_crypto_login_query_state")]
    pub fn is_valid(&self) -> Result<bool> {
        state(&ask(&self.object, opcode::CRYPTO_LOGIN)?, LOGIN_STATE)
    }

    /// `mlx5dv_crypto_login_destroy`—logs out. Dropping it does the same, once the keys that were
    /// imported by it are gone.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) while there are such keys. The errno for the firmware's status. It
    /// is returned, unless it is unknown whether it is gone.
    #[doc(alias = "mlx5dv_crypto_login_destroy")]
    #[doc(alias = "mlx5dv_crypto_logout")]
    pub fn destroy(self) -> Result<(), DestroyError<Self>> {
        let again = |object| Self { object };
        let destroyed = self.object.destroy();
        destroyed.map_err(|refused| refused.map(again))
    }
}

impl DataKey {
    /// Its number, which requests name it by.
    pub fn number(&self) -> u32 {
        self.object.id()
    }

    /// `mlx5dv_dek_query`—its state.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status. [`BadReply`](ErrorKind::BadReply): a state without a
    /// name.
    #[doc(alias = "mlx5dv_dek_query")]
    pub fn query(&self) -> Result<DataKeyInfo> {
        let reply = ask(&self.object, opcode::DATA_KEY)?;
        let opaque = reply.as_bytes().get(OPAQUE..).and_then(<[u8]>::first_chunk);
        Ok(DataKeyInfo {
            is_ready: state(&reply, KEY_STATE)?,
            opaque: opaque.copied().unwrap_or_default(),
        })
    }

    /// `mlx5dv_dek_destroy`—takes it from the device. Dropping it does the same.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status. It is returned, unless it is unknown whether it is
    /// gone.
    #[doc(alias = "mlx5dv_dek_destroy")]
    pub fn destroy(self) -> Result<(), DestroyError<Self>> {
        let again = |object| Self { object };
        let destroyed = self.object.destroy();
        destroyed.map_err(|refused| refused.map(again))
    }
}
