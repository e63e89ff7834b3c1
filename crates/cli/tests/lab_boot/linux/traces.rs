//! The trace buffers with which `vmbell bench vmms` counts exits. These tests need no Linux guest, but share this L1.

use super::L1;

/// A double of a VMM: prints results, and sends a signal to the command in the boot whose exits are counted.
const DOUBLE: &str = r#"
case "$SIGNAL $2" in
NONE*) ;;
*mark*) kill -$SIGNAL $PPID; while :; do :; done ;;
esac
echo '=== vmbell-probe begin 1 ==='
echo '{"version":1,"boot":"pvh","cpu":{"vendor":"v","brand":"b"},"hypervisor":null,"apic":"xapic","cpus":1,"tsc_hz":null,"tsc_source":null,"rows":[{"name":"cpuid","mark":1,"operations":1,"samples":[1]}]}'
echo '=== vmbell-probe end ==='
"#;

/// Runs the command with the double.
const ENDS: &str = r#"
for signal in NONE TERM KILL NONE; do
    SIGNAL=$signal "$VMBELL" bench vmms double --vmm "double=/bin/sh double {image} {cmdline}" --runs 1 --exits on --style none
    echo "$signal $?" /sys/kernel/tracing/instances/*
done
"#;

/// Runs the command while a program holds another command's trace buffer until the first run is over.
const HELD: &str = r#"
other=/sys/kernel/tracing/instances/vmbell-another1
mkdir $other
exec 9<$other/tracing_on
for run in held left; do
    SIGNAL=NONE "$VMBELL" bench vmms double --vmm "double=/bin/sh double {image} {cmdline}" --runs 1 --exits on --style none
    echo "$run $?" /sys/kernel/tracing/instances/*
    exec 9<&-
done
"#;

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_trace_buffer_that_another_command_holds_stays() {
    let ran = L1.run(HELD, &[("double".to_owned(), DOUBLE.into())]);
    let lines: Vec<&str> = ran.said().lines().collect();
    assert_eq!(
        lines,
        [
            "held 0 /sys/kernel/tracing/instances/vmbell-another1",
            "left 0 /sys/kernel/tracing/instances/*"
        ]
    );
}

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn no_trace_buffer_is_left_and_that_of_a_killed_command_goes_with_the_next() {
    let ran = L1.run(ENDS, &[("double".to_owned(), DOUBLE.into())]);
    let lines: Vec<&str> = ran.said().lines().collect();
    let killed = "KILL 137 /sys/kernel/tracing/instances/vmbell-";
    assert!(
        lines.len() == 4 && lines[2].starts_with(killed),
        "{lines:?}"
    );
    let none = "/sys/kernel/tracing/instances/*";
    let whole = format!("NONE 0 {none}");
    // In the lab, SIGTERM is the run's time limit.
    assert_eq!(
        [lines[0], lines[1], lines[3]],
        [whole.as_str(), &format!("TERM 124 {none}"), &whole]
    );
}
