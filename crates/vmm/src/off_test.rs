use std::io;

use super::*;

fn failure() -> Result<Stop, MachineError> {
    let source = io::Error::other("a vcpu failed");
    Err(MachineError::Thread { source })
}

/// How the run ends after each outcome of the vCPUs, as text.
fn ends(off: impl Fn() -> Off) -> [String; 3] {
    [Ok(Stop::Kicked), Ok(Stop::Done(1)), failure()].map(|outcome| match off().end(outcome) {
        Ok(stop) => format!("{stop:?}"),
        Err(error) => error.to_string(),
    })
}

#[test]
fn what_the_guest_asked_for_is_how_the_run_ends_whatever_its_vcpus_did_then() {
    for (off, end) in [
        (&(|| Off::Guest) as &dyn Fn() -> Off, "Some(Shutdown)"),
        (&|| Off::Reset, "Some(Reset)"),
        (&|| Off::Done(7), "Some(Done(7))"),
        (
            &|| Off::failed("the I/O APIC", "no route"),
            "the I/O APIC failed, and the guest was stopped",
        ),
    ] {
        assert_eq!(ends(off), [end; 3]);
    }
}

#[test]
fn guest_that_sleeps_has_not_ended_unless_a_vcpu_did() {
    let failed = failure().unwrap_err().to_string();
    assert_eq!(ends(|| Off::Asleep), ["None", "Some(Done(1))", &failed]);
}
