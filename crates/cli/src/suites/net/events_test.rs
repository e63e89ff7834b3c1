use super::*;
use crate::suites::kvm_trace::TraceLines;
use vmbell_report::Reasons;

const TRACE: &str = "
            qemu-12      [000] ..... 1: kvm_exit: vcpu 0 reason npf rip 0x1
            qemu-12      [000] ..... 2: kvm_mmio: mmio write len 2 gpa 0xfe003000 val 0x1
            qemu-12      [000] ..... 3: kvm_userspace_exit: reason KVM_EXIT_MMIO (6)
            qemu-12      [000] ..... 4: kvm_exit: vcpu 0 reason hlt rip 0x1
      vhost-1234-99      [001] ..... 5: kvm_msi_set_irq: dst 0 vec 35 (Fixed|physical|edge)
           other-77      [001] ..... 6: kvm_exit: vcpu 0 reason npf rip 0x1
           other-77      [001] ..... 7: kvm_fast_mmio: fast mmio at gpa 0xfe003000
           other-77      [001] ..... 8: kvm_userspace_exit: reason KVM_EXIT_IO (2)
           other-77      [001] ..... 9: kvm_pio: pio_write at 0xc000 size 2 count 1 val 0x1
            qemu-12      [000] ..... 10: kvm_pio: pio_write at 0xc000 size 2 count 1 val 0x1
";

fn events(text: &str) -> Result<NetEvents, TraceError> {
    let threads = [12].into();
    let mut lines = TraceLines::new(NetEvents {
        threads,
        ..NetEvents::default()
    });
    lines.add(text.as_bytes())?;
    lines.finish()
}

#[test]
fn exits_and_kicks_are_the_vmms_and_interrupts_are_anybodys() {
    let events = events(TRACE).unwrap();
    let reasons =
        |names: &[&str]| -> Reasons { names.iter().map(|name| ((*name).to_owned(), 1)).collect() };
    assert_eq!(
        events,
        NetEvents {
            threads: [12].into(),
            reasons: ReasonsOfRun {
                exits: reasons(&["npf", "hlt"]),
                userspace: reasons(&["KVM_EXIT_MMIO"]),
            },
            kicks: 2,
            interrupts: 1,
        }
    );
}

#[test]
fn what_was_lost_or_cut_is_an_error() {
    let lost = format!("{TRACE}CPU:0 [LOST 5 EVENTS]\n");
    assert!(matches!(events(&lost), Err(TraceError::Lost)));
    for cut in [&TRACE[..TRACE.len() - 1], "garbage\n"] {
        assert!(matches!(events(cut), Err(TraceError::Unreadable(_))));
    }
}
