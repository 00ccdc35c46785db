//! Lists the RDMA devices of this machine, whether they can be opened, their ports and addresses.
//!
//! `devices`

use std::error::Error;
use std::process::ExitCode;

use uverbs::discover::Access;
use uverbs::{Context, Device};

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
    let devices = uverbs::devices()?;
    if devices.is_empty() {
        return Err("this machine has no RDMA device".into());
    }
    for device in &devices {
        show(device)?;
    }
    println!("{} devices", devices.len());
    Ok(())
}

fn show(device: &Device) -> Result<(), uverbs::Error> {
    let info = device.info();
    let node = info
        .path
        .as_ref()
        .map_or_else(String::new, |path| path.display().to_string());
    println!("{} {node}", device.name());
    // A device that cannot be used is listed too, with the reason.
    if let Access::Refused(why) = &info.access {
        println!("  cannot be opened: {why}");
        return Ok(());
    }
    if let Err(why) = device.check_supported() {
        println!("  cannot be used: {why}");
        return Ok(());
    }
    let context = device.open()?;
    let attr = context.device_attr();
    println!(
        "  firmware {}, at most {} queue pairs",
        context.firmware_version(),
        attr.max_qp
    );
    for port in 1..=attr.phys_port_cnt {
        show_port(&context, port)?;
    }
    Ok(())
}

fn show_port(context: &Context, number: u8) -> Result<(), uverbs::Error> {
    let port = context.query_port(number)?;
    println!(
        "  port {number}: {}, {}, MTU {} bytes",
        port.state,
        port.link_layer,
        port.active_mtu.bytes().unwrap_or(0)
    );
    for entry in context.gid_table()? {
        if entry.port == u32::from(number) {
            println!(
                "    GID {:>3}  {:<40} {}",
                entry.index, entry.gid, entry.gid_type
            );
        }
    }
    Ok(())
}
