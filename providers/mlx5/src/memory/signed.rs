//! Keys with signatures and encryption: what the key itself remembers of them, and what was
//! reported of it.

use std::sync::Arc;

use uverbs_core::{Error, ErrorKind, Op, PostError, Result};

use super::IndirectKey;
use crate::cqe::KeyReport;
use crate::devx::{DataKey, DevxObject};
use crate::tracker::keys::KeyErrors;
use crate::tracker::table::Trackers;
use crate::wqe::encryption::{Encrypting, EncryptionOrder};
use crate::wqe::layout::KeyChange;
use crate::wqe::signature::{BlockSize, Signature, Signatures, Signing, no_signatures};

/// What a change of a key does to its signatures.
#[derive(Clone, Copy, Debug, Default)]
pub enum SignatureChange<'a> {
    /// They stay as they are: none, if there are none yet.
    #[default]
    Keep,
    /// `MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR`—it has none afterwards.
    Reset,
    /// `mlx5dv_wr_set_mkey_sig_block`—it has these.
    Set(&'a Signatures),
}

/// `enum mlx5dv_mkey_err_type`—which part of a signature is wrong.
#[doc(alias = "mlx5dv_mkey_err_type")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SignaturePart {
    /// The CRC, or the guard of a T10-DIF.
    Guard,
    /// The application tag.
    Application,
    /// The reference tag.
    Reference,
}

/// `mlx5dv_mkey_err`—a block that passed through a key with a signature that was not its own.
#[doc(alias = "mlx5dv_mkey_err")]
#[doc(alias = "mlx5dv_sig_err")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SignatureError {
    /// Which part of it is wrong.
    pub part: SignaturePart,
    /// What the signature should be; the device says which of both that is.
    pub expected: u64,
    /// What it was found to be.
    pub actual: u64,
    /// Where the block begins, in bytes of the transfer.
    pub offset: u64,
}

/// `mlx5dv_crypto_attr`—how what passes through a key is encrypted, by AES-XTS.
#[doc(alias = "mlx5dv_crypto_attr")]
#[derive(Clone, Copy, Debug)]
pub struct Encryption<'a> {
    /// The key of data. It has to be there for as long as this key is used.
    pub data_key: &'a DataKey,
    /// Data is encrypted on the wire and not in memory; otherwise the other way round.
    pub on_wire: bool,
    /// What is done first, where the key has signatures, too.
    pub order: EncryptionOrder,
    /// Bytes that are encrypted as one.
    pub unit: BlockSize,
    /// Of the first unit, as a number whose lowest byte is first; that of each unit is one more
    /// than the last one's.
    pub tweak: [u8; 16],
    /// The tag of the key of data, if it has one.
    pub tag: [u8; 8],
}

impl Encryption<'_> {
    fn by_number(&self) -> Encrypting {
        Encrypting {
            on_wire: self.on_wire,
            order: self.order,
            unit: self.unit,
            tweak: self.tweak,
            data_key: self.data_key.number(),
            tag: self.tag,
        }
    }
}

/// What a key with signatures or encryption has beside its number.
#[derive(Debug)]
pub(super) struct Features {
    signs: Option<Signs>,
    encrypts: Option<Encrypts>,
    /// Bytes that the key maps.
    length: u64,
}

#[derive(Debug)]
struct Signs {
    number: u32,
    /// PSVs of memory and of the wire, by number; the key's object keeps them.
    psvs: [u32; 2],
    errors: Arc<KeyErrors>,
    trackers: Arc<Trackers>,
    current: Option<Signatures>,
}

#[derive(Debug)]
struct Encrypts {
    /// The device encrypts several units.
    several: bool,
    current: Option<Encrypting>,
}

impl Features {
    /// Those of key `number`: signatures with these PSVs, and encryption of one unit or several.
    pub(super) fn new(
        number: u32,
        psvs: Option<[DevxObject; 2]>,
        encrypts_several: Option<bool>,
        trackers: &Arc<Trackers>,
    ) -> Self {
        let signs = psvs.map(|psvs| {
            let errors = Arc::default();
            trackers.keys.add(number, &errors);
            Signs {
                number,
                psvs: [psvs[0].id(), psvs[1].id()],
                errors,
                trackers: Arc::clone(trackers),
                current: None,
            }
        });
        let encrypts = encrypts_several.map(|several| Encrypts {
            several,
            current: None,
        });
        Self {
            signs,
            encrypts,
            length: 0,
        }
    }
}

