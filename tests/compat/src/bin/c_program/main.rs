//! Programs as C programs are, linked static with the library: `orders`, `by-address`.

mod by_address;
mod face;
mod orders;

use uverbs_compat as _;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    assert!(["orders", "by-address"].contains(&name.as_str()), "{name}?");
    if name == "orders" {
        orders::run();
    } else {
        by_address::run();
    }
    println!("ok");
}
