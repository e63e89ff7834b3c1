use clap::Parser;

use super::*;

/// The arguments of `vmbell gate`.
#[derive(Debug, Parser)]
struct GateLine {
    #[command(flatten)]
    args: GateArgs,
}

pub(in crate::gate) fn args(words: &str) -> Result<GateArgs, clap::Error> {
    let line = ["gate"].into_iter().chain(words.split_whitespace());
    GateLine::try_parse_from(line).map(|line| line.args)
}

#[test]
fn a_vmm_is_a_name_and_a_command() {
    for (text, expected) in [
        ("mine=my-vmm {image}", Some(("mine", "my-vmm {image}"))),
        ("mine=my-vmm a=b", Some(("mine", "my-vmm a=b"))),
        ("=my-vmm", None),
        ("mine=", None),
        ("=", None),
        ("mine", None),
        ("", None),
    ] {
        let expected = expected.map(|(name, command)| (name.to_owned(), command.to_owned()));
        assert_eq!(vmm(text).ok(), expected, "{text:?}");
    }
}

#[test]
fn numbers_have_their_ends() {
    for (words, is_right) in [
        ("--init --boots 0", false),
        ("--init --boots 1", true),
        ("--init --boots 1000", true),
        ("--init --boots 1001", false),
        ("--boots 3", false),
        ("--jobs 0", false),
        ("--jobs 64", true),
        ("--jobs 65", false),
        ("--seed 0", false),
        ("--seed 1000000", true),
        ("--seed 1000001", false),
        ("--init --accept", false),
    ] {
        assert_eq!(args(words).is_ok(), is_right, "{words}");
    }
}
