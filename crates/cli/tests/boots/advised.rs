//! The commands that the README and `--help` advise, with their default limits: each command for this architecture
//! succeeds.

use super::{example, host_vmbell, output, text};
use kit::advised::{ALL, Tested};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn every_advised_command_ends_well_within_its_own_limits() {
    let smoke = example("kvm_smoke");
    let smoke = smoke.to_str().unwrap();
    let native = crate::BOARD.arch.name == std::env::consts::ARCH;
    let mut ran: Vec<Vec<&str>> = Vec::new();
    for (command, tested) in ALL {
        let Tested::Runs(short) = tested else {
            continue;
        };
        let is_native = !command.contains("--arch aarch64");
        let words = command.split(' ').chain(short.split_whitespace()).skip(1);
        let is_program = |word: &&str| {
            ["./program", "PROGRAM"].contains(word) || word.ends_with("examples/kvm_smoke")
        };
        let words: Vec<&str> = words
            .map(|word| if is_program(&word) { smoke } else { word })
            .collect();
        if is_native != native || ran.contains(&words) {
            continue;
        }
        let output = output(std::process::Command::new(host_vmbell()).args(&words));
        let (shown, said) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{command}: {shown}\n{said}");
        ran.push(words);
    }
    assert!(!ran.is_empty());
}
