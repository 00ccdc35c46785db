//! Asynchronous events as stock rdma-core programs receive them.

use std::path::Path;

use testbed::Function;

use crate::support::{assert_only, machine, run};

#[test]
fn programs_get_every_event_that_is_modelled() {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest_programs/events.py");
    let guest = machine("6.12", &[Function::Ib, Function::Ib])
        .with_debian_packages(&["python3-pyverbs"])
        .with_file(program, "/events.py")
        .boot()
        .expect("the machine boots");
    let said = run(&guest, "python3 /events.py");
    assert!(said.ends_with("done\n"), "{said}");
    println!("{said}");
    // What the program did on purpose is reported, and nothing else.
    assert_only(
        &guest,
        "{\"completion queue overrun\": 1, \"memory key\": 1}",
        // The log reports a queue that overran.
        "CQ error on CQN",
    );
    guest.power_off().expect("the machine powers off");
}
