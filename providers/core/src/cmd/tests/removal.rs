//! Which errors mean that the device is gone.

use super::{Bench, Script};
use crate::cmd::pd;
use crate::error::{Errno, ErrorKind};
use crate::file::CommandPath;
use crate::sys::Uhw;

/// The query of a port, by which a removal is confirmed: the method, and the command.
const QUERY: [&str; 2] = ["ioctl 0/2 ", "write 2 "];
const ALLOC: [&str; 2] = ["invoke 3 ", "write 3 "];

#[test]
fn a_refusal_means_a_removal_if_the_port_is_refused_too() {
    for (errno, port, gone, recorded) in [
        (Errno::IO, None, false, false),
        (Errno::IO, Some(Errno::IO), true, true),
        // The driver has given up, and the kernel has not removed it yet.
        (Errno::IO, Some(Errno::NOLINK), true, false),
        (Errno::IO, Some(Errno::INVAL), false, false),
        (Errno::NOLINK, None, false, false),
        (Errno::NOLINK, Some(Errno::NOLINK), true, false),
        (Errno::NOLINK, Some(Errno::IO), true, false),
        (Errno::NOLINK, Some(Errno::INVAL), false, false),
        (Errno::INVAL, Some(Errno::IO), false, false),
        (Errno::NOMEM, Some(Errno::NOLINK), false, false),
    ] {
        for (path, query, alloc) in [
            (CommandPath::Auto, QUERY[0], ALLOC[0]),
            (CommandPath::Write, QUERY[1], ALLOC[1]),
        ] {
            let mut script = Script::new().refusing(alloc, errno);
            if path == CommandPath::Write {
                // A kernel without the method.
                script = script.refusing(QUERY[0], Errno::NOTTY);
            }
            if let Some(port) = port {
                script = script.refusing(query, port);
            }
            let bench = Bench::on_path(script, path);
            let error = pd::alloc(&bench.file, &Uhw::NONE).unwrap_err();
            let found = error.kind() == ErrorKind::DeviceRemoved;
            assert_eq!(found, gone, "{errno}, port {port:?}, {path:?}");
            assert_eq!(bench.file.is_removed(), recorded, "{errno}, port {port:?}");
            assert_eq!(error.errno(), Some(errno));
        }
    }
}

#[test]
fn a_removal_that_was_seen_is_not_queried_again() {
    let bench = Bench::new(Script::new().refusing(ALLOC[0], Errno::NOLINK));
    bench.file.set_removed();
    let error = pd::alloc(&bench.file, &Uhw::NONE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceRemoved);
    assert_eq!(bench.lines().len(), 1);
}
