//! Reads cargo's own configuration files, to find a different compiler or a wrapper for the compiler.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::args::Invocation;
use crate::error::Error;
use crate::toolchain::{absolute, cargo};

/// Asks `cargo config get`.
#[derive(Debug)]
pub(crate) struct Config<'a> {
    args: &'a [OsString],
}

impl<'a> Config<'a> {
    pub(crate) fn new(invocation: &'a Invocation) -> Self {
        Self {
            args: &invocation.config_args,
        }
    }

    /// Reads a value of type string from the files and from `CARGO_*` variables; `None` if it is not set.
    ///
    /// `cargo config` is not stable, so an answer that cannot be read counts as "not set". cargo still reads the
    /// configuration itself, so only a wrapper like sccache is missed.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let output = Command::new(cargo())
            .args([
                "-Zunstable-options",
                "config",
                "get",
                key,
                "--format",
                "json-value",
            ])
            .args(self.args)
            .env("RUSTC_BOOTSTRAP", "1")
            .output()
            .ok()?;
        let value: String = serde_json::from_slice(&output.stdout).ok()?;
        (output.status.success() && !value.is_empty()).then_some(value)
    }

    /// The wrapper that the user asked for, such as sccache. It is called around the instrumented compiler.
    ///
    /// # Errors
    ///
    /// Fails if there is a wrapper for the workspace's own crates: it would see exactly the code under test.
    pub(crate) fn wrapper(&self) -> Result<Option<PathBuf>, Error> {
        let workspace = std::env::var("RUSTC_WORKSPACE_WRAPPER")
            .ok()
            .filter(|wrapper| !wrapper.is_empty());
        if let Some(wrapper) = workspace.or_else(|| self.get("build.rustc-workspace-wrapper")) {
            return Err(Error::WorkspaceWrapper(wrapper));
        }
        if let Some(wrapper) = std::env::var_os("RUSTC_WRAPPER") {
            // An empty variable disables the configuration's wrapper.
            return Ok((!wrapper.is_empty()).then(|| absolute(&wrapper)));
        }
        let Some(wrapper) = self.get("build.rustc-wrapper").map(PathBuf::from) else {
            return Ok(None);
        };
        if wrapper.is_relative() && wrapper.components().count() > 1 {
            return Err(Error::RelativeWrapper(wrapper.display().to_string()));
        }
        Ok(Some(wrapper))
    }
}
