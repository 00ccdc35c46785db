//! The transition table against the kernel's, and the rules around it.

use proptest::prelude::*;

use crate::types::{QpAttrMask as M, QpState, QpType, diagnose, is_legal, requirement};

struct KernelRow {
    from: QpState,
    to: QpState,
    qp_type: QpType,
    required: M,
    optional: M,
}

fn kernel_table() -> Vec<KernelRow> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    };
    let row = |line: &str| {
        let fields: Vec<u32> = line.split(' ').map(number).collect();
        let state = |raw: u32| QpState::from_raw(raw.try_into().unwrap());
        KernelRow {
            from: state(fields[0]),
            to: state(fields[1]),
            qp_type: QpType::from_raw(fields[2]),
            required: M::from_bits_retain(fields[3]),
            optional: M::from_bits_retain(fields[4]),
        }
    };
    include_str!("qp_state_table.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(row)
        .collect()
}

const TYPES: [QpType; 6] = [
    QpType::Rc,
    QpType::Uc,
    QpType::Ud,
    QpType::RawPacket,
    QpType::XrcInitiator,
    QpType::XrcTarget,
];

#[test]
fn the_table_is_the_kernels() {
    let table = kernel_table();
    assert_eq!(table.len(), 22 * TYPES.len());
    for &from in QpState::ALL {
        for &to in QpState::ALL {
            for qp_type in TYPES {
                let theirs = table
                    .iter()
                    .find(|row| (row.from, row.to, row.qp_type) == (from, to, qp_type));
                let ours = requirement(from, to, qp_type);
                let what = format!("{qp_type}: {from} to {to}");
                assert_eq!(
                    ours.map(|it| it.required),
                    theirs.map(|it| it.required),
                    "{what}"
                );
                assert_eq!(
                    ours.map(|it| it.optional),
                    theirs.map(|it| it.optional),
                    "{what}"
                );
            }
        }
    }
}

/// `modify_qp` and `ib_modify_qp_is_ok`, reimplemented from their sources.
fn kernel_accepts(
    table: &[KernelRow],
    from: QpState,
    to: QpState,
    qp_type: QpType,
    mut mask: M,
) -> bool {
    if mask.contains(M::AV) && to != QpState::ReadyToReceive {
        mask |= M::PORT;
    }
    mask.remove(match qp_type {
        QpType::XrcInitiator => M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
        QpType::XrcTarget => M::MAX_QP_RD_ATOMIC | M::RETRY_CNT | M::RNR_RETRY,
        _ => M::empty(),
    });
    let may_name_current = (2..=5).contains(&from.raw());
    if mask.contains(M::CUR_STATE) && !may_name_current {
        return false;
    }
    table
        .iter()
        .find(|row| (row.from, row.to, row.qp_type) == (from, to, qp_type))
        .is_some_and(|row| {
            mask.contains(row.required)
                && (row.required | row.optional | M::STATE | M::RATE_LIMIT).contains(mask)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_verdict_is_the_kernels(
        from in 0..7_u8, to in 0..7_u8, kind in 0..6_usize, noise in any::<u32>(), quiet in any::<u32>(), start in 0..3_u8,
    ) {
        let table = kernel_table();
        let (from, to, qp_type) = (QpState::from_raw(from), QpState::from_raw(to), TYPES[kind]);
        // Most random masks are refused for several reasons at once; start near the legal ones.
        let needed = requirement(from, to, qp_type).unwrap_or_default();
        let mask = M::from_bits_retain(match start {
            0 => noise & 0x021f_ffff,
            1 => needed.required.bits() | noise & needed.optional.bits() | 1,
            _ => (needed.required.bits() | noise & needed.optional.bits()) ^ (1 << (quiet % 26)),
        });
        prop_assert_eq!(is_legal(from, to, qp_type, mask), kernel_accepts(&table, from, to, qp_type, mask));
    }

    #[test]
    fn a_mask_corrected_by_its_diagnosis_is_legal(from in 0..7_u8, to in 0..7_u8, kind in 0..6_usize, mask in any::<u32>()) {
        let (from, to, qp_type) = (QpState::from_raw(from), QpState::from_raw(to), TYPES[kind]);
        let mask = M::from_bits_retain(mask);
        if let Some(wrong) = diagnose(from, to, qp_type, mask) {
            prop_assert_eq!(wrong.possible, requirement(from, to, qp_type).is_some());
            if wrong.possible {
                prop_assert!(mask.contains(wrong.not_allowed), "only what was set is blamed");
                prop_assert!(!mask.intersects(wrong.missing), "only what was not set is missed");
                let mended = mask.difference(wrong.not_allowed) | wrong.missing;
                prop_assert_eq!(diagnose(from, to, qp_type, mended), None);
            }
        }
    }
}

#[test]
fn what_is_not_in_the_table_is_not_judged() {
    assert!(is_legal(
        QpState::Reset,
        QpState::ReadyToSend,
        QpType::Driver,
        M::all()
    ));
    assert!(is_legal(
        QpState::Reset,
        QpState::ReadyToSend,
        QpType::from_raw(77),
        M::all()
    ));
    assert!(is_legal(
        QpState::from_raw(7),
        QpState::Init,
        QpType::Rc,
        M::STATE
    ));
    // Neither is a modify without a state, in a state that only the kernel knows.
    let unnamed = QpState::from_raw(7);
    assert!(is_legal(unnamed, unnamed, QpType::Rc, M::QKEY));
    assert_eq!(
        requirement(QpState::Reset, QpState::Init, QpType::Driver),
        None
    );
}

#[test]
fn no_transition_leads_to_an_unknown_state() {
    let types = TYPES.into_iter();
    for qp_type in types.chain([QpType::Driver, QpType::from_raw(77)]) {
        for &from in QpState::ALL.iter().chain([&QpState::from_raw(8)]) {
            for raw in 7..=u8::MAX {
                let to = QpState::from_raw(raw);
                let wrong = diagnose(from, to, qp_type, M::STATE).unwrap();
                assert!(!wrong.possible, "{qp_type}: {from} to {to}");
                assert_eq!(requirement(from, to, qp_type), None);
            }
        }
    }
}

#[test]
fn a_diagnosis_reads_well() {
    let to_init = diagnose(
        QpState::Reset,
        QpState::Init,
        QpType::Rc,
        M::STATE | M::PORT | M::QKEY,
    )
    .unwrap();
    assert_eq!(
        to_init.to_string(),
        "from reset to init, missing: access flags, pkey index, not allowed: qkey"
    );
    let skipped = diagnose(QpState::Reset, QpState::ReadyToSend, QpType::Rc, M::STATE).unwrap();
    assert_eq!(
        skipped.to_string(),
        "no transition leads from reset to ready to send"
    );
}

#[test]
fn an_address_vector_sets_the_port() {
    let moved = |qp_type| {
        is_legal(
            QpState::SendQueueDrained,
            QpState::SendQueueDrained,
            qp_type,
            M::AV,
        )
    };
    assert!(moved(QpType::Rc));
    assert!(!moved(QpType::Uc));
}
