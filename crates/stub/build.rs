//! Builds the stub's executable from this same crate, for the monitor to embed.
//!
//! One direct call of the compiler: the stub has no dependencies, and a second cargo inside the
//! first would want its own lock and target folder. The host's own target serves, so nothing
//! but a Rust toolchain and a C linker is needed.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_ELF").is_none() {
        return;
    }
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=stub.ld");
    let variable =
        |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"));
    let elf = PathBuf::from(variable("OUT_DIR")).join("stub.elf");
    let target = variable("TARGET");
    if variable("CARGO_CFG_TARGET_ARCH") != "x86_64" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        // The engine says at run time that it does not work here.
        std::fs::write(&elf, [])
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", elf.display()));
        return;
    }
    let script = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("stub.ld");
    let mut compiler = Command::new(variable("RUSTC"));
    compiler
        .args([
            "--edition",
            "2024",
            "--crate-name",
            "stub",
            "--crate-type",
            "bin",
            "--cfg",
            "vmbell_stub_elf",
        ])
        .args(["--target", &target, "src/lib.rs", "-o"])
        .arg(&elf)
        .args([
            "-C",
            "opt-level=3",
            "-C",
            "panic=abort",
            "-C",
            "codegen-units=1",
            "-C",
            "debuginfo=0",
        ])
        // Reached by 32-bit displacements from itself only, and linked above 4 GiB.
        .args([
            "-C",
            "relocation-model=pic",
            "-C",
            "overflow-checks=no",
            "-C",
            "force-unwind-tables=no",
        ])
        // Direct code must leave the guest's vector registers alone; loops are not worth them here.
        .args(["-C", "no-vectorize-loops", "-C", "no-vectorize-slp"])
        .args([
            "-C",
            "link-arg=-nostartfiles",
            "-C",
            "link-arg=-nostdlib",
            "-C",
            "link-arg=-static",
        ])
        .args([
            "-C",
            "link-arg=-no-pie",
            "-C",
            "link-arg=-Wl,--build-id=none",
            "-C",
            "link-arg=-Wl,-z,noseparate-code",
        ])
        .arg("-C")
        .arg(format!("link-arg=-Wl,-T,{}", script.display()));
    let status = compiler
        .status()
        .unwrap_or_else(|error| panic!("cannot run {compiler:?}: {error}"));
    assert!(
        status.success(),
        "cannot build the stub: {compiler:?} ended with {status}"
    );
}
