//! Hooks for programs that do not contain the checker: each does what the instrumented code meant.
//!
//! cargo builds such programs along with the tests: the package's own binaries and tests that do not use the checker.
//! They share the instrumented libraries, and would not link without hooks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, first_error};
use crate::folder::Folder;
use crate::toolchain::Toolchain;

/// The source of the hooks.
pub(crate) const SOURCE: &str = include_str!("passthrough_hooks.rs");

/// Compiles the hooks into `folder`, unless they are already there. Returns the path of the archive.
pub(crate) fn build(
    folder: &Folder,
    toolchain: &Toolchain,
    target: &str,
) -> Result<PathBuf, Error> {
    let archive = folder.path.join("libvmbell_passthrough.a");
    if archive.exists() {
        return Ok(archive);
    }
    // Another run may compile the hooks at the same time: use a unique name, then one rename.
    let own = folder
        .path
        .join(format!("passthrough-{}", std::process::id()));
    std::fs::create_dir_all(&own).map_err(Error::file("create", &own))?;
    let built = compile(&own, toolchain, target).and_then(|rlib| {
        std::fs::rename(&rlib, &archive).map_err(Error::file("rename", rlib))?;
        Ok(archive)
    });
    std::fs::remove_dir_all(&own).map_err(Error::file("remove", &own))?;
    built
}

fn compile(own: &Path, toolchain: &Toolchain, target: &str) -> Result<PathBuf, Error> {
    let source = own.join("hooks.rs");
    std::fs::write(&source, SOURCE).map_err(Error::file("write", &source))?;
    let rlib = own.join("libvmbell_passthrough.rlib");
    let output = Command::new(&toolchain.rustc)
        .arg(&source)
        .args([
            "--crate-name",
            "vmbell_passthrough",
            "--crate-type",
            "rlib",
            "--edition",
            "2024",
        ])
        .args(["--target", target, "-Copt-level=3", "-Cpanic=abort"])
        // All hooks are in one object, so that the linker takes either all of them or none. Next to the checker's hooks
        // they would collide.
        .arg("-Ccodegen-units=1")
        .arg("-o")
        .arg(&rlib)
        .output()
        .map_err(Error::start(&toolchain.rustc))?;
    if output.status.success() {
        Ok(rlib)
    } else {
        Err(Error::Passthrough {
            reason: first_error(&output.stderr),
        })
    }
}
