//! Builds the stub's executable from this crate itself, so that the monitor can embed it.
//!
//! This calls the compiler directly, once for `vmbell-core` and once for the stub; they have no other dependencies. A
//! second cargo inside the first would need a separate lock and target folder. The two are optimized as one, so that
//! direct code calls no function. The target is the host's, so the build needs only a Rust toolchain and a C linker.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Code generation options for both crates.
const CODE: [&str; 9] = [
    "opt-level=3",
    "panic=abort",
    "codegen-units=1",
    "debuginfo=0",
    // Only 32-bit displacements from its own code reach it, and it is linked above 4 GiB.
    "relocation-model=pic",
    "overflow-checks=no",
    "force-unwind-tables=no",
    // Direct code must not touch the guest's vector registers, and the stub's loops would not gain from them.
    "no-vectorize-loops",
    "no-vectorize-slp",
];

const LINK: [&str; 7] = [
    "lto=fat",
    "link-arg=-nostartfiles",
    "link-arg=-nostdlib",
    "link-arg=-static",
    "link-arg=-no-pie",
    "link-arg=-Wl,--build-id=none",
    "link-arg=-Wl,-z,noseparate-code",
];

fn main() {
    let variable =
        |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"));
    let core = Path::new(vmbell_core::SOURCE);
    for path in ["build.rs", "src", "stub.ld"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!(
        "cargo::rerun-if-changed={}",
        core.with_file_name("").display()
    );
    let out = PathBuf::from(variable("OUT_DIR"));
    let elf = out.join("stub.elf");
    if variable("CARGO_CFG_TARGET_ARCH") != "x86_64" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        // With an empty file, the engine reports at run time that it does not work here.
        std::fs::write(&elf, [])
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", elf.display()));
        return;
    }
    let compiler = |name: &str, kind: &str| {
        let mut compiler = Command::new(variable("RUSTC"));
        compiler.args(["--edition", "2024", "--crate-name", name]);
        compiler.args(["--crate-type", kind, "--cfg", "vmbell_stub_elf"]);
        compiler.args(["--target", &variable("TARGET")]);
        compiler.args(CODE.iter().flat_map(|option| ["-C", *option]));
        compiler
    };
    let rlib = out.join("libvmbell_core.rlib");
    run(compiler("vmbell_core", "rlib")
        .arg(core)
        .arg("-o")
        .arg(&rlib));
    let script = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("stub.ld");
    run(compiler("stub", "bin")
        .args(LINK.iter().flat_map(|option| ["-C", *option]))
        .arg("-C")
        .arg(format!("link-arg=-Wl,-T,{}", script.display()))
        .arg("--extern")
        .arg(format!("vmbell_core={}", rlib.display()))
        .args(["src/lib.rs", "-o"])
        .arg(&elf));
}

fn run(compiler: &mut Command) {
    let status = compiler
        .status()
        .unwrap_or_else(|error| panic!("cannot run {compiler:?}: {error}"));
    assert!(
        status.success(),
        "cannot build the stub: {compiler:?} ended with {status}"
    );
}
