//! Runs `make` with nothing but the unpacked files, and the shell and small programs that every system has.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use super::Release;
use crate::error::{LabError, cannot, failed};
use crate::unfinished;

/// The maximum number of lines of the compiler's output that an error quotes.
const QUOTED: usize = 3;

/// What all programs say if the disk is full (`ENOSPC`).
const FULL: &str = "No space left on device";

/// Variables in the user's environment that would change a build.
const VARIABLES: [&str; 14] = [
    "CONFIG_SITE",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CPP",
    "CPPFLAGS",
    "CXXCPP",
    "C_INCLUDE_PATH",
    "KBUILD_OUTPUT",
    "KCFLAGS",
    "LDFLAGS",
    "LIBRARY_PATH",
    "LIBS",
    "LLVM",
    "MAKEFLAGS",
];

/// A build of modules or of a kernel.
#[derive(Debug)]
pub(crate) struct Make<'a> {
    pub(crate) release: &'a Release,
    /// The folder with the Makefile: the kernel's headers, or its source.
    pub(crate) folder: &'a Path,
    /// The file for the output.
    pub(crate) log: &'a Path,
    /// The folder with `make` and the compiler.
    pub(crate) bin: &'a Path,
    /// Environment variables.
    pub(crate) environment: &'a [(&'a str, String)],
    pub(crate) arguments: &'a [String],
}

impl Make<'_> {
    /// Builds the modules with the source in `folder`.
    pub(crate) fn modules(&self, folder: &Path) -> Result<(), LabError> {
        let own = [format!("M={}", folder.display()), "modules".to_owned()];
        let arguments = [self.arguments, &own].concat();
        Make {
            arguments: &arguments,
            ..*self
        }
        .run()
    }

    /// Builds the targets in the arguments.
    pub(crate) fn run(&self) -> Result<(), LabError> {
        let (make, log) = (self.bin.join("make"), self.log);
        let output = fs::File::create(log).map_err(cannot("write", log))?;
        let errors = output.try_clone().map_err(cannot("write", log))?;
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let mut command = in_place(&make, self.bin);
        command
            .arg("-C")
            .arg(self.folder)
            .args(self.arguments)
            .arg(format!("-j{jobs}"))
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        let spawned = unfinished::spawn(&command, output, errors);
        let (mut child, running) = spawned.map_err(cannot("run", &make))?;
        let status = running.wait(&mut child);
        let status = status.map_err(cannot("wait for", make))?;
        if status.success() {
            return Ok(());
        }
        let text = fs::read(log).map_err(cannot("read", log))?;
        let (release, reason) = (self.release, reason(&String::from_utf8_lossy(&text)));
        Err(failed!(
            "the build for Linux {release} failed ({status}): {reason}"
        ))
    }
}

/// Makes the command for a program of a build, which looks for other programs in `bin` first.
pub(crate) fn in_place(program: &Path, bin: &Path) -> Command {
    let paths = [
        bin.display().to_string(),
        env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned()),
    ];
    let mut command = Command::new(program);
    command.env("PATH", paths.join(":")).env("LC_ALL", "C");
    for name in VARIABLES {
        command.env_remove(name);
    }
    command
}

/// Runs a program of a build with the environment of [`in_place`], and passes on each line of its output. Returns how it
/// ended, and the whole output.
///
/// Standard error goes to the same pipe as standard output, where `make` does not interleave the lines of different
/// targets.
pub(crate) fn run_by_line(
    program: &Command,
    bin: &Path,
    mut line: impl FnMut(&str),
) -> Result<(ExitStatus, String), LabError> {
    let name = program.get_program();
    let mut shell = in_place(Path::new("/bin/sh"), bin);
    shell
        .args(["-c", "exec \"$@\" 2>&1", "sh"])
        .arg(name)
        .args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = program.get_current_dir() {
        shell.current_dir(folder);
    }
    let spawned = unfinished::spawn(&shell, Stdio::piped(), Stdio::inherit());
    let (mut child, running) = spawned.map_err(cannot("run", name))?;
    let mut text = String::new();
    if let Some(output) = child.stdout.take() {
        for bytes in BufReader::new(output).split(b'\n') {
            let bytes = bytes.map_err(cannot("read from", name))?;
            let said = String::from_utf8_lossy(&bytes);
            line(&said);
            text += &said;
            text.push('\n');
        }
    }
    let status = running.wait(&mut child);
    Ok((status.map_err(cannot("wait for", name))?, text))
}

/// Returns the first errors in the output, or its last lines if there are no errors.
pub(crate) fn reason(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    // Errors before this line are consequences: `configure` says that the compiler does not work.
    if let Some(full) = lines.iter().find(|line| line.contains(FULL)) {
        return (*full).to_owned();
    }
    let errors = lines.iter().filter(|line| {
        [
            "error:",
            "ERROR:",
            "No rule",
            "not found",
            "undefined reference",
            "cannot find",
        ]
        .iter()
        .any(|mark| line.contains(mark))
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
    fn a_full_disk_is_the_reason_whatever_else_fails() {
        let full = "./configure: line 42: echo: write error: No space left on device";
        let text = format!(
            "configure: error: in `/a':\nconfigure: error: C compiler cannot create executables\n{full}\n"
        );
        assert_eq!(reason(&text), full);
    }

    #[test]
    fn an_error_quotes_what_the_compiler_says() {
        let text = "make: Entering\n  CC a.o\na.c:1:2: error: no\nmake[2]: *** Error 1\n";
        assert_eq!(reason(text), "a.c:1:2: error: no");
        assert_eq!(reason("a\nb\nc\nd\n"), "b; c; d");
        let text = "make[2]: *** No rule to make target 'a.c'.  Stop.\nmake[1]: *** Error 2\nmake: *** Error 2\n";
        assert_eq!(
            reason(text),
            "make[2]: *** No rule to make target 'a.c'.  Stop."
        );
    }
}
