//! Keys with signatures: what the key itself remembers of them, and what was reported of it.

use std::sync::Arc;

use uverbs_core::{Error, ErrorKind, Op, PostError, Result};

use super::IndirectKey;
use crate::cqe::KeyReport;
use crate::devx::DevxObject;
use crate::tracker::keys::KeyErrors;
use crate::tracker::table::Trackers;
use crate::wqe::layout::KeyChange;
use crate::wqe::signature::{Signature, Signatures, Signing};

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

/// What a key with signatures has beside its number.
#[derive(Debug)]
pub(super) struct Signed {
    number: u32,
    /// PSVs of memory and of the wire, by number; the key's object keeps them.
    psvs: [u32; 2],
    errors: Arc<KeyErrors>,
    trackers: Arc<Trackers>,
    current: Option<Signatures>,
    /// Bytes that the key maps.
    length: u64,
}

impl Signed {
    pub(super) fn new(number: u32, psvs: &[DevxObject; 2], trackers: &Arc<Trackers>) -> Self {
        let errors = Arc::default();
        trackers.keys.add(number, &errors);
        Self {
            number,
            psvs: [psvs[0].id(), psvs[1].id()],
            errors,
            trackers: Arc::clone(trackers),
            current: None,
            length: 0,
        }
    }
}

impl Drop for Signed {
    fn drop(&mut self) {
        self.trackers.keys.remove(self.number, &self.errors);
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
        let signed = self.signed.as_ref();
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

    /// Has `put` put a change of the key with what it says of signatures, and remembers that.
    ///
    /// # Errors
    /// [`PostError::InvalidRequest`]: a key without signatures, or one that maps more than 32 bits
    /// count; those of `put`.
    pub(crate) fn sign(
        &mut self,
        change: &KeyChange<'_>,
        signatures: SignatureChange<'_>,
        put: impl FnOnce(&Signing) -> Result<(), PostError>,
    ) -> Result<(), PostError> {
        let signed = self.signed.as_mut().ok_or(PostError::InvalidRequest)?;
        let errors = signed.errors.news();
        let length = match &change.layout {
            Some(layout) => layout.bytes()?,
            None => signed.length,
        };
        let mut signing = Signing {
            errors,
            ..Signing::default()
        };
        let current = match signatures {
            SignatureChange::Keep => signed.current,
            SignatureChange::Reset => None,
            SignatureChange::Set(signatures) => {
                if u32::try_from(length).is_err() {
                    return Err(PostError::InvalidRequest);
                }
                signing.signs = Some(signatures.bsf(signed.psvs, false)?);
                Some(*signatures)
            }
        };
        signing.stops = current.is_none();
        // After an error the device has to be told where the signatures begin once more.
        if let Some(current) = current
            && (signing.signs.is_some() || errors.is_some())
        {
            let values = current.begin_with();
            let both = signed.psvs.into_iter().zip(values);
            let mut both = both.map(|(psv, value)| value.map(|value| (psv, value)));
            signing.psvs = [both.next().flatten(), both.next().flatten()];
        }
        put(&signing)?;
        signed.current = current;
        signed.length = length;
        if let Some(count) = errors {
            signed.errors.told(count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::wqe::signature::{BlockSize, Crc, Escape, Guard, SignedBlocks, T10Dif};

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
