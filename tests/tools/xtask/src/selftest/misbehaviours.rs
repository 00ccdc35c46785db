//! What the software ConnectX does wrong on purpose, and the checks that detect it.
//!
//! Every check of a run is in one of the two lists: it fails when the device misbehaves, or nothing
//! that a device could do wrong here would make it fail.

use super::rough::{DEVICE, PORT};

/// A fault to be caused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The line for the model's control socket, with `F` for the function. A single word is the
    /// name of a misbehaviour.
    pub(super) fault: &'static str,
    /// The line that ends it; misbehaviours are ended automatically.
    pub(super) end: &'static str,
    pub(super) function: Function,
    /// The checks that must fail then.
    pub(super) checks: &'static [&'static str],
}

/// The function of the software ConnectX that misbehaves, by its number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Function {
    Ib = 0,
    Roce = 1,
}

const fn ib(fault: &'static str, checks: &'static [&'static str]) -> Row {
    Row {
        fault,
        end: "",
        function: Function::Ib,
        checks,
    }
}

const fn roce(fault: &'static str, checks: &'static [&'static str]) -> Row {
    Row {
        function: Function::Roce,
        ..ib(fault, checks)
    }
}

const fn until(end: &'static str, row: Row) -> Row {
    Row { end, ..row }
}

/// Most faults affect many checks; those that were written for them are listed.
pub(super) const ROWS: &[Row] = &[
    // Identity of the port.
    until("link F up", ib("link F down", &["identity/port"])),
    ib("no-lid", &["identity/addresses"]),
    ib("no-partition", &["identity/partition"]),
    // Data.
    ib(
        "data",
        &[
            "open/auto",
            "open/ioctl",
            "open/invoke-write",
            "open/write",
            "open/auto, fixed doorbells",
            "open/ioctl, fixed doorbells",
            "open/invoke-write, fixed doorbells",
            "open/write, fixed doorbells",
            "open/many contexts",
            "doorbells/alone, 1 thread",
            "doorbells/batches, 1 thread",
            "doorbells/alone, 8 threads",
            "doorbells/batches, 8 threads",
            "doorbells/thread domain, alone",
            "doorbells/thread domain, batches",
            "rings/RC send",
            "rings/RC write",
            "rings/RC read",
            "rings/UC send",
            "errors/reset and again",
            "datagrams/InfiniBand, local",
            "datagrams/InfiniBand, global",
            "memory/sizes",
            "memory/many regions",
            "memory/relaxed ordering",
            "memory/device memory",
        ],
    ),
    ib(
        "data-beyond",
        &[
            "rings/RC send",
            "rings/RC write",
            "rings/RC read",
            "rings/UC send",
        ],
    ),
    ib(
        "inline",
        &[
            "rings/RC inline send",
            "rings/UC inline send",
            "rings/RC inline write",
        ],
    ),
    ib("late-reads", &["rings/RC fence", "rings/RC read"]),
    ib("page-order", &["rings/RC write", "memory/relaxed ordering"]),
    // Requests and doorbells.
    ib(
        "lost-request",
        &[
            "rings/send queue wraps",
            "rings/receive queue wraps",
            "rings/shared receive queue wraps",
        ],
    ),
    ib("second-register", &["doorbells/alone, 1 thread"]),
    ib("second-register", &["doorbells/thread domain, batches"]),
    // Completions.
    ib("lost-completions", &["open/auto"]),
    ib("completion-order", &["errors/flush"]),
    ib(
        "byte-count",
        &[
            "rings/RC send",
            "rings/RC write with immediate",
            "rings/UC write with immediate",
        ],
    ),
    ib(
        "immediate-order",
        &[
            "rings/RC send with immediate",
            "rings/RC write with immediate",
            "rings/UC send with immediate",
            "rings/UC write with immediate",
        ],
    ),
    ib(
        "no-immediate",
        &[
            "rings/RC send with immediate",
            "rings/UC send with immediate",
        ],
    ),
    ib("third-lap", &["completions/laps"]),
    ib("resize-loses", &["completions/resize under load"]),
    ib("last-vector", &["completions/event on every vector"]),
    ib(
        "no-events",
        &[
            "completions/solicited only",
            "completions/late arm",
            "completions/armed twice",
        ],
    ),
    ib("solicited-arm", &["completions/solicited only"]),
    ib("late-arm", &["completions/late arm"]),
    ib("arm-stays", &["completions/armed twice"]),
    ib(
        "stamp-back",
        &[
            "completions/timestamps",
            "completions/timestamps, time of day",
        ],
    ),
    ib("stamp-far", &["completions/timestamps, time of day"]),
    ib("long-entries", &["completions/entries of 128 bytes"]),
    ib("long-entries", &["completions/padded entries"]),
    ib(
        "compressed-count",
        &["completions/compressed entries, hash"],
    ),
    ib(
        "compressed-count",
        &["completions/compressed entries, checksum"],
    ),
    // What is written into completions that no device writes.
    until("spoil F 0", ib("spoil F 100 opcode", &["open/auto"])),
    until("spoil F 0", ib("spoil F 100 user-index", &["open/auto"])),
    until("spoil F 0", ib("spoil F 100 counter", &["open/auto"])),
    until("spoil F 0", ib("spoil F 100 syndrome", &["open/auto"])),
    until("spoil F 0", ib("spoil F 100 length", &["rings/RC send"])),
    // Errors.
    ib(
        "syndrome",
        &[
            "errors/message too long",
            "errors/message too long, shared queue",
            "errors/wrong key",
            "errors/beyond the region",
            "errors/write to read-only",
            "errors/queue pair without the right",
            "errors/read into what is not writable",
            "errors/atomic without the right",
            "errors/no receive",
            "errors/nobody answers",
            "memory/rights",
            "memory/deregistered",
        ],
    ),
    ib("flushed-as-done", &["errors/flush", "errors/wrong key"]),
    ib(
        "cuts-messages",
        &[
            "errors/message too long",
            "errors/message too long, shared queue",
        ],
    ),
    ib(
        "grants",
        &[
            "errors/wrong key",
            "errors/beyond the region",
            "errors/write to read-only",
            "errors/queue pair without the right",
            "errors/atomic without the right",
            "memory/rights",
            "memory/deregistered",
        ],
    ),
    ib("grants-locally", &["errors/read into what is not writable"]),
    ib("rnr-forever", &["errors/no receive"]),
    ib("answers-for-others", &["errors/nobody answers"]),
    ib("keeps-positions", &["errors/reset and again"]),
    // Datagrams.
    roce(
        "data",
        &[
            "datagrams/RoCE v1",
            "datagrams/RoCE v2, IPv4",
            "datagrams/RoCE v2, IPv6",
        ],
    ),
    ib(
        "header-flag",
        &[
            "datagrams/InfiniBand, local",
            "datagrams/InfiniBand, global",
        ],
    ),
    roce(
        "header-missing",
        &[
            "datagrams/RoCE v1",
            "datagrams/RoCE v2, IPv4",
            "datagrams/RoCE v2, IPv6",
        ],
    ),
    roce(
        "header-address",
        &[
            "datagrams/RoCE v1",
            "datagrams/RoCE v2, IPv4",
            "datagrams/RoCE v2, IPv6",
        ],
    ),
    roce(
        "header-protocol",
        &[
            "datagrams/RoCE v1",
            "datagrams/RoCE v2, IPv4",
            "datagrams/RoCE v2, IPv6",
        ],
    ),
    roce(
        "traffic-class",
        &[
            "datagrams/RoCE v1",
            "datagrams/RoCE v2, IPv4",
            "datagrams/RoCE v2, IPv6",
        ],
    ),
    ib("source-queue", &["datagrams/InfiniBand, local"]),
    ib("queue-key", &["datagrams/another key"]),
    // Commands.
    until(
        "fail F 200 0",
        ib(
            "fail F 200 9",
            &["memory/window, type 1", "memory/window, type 2"],
        ),
    ),
    ib("no-capabilities", &["firmware/capabilities 0x0"]),
    until(
        "fail F a01 0",
        ib("fail F a01 9", &["firmware/scheduling tree"]),
    ),
    until(
        "fail F 505 0",
        ib(
            "fail F 505 9",
            &["firmware/attach RC", "firmware/attach UC"],
        ),
    ),
    ib("attach-ignored", &["firmware/leaf with a cap"]),
    until("shaper on", ib("shaper off", &["firmware/leaf with a cap"])),
    until(
        "fail F 780 0",
        ib("fail F 780 9", &["firmware/table of rates"]),
    ),
    // Frames.
    roce("data", &["frames/own frames"]),
    // Atomics.
    ib("atomic-operands", &["atomics/compare and swap"]),
    ib("atomic-compare", &["atomics/compare and swap"]),
    ib("atomic-carry", &["atomics/fetch and add"]),
    ib(
        "atomic-answer",
        &[
            "atomics/compare and swap",
            "atomics/fetch and add",
            "atomics/byte order",
        ],
    ),
    ib("atomic-lost", &["atomics/at the same time"]),
    // Trouble.
    ib("port-stays", &[PORT]),
    ib("data", &[DEVICE]),
];

/// Checks that no misbehaviour of this device causes to fail, and why.
pub(super) const BEYOND: &[(&str, &str)] = &[
    ("identity/kernel", INFORMATIVE),
    ("identity/machine", INFORMATIVE),
    ("identity/driver", INFORMATIVE),
    ("identity/firmware", INFORMATIVE),
    ("identity/board", INFORMATIVE),
    ("identity/pci", INFORMATIVE),
    (
        "identity/limits",
        "queried when the driver is bound; a unit test has limits of 0",
    ),
    ("open/firmware commands", "skipped where they are refused"),
    ("rings/RC atomic write", NOT_HERE),
    ("rings/RC flush", NOT_HERE),
    (
        "frames/rate",
        "an emulated machine sends hardly faster than the rate that is set",
    ),
    ("speed/later queue pairs", MEASURES),
    ("speed/bytes in the request", MEASURES),
    ("speed/batches", MEASURES),
    ("firmware/capabilities 0x1", "skipped where it is refused"),
    ("firmware/capabilities 0xc", "skipped where it is refused"),
    ("firmware/capabilities 0x20", "skipped where it is refused"),
];

const INFORMATIVE: &str = "reports what is there; nothing is right or wrong";
const MEASURES: &str = "measures; it may be slow, and is never wrong";
const NOT_HERE: &str = "a ConnectX does not have it; rxe has";
