//! `cargo xtask coverage`: which parts of the kernel's interface are implemented and tested, as a
//! page of the documentation.

mod abi;
mod page;
mod reasons;
pub(crate) mod record;
pub(crate) mod scan;
pub(crate) mod seen;

use abi::Abi;
use anyhow::{Context as _, bail};
use clap::Args;
use page::Sources;
use reasons::{REASONS, Reason};
use scan::Uses;
use seen::Seen;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::ExitCode;
use uverbs_core::cm::EventKind;

/// The page, and the folder of the records of what tests requested.
const PAGE: &str = "docs/generated/abi-coverage.md";
const SEEN: &str = "tests/tools/coverage/seen";

/// Compare docs/generated/abi-coverage.md with the kernel's headers, the sources and what tests
/// were seen to request.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Regenerate the page.
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let fresh = fresh()?;
    if options.write {
        let path = testbed::cargo::workspace().join(PAGE);
        fs::write(&path, fresh).with_context(|| format!("writing {}", path.display()))?;
        println!("wrote {PAGE}");
    } else {
        same(&fresh)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails if the page is out of date.
pub(crate) fn compare() -> anyhow::Result<()> {
    same(&fresh()?)
}

fn same(fresh: &str) -> anyhow::Result<()> {
    let path = testbed::cargo::workspace().join(PAGE);
    let committed =
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    if committed == fresh {
        println!("coverage: {PAGE} is what the code says");
        return Ok(());
    }
    let differs = committed.lines().zip(fresh.lines());
    match differs.enumerate().find(|(_, (old, new))| old != new) {
        Some((index, (old, new))) => bail!(
            "{PAGE} is out of date (cargo xtask coverage --write), first in line {}:\n- {old}\n+ {new}",
            index + 1
        ),
        None => bail!("{PAGE} is out of date (cargo xtask coverage --write): its end differs"),
    }
}

fn fresh() -> anyhow::Result<String> {
    let root = testbed::cargo::workspace();
    let abi = Abi::read()?;
    let uses = Uses::read(&root)?;
    let seen = Seen::read_all(&root.join(SEEN))?;
    let (reasons, mut wrong) = judge(&abi, |name| uses.of(name).is_some());
    wrong.extend(strangers(&abi, &seen));
    if !wrong.is_empty() {
        bail!(
            "the coverage of the kernel's interface:\n  {}",
            wrong.join("\n  ")
        );
    }
    let sources = Sources {
        abi: &abi,
        uses: &uses,
        seen: &seen,
        reasons: &reasons,
    };
    Ok(sources.page())
}

/// The reason for everything that is not implemented, and the errors in the reasons.
fn judge(
    abi: &Abi,
    is_used: impl Fn(&str) -> bool,
) -> (BTreeMap<&'static str, &'static Reason>, Vec<String>) {
    let mut reasons = BTreeMap::new();
    let mut wrong = BTreeSet::new();
    let mut look = |name: &'static str, inherited: Option<&'static Reason>| {
        let reason = match (reasons::of(name), inherited) {
            (Some(_), Some(_)) => {
                wrong.insert(format!("{name} has its reason from above already"));
                inherited
            }
            (own, inherited) => own.or(inherited),
        };
        match (is_used(name), reason) {
            (true, Some(reason)) => {
                wrong.insert(format!(
                    "{name} is implemented, and has a reason not to be: {}",
                    reason.why
                ));
            }
            (false, None) => {
                wrong.insert(format!(
                    "{name} is not implemented, and has no reason (reasons.rs)"
                ));
            }
            (false, Some(reason)) => {
                reasons.insert(name, reason);
            }
            (true, None) => {}
        }
        reason
    };
    for object in &abi.objects {
        let of_object = look(object.name, None);
        for method in &object.methods {
            let of_method = look(method.name, of_object);
            for attribute in &method.attributes {
                look(attribute, of_method);
            }
        }
    }
    let commands = abi.commands.iter().chain(&abi.extended_commands);
    let of_cm = abi.cm_commands.iter().chain(&abi.cm_choices);
    for command in commands.chain(of_cm) {
        look(command, None);
    }
    let known: BTreeSet<_> = abi.names().collect();
    let named = REASONS.iter().flat_map(|reason| reason.names);
    for stranger in named.filter(|name| !known.contains(*name)) {
        wrong.insert(format!("{stranger} has a reason, and is in no header"));
    }
    (reasons, wrong.into_iter().collect())
}

/// Names in records that no header defines.
fn strangers(abi: &Abi, seen: &[Seen]) -> Vec<String> {
    let mut known: BTreeSet<_> = abi.names().collect();
    known.extend(["UVERBS_ATTR_UHW_IN", "UVERBS_ATTR_UHW_OUT"]);
    known.extend(events().map(|(_, name)| name));
    let of_one = |seen: &Seen| -> Vec<String> {
        let strange = seen.names().filter(|name| !known.contains(name));
        strange
            .map(|name| {
                format!(
                    "the record of {} has {name}, which is in no header",
                    seen.title
                )
            })
            .collect()
    };
    seen.iter().flat_map(of_one).collect()
}

/// The events of the connection manager, which no header of the kernel's interface numbers, and
/// their names in `rdma/rdma_cma.h`.
fn events() -> impl Iterator<Item = (EventKind, &'static str)> {
    let kinds = (0..).map(EventKind::from_raw);
    kinds.map_while(|kind| Some((kind, kind.c_name()?)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn missing_and_superfluous_reasons_are_reported() {
        let abi = Abi::read().unwrap();
        let (_, nothing_done) = judge(&abi, |_| false);
        let lacks = "UVERBS_METHOD_CQ_CREATE is not implemented, and has no reason (reasons.rs)";
        assert!(nothing_done.iter().any(|line| line == lacks));
        let (reasons, all_done) = judge(&abi, |_| true);
        assert!(reasons.is_empty());
        let vain = "IB_USER_VERBS_CMD_PEEK_CQ is implemented, and has a reason not to be";
        assert!(all_done.iter().any(|line| line.starts_with(vain)));
    }
}
