//! Memory keys that map pieces of regions as requests say (`drivers/infiniband/hw/mlx5/devx.c`;
//! Programmer's Reference Manual, `CREATE_MKEY` and "Memory Key Context").

use std::sync::Arc;

use uverbs_core::types::{LocalKey, RemoteKey};
use uverbs_core::{DestroyError, Error, ErrorKind, Op, Result};

use super::signed::Features;
use crate::context::{Context, ProtectionDomain};
use crate::devx::{Devx, DevxObject};
use crate::prm::{Field, Mailbox, bit, field, opcode, word};
use crate::wqe::layout::BLOCK;
use crate::wqe::signature::BSF_UNITS;

/// Bytes of the command, without a translation.
const LENGTH: usize = 0x110;

/// A field of the key's context.
const fn context(field: Field) -> Field {
    field.at(0x10)
}

const FREE: Field = context(bit(0x00, 30));
const CHANGEABLE: Field = context(bit(0x00, 15));
const LOCAL_READ: Field = context(bit(0x00, 10));
const MODE: Field = context(field(0x00, 9, 8));
const QPN: Field = context(field(0x04, 31, 8));
const REMOTE_INVALIDATE: Field = context(bit(0x0c, 24));
const PD: Field = context(field(0x0c, 23, 0));
const OCTOWORDS: Field = context(word(0x34));
const SIGNED: Field = context(bit(0x0c, 30));
const BSF_OCTOWORDS: Field = context(word(0x20));
const ENCRYPTED: Field = context(field(0x3c, 28, 27));

/// `MLX5_MKC_ACCESS_MODE_KLMS`: a list of keys.
const KEYS: u32 = 2;
/// Room for one byte stream format.
const OCTOWORDS_OF_BSF: u32 = 4;
const _: () = assert!(BSF_UNITS == 4, "one byte stream format");
/// It belongs to no queue pair.
const NO_QPN: u32 = 0xff_ffff;

/// What an indirect key is created for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an ability of its own"
)]
pub struct KeyOptions {
    /// `MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE`—peers may invalidate it.
    pub remote_invalidate: bool,
    /// `MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG`—requests may change the variant, the lowest 8 bits
    /// of the key.
    pub changes_variant: bool,
    /// `MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE`—it may have signatures behind blocks of data.
    pub signatures: bool,
    /// `MLX5DV_MKEY_INIT_ATTR_FLAGS_CRYPTO`—what passes through it may be encrypted.
    pub encryption: bool,
}

/// `mlx5dv_mkey`—a memory key that maps pieces of regions. It maps nothing before a request says
/// what ([`QueuePair::put_key_change`](crate::QueuePair::put_key_change)).
#[doc(alias = "mlx5dv_mkey")]
#[derive(Debug)]
pub struct IndirectKey {
    object: DevxObject,
    max_entries: u16,
    options: KeyOptions,
    pub(super) features: Option<Box<Features>>,
}

impl IndirectKey {
    /// `mlx5dv_create_mkey`—creates a key with room for at least this many entries.
    ///
    /// One system call, three more for signatures, one or two more for encryption; each waits for
    /// the firmware.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported): `changes_variant`, and the device or the kernel
    /// (before 6.2) does not announce it; `signatures` or `encryption`, and the device does not
    /// announce them; no firmware commands in this context. Otherwise the errno for the firmware's
    /// status.
    #[doc(alias = "mlx5dv_create_mkey")]
    #[doc(hidden)] // Users have no such handle: the facade calls it.
    pub fn create(
        context: &Context,
        pd: &ProtectionDomain,
        max_entries: u16,
        options: KeyOptions,
    ) -> Result<Self> {
        let op = Op::DevxCreate;
        if options.changes_variant && !context.config().changes_variants() {
            let error = Error::new(op, ErrorKind::Unsupported);
            return Err(error.fact("changes_variant", true));
        }
        let max_entries = max_entries
            .checked_next_multiple_of(BLOCK)
            .ok_or_else(|| Error::invalid(op, "max_entries").fact("entries", max_entries))?;
        let mut command = Mailbox::command(opcode::CREATE_MKEY, 0, LENGTH);
        command.set(MODE, KEYS);
        command.set(FREE, 1);
        command.set(CHANGEABLE, 1);
        command.set(PD, pd.number());
        command.set(OCTOWORDS, max_entries.into());
        command.set(LOCAL_READ, 1);
        command.set(QPN, NO_QPN);
        command.set(REMOTE_INVALIDATE, options.remote_invalidate.into());
        let devx = Devx::new(context.file());
        let mut parents = vec![Arc::clone(pd.object())];
        let mut formats = 0;
        let psvs = if options.signatures {
            if !devx.signature_caps()?.signatures {
                let error = Error::new(op, ErrorKind::Unsupported);
                return Err(error.fact("signatures", true));
            }
            formats += 1;
            let psv = || devx.psv(pd.number(), pd.object());
            let psvs = [psv()?, psv()?];
            parents.extend(psvs.iter().map(|psv| psv.parent().0));
            Some(psvs)
        } else {
            None
        };
        let encrypts_several = if options.encryption {
            let caps = devx.crypto_caps()?;
            if !caps.single_block {
                let error = Error::new(op, ErrorKind::Unsupported);
                return Err(error.fact("encryption", true));
            }
            command.set(ENCRYPTED, 1);
            formats += 1;
            Some(caps.multi_block)
        } else {
            None
        };
        if formats != 0 {
            command.set(SIGNED, 1);
            command.set(BSF_OCTOWORDS, formats * OCTOWORDS_OF_BSF);
        }
        let object = devx.create_harmless(&command, 16, parents)?;
        let features = (formats != 0).then(|| {
            let trackers = context.trackers();
            Features::new(object.id(), psvs, encrypts_several, trackers)
        });
        Ok(Self {
            object,
            max_entries,
            options,
            features: features.map(Box::new),
        })
    }

