//! Encryption of what passes through a key.

use uverbs_mlx5::{BlockSize, Encryption, EncryptionOrder};

use super::abi::mlx5dv_crypto_attr;
use super::changes;
use super::crypto::Key;
use super::dynamic::Extended;
use super::signatures::block_size;
use crate::answer::Answer;
use crate::errno::Code;
use crate::pointer::{Handle, In};

/// What C says of encryption; its key of data is looked at when the request is put.
pub(super) struct Encrypting {
    key: Handle<Key>,
    on_wire: bool,
    order: EncryptionOrder,
    unit: BlockSize,
    tweak: [u8; 16],
    tag: [u8; 8],
}

impl Encrypting {
    fn of(attr: &mlx5dv_crypto_attr) -> Answer<Self> {
        /// The only standard.
        const AES_XTS: u32 = 0;
        if attr.comp_mask != 0 || attr.crypto_standard != AES_XTS {
            return Err(Code::INVALID);
        }
        let order = match attr.signature_crypto_order {
            0 => EncryptionOrder::SignatureAfter,
            1 => EncryptionOrder::SignatureBefore,
            _ => return Err(Code::INVALID),
        };
        Ok(Self {
            key: Handle::of(attr.dek),
            on_wire: attr.encrypt_on_tx != 0,
            order,
            unit: block_size(attr.data_unit_size)?,
            tweak: attr.initial_tweak,
            tag: attr.keytag,
        })
    }

    /// Runs `body` with it.
    pub(super) fn with<R>(&self, body: impl FnOnce(&Encryption<'_>) -> Answer<R>) -> Answer<R> {
        self.key.get()?.with(|key| {
            body(&Encryption {
                data_key: key,
                on_wire: self.on_wire,
                order: self.order,
                unit: self.unit,
                tweak: self.tweak,
                tag: self.tag,
            })
        })
    }
}

pub(super) extern "C" fn set_crypto(qp: Handle<Extended>, attr: In<mlx5dv_crypto_attr>) {
    changes::set(qp, |change| {
        change.set_encryption(|| Encrypting::of(attr.get()?))
    });
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    fn attr() -> mlx5dv_crypto_attr {
        mlx5dv_crypto_attr {
            crypto_standard: 0,
            encrypt_on_tx: 1,
            signature_crypto_order: 1,
            data_unit_size: 4,
            initial_tweak: [0; 16],
            dek: null_mut(),
            keytag: [0; 8],
            comp_mask: 0,
        }
    }

    #[test]
    fn what_libmlx5_refuses_is_refused() {
        let refused = |change: fn(&mut mlx5dv_crypto_attr)| {
            let mut attr = attr();
            change(&mut attr);
            Encrypting::of(&attr).is_err()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|attr| attr.comp_mask = 1));
        assert!(refused(|attr| attr.crypto_standard = 1));
        assert!(refused(|attr| attr.signature_crypto_order = 2));
        assert!(refused(|attr| attr.data_unit_size = 5));
        // Where libmlx5 ends by a fault.
        let without_key = Encrypting::of(&attr()).and_then(|made| made.with(|_| Ok(())));
        assert!(without_key.is_err());
    }
}
