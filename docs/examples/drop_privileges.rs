//! Opens a device as root, changes to the user `nobody`, and continues: commands are sent by ioctl,
//! which the kernel carries out for any holder of the descriptor. Commands by write(2), which the
//! kernel refuses after such a change, are shown for comparison.
//!
//! `drop_privileges [DEVICE]`

use std::error::Error;
use std::process::ExitCode;

use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use uverbs::kernel::CommandPath;
use uverbs::owned::QueuePair;
use uverbs::transport::Rc;
use uverbs::{CompletionQueue, Context, ErrorKind, OpenOptions};

/// `nobody` and `nogroup`.
const NOBODY: u32 = 65534;

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
    let device = std::env::args().nth(1).unwrap_or_else(|| "rxe0".to_owned());
    if !Uid::effective().is_root() {
        return Err("start it as root: it shows how root is given up".into());
    }
    let context = Context::open(&device)?;
    let by_write = OpenOptions::new()
        .command_path(CommandPath::Write)
        .open(&device)?;
    let pd = context.alloc_pd()?;
    let mut cq = context.create_cq(16)?;
    let prepared = pd.queue_pair(Rc, &cq, &cq).max_inline_data(64).build()?;
    let itself = prepared.endpoint();
    let mut qp = QueuePair::new(prepared.handshake(itself)?);
    let [buffer] = pd.buffers::<1>(64)?;
    qp.recv(buffer, 0)?;

    let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    println!("running as user {}", Uid::effective());

    // The data path.
    qp.send_inline(b"still here", 0)?;
    finish(&mut qp, &mut cq)?;
    finish(&mut qp, &mut cq)?;
    println!("posting and polling work");

    // The control path.
    let another = context.create_cq(16)?;
    println!(
        "a completion queue of {} entries was made",
        another.entries()
    );
    match by_write.alloc_pd() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            println!("by write(2): {error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(_) => Err("the kernel took a write(2) of another user".into()),
    }
}

/// Waits until one more request has finished.
fn finish(qp: &mut QueuePair<Rc>, cq: &mut CompletionQueue) -> Result<(), Box<dyn Error>> {
    loop {
        let Some(completion) = cq.poll()? else {
            continue;
        };
        let finished = qp
            .complete(completion)
            .map_err(|_| "a completion of another queue pair")?;
        if finished.status().is_success() {
            return Ok(());
        }
        return Err(finished.status().to_string().into());
    }
}
