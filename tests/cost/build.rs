//! How the program is linked.

fn main() {
    // Valgrind finds no names in a program with a segment that only aligned zeroes are in, which
    // this makes part of the other.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size=65536");
    println!("cargo::rerun-if-changed=build.rs");
}