    /// For scatter/gather entries. The lowest 8 bits are the variant, 0.
    pub fn local_key(&self) -> LocalKey {
        LocalKey::from_raw(self.object.id() << 8)
    }

    /// For peers, and for requests that change the key: the same number.
    pub fn remote_key(&self) -> RemoteKey {
        RemoteKey::from_raw(self.object.id() << 8)
    }

    /// Entries of a list for which it has room; interleaved, one less.
    pub fn max_entries(&self) -> u16 {
        self.max_entries
    }

    /// What it was created for.
    pub fn options(&self) -> KeyOptions {
        self.options
    }

    /// `mlx5dv_destroy_mkey`—destroys it, whatever it maps. Dropping it does the same.
    ///
    /// One system call; it waits for the firmware.
    ///
    /// # Errors
    /// The errno for the firmware's status. The key is returned, unless it is unknown whether it is
    /// gone.
    #[doc(alias = "mlx5dv_destroy_mkey")]
    pub fn destroy(self) -> Result<(), DestroyError<Self>> {
        let Self {
            object,
            max_entries,
            options,
            features,
        } = self;
        let again = |object| Self {
            object,
            max_entries,
            options,
            features,
        };
        object.destroy().map_err(|refused| refused.map(again))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use uverbs_core::Errno;
    use uverbs_uapi::mlx5_user_ioctl_cmds::{
        MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT,
        MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT,
    };

    use uverbs_core::PostError;

    use super::*;
    use crate::memory::SignatureChange;
    use crate::prm::CAP_REPLY_LEN;
    use crate::tests::scripted::Scripted;
    use crate::wqe::layout::KeyChange;
    use crate::wqe::signature::{BlockSize, Crc, Signature, Signatures, SignedBlocks};

    fn created(options: KeyOptions) -> (IndirectKey, Vec<u32>) {
        let (kernel, context) = Scripted::context(0);
        let pd = kernel.pd(&context);
        let mut answer = [0; 16];
        answer[8..12].copy_from_slice(&0x12_3456_u32.to_be_bytes());
        kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &answer);
        let key = IndirectKey::create(&context, &pd, 5, options).unwrap();
        let sent = kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
        let sent = sent.into_iter().find(|bytes| !bytes.is_empty()).unwrap();
        assert_eq!(sent.len(), LENGTH);
        let words = sent.chunks(4).map(|word| word.try_into().unwrap());
        (key, words.map(u32::from_be_bytes).collect())
    }

    #[test]
    fn a_key_is_free_and_changeable() {
        let (key, command) = created(KeyOptions::default());
        assert_eq!(key.local_key().raw(), 0x1234_5600);
        assert_eq!(key.remote_key().raw(), 0x1234_5600);
        assert_eq!(key.max_entries(), 8);
        let mut expected = vec![0; LENGTH / 4];
        expected[0] = 0x0200_0000;
        expected[4] = 0x4000_8600;
        expected[5] = 0xffff_ff00;
        // The number of the domain is that of the scripted kernel.
        expected[7] = command[7] & 0xff_ffff;
        expected[17] = 8;
        assert_eq!(command, expected);
        key.destroy().unwrap();
    }

    #[test]
    fn peers_may_invalidate_it_on_request() {
        let (key, command) = created(KeyOptions {
            remote_invalidate: true,
            ..KeyOptions::default()
        });
        assert_eq!(command[7] >> 24, 1);
        assert!(key.options().remote_invalidate);
    }

