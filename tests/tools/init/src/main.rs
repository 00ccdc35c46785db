//! Process 1 of a guest: mounts what programs need, loads modules, sets up the network, then runs
//! the host's commands.

mod channel;
mod command;
mod error;
mod exec;
mod kernel_log;
mod modules;
mod mounts;
mod network;
mod reaper;
mod terminal;

use crate::channel::{Incoming, Outgoing};
use crate::command::Commands;
use crate::error::{Doing as _, Error};
use crate::kernel_log::KernelLog;
use guest_init::{CONFIG_PATH, Config, Event, PROBE, PROBED, Request, Topology};
use nix::sys::reboot::{RebootMode, reboot};
use std::sync::Arc;

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("exec") => exec::become_command(args.next().as_deref().unwrap_or_default()),
        Some(PROBE) => {
            println!("{PROBED}");
            power_off();
            return;
        }
        _ => {}
    }
    if let Err(error) = serve() {
        // Only the console is left to report it to.
        eprintln!("testbed: {error}");
    }
    power_off();
}

fn serve() -> Result<(), Error> {
    mounts::mount_all()?;
    let config = read_config()?;
    let loaded = modules::load_all(&config.modules);
    let (incoming, outgoing) = channel::open()?;
    let log = Arc::new(KernelLog::open(outgoing.clone())?);
    log.forward();
    let network = loaded.and_then(|()| {
        channel::name_ports()?;
        let network = network::set_up(config.topology)?;
        network::devices::set_up(&config.devices)?;
        Ok(network)
    });
    match network {
        Ok(network) => announce(&outgoing, config.topology, &network)?,
        Err(error) => {
            log.drain();
            outgoing.send(&Event::Failed {
                why: error.to_string(),
            });
            return Ok(());
        }
    }
    answer(incoming, &Commands::new(outgoing, log));
    Ok(())
}

fn read_config() -> Result<Config, Error> {
    let text = std::fs::read(CONFIG_PATH).doing(|| format!("reading {CONFIG_PATH}"))?;
    serde_json::from_slice(&text).doing(|| format!("understanding {CONFIG_PATH}"))
}

fn announce(
    outgoing: &Outgoing,
    topology: Topology,
    network: &network::Network,
) -> Result<(), Error> {
    let name = nix::sys::utsname::uname().doing(|| "asking for the kernel's release".into())?;
    outgoing.send(&Event::Ready {
        release: name.release().to_string_lossy().into_owned(),
        uptime_us: kernel_log::uptime_us(),
        separate_namespaces: topology == Topology::TwoHosts && network.separate_namespaces,
    });
    Ok(())
}

/// Carries out the host's requests until it asks to power off or disconnects.
fn answer(incoming: Incoming, commands: &Commands) {
    for request in incoming {
        match request {
            Request::Launch(launch) => commands.launch(&launch),
            Request::Input { id, data } => commands.input(id, data.0),
            Request::CloseInput { id } => commands.close_input(id),
            Request::Signal { id, signal } => commands.signal(id, signal),
            Request::Resize { id, size } => commands.resize(id, size),
            Request::PowerOff => return,
        }
    }
}

fn power_off() {
    nix::unistd::sync();
    let Err(errno) = reboot(RebootMode::RB_POWER_OFF);
    eprintln!("testbed: power off: {errno}");
}
