//! `docs/generated/abi-coverage.md`.

use super::abi::Abi;
use super::reasons::{Kind, Reason};
use super::scan::{Place, Uses};
use super::seen::{Answer, Seen, Way};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Number of places named for one use.
const PLACES: usize = 2;

/// The beginning of the page.
const HEAD: &str = "\
# What of the kernel's interface is implemented, and where it was tested

Made by `cargo xtask coverage --write` from the mirrors of the kernel's headers (`uapi`), from the sources of the providers and from what tests were seen to ask (`tests/tools/coverage/seen`,
made by `cargo xtask test --full --seen`); `cargo xtask ci` fails when it is not what they say.

- **Implemented**: the functions of the providers that use the name; or, in italics, why none does.
- **Tested**: `ok` where a test had the kernel do it, `refused` where it was only refused, `none` where the kernel or its driver does not have it, nothing where no test asked. An attribute counts as
  done when a command that carried it was. Commands without attributes say how they travelled: `i` inside `INVOKE_WRITE`, `w` by `write(2)`.

";

/// Before commands of the connection manager.
const OF_CM: &str = "
## Commands of the connection manager

On ConnectX functions they were recorded by kind of port; RoCE between both ends on one function, InfiniBand with IP over
it. The columns of mlx5 have what was requested on either.

";

/// Before what commands of the connection manager choose.
const CHOICES: &str = "
## What commands of the connection manager choose

Port spaces, what is queried, how groups are joined, and options. What is played with Debian's programs, on all of these devices (`tests/interop`), is not recorded here.

";

/// Everything that the page is made from.
pub(super) struct Sources<'a> {
    pub(super) abi: &'a Abi,
    pub(super) uses: &'a Uses,
    pub(super) seen: &'a [Seen],
    /// Names without a use, with their reasons.
    pub(super) reasons: &'a BTreeMap<&'static str, &'static Reason>,
}

/// The totals for one kind of name.
#[derive(Default)]
struct Count {
    all: usize,
    implemented: usize,
    reasons: BTreeMap<Kind, usize>,
    /// By column, the number that a kernel carried out.
    done: Vec<usize>,
}

