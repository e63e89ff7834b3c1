use proptest::prelude::*;

use super::*;

fn event(line: &str) -> KvmEvent<'_> {
    match parse(line.as_bytes()) {
        Ok(TraceLine::Event(event)) => event,
        other => panic!("{line}: {other:?}"),
    }
}

const SVM: &str = " ld-linux-x86-64-134     [000] d..1.         5223: kvm_exit: vcpu 0 reason cpuid rip 0x203197 info1 0x0000000000000000 info2 0x0000000000000000 intr_info 0x00000000 error_code 0x00000000";

#[test]
fn an_exit_has_its_thread_sequence_and_reason() {
    let wanted = KvmEvent {
        thread: 134,
        sequence: 5223,
        what: KvmEventKind::Exit("cpuid"),
    };
    assert_eq!(event(SVM), wanted);
}

#[test]
fn an_exit_of_a_kernel_that_names_no_vcpu_is_read() {
    let line = " qemu-system-x86-1234567 [012] d... 77: kvm_exit: reason EPT_MISCONFIG rip 0x203197 info 0 0";
    assert_eq!(event(line).what, KvmEventKind::Exit("EPT_MISCONFIG"));
    assert_eq!(event(line).thread, 1_234_567);
}

#[test]
fn an_nmi_of_the_host_is_told_from_an_exception_of_the_guest() {
    let line = |info: &str| {
        format!(
            "            qemu-12      [000] d..1. 7: kvm_exit: vcpu 0 reason EXCEPTION_NMI rip 0x1 info1 0x0 info2 0x0 intr_info {info} error_code 0x0"
        )
    };
    assert_eq!(event(&line("0x80000202")).what, KvmEventKind::Exit("NMI"));
    assert_eq!(
        event(&line("0x80000306")).what,
        KvmEventKind::Exit("EXCEPTION_NMI")
    );
}

#[test]
fn a_mark_has_what_was_written() {
    let line = "            qemu-12      [001] ..... 5226: kvm_pio: pio_write at 0x80 size 1 count 1 val 0x1f ";
    assert_eq!(event(line).what, KvmEventKind::Mark(31));
    let wide = line.replace(
        "size 1 count 1 val 0x1f",
        "size 4 count 9 val 0x12345678 (...)",
    );
    assert_eq!(event(&wide).what, KvmEventKind::Mark(0x1234_5678));
}

#[test]
fn a_read_of_the_port_and_other_ports_are_no_marks() {
    for what in [
        "pio_read at 0x80",
        "pio_write at 0x800",
        "pio_write at 0x3f8",
    ] {
        let line = format!(
            "            qemu-12      [001] ..... 5226: kvm_pio: {what} size 1 count 1 val 0x1 "
        );
        assert!(matches!(event(&line).what, KvmEventKind::Port(_)), "{what}");
    }
}

#[test]
fn accesses_have_their_addresses() {
    let line = |what: &str| format!("            qemu-12      [001] ..... 9: {what}");
    for (what, wanted) in [
        (
            "kvm_pio: pio_read at 0x3fd size 1 count 1 val 0x60",
            KvmEventKind::Port(0x3fd),
        ),
        ("kvm_msr: msr_read 10a = 0x6b", KvmEventKind::Msr(0x10a)),
        (
            "kvm_msr: msr_write c0000080 = 0xd01 (#GP)",
            KvmEventKind::Msr(0xc000_0080),
        ),
        (
            "kvm_mmio: mmio read len 4 gpa 0xfee00390 val 0x0",
            KvmEventKind::MmioRead(0xfee0_0390),
        ),
    ] {
        assert_eq!(event(&line(what)).what, wanted, "{what}");
    }
    let unsatisfied = line("kvm_mmio: mmio unsatisfied-read len 4 gpa 0xfee00390 val 0x0");
    assert_eq!(parse(unsatisfied.as_bytes()), Ok(TraceLine::Other));
}

#[test]
fn writes_to_devices_and_messages_are_told_from_reads() {
    let line = |what: &str| format!("            qemu-12      [001] ..... 9: {what}");
    for what in [
        "kvm_mmio: mmio write len 2 gpa 0xfe003000 val 0x1",
        "kvm_fast_mmio: fast mmio at gpa 0xfe003000",
    ] {
        assert_eq!(
            event(&line(what)).what,
            KvmEventKind::MmioWrite(0xfe00_3000),
            "{what}"
        );
    }
    let msi = "kvm_msi_set_irq: dst 0 vec 35 (Fixed|physical|edge)";
    assert_eq!(event(&line(msi)).what, KvmEventKind::Msi);
}

#[test]
fn a_return_to_the_vmm_has_its_reason() {
    let line = |reason: &str| {
        format!("            qemu-12      [001] ..... 9: kvm_userspace_exit: reason {reason}")
    };
    assert_eq!(
        event(&line("KVM_EXIT_IO (2)")).what,
        KvmEventKind::Userspace("KVM_EXIT_IO")
    );
    assert_eq!(
        event(&line("restart (4)")).what,
        KvmEventKind::Userspace("restart")
    );
}

#[test]
fn a_programs_name_is_not_mistaken_for_an_event() {
    for name in [" a: kvm_exit: x", "  -1 [0] . 2: a", "      # a-1 [0]"] {
        let line = format!("{name:>16}{}", &SVM[16..]);
        assert_eq!(event(&line), event(SVM), "{name}");
    }
    let mut bytes = SVM.as_bytes().to_vec();
    bytes[3] = 0xff;
    assert!(matches!(parse(&bytes), Ok(TraceLine::Event(_))));
}

#[test]
fn lost_events_and_headings_are_told_apart() {
    assert_eq!(parse(b"CPU:1 [LOST 31 EVENTS]"), Ok(TraceLine::Lost));
    assert_eq!(
        parse(b"##### CPU 1 buffer started ####"),
        Ok(TraceLine::Other)
    );
    assert_eq!(parse(b""), Ok(TraceLine::Other));
}

#[test]
fn a_line_that_is_cut_is_unreadable() {
    // After the reason, nothing is needed.
    let needed = SVM.find(" rip").unwrap();
    for length in 1..needed - "cpuid".len() {
        assert_eq!(
            parse(&SVM.as_bytes()[..length]),
            Err(UnreadableLine),
            "{length}"
        );
    }
}

#[test]
fn a_reason_that_would_spoil_a_report_is_refused() {
    for reason in ["\u{1b}[31m", "a,b", &"x".repeat(REASON + 1)] {
        let line = SVM.replace("cpuid", reason);
        assert_eq!(parse(line.as_bytes()), Err(UnreadableLine), "{reason}");
    }
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(mut line in any::<Vec<u8>>(), at in 0..SVM.len(), keep in 0..SVM.len()) {
        let _ = parse(&line);
        line.splice(0..0, SVM.as_bytes()[..keep].iter().copied());
        let _ = parse(&line);
        let mut changed = SVM.as_bytes().to_vec();
        changed[at] = line.last().copied().unwrap_or_default();
        let _ = parse(&changed);
    }
}
