//! How the program is linked.

fn main() {
    // Valgrind finds no symbols in a program with a segment that contains only aligned zeros; this
    // makes that segment part of another.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size=65536");
    println!("cargo::rerun-if-changed=build.rs");
}
