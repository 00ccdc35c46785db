//! `identity`: what device is being checked.

use std::fmt::Display;

use uverbs::gid::GidType;
use uverbs::link::LinkLayer;

use super::check::{Check, Found, Outcome, Trouble, ensure};
use super::facts::Facts;
use super::subject::Subject;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("kernel", "", kernel),
        Check::new("machine", "", machine),
        Check::new("driver", "", driver),
        Check::new("firmware", "", |subject| {
            Ok(Found::new(subject.context.firmware_version()))
        }),
        Check::optional("board", "", |subject| {
            reported(subject.facts.board_id.as_ref())
        }),
        Check::optional("pci", "", pci),
        Check::new("limits", "queues, completions and memory", limits),
        Check::new("port", "active", port),
        Check::new("addresses", "at least one", addresses),
        Check::new("partition", "full or limited member", partition),
    ]
}

fn reported(text: Option<impl Display>) -> Outcome {
    text.map(Found::new)
        .ok_or_else(|| Trouble::unsupported("not reported"))
}

fn kernel(subject: &Subject) -> Outcome {
    let Facts {
        kernel,
        distribution,
        ..
    } = &*subject.facts;
    let kernel = kernel.as_ref();
    let kernel = kernel.ok_or_else(|| Trouble::failed("/proc does not say"))?;
    Ok(Found::new(match distribution {
        Some(distribution) => format!("{kernel}, {distribution}"),
        None => kernel.clone(),
    }))
}

fn machine(subject: &Subject) -> Outcome {
    let facts = &subject.facts;
    let page = facts.page_bytes;
    let page = page.ok_or_else(|| Trouble::failed("/proc does not say how long a page is"))?;
    Ok(Found::new(format_args!(
        "{} {}, {} processors, pages of {} bytes, IOMMU {}",
        facts.machine,
        facts.processor.as_deref().unwrap_or_default(),
        facts.processors.unwrap_or_default(),
        page,
        if facts.iommu.is_empty() {
            "none".to_owned()
        } else {
            facts.iommu.join(" ")
        }
    )))
}

fn driver(subject: &Subject) -> Outcome {
    let facts = &subject.facts;
    let name = facts
        .driver
        .as_ref()
        .ok_or_else(|| Trouble::failed("the firmware version is not reported"))?;
    let origin = match &facts.driver_version {
        Some(version) => format!("version {version}"),
        None => "the kernel's".to_owned(),
    };
    let abi = facts
        .abi_version
        .map_or_else(|| "unknown".to_owned(), |version| version.to_string());
    Ok(Found::new(format_args!("{name}, {origin}, ABI {abi}")))
}

fn pci(subject: &Subject) -> Outcome {
    let pci = subject.facts.pci.as_ref();
    reported(pci.map(|pci| {
        let function = if pci.virtual_function {
            "virtual function"
        } else {
            "physical function"
        };
        let link = pci.link.as_deref().unwrap_or("link unknown");
        format!("{}, {function}, {link}", pci.id)
    }))
}

fn limits(subject: &Subject) -> Outcome {
    let attr = subject.context.device_attr();
    some_of_each([attr.max_qp, attr.max_qp_wr, attr.max_sge, attr.max_cq])?;
    Ok(Found::new(format_args!(
        "{} queue pairs of {} requests of {} scatter/gather entries, {} completion queues of {} entries, {} vectors",
        attr.max_qp,
        attr.max_qp_wr,
        attr.max_sge,
        attr.max_cq,
        attr.max_cqe,
        subject.context.completion_vectors()
    )))
}

/// Nothing can be sent if any of these is 0.
fn some_of_each(limits: [u32; 4]) -> Outcome<()> {
    ensure(limits.iter().all(|limit| *limit > 0), || {
        format!("some are 0: {limits:?}")
    })
}

fn port(subject: &Subject) -> Outcome {
    let attr = subject.port_attr()?;
    let value = format!(
        "{}, {}, {} Gb/s, packets of {} bytes",
        attr.state,
        attr.link_layer,
        attr.link_gbps().unwrap_or_default(),
        attr.active_mtu.bytes().unwrap_or_default()
    );
    ensure(attr.is_active(), || value.clone())?;
    Ok(Found::new(value))
}

/// How many addresses of each type. The addresses themselves are private.
fn addresses(subject: &Subject) -> Outcome {
    let attr = subject.port_attr()?;
    if attr.link_layer != LinkLayer::Ethernet {
        ensure(attr.lid != 0, || "no LID".to_owned())?;
    }
    let table = subject.context.gid_table()?;
    let own = || {
        table
            .iter()
            .filter(|entry| entry.port == u32::from(subject.port))
    };
    ensure(own().count() > 0, || "no GID".to_owned())?;
    let count = |kind| own().filter(|entry| entry.gid_type == kind).count();
    let counts = [GidType::Ib, GidType::RoceV1, GidType::RoceV2]
        .map(|kind| (count(kind), kind))
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} of {kind}"))
        .collect::<Vec<_>>();
    Ok(Found::new(counts.join(", ")))
}

fn partition(subject: &Subject) -> Outcome {
    let key = subject.context.pkey(subject.port, 0)?;
    ensure(key & 0x7fff != 0, || "the first entry is empty".to_owned())?;
    let member = if key & 0x8000 == 0 { "limited" } else { "full" };
    Ok(Found::new(format_args!("{member} member")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_0_is_wrong() {
        assert!(some_of_each([1, 1, 1, 1]).is_ok());
        for at in 0..4 {
            let mut limits = [1; 4];
            limits[at] = 0;
            assert!(some_of_each(limits).is_err(), "{limits:?}");
        }
    }
}
