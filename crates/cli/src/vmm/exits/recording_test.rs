use super::*;

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
        let mut lines = Lines::default();
        for chunk in TRACE.as_bytes().chunks(size) {
            lines.add(chunk).unwrap();
        }
        let marked = lines.finish().unwrap().finish();
        assert_eq!(marked[&5].batches[0].exits["cpuid"], 1, "{size}");
    }
}

#[test]
fn lost_events_and_broken_lines_are_errors() {
    let error = |text: &str| {
        let mut lines = Lines::default();
        lines
            .add(TRACE.as_bytes())
            .and_then(|()| lines.add(text.as_bytes()))
            .and_then(|()| lines.finish().map(|_| ()))
            .unwrap_err()
    };
    assert!(matches!(error("CPU:0 [LOST 5 EVENTS]\n"), TraceError::Lost));
    assert!(matches!(error("garbage\n"), TraceError::Unreadable(_)));
    assert!(matches!(
        error("            qemu-1"),
        TraceError::Unreadable(_)
    ));
    assert!(matches!(
        error(&"x".repeat(LONGEST + 1)),
        TraceError::Unreadable(_)
    ));
    let again = TRACE.lines().nth(1).unwrap();
    let out_of_order = error(&format!("{again}\n"));
    assert!(matches!(
        out_of_order,
        TraceError::Tally(TallyError::OutOfOrder)
    ));
}