impl Drop for Signs {
    fn drop(&mut self) {
        self.trackers.keys.remove(self.number, &self.errors);
    }
}

impl Signs {
    /// What is set behind a change, for these signatures to begin anew.
    fn begin(&self, current: Option<&Signatures>) -> [Option<(u32, u64)>; 2] {
        let values = current.map_or([None; 2], Signatures::begin_with);
        [0, 1].map(|at| values[at].map(|value| (self.psvs[at], value)))
    }
}

/// Bits of a report.
const REFERENCE: u16 = 1 << 11;
const APPLICATION: u16 = 1 << 12;
const GUARD: u16 = 1 << 13;
/// It is about the signature of a block.
const BLOCK: u8 = 0;

fn decode(report: &KeyReport, current: &Signatures) -> Option<SignatureError> {
    let blocks = match report.side {
        0 => current.wire,
        1 => current.memory,
        _ => None,
    }?;
    if report.of != BLOCK {
        return None;
    }
    let values = [report.expected, report.actual];
    let (part, [expected, actual]) = if report.syndrome & REFERENCE != 0 {
        (
            SignaturePart::Reference,
            values.map(|all| all & 0xffff_ffff),
        )
    } else if report.syndrome & APPLICATION != 0 {
        (
            SignaturePart::Application,
            values.map(|all| all >> 32 & 0xffff),
        )
    } else if report.syndrome & GUARD != 0 {
        let shift = match blocks.signature {
            Signature::T10Dif(_) => 48,
            Signature::Crc { kind, .. } => kind.unused_bits(),
        };
        (SignaturePart::Guard, values.map(|all| all >> shift))
    } else {
        return None;
    };
    Some(SignatureError {
        part,
        expected,
        actual,
        offset: report.offset,
    })
}

impl IndirectKey {
    /// `mlx5dv_mkey_check`—the last wrong signature that was found of what passed through the key,
    /// once. A message that has one is completed all the same; the report is taken from the
    /// completion queue before its completion.
    ///
    /// No system call.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput): a key without signatures.
    /// [`BadReply`](ErrorKind::BadReply): a report without a meaning for such a key; it stays.
    #[doc(alias = "mlx5dv_mkey_check")]
    #[doc(alias = "_mlx5dv_mkey_check")]
    pub fn check(&self) -> Result<Option<SignatureError>> {
        let op = Op::PollCompletionQueue;
        let signed = self.features.as_ref().and_then(|has| has.signs.as_ref());
        let signed = signed.ok_or_else(|| Error::invalid(op, "key without signatures"))?;
        let Some(report) = signed.errors.found() else {
            return Ok(None);
        };
        let current = signed.current.as_ref();
        let Some(error) = current.and_then(|current| decode(&report, current)) else {
            let error = Error::new(op, ErrorKind::BadReply);
            return Err(error.fact("syndrome", report.syndrome));
        };
        signed.errors.forget(&report);
        Ok(Some(error))
    }

