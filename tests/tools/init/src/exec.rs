//! What a newly started process sets up before it becomes the command.
//!
//! It is a process of its own (`init exec JSON`), so that any step may fail with a plain message
//! and a program with threads need not do anything between `fork` and `exec`.

use crate::error::{Doing as _, Error};
use crate::mounts::CGROUPS;
use crate::network::namespace;
use guest_init::{Launch, Limit, Terminal};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid, setsid};
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, exit};

/// Environment variables of every command besides those that the host sets.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("HOME", "/root"),
    ("LANG", "C.UTF-8"),
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("RUST_BACKTRACE", "1"),
    ("TERM", "xterm-256color"),
];

/// The file in which the process says why the command could not be started.
pub(crate) fn complaint(id: u32) -> String {
    format!("/run/testbed-{id}.error")
}

/// The control group of a command.
pub(crate) fn cgroup(id: u32) -> String {
    format!("{CGROUPS}/command-{id}")
}

/// Becomes the command that the JSON text describes.
pub(crate) fn become_command(text: &str) -> ! {
    let launch: Launch = match serde_json::from_str(text) {
        Ok(launch) => launch,
        Err(error) => {
            eprintln!("testbed: not a command: {error}");
            exit(127);
        }
    };
    // The file has to exist before privileges and the view of the file system change.
    let complaint = File::create(complaint(launch.id));
    let error = match prepare(&launch) {
        Ok(mut command) => Error::new(format!("starting {}", launch.program), command.exec()),
        Err(error) => error,
    };
    if let Ok(mut file) = complaint {
        let _ = std::io::Write::write_all(&mut file, error.to_string().as_bytes());
    }
    exit(127)
}

fn prepare(launch: &Launch) -> Result<Command, Error> {
    setsid().doing(|| "making a session".into())?;
    if let Terminal::Pty(_) = launch.terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())
            .doing(|| "taking the terminal".into())?;
    }
    let group = cgroup(launch.id);
    fs::write(format!("{group}/cgroup.procs"), "0").doing(|| format!("joining {group}"))?;
    if let Some(name) = &launch.namespace {
        enter_namespace(name)?;
    }
    for limit in &launch.limits {
        set_limit(limit)?;
    }
    let cwd = launch.cwd.as_deref().unwrap_or("/root");
    std::env::set_current_dir(cwd).doing(|| format!("going to {cwd}"))?;
    if let Some(user) = launch.user {
        become_user(user).doing(|| format!("becoming user {user}"))?;
    }
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .env_clear()
        .envs(ENVIRONMENT)
        .envs(launch.env.iter().map(|(key, value)| (key, value)));
    Ok(command)
}

/// Enters a network namespace, with a `/sys` that shows its devices.
fn enter_namespace(name: &str) -> Result<(), Error> {
    let path = format!("/run/netns/{name}");
    let file =
        File::open(&path).doing(|| format!("looking for the network namespace {name} ({path})"))?;
    if namespace::is_own(&file) {
        return Ok(());
    }
    setns(file, CloneFlags::CLONE_NEWNET)
        .doing(|| format!("entering the network namespace {name}"))?;
    let doing = || format!("making a /sys for the network namespace {name}");
    unshare(CloneFlags::CLONE_NEWNS).doing(doing)?;
    let nothing = None::<&str>;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(nothing, "/", nothing, private, nothing).doing(doing)?;
    for (kind, target) in [
        ("sysfs", "/sys"),
        ("cgroup2", CGROUPS),
        ("debugfs", "/sys/kernel/debug"),
    ] {
        mount(Some(kind), target, Some(kind), MsFlags::empty(), nothing).doing(doing)?;
    }
    Ok(())
}

fn set_limit(limit: &Limit) -> Result<(), Error> {
    let resource = match limit.name.as_str() {
        "as" => Resource::RLIMIT_AS,
        "core" => Resource::RLIMIT_CORE,
        "data" => Resource::RLIMIT_DATA,
        "fsize" => Resource::RLIMIT_FSIZE,
        "memlock" => Resource::RLIMIT_MEMLOCK,
        "nofile" => Resource::RLIMIT_NOFILE,
        "nproc" => Resource::RLIMIT_NPROC,
        "stack" => Resource::RLIMIT_STACK,
        other => {
            return Err(Error::new(
                format!("setting the limit {other}"),
                "no such limit",
            ));
        }
    };
    setrlimit(resource, limit.value, limit.value)
        .doing(|| format!("setting the limit {}", limit.name))
}

fn become_user(user: u32) -> nix::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)
}
