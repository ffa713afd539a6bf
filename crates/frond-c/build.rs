//! The name by which programs find the shared library when they run; its number changes when old
//! programs cannot.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfrond.so.0");
}
