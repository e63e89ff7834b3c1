//! What the tests with real boots share, on x86-64 and on arm64: the lab's command, an L1 that runs the scripts of many
//! tests, and Linux as its guest. Each test program says what its L1 is: `BOARD`, `PARAMETERS`, `vmbell()` and
//! `examples()`.

pub mod advised;
pub mod bodies;
pub mod late;
pub mod linux;
pub mod session;
pub mod states;

use std::env;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use vmbell::sync::{Mutex, MutexGuard};

/// One boot of this process at a time. `cargo xtask lab` has two such processes.
static BOOT: Mutex<()> = Mutex::new(());

/// Prevents other boots of this process until the returned value is dropped.
pub fn only_boot() -> MutexGuard<'static, ()> {
    BOOT.lock()
}

/// Time limits for boots and programs, which only a hang reaches, and retries: emulator bugs can crash L1.
pub const LIMITS: [&str; 6] = [
    "--boot-timeout",
    "10m",
    "--timeout",
    "10m",
    "--retries",
    "3",
];

/// The command on this host: the optimized one that `cargo xtask lab` names, otherwise the one that cargo built.
pub fn host_vmbell() -> &'static str {
    static COMMAND: LazyLock<String> = LazyLock::new(|| {
        env::var("VMBELL_OPTIMIZED").unwrap_or_else(|_| env!("CARGO_BIN_EXE_vmbell").to_owned())
    });
    &COMMAND
}

/// `vmbell lab kernel` with these limits and arguments.
pub fn lab(arguments: &[&str]) -> Command {
    let mut command = lab_within_its_limits(&LIMITS);
    command.args(arguments);
    command
}

/// Like `lab`, with the limits in the arguments, otherwise with the command's defaults.
pub fn lab_within_its_limits(arguments: &[&str]) -> Command {
    let mut command = Command::new(host_vmbell());
    command
        .args(["lab", "kernel", "--arch", crate::BOARD.arch.name])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Runs the command and shows its standard error.
pub fn output(command: &mut Command) -> Output {
    let _one = only_boot();
    let output = command.output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    output
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// An example program of this package, for L1.
pub fn example(name: &str) -> PathBuf {
    crate::examples().join(name)
}
