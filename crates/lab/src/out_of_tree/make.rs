//! Runs `make` with nothing but what was unpacked, and the shell and small programs that every system has.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use super::{Headers, ModulesError};
use crate::unfinished;

/// Lines of the compiler's output that an error quotes.
const QUOTED: usize = 3;

/// Builds the modules in `folder` with the programs that were unpacked in `root`.
pub(super) fn run(headers: &Headers, root: &Path, folder: &Path) -> Result<(), ModulesError> {
    let make = root.join("usr/bin/make");
    let log = folder.join("make.log");
    let output = fs::File::create(&log).map_err(ModulesError::io("write", &log))?;
    let errors = output
        .try_clone()
        .map_err(ModulesError::io("write", &log))?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let paths = [
        root.join("usr/bin").display().to_string(),
        env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned()),
    ];
    let libraries = format!(
        "{root}/usr/lib/{triplet}:{root}/lib/{triplet}",
        root = root.display(),
        triplet = format_args!("{}-linux-gnu", env::consts::ARCH)
    );
    let child = Command::new(&make)
        .arg("-C")
        .arg(&headers.folder)
        .arg(format!("M={}", folder.display()))
        .args(["ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-"])
        .arg(format!("CC={}", headers.compiler()))
        // The modules are not debugged, and types for BPF need one more program.
        .args(["CONFIG_DEBUG_INFO=", "CONFIG_DEBUG_INFO_BTF_MODULES="])
        .arg(format!("-j{jobs}"))
        .arg("modules")
        .env("PATH", paths.join(":"))
        .env("LD_LIBRARY_PATH", libraries)
        .env("LC_ALL", "C")
        .env_remove("MAKEFLAGS")
        .env_remove("KCFLAGS")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn();
    let mut child = child.map_err(ModulesError::io("run", &make))?;
    let running = unfinished::program(&child);
    let status = child.wait();
    drop(running);
    let status = status.map_err(ModulesError::io("wait for", make))?;
    if status.success() {
        return Ok(());
    }
    let text = fs::read(&log).map_err(ModulesError::io("read", log))?;
    Err(ModulesError::Make {
        release: headers.release().to_string(),
        status: status.to_string(),
        reason: reason(&String::from_utf8_lossy(&text)),
    })
}

/// The first errors in the output, or its last lines if it has none.
fn reason(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let errors = lines.iter().filter(|line| {
        line.contains("error:") || line.contains("ERROR:") || line.contains("not found")
    });
    let mut quoted: Vec<&str> = errors.copied().take(QUOTED).collect();
    if quoted.is_empty() {
        let first = lines.len().saturating_sub(QUOTED);
        quoted = lines[first..].to_vec();
    }
    quoted.join("; ")
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn an_error_quotes_what_the_compiler_says() {
        let text = "make: Entering\n  CC a.o\na.c:1:2: error: no\nmake[2]: *** Error 1\n";
        assert_eq!(reason(text), "a.c:1:2: error: no");
        assert_eq!(reason("a\nb\nc\nd\n"), "b; c; d");
    }
}
