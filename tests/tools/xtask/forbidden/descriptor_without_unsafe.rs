//! Borrows the device's descriptor without `unsafe`.
#![forbid(unsafe_code)]

fn main() {
    let context = uverbs::Context::open("rxe0").unwrap();
    println!("{:?}", context.device_fd()); //~ E0133
    println!("{:?}", context.info());
}
