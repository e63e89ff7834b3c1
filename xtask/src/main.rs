//! What cargo alone cannot do for this repository. `cargo xtask lab` runs every test that needs
//! `/dev/kvm` on a machine that has none; the others try what a test of cargo cannot: `deploy/`, the Debian package, the page in a
//! browser, and how often a comparison is wrong.

mod artifacts;
mod child;
mod debian;
mod fleet;
mod lab;
mod package;
mod page;
mod simulate;
// The unit tests wait as those of the library do.
#[cfg(test)]
#[path = "../../crates/vmbell/tests/harness/wait.rs"]
mod wait;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask lab [--arch aarch64]
       cargo xtask fleet
       cargo xtask package [--twice]
       cargo xtask simulate FOLDER
       cargo xtask page

  lab   Run every test that needs real KVM, in the lab (docs/lab.md). Prepares the lab first: that
        downloads about 62 MB once, and needs no network afterwards. With --arch aarch64 the tests
        are built for arm64 and run on its KVM.
  fleet Try what deploy/ has for Prometheus and Grafana with the real programs, which it downloads once
        for each target/: about 23 MB.
  package
        Make a Debian package of the command below target/package, and install, run and remove it in a
        clean root (40 MB, once). With --twice make it from another folder too, and compare the bytes.
  simulate
        Say how often `vmbell compare` is wrong, by simulation on the turns that
        `vmbell bench --interleave vmbell --keep-turns FOLDER` kept of a program and itself.
  page  Look at the page of vmbell report in a real Chromium, which it installs if it may: rows, errors,
        requests, contrast, labels, phone and paper. Screenshots are left in target/page/.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["lab"] => lab::run(),
        ["lab", "--arch", "aarch64"] => lab::run_on_arm64(),
        ["fleet"] => fleet::run(),
        ["package"] => package::run(),
        ["package", "--twice"] => package::run_twice(),
        ["simulate", folder] => simulate::run(folder.as_ref()),
        ["page"] => page::run(),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
