//! Builds the loader's executable from this same crate, so that the library can embed it.
//!
//! As for the stub, one direct call of the compiler is enough: the loader has no dependencies, and uses the target's
//! own `core`. Unlike the stub, the loader is also built for arm64, with the linker that cargo uses for that target.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let variable =
        |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"));
    let elf = PathBuf::from(variable("OUT_DIR")).join("loader.elf");
    let arch = variable("CARGO_CFG_TARGET_ARCH");
    if !["x86_64", "aarch64"].contains(&arch.as_str()) || variable("CARGO_CFG_TARGET_OS") != "linux"
    {
        // The lab reports at run time that this target is not supported.
        std::fs::write(&elf, [])
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", elf.display()));
        return;
    }
    let mut compiler = Command::new(variable("RUSTC"));
    compiler.args(["--edition", "2024", "--crate-name", "loader"]);
    compiler.args(["--crate-type", "bin", "--cfg", "vmbell_loader_elf"]);
    compiler.args(["--target", &variable("TARGET"), "src/lib.rs", "-o"]);
    compiler.arg(&elf);
    let linker = env::var("RUSTC_LINKER").ok();
    // The options depend on whether the linker itself is called or a C compiler.
    let is_lld = linker
        .as_deref()
        .and_then(|linker| Path::new(linker).file_stem())
        .is_some_and(|name| name.to_string_lossy().ends_with("lld"));
    let mut codegen = vec![
        "opt-level=2",
        "panic=abort",
        "codegen-units=1",
        "debuginfo=0",
        "strip=symbols",
        "relocation-model=static",
        "target-feature=+crt-static",
        "overflow-checks=no",
        "force-unwind-tables=no",
        "link-arg=-static",
        "link-arg=-nostdlib",
    ];
    if is_lld {
        // The target's own start files belong to libc.
        codegen.extend(["link-self-contained=no", "link-arg=--build-id=none"]);
    } else {
        codegen.extend([
            "link-arg=-nostartfiles",
            "link-arg=-no-pie",
            "link-arg=-Wl,--build-id=none",
        ]);
    }
    for option in codegen {
        compiler.args(["-C", option]);
    }
    if let Some(linker) = linker {
        compiler.args(["-C", &format!("linker={linker}")]);
    }
    let status = compiler
        .status()
        .unwrap_or_else(|error| panic!("cannot run {compiler:?}: {error}"));
    assert!(
        status.success(),
        "cannot build the loader: {compiler:?} ended with {status}"
    );
}
