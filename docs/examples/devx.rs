//! Talks to the firmware: queries what the device can do, creates an object with a firmware
//! command, queries it, and decodes a refusal of the firmware by name.
//!
//! `devx [DEVICE]`
//!
//! # Safety
//!
//! The objects that this program creates use no memory.
#![allow(unsafe_code, reason = "gives the firmware commands of its own")]

use std::error::Error;
use std::process::ExitCode;

use uverbs::Context;
use uverbs::mlx5::prm::{Field, Mailbox, field, opcode, word};

const OBJECT_TYPE: Field = field(0x04, 15, 0);
const OBJECT_ID: Field = word(0x08);
const HIERARCHY: Field = field(0x18, 31, 24);
/// The scheduling hierarchy of a function's own queues.
const NIC: u32 = 3;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let device = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "mlx5_0".to_owned());
    let context = Context::open(&device)?;
    let devx = context.mlx5()?.devx()?;

    // What this library knows has types; everything else is words in a mailbox.
    let general = devx.general_caps()?;
    println!("{} user contexts", 1_u32 << general.log_max_uctx);
    let raw = devx.capabilities(0)?;
    println!(
        "at most {} queue pairs",
        1_u32 << raw.get(field(0x20, 4, 0))
    );

    let mut create = Mailbox::command(opcode::CREATE_GENERAL_OBJECT, 0, 144);
    create.set(OBJECT_TYPE, opcode::SCHEDULING_ELEMENT.into());
    create.set(HIERARCHY, NIC);
    // SAFETY: an element of the scheduling tree uses no memory.
    let root = unsafe { devx.create(&create, 16, []) }?;
    println!("element {}", root.id());

    let mut query = Mailbox::command(opcode::QUERY_GENERAL_OBJECT, 0, 16);
    query.set(OBJECT_TYPE, opcode::SCHEDULING_ELEMENT.into());
    query.set(OBJECT_ID, root.id());
    println!("{:?}", root.query(&query, 256)?);

    // An error has the errno that the firmware's status stands for, the status, and the syndrome.
    create.set(HIERARCHY, 0x7f);
    // SAFETY: as above.
    let refused = unsafe { devx.create(&create, 16, []) };
    println!("refused: {}", refused.err().ok_or("no such hierarchy")?);

    // Dropping it would destroy it too, without reporting errors.
    root.destroy()?;
    println!("{} left behind", context.leaked());
    Ok(())
}
