//! Work requests copied through doorbell pages by stock libmlx5.

use testbed::{Connectx, Function, Guest};

use crate::support::{ask, assert_silent, boot, both_sides, leave};

const DEVICES: [&str; 2] = ["mlx5_0", "mlx5_1"];

/// Number of whole copies that the model received.
fn copies(guest: &Guest) -> u32 {
    let counts = ask(guest, "doorbells");
    let number = counts.split("copies: ").nth(1).expect("a count of copies");
    number
        .split(',')
        .next()
        .and_then(|number| number.parse().ok())
        .expect("a number")
}

/// The kernel first tests whether copies arrive whole; then the library copies inline work
/// requests.
///
/// On a busy host the rest of a copy can arrive too late for the kernel's test, and the kernel does
/// without copies from then on; therefore there is more than one attempt.
/// copies from then on: so there is more than one try.
fn copied(kernel: &str) {
    let mut counts = Vec::new();
    while counts.len() < 3 {
        let sent = sent_as_copies(kernel);
        if sent >= 800 {
            return;
        }
        counts.push(sent);
    }
    panic!("copies among 1000 messages: {counts:?}");
}

/// Number of copies among 1000 inline messages.
fn sent_as_copies(kernel: &str) -> u32 {
    let guest = boot(
        kernel,
        Connectx::new(&[Function::Ib, Function::Ib]).blueflame(),
    );
    for kind in ["rc", "uc", "ud", "srq", "xsrq"] {
        both_sides(&guest, &format!("ibv_{kind}_pingpong -n 100"), DEVICES);
    }
    let before = copies(&guest);
    // These messages are inline, so each is a copy; on a busy host some do not arrive in time.
    both_sides(&guest, "ib_send_lat -F -n 500 -s 64", DEVICES);
    let sent = copies(&guest) - before;
    println!("{kernel}: {}", ask(&guest, "doorbells"));
    leave(&guest);
    assert_silent(&guest);
    guest.power_off().expect("the machine powers off");
    sent
}

#[test]
fn inline_messages_are_copies_on_6_1() {
    copied("6.1");
}

#[test]
fn inline_messages_are_copies_on_6_12() {
    copied("6.12");
}

#[test]
fn inline_messages_are_copies_on_the_newest() {
    copied("newest");
}