impl Sources<'_> {
    /// The page's text.
    pub(super) fn page(&self) -> String {
        let mut page = HEAD.to_owned();
        self.summary(&mut page);
        self.kernels(&mut page);
        self.objects(&mut page);
        page.push_str("## Commands\n\n");
        self.head(&mut page, "command");
        let commands = self.abi.commands.iter();
        for name in commands.chain(&self.abi.extended_commands) {
            self.row(&mut page, name, &format!("`{}`", command(name)));
        }
        page.push_str(OF_CM);
        self.cm_table(&mut page, "command", &self.abi.cm_commands);
        page.push_str(CHOICES);
        self.cm_table(&mut page, "choice", &self.abi.cm_choices);
        self.events(&mut page);
        self.netlink(&mut page);
        page
    }

    fn events(&self, page: &mut String) {
        page.push_str("\n## Events of the connection manager\n\n");
        head_of(page, "event", self.cm_columns());
        for (kind, name) in super::events() {
            let short = name.trim_start_matches("RDMA_CM_EVENT_");
            let _ = write!(
                page,
                "| `{short}` | core/cm/event_kind.rs `EventKind::{kind:?}` |"
            );
            for seen in self.cm_columns() {
                let _ = write!(
                    page,
                    " {} |",
                    if seen.of(name).is_some() { "ok" } else { "" }
                );
            }
            page.push('\n');
        }
    }

    fn kinds(&self) -> [(&'static str, Vec<&'static str>); 6] {
        let objects = &self.abi.objects;
        let methods = || objects.iter().flat_map(|object| &object.methods);
        let attributes = methods().flat_map(|method| method.attributes.iter().copied());
        let attributes: BTreeSet<_> = attributes.collect();
        let commands = self.abi.commands.iter();
        [
            (
                "objects",
                objects.iter().map(|object| object.name).collect(),
            ),
            ("methods", methods().map(|method| method.name).collect()),
            ("attributes", attributes.into_iter().collect()),
            (
                "commands",
                commands
                    .chain(&self.abi.extended_commands)
                    .copied()
                    .collect(),
            ),
            (
                "commands of the connection manager",
                self.abi.cm_commands.clone(),
            ),
            (
                "choices of the connection manager",
                self.abi.cm_choices.clone(),
            ),
        ]
    }

    fn count(&self, names: &[&'static str]) -> Count {
        let mut count = Count {
            all: names.len(),
            done: vec![0; self.seen.len()],
            ..Count::default()
        };
        for name in names {
            match self.reasons.get(name) {
                Some(reason) => *count.reasons.entry(reason.kind).or_default() += 1,
                None => count.implemented += 1,
            }
            for (done, seen) in count.done.iter_mut().zip(self.seen) {
                let ok = matches!(seen.of(name), Some((Answer::Ok, _)));
                *done += usize::from(ok);
            }
        }
        count
    }

    fn summary(&self, page: &mut String) {
        page.push_str("## How much\n\n| | in the headers | implemented |");
        for kind in Kind::ALL {
            let _ = write!(page, " {} |", kind.title());
        }
        page.push_str("\n|---|---|---|---|---|---|\n");
        for (title, names) in self.kinds() {
            let count = self.count(&names);
            let _ = write!(page, "| {title} | {} | {} |", count.all, count.implemented);
            for kind in Kind::ALL {
                let _ = write!(
                    page,
                    " {} |",
                    count.reasons.get(&kind).copied().unwrap_or(0)
                );
            }
            page.push('\n');
        }
        page.push('\n');
    }

    fn kernels(&self, page: &mut String) {
        page.push_str("## Kernel by kernel\n\nHow many of them a kernel did in a test.\n\n");
        page.push_str("| device | kernel | objects | methods | attributes | commands | of the connection manager | its choices | requested, but missing |\n");
        page.push_str("|---|---|---|---|---|---|---|---|---|\n");
        let counts = self.kinds().map(|(_, names)| self.count(&names));
        for (index, seen) in self.seen.iter().enumerate() {
            if seen.is_of_port {
                continue;
            }
            let device = seen.title;
            let Some(release) = &seen.release else {
                let _ = writeln!(
                    page,
                    "| {device} | *no test has been recorded* | | | | | | | |"
                );
                continue;
            };
            let _ = write!(page, "| {device} | {release} |");
            for count in &counts {
                let done = count.done.get(index).copied().unwrap_or(0);
                let _ = write!(page, " {done} |");
            }
            let _ = writeln!(page, " {} |", self.not_there(seen));
        }
        page.push('\n');
    }

    /// The methods and commands that kernels were only ever seen not to support.
    fn not_there(&self, seen: &Seen) -> String {
        let [_, (_, methods), _, (_, commands), (_, of_cm), _] = self.kinds();
        let missing = methods
            .into_iter()
            .chain(commands)
            .chain(of_cm)
            .filter(|name| matches!(seen.of(name), Some((Answer::Unsupported, _))));
        let missing: Vec<_> = missing.map(|name| format!("`{}`", short(name))).collect();
        missing.join(", ")
    }

    fn objects(&self, page: &mut String) {
        page.push_str("## Objects, methods and attributes\n\n");
        for object in &self.abi.objects {
            let _ = writeln!(page, "### `{}`\n", short(object.name));
            self.head(page, "method, attribute");
            if object.methods.is_empty() {
                self.row(page, object.name, "(no methods)");
            }
            for method in &object.methods {
                self.row(page, method.name, &format!("**`{}`**", short(method.name)));
                for attribute in &method.attributes {
                    self.row(page, attribute, &format!("`{}`", short(attribute)));
                }
            }
            page.push('\n');
        }
    }

    /// The columns of recorded devices.
    fn columns(&self) -> impl Iterator<Item = &Seen> {
        self.cm_columns().filter(|seen| !seen.is_of_port)
    }

    /// Those of the connection manager's tables.
    fn cm_columns(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|seen| seen.release.is_some())
    }

    fn cm_table(&self, page: &mut String, first: &str, names: &[&'static str]) {
        head_of(page, first, self.cm_columns());
        for name in names {
            let shown = format!("`{}`", command(name));
            self.row_of(page, name, &shown, self.cm_columns());
        }
    }

    fn head(&self, page: &mut String, first: &str) {
        head_of(page, first, self.columns());
    }

    fn row(&self, page: &mut String, name: &str, shown: &str) {
        self.row_of(page, name, shown, self.columns());
    }

    fn row_of<'s>(
        &self,
        page: &mut String,
        name: &str,
        shown: &str,
        columns: impl Iterator<Item = &'s Seen>,
    ) {
        let implemented = match (self.reasons.get(name), self.uses.of(name)) {
            (Some(reason), _) => format!("*{}: {}*", reason.kind.title(), reason.why),
            (None, places) => places.map(places_of).unwrap_or_default(),
        };
        let _ = write!(page, "| {shown} | {implemented} |");
        for seen in columns {
            let _ = write!(page, " {} |", cell(seen, name));
        }
        page.push('\n');
    }

    fn netlink(&self, page: &mut String) {
        page.push_str(
            "\n## Netlink\n\nWhat discovery uses of the RDMA family; it has no need of the others. Tested by unit tests on \
             dumps of real kernels, and by every test that opens a device by its name.\n\n\
             | command, attribute | used | unit tests |\n|---|---|---|\n",
        );
        let commands = self.abi.netlink_commands.iter();
        for name in commands.chain(&self.abi.netlink_attributes) {
            let Some(places) = self.uses.of(name) else {
                continue;
            };
            let tests = self.uses.in_tests(name).map(places_of);
            let _ = writeln!(
                page,
                "| `{}` | {} | {} |",
                name.trim_start_matches("RDMA_NLDEV_"),
                places_of(places),
                tests.unwrap_or_default()
            );
        }
    }
}

