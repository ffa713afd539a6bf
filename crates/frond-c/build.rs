//! Sets the soname of the shared library, by which programs find it at run time. Its number changes
//! when programs must be relinked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfrond.so.0");
}
