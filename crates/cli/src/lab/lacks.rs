//! Advice for a program that ended because L1 lacks files: kernel modules, or a script's interpreter.

use std::path::{Path, PathBuf};

use vmbell_lab::LabTask;
use vmbell_lab::initramfs::{Interpreter, modules, with};

/// A shell's exit statuses for a program that is not found, and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
/// Every L1 has this shell.
const SHELL: &str = "/bin/sh";

/// A hint for a program that ended with this status: the files that it may lack.
pub(super) fn advice(status: u8, task: &LabTask, triplet: &str) -> Option<String> {
    let is_there = |path: &PathBuf| task.with.iter().any(|(host, _)| path.starts_with(host));
    if [NOT_FOUND, NOT_RUN].contains(&status) {
        let mut needs = Vec::new();
        for (script, _) in &task.with {
            let Some(interpreter) = Interpreter::of(script) else {
                continue;
            };
            let mut lacks = interpreter.modules(triplet);
            lacks.splice(..0, interpreter.env.into_iter().chain(interpreter.program));
            lacks.retain(|path| !is_there(path) && path != Path::new(SHELL));
            if !lacks.is_empty() {
                needs.push(format!("{} needs {}", script.display(), with(&lacks)));
            }
        }
        return match needs.as_slice() {
            [] if status == NOT_RUN => None,
            [] => Some(
                "exit status 127: a program that it starts was not found; --with copies one into L1"
                    .to_owned(),
            ),
            needs => Some(format!("exit status {status}: {}", needs.join("; "))),
        };
    }
    if status == 0 {
        return None;
    }
    let program = which::which(&task.program).ok()?;
    let mut lacks = modules(&program, triplet);
    lacks.retain(|path| !is_there(path));
    let advice = || {
        format!(
            "the modules of {} are not in L1: {}",
            program.display(),
            with(&lacks)
        )
    };
    (!lacks.is_empty()).then(advice)
}