fn head_of<'s>(page: &mut String, first: &str, columns: impl Iterator<Item = &'s Seen>) {
    let _ = write!(page, "| {first} | implemented |");
    let mut line = "|---|---|".to_owned();
    for seen in columns {
        let _ = write!(page, " {} |", seen.title);
        line.push_str("---|");
    }
    let _ = writeln!(page, "\n{line}");
}

fn cell(seen: &Seen, name: &str) -> String {
    let Some((answer, ways)) = seen.of(name) else {
        return String::new();
    };
    let mut text = match answer {
        Answer::Ok => "ok",
        Answer::Error => "refused",
        Answer::Unsupported => "none",
    }
    .to_owned();
    for way in ways {
        match way {
            Way::Ioctl => {}
            Way::Invoke => text.push_str(" i"),
            Way::Write => text.push_str(" w"),
        }
    }
    text
}

fn places_of(places: &BTreeSet<Place>) -> String {
    let place = |place: &Place| {
        let file = place.file.replace("/src/", "/");
        let file = file.trim_start_matches("providers/");
        format!("{file} `{}`", place.item)
    };
    let mut text: Vec<_> = places.iter().take(PLACES).map(place).collect();
    if places.len() > PLACES {
        text.push(format!("and {} more", places.len() - PLACES));
    }
    text.join(", ")
}

/// A name without the prefix common to its kind.
fn short(name: &str) -> &str {
    [
        "UVERBS_OBJECT_",
        "UVERBS_METHOD_",
        "UVERBS_ATTR_",
        "IB_USER_VERBS_",
        "RDMA_USER_CM_",
    ]
    .iter()
    .find_map(|prefix| name.strip_prefix(prefix))
    .unwrap_or(name)
}

fn command(name: &str) -> &str {
    let short = short(name);
    short.strip_prefix("CMD_").unwrap_or(short)
}