    /// A reply in which the device announces signatures, if it `has` them.
    fn announce(kernel: &Scripted, has: bool) {
        let mut reply = vec![0; CAP_REPLY_LEN];
        if has {
            reply[0x10 + 0x42] = 1;
            reply[0x10 + 0x90] = 0x80;
        }
        kernel.answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, &reply);
    }

    #[test]
    fn a_key_with_signatures_comes_after_its_psvs() {
        let (kernel, context) = Scripted::context(0);
        let pd = kernel.pd(&context);
        let options = KeyOptions {
            signatures: true,
            ..KeyOptions::default()
        };
        announce(&kernel, false);
        let error = IndirectKey::create(&context, &pd, 5, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        announce(&kernel, true);
        let mut answer = [0; 32];
        answer[8..12].copy_from_slice(&0x12_3456_u32.to_be_bytes());
        answer[16..20].copy_from_slice(&0x77_u32.to_be_bytes());
        kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &answer);
        let key = IndirectKey::create(&context, &pd, 5, options).unwrap();
        let sent = kernel.take_inputs(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN);
        let sent: Vec<_> = sent.into_iter().filter(|bytes| !bytes.is_empty()).collect();
        let opcodes: Vec<_> = sent.iter().map(|bytes| [bytes[0], bytes[1]]).collect();
        assert_eq!(opcodes, [[6, 0], [6, 0], [2, 0]]);
        // One of this domain.
        assert_eq!(sent[0][8] >> 4, 1);
        assert_eq!(sent[0][9..12], sent[2][0x1d..0x20]);
        // Enabled, with room for one byte stream format.
        assert_eq!((sent[2][0x1c], sent[2][0x33]), (0x40, 4));
        assert_eq!(key.check().unwrap(), None);
        kernel.take_calls();
        key.destroy().unwrap();
        // It goes before them.
        assert_eq!(kernel.take_calls().len(), 3);
        let (plain, _) = created(KeyOptions::default());
        let error = plain.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }

    /// The bits that a change needs of a key, and what is remembered between changes.
    #[test]
    fn what_a_key_was_set_up_with_stays() {
        let (kernel, context) = Scripted::context(0);
        let pd = kernel.pd(&context);
        announce(&kernel, true);
        let mut answer = [0; 32];
        answer[16..20].copy_from_slice(&0x77_u32.to_be_bytes());
        kernel.answer(MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &answer);
        let options = KeyOptions {
            signatures: true,
            ..KeyOptions::default()
        };
        let mut key = IndirectKey::create(&context, &pd, 4, options).unwrap();
        let blocks = SignedBlocks {
            size: BlockSize::Bytes512,
            signature: Signature::Crc {
                kind: Crc::Crc32,
                starts_with_ones: true,
            },
        };
        let signatures = Signatures {
            memory: Some(blocks),
            wire: None,
            check: 0xf0,
            copy: None,
        };
        let change = KeyChange {
            key: key.remote_key(),
            access: None,
            layout: None,
        };
        let mut say = |with: SignatureChange<'_>, done| {
            let mut said = None;
            let put = key.change(&change, with, None, |signing| {
                let formats = signing.formats.map(|format| format.is_some());
                said = Some((signing.errors, formats, signing.stops, signing.psvs));
                done
            });
            assert_eq!(put, done);
            said.unwrap()
        };
        let (none, begins) = ([None; 2], [Some((0x77, 0xffff_ffff << 32)), None]);
        let keep = SignatureChange::Keep;
        // What was not put is not remembered.
        let full = Err(PostError::QueueFull);
        let set = SignatureChange::Set(&signatures);
        assert_eq!(say(set, full), (Some(1), [true, false], false, begins));
        assert_eq!(say(keep, Ok(())), (Some(1), [false; 2], true, none));
        assert_eq!(say(keep, Ok(())), (None, [false; 2], true, none));
        assert_eq!(say(set, Ok(())), (None, [true, false], false, begins));
        assert_eq!(say(keep, Ok(())), (None, [false; 2], false, none));
        assert_eq!(
            say(SignatureChange::Reset, Ok(())),
            (None, [false; 2], true, none)
        );
        assert_eq!(say(keep, Ok(())), (None, [false; 2], true, none));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let (kernel, context) = Scripted::context(0);
        let pd = kernel.pd(&context);
        kernel.take_calls();
        let options = KeyOptions {
            changes_variant: true,
            ..KeyOptions::default()
        };
        let error = IndirectKey::create(&context, &pd, 4, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let none = KeyOptions::default();
        let error = IndirectKey::create(&context, &pd, u16::MAX, none).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!(kernel.take_calls(), [""; 0]);
        kernel.refuse("", Errno::INVAL);
        let error = IndirectKey::create(&context, &pd, 4, none).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::INVAL), "{error}");
    }
}
