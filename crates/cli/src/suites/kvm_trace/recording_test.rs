use super::*;

/// Counts all events.
#[derive(Debug, Default)]
struct All(u64);

impl EventTally for All {
    fn add(&mut self, _: KvmEvent<'_>) -> Result<(), TraceError> {
        self.0 += 1;
        Ok(())
    }
}

const TRACE: &str = "
            qemu-12      [000] ..... 1: kvm_exit: vcpu 0 reason io rip 0x1
            qemu-12      [000] ..... 2: kvm_pio: pio_write at 0x80 size 1 count 1 val 0x5 
            qemu-12      [000] ..... 3: kvm_userspace_exit: reason KVM_EXIT_IO (2)
            qemu-12      [001] ..... 4: kvm_exit: vcpu 0 reason cpuid rip 0x1
            qemu-12      [001] ..... 5: kvm_exit: vcpu 0 reason io rip 0x1
            qemu-12      [001] ..... 6: kvm_pio: pio_write at 0x80 size 1 count 1 val 0x0 
";

#[test]
fn lines_may_be_cut_anywhere() {
    for size in 1..TRACE.len() {
        let mut lines = TraceLines::new(All::default());
        for chunk in TRACE.as_bytes().chunks(size) {
            lines.add(chunk).unwrap();
        }
        assert_eq!(lines.finish().unwrap().0, 6, "{size}");
    }
}

#[test]
fn lost_events_and_broken_lines_are_errors() {
    let error = |text: &str| {
        let mut lines = TraceLines::new(All::default());
        lines
            .add(TRACE.as_bytes())
            .and_then(|()| lines.add(text.as_bytes()))
            .and_then(|()| lines.finish().map(|_| ()))
            .unwrap_err()
    };
    assert!(matches!(error("CPU:0 [LOST 5 EVENTS]\n"), TraceError::Lost));
    let long = "x".repeat(LONGEST + 1);
    for broken in ["garbage\n", "            qemu-1", &long] {
        assert!(matches!(error(broken), TraceError::Unreadable(_)));
    }
}

#[test]
fn reasons_without_end_are_an_error() {
    let mut reasons = Reasons::default();
    let mut counted = (0..=REASONS).map(|reason| count(&mut reasons, &reason.to_string()));
    assert!(matches!(
        counted.find_map(Result::err),
        Some(TraceError::TooMany { .. })
    ));
}
