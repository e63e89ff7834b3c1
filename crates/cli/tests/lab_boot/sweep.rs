//! `vmbell sweep` of QEMU on the lab's KVM.

use super::boots::{host_vmbell, lab_within_its_limits, output, text};

#[test]
#[ignore = "boots the lab: cargo xtask lab"]
fn a_request_that_a_snapshot_of_qemu_forgets_is_lost_in_each_restore() {
    let sweep = [
        "--deterministic",
        "--",
        host_vmbell(),
        "sweep",
        "qemu-pc",
        "--device",
        "rng",
        "--wait",
        "timer",
        "--events",
        "pause,restore",
        "--instants",
        "1",
        "--again",
        "1",
        "--edit",
        "forgotten-request",
        "--json",
    ];
    let output = output(&mut lab_within_its_limits(&sweep));
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}{errors}");
    let report: serde_json::Value = serde_json::from_str(said).unwrap();
    let events = report["vmms"][0]["events"].as_array().unwrap();
    let result = |event: &str| {
        let event = events.iter().find(|results| results["event"] == event);
        &event.unwrap()["instants"][0]
    };
    assert_eq!(
        result("control")["fault"],
        serde_json::Value::Null,
        "{said}"
    );
    assert_eq!(result("pause")["verdict"], "kept", "{said}");
    assert_eq!(result("restore")["verdict"], "lost", "{said}");
    assert_eq!(result("restore")["fault"], "request-forgotten", "{said}");
}
