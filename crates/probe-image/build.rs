//! Builds the guest image from this same crate, so that the library can embed it.
//!
//! As for the stub, one direct call of the compiler is enough. The image has no dependencies and is built for the
//! host's target, so the build needs only a Rust toolchain and a C linker.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=probe.ld");
    println!("cargo::rerun-if-changed=build.rs");
    let variable =
        |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"));
    let elf = PathBuf::from(variable("OUT_DIR")).join("probe.elf");
    if variable("CARGO_CFG_TARGET_ARCH") != "x86_64" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        // The image is for x86-64, and is built only with the host's own toolchain.
        std::fs::write(&elf, [])
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", elf.display()));
        return;
    }
    let script = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("probe.ld");
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.args(["--edition", "2024", "--crate-name", "probe"]);
    compiler.args(["--crate-type", "bin", "--cfg", "vmbell_probe_elf"]);
    compiler.args(["--target", &variable("TARGET"), "src/lib.rs", "-o"]);
    compiler.arg(&elf);
    let codegen = [
        "opt-level=2",
        // Hosts that emulate the guest's kernel mode (kvm_pvm) have no vector instructions there. The compiler warns
        // that this changes how floating-point arguments are passed; the image passes none.
        "target-feature=-sse,-sse2",
        "panic=abort",
        "codegen-units=1",
        "debuginfo=0",
        // Keeps the names of functions, for the test that looks for vector instructions.
        "strip=debuginfo",
        // Linked at 2 MiB and never moved.
        "relocation-model=static",
        "overflow-checks=no",
        "force-unwind-tables=no",
        "link-arg=-nostartfiles",
        "link-arg=-nostdlib",
        "link-arg=-static",
        "link-arg=-no-pie",
        "link-arg=-Wl,--build-id=none",
        // Multiboot's header must be in the first 8 KiB of the file.
        "link-arg=-Wl,-z,max-page-size=4096",
    ];
    for option in codegen {
        compiler.args(["-C", option]);
    }
    compiler
        .arg("-C")
        .arg(format!("link-arg=-Wl,-T,{}", script.display()));
    let status = compiler
        .status()
        .unwrap_or_else(|error| panic!("cannot run {compiler:?}: {error}"));
    assert!(
        status.success(),
        "cannot build the guest image: {compiler:?} ended with {status}"
    );
}
