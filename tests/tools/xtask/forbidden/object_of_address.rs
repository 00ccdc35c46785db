//! Obtains the kernel object, and the opened file behind it, from the path of a datagram.
#![forbid(unsafe_code)]

use uverbs::{AddressVector, Context};
use uverbs_core::Object;

fn main() {
    let context = Context::open("rxe0").unwrap();
    let pd = context.alloc_pd().unwrap();
    let handle = pd.create_ah(&AddressVector::default()).unwrap();
    let destination = handle.to(1, 1);
    let object: Option<&Object> = None;
    let object = destination.address.object.as_deref(); //~ E0616
    drop(object.map(Object::file));
}
