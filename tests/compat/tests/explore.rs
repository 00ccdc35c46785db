#![allow(clippy::unwrap_used, reason = "x")]
use compat_tests::by_address::{boot, finish};
use testbed::Command;
#[test]
fn explore() {
    let guest = boot().unwrap();
    let script = std::fs::read_to_string("/tmp/w/explore.sh").unwrap();
    let out = guest.run(Command::shell(script).timeout(std::time::Duration::from_secs(280))).unwrap();
    println!("{}\n---\n{}", out.stdout_text(), out.stderr_text());
    println!("{:?}", finish(guest));
}
