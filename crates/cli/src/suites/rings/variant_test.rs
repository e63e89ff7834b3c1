use clap::Parser;

use super::*;

#[derive(Parser)]
struct RingsLine {
    #[command(flatten)]
    args: RingsArgs,
}

fn variants(words: &[&str]) -> Result<Vec<RingVariant>> {
    let words = std::iter::once("virtqueue").chain(words.iter().copied());
    all(&RingsLine::try_parse_from(words).unwrap().args)
}

fn names(words: &[&str]) -> Vec<String> {
    let all = variants(words).unwrap();
    all.into_iter().map(|variant| variant.name).collect()
}

#[test]
fn without_a_pair_the_ways_to_poll_are_compared() {
    let polls = ["--no-wrap-counters", "--wrap-counters", "--wide-tokens"];
    assert_eq!(names(&[]), polls);
    assert_eq!(names(&["--packed", "--no-event-idx"]), polls);
}

#[test]
fn a_pair_compares_on_with_off() {
    assert_eq!(
        names(&["--event-idx", "--no-event-idx"]),
        ["--no-event-idx", "--event-idx"]
    );
    let both = names(&["--split", "--packed", "--indirect", "--no-indirect"]);
    assert_eq!(both.len(), 4);
    assert_eq!(both[0], "--split --no-indirect");
}

#[test]
fn a_single_variant_is_named_in_full() {
    let name = "--split --event-idx --indirect --virtio-1 --no-delayed-interrupt --wrap-counters";
    assert_eq!(names(&["--wrap-counters"]), [name]);
    assert_eq!(names(&["--delayed-interrupt"]).len(), 1);
}

#[test]
fn switches_reach_the_workload() {
    let words = [
        "--packed",
        "--no-event-idx",
        "--no-indirect",
        "--wide-tokens",
    ];
    let options = variants(&words).unwrap()[0].options;
    assert!(options.packed && !options.event_idx && !options.indirect && options.virtio_1);
    assert_eq!(options.tokens, Tokens::Wide);
    let words = ["--no-virtio-1", "--delayed-interrupt", "--no-wrap-counters"];
    let options = variants(&words).unwrap()[0].options;
    assert!(!options.virtio_1 && options.delayed_interrupt && options.event_idx);
}

#[test]
fn impossible_variants_are_refused_with_their_switches() {
    let refused = |words: &[&str]| variants(words).unwrap_err().to_string();
    let legacy = refused(&["--split", "--packed", "--no-virtio-1"]);
    assert!(
        legacy.contains("--packed") && legacy.contains("VERSION_1"),
        "{legacy}"
    );
    assert!(refused(&["--delayed-interrupt", "--wide-tokens"]).contains("token"));
    assert!(refused(&["--ring-size", "3"]).contains("power of two"));
    assert!(refused(&["--ring-size", "0", "--packed"]).contains("1 to 32768"));
    assert!(refused(&["--batch", "257"]).contains("does not fit"));
    assert!(refused(&["--pieces", "9"]).contains("9 pieces"));
    assert!(refused(&["--bufs", "65536", "--reset=70000"]).contains("--bufs"));
    assert!(refused(&["--reset=1048577"]).contains("1048576"));
}
