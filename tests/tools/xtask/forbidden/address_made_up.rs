//! Makes up the path of a datagram: a kernel handle, and fields that a device reads.
#![forbid(unsafe_code)]

use uverbs::address::Address;
use uverbs::address::Destination;
use uverbs::{AddressVector, Context, SendRequest};

fn main() {
    let context = Context::open("rxe0").unwrap();
    let pd = context.alloc_pd().unwrap();
    let handle = pd.create_ah(&AddressVector::default()).unwrap();
    let destination = handle.to(1, 1);
    let (object, number) = (None::<()>, destination.address.number() + 1);
    let vector = destination.address.vector().map(|byte| byte ^ 0xff);
    let address = destination.address.clone();
    println!("{object:?} {number} {vector:?}");
    let address = Address { number, ..address }; //~ E0451
    let address = &address;
    let to = Destination {
        address,
        ..destination
    };
    let _ = SendRequest::send(&[]).to(to);
}