    /// Has `put` put a change of the key with what it says of signatures and encryption, and
    /// remembers that.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`]: what the key was not created for, or one that maps more than
    /// 32 bits count or, where the device encrypts one unit, more than one; those of `put`.
    pub(crate) fn change(
        &mut self,
        change: &KeyChange<'_>,
        signatures: SignatureChange<'_>,
        encryption: Option<&Encryption<'_>>,
        put: impl FnOnce(&Signing) -> Result<(), PostError>,
    ) -> Result<(), PostError> {
        let has = self.features.as_mut().ok_or(PostError::InvalidRequest)?;
        let length = match &change.layout {
            Some(layout) => layout.bytes()?,
            None => has.length,
        };
        if has.encrypts.is_none() && encryption.is_some()
            || has.signs.is_none() && !matches!(signatures, SignatureChange::Keep)
        {
            return Err(PostError::InvalidRequest);
        }
        let encrypts = match (encryption, &has.encrypts) {
            (Some(encryption), _) => Some(encryption.by_number()),
            (None, encrypts) => encrypts.as_ref().and_then(|encrypts| encrypts.current),
        };
        let signed = has.signs.as_ref().and_then(|signs| signs.current);
        let signed = match signatures {
            SignatureChange::Keep => signed,
            SignatureChange::Reset => None,
            SignatureChange::Set(signatures) => Some(*signatures),
        };
        let sets_signatures = matches!(signatures, SignatureChange::Set(_));
        // With encryption the formats are written whenever one of both changes.
        let resets = matches!(signatures, SignatureChange::Reset) && has.encrypts.is_some();
        let writes = sets_signatures || encryption.is_some() || resets;
        if writes && u32::try_from(length).is_err() {
            return Err(PostError::InvalidRequest);
        }
        let mut signing = Signing::default();
        if let Some(signs) = &has.signs {
            signing.errors = signs.errors.news();
            signing.stops = signed.is_none() && has.encrypts.is_none();
            if writes {
                let beside = encrypts.is_some();
                signing.formats[0] = Some(match &signed {
                    Some(signed) => signed.bsf(signs.psvs, beside)?,
                    None => no_signatures(beside),
                });
            }
            // After an error the device has to be told where they begin once more.
            if sets_signatures || signing.errors.is_some() {
                signing.psvs = signs.begin(signed.as_ref());
            }
        }
        if let (Some(encrypts), Some(able)) = (encrypts, &has.encrypts) {
            if !able.several && length > encrypts.unit.bytes() {
                return Err(PostError::InvalidRequest);
            }
            if writes {
                let beside = has.signs.is_some();
                let bsf = encrypts.bsf(able.several, beside, signed.as_ref())?;
                signing.formats[1] = Some(bsf);
            }
        }
        put(&signing)?;
        has.length = length;
        if let Some(able) = &mut has.encrypts {
            able.current = encrypts;
        }
        if let Some(signs) = &mut has.signs {
            signs.current = signed;
            if let Some(count) = signing.errors {
                signs.errors.told(count);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::wqe::signature::{Crc, Escape, Guard, SignedBlocks, T10Dif};

    fn of_wire(signature: Signature) -> Signatures {
        Signatures {
            memory: None,
            wire: Some(SignedBlocks {
                size: BlockSize::Bytes512,
                signature,
            }),
            check: 0xff,
            copy: None,
        }
    }

    const REPORT: KeyReport = KeyReport {
        syndrome: GUARD,
        of: 0,
        side: 0,
        expected: 0x0123_4567_89ab_cdef,
        actual: 0xfedc_ba98_7654_3210,
        offset: 1040,
    };

    const DIF: Signature = Signature::T10Dif(T10Dif {
        guard: Guard::Crc,
        starts_with_ones: false,
        application: 1,
        reference: 2,
        increments: true,
        escape: Escape::Never,
    });

    fn values(report: KeyReport, signature: Signature) -> (SignaturePart, u64, u64) {
        let error = decode(&report, &of_wire(signature)).unwrap();
        assert_eq!(error.offset, 1040);
        (error.part, error.expected, error.actual)
    }

    #[test]
    fn a_part_is_cut_out_of_what_the_device_reports() {
        let crc = |kind| Signature::Crc {
            kind,
            starts_with_ones: true,
        };
        let guard = SignaturePart::Guard;
        assert_eq!(values(REPORT, DIF), (guard, 0x0123, 0xfedc));
        let short = (guard, 0x0123_4567, 0xfedc_ba98);
        assert_eq!(values(REPORT, crc(Crc::Crc32)), short);
        assert_eq!(values(REPORT, crc(Crc::Crc32c)), short);
        let whole = (guard, REPORT.expected, REPORT.actual);
        assert_eq!(values(REPORT, crc(Crc::Crc64Xp10)), whole);
        let with = |syndrome| KeyReport { syndrome, ..REPORT };
        let tag = (SignaturePart::Application, 0x4567, 0xba98);
        assert_eq!(values(with(APPLICATION | GUARD), DIF), tag);
        let tag = (SignaturePart::Reference, 0x89ab_cdef, 0x7654_3210);
        assert_eq!(values(with(REFERENCE | APPLICATION | GUARD), DIF), tag);
    }

    #[test]
    fn what_has_no_meaning_for_a_key_is_no_error_of_it() {
        let signatures = of_wire(DIF);
        for report in [
            KeyReport {
                syndrome: 1,
                ..REPORT
            },
            KeyReport { of: 1, ..REPORT },
            KeyReport { side: 1, ..REPORT },
            KeyReport { side: 2, ..REPORT },
        ] {
            assert_eq!(decode(&report, &signatures), None, "{report:?}");
        }
    }

    #[test]
    fn a_report_is_fetched_once_and_told_once() {
        let errors = KeyErrors::default();
        assert_eq!((errors.found(), errors.news()), (None, Some(1)));
        errors.told(1);
        assert_eq!(errors.news(), None);
    }
}
