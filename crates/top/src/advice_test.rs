use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::address::Eventfd;
use crate::model::Irqfd;
use crate::names;

fn costs() -> Costs {
    let rows = [
        ("portio-no-eventfd", 4000.0),
        ("portio-wildcard-eventfd", 1000.0),
        ("mmio-no-eventfd", 6000.0),
        ("mmio-wildcard-eventfd", 2000.0),
        ("notify-mmio-wildcard-eventfd", 9000.0),
        ("eoi-x2apic", 2000.0),
        ("eoi-pv", 100.0),
        ("msi-to-running", 5000.0),
        ("irqfd-edge-to-running", 3000.0),
        ("irqfd-level-to-running", 8000.0),
    ];
    Costs::new(rows.map(|(name, time)| (name.to_owned(), time)))
}

/// All costs except one row's.
fn costs_without(row: &str) -> Costs {
    let all = [
        "mmio-no-eventfd",
        "mmio-wildcard-eventfd",
        "notify-mmio-wildcard-eventfd",
    ];
    let cost = |name: &str| (name.to_owned(), costs().nanoseconds(name).unwrap());
    Costs::new(all.into_iter().filter(|name| *name != row).map(cost))
}

/// An address with this many exits in a second.
fn address(space: Space, at: u64, accesses: &[(bool, u8)], to_vmm: u64) -> Address {
    let writes = accesses.iter().filter(|(is_write, _)| *is_write);
    let sizes: Vec<u8> = writes.map(|(_, size)| *size).collect();
    let has_reads = sizes.len() != accesses.len();
    Address {
        space,
        address: at,
        to_vmm,
        vmm_time: 0,
        rings: 0,
        by_kvm: 0,
        accesses: BTreeSet::from_iter(accesses.iter().copied()),
        eventfds: Vec::new(),
        name: names::of(space, at, if has_reads { &[] } else { &sizes }),
    }
}

/// The doorbell of a virtio-mmio device.
fn doorbell(to_vmm: u64) -> Address {
    address(Space::Mmio, 0xd000_0050, &[(true, 4)], to_vmm)
}

fn with_addresses(addresses: Vec<Address>) -> Vm {
    Vm {
        pid: 4711,
        addresses,
        ..Vm::default()
    }
}

fn with_counts(counts: &[(Metric, u64)]) -> Vm {
    Vm {
        pid: 4711,
        counts: counts.iter().copied().collect::<BTreeMap<_, _>>(),
        ..Vm::default()
    }
}

/// Returns the advice for one second of a VM.
fn of(vm: Vm) -> Vec<Advice> {
    advice(&[vm], &costs(), 1.0)
}

/// Returns the text of the only advice, after checking its kind.
fn only(vm: Vm, kind: AdviceKind) -> String {
    let [advice] = <[Advice; 1]>::try_from(of(vm)).unwrap();
    assert_eq!(advice.kind, kind);
    advice.text
}

fn kinds(vm: Vm) -> Vec<AdviceKind> {
    of(vm).into_iter().map(|advice| advice.kind).collect()
}

#[test]
fn a_notification_that_exits_often_is_for_an_ioeventfd() {
    let expected = Advice {
        pid: 4711,
        kind: AdviceKind::UseIoeventfd,
        text: "mmio 0xd0000050, virtio-mmio notify?: 100000 exits a second take 0.60 core (mmio-no-eventfd, 6.00 us) of vCPUs; with an ioeventfd \
               0.20 core (mmio-wildcard-eventfd, 2.00 us), and a sleeping thread of the VMM runs 9.00 us after the write \
               (notify-mmio-wildcard-eventfd)"
            .to_owned(),
    };
    assert_eq!(of(with_addresses(vec![doorbell(100_000)])), [expected]);
    let pci = address(Space::Mmio, 0xfebf_1000, &[(true, 2)], 100_000);
    let legacy = address(Space::Port, 0xc050, &[(true, 2)], 100_000);
    assert_eq!(
        kinds(with_addresses(vec![pci, legacy])),
        [AdviceKind::UseIoeventfd; 2]
    );
}

/// The costs of a host whose CPU has VMX.
fn costs_of_vmx() -> Costs {
    let rows = [
        ("mmio-no-eventfd", 6000.0),
        ("mmio-wildcard-eventfd", 4000.0),
        ("mmio-any-length-eventfd", 1000.0),
    ];
    Costs::new(rows.map(|(name, time)| (name.to_owned(), time)))
}

fn eventfd(id: u32) -> Eventfd {
    Eventfd {
        id,
        fd: None,
        holders: Vec::new(),
        waiter: None,
    }
}

/// A doorbell that signals its only ioeventfd this often in a second, by writes of this size.
fn signalling(rings: u64, size: u8) -> Address {
    Address {
        rings,
        eventfds: vec![eventfd(1)],
        ..address(Space::Mmio, 0xd000_0050, &[(true, size)], 0)
    }
}

#[test]
fn an_exit_is_for_an_ioeventfd_of_any_length_where_that_is_much_cheaper() {
    let pci = address(Space::Mmio, 0xfebf_1000, &[(true, 2)], 100_000);
    // All queues of a virtio-mmio device share its doorbell, and a datamatch needs a length.
    for (address, with) in [
        (
            pci,
            "with an ioeventfd of any length 0.10 core (mmio-any-length-eventfd, 1.00 us), if it needs no datamatch, ",
        ),
        (
            doorbell(100_000),
            "with an ioeventfd 0.40 core (mmio-wildcard-eventfd, 4.00 us), ",
        ),
    ] {
        let vm = with_addresses(vec![address]);
        let [advice] = &advice(&[vm], &costs_of_vmx(), 1.0)[..] else {
            panic!("not one");
        };
        assert!(advice.text.contains(with), "{}", advice.text);
        assert_eq!(advice.kind, AdviceKind::UseIoeventfd);
    }
}

#[test]
fn an_ioeventfd_with_a_length_is_for_any_length_only_where_that_is_much_cheaper() {
    let of = |costs: &Costs, size| {
        let vm = with_addresses(vec![signalling(100_000, size)]);
        advice(&[vm], costs, 1.0)
    };
    let expected = Advice {
        pid: 4711,
        kind: AdviceKind::UseAnyLength,
        text: "mmio 0xd0000050: 100000 ioeventfds a second take 0.40 core (mmio-wildcard-eventfd, 4.00 us); registered for any \
               length (length 0) 0.10 core (mmio-any-length-eventfd, 1.00 us), because KVM on VMX then does not decode the store, \
               if it needs no datamatch"
            .to_owned(),
    };
    assert_eq!(of(&costs_of_vmx(), 4), [expected]);
    // Fast MMIO reports no size: its ioeventfd already matches writes of any length.
    assert_eq!(of(&costs_of_vmx(), 0), []);
    // On SVM, KVM decodes the store for both kinds of ioeventfd.
    let rows = [
        ("mmio-wildcard-eventfd", 4000.0),
        ("mmio-any-length-eventfd", 3950.0),
    ];
    let of_svm = Costs::new(rows.map(|(name, time)| (name.to_owned(), time)));
    assert_eq!(of(&of_svm, 4), []);
    assert_eq!(of(&costs(), 4), [], "the row was not measured");
    let port = Address {
        space: Space::Port,
        ..signalling(100_000, 4)
    };
    let advice = advice(&[with_addresses(vec![port])], &costs_of_vmx(), 1.0);
    assert_eq!(advice, [], "for a port the CPU reports the size");
}

#[test]
fn ioeventfds_that_share_an_address_keep_their_length() {
    let shared = Address {
        eventfds: vec![eventfd(1), eventfd(2)],
        ..signalling(100_000, 4)
    };
    let vm = with_addresses(vec![shared]);
    assert_eq!(advice(&[vm], &costs_of_vmx(), 1.0), []);
}

#[test]
fn the_rate_is_that_of_a_second() {
    let vm = with_addresses(vec![doorbell(2499)]);
    assert_eq!(advice(&[vm], &costs(), 1.0), []);
    let vm = with_addresses(vec![doorbell(2501)]);
    assert_eq!(advice(std::slice::from_ref(&vm), &costs(), 1.0).len(), 1);
    assert_eq!(advice(&[vm], &costs(), 2.0), []);
}

#[test]
fn an_address_with_reads_or_of_several_sizes_is_not_for_an_ioeventfd() {
    for accesses in [
        &[(true, 4), (false, 4)][..],
        &[(false, 4)],
        &[(true, 4), (true, 2)],
        &[],
    ] {
        let one = address(Space::Mmio, 0xd000_0050, accesses, 100_000);
        assert_eq!(of(with_addresses(vec![one])), [], "{accesses:?}");
    }
}

// Only PCs have devices at fixed addresses.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_is_fixed_on_a_pc_or_has_no_shape_of_a_notification_is_not_for_an_ioeventfd() {
    for (space, at, size) in [
        (Space::Port, 0x3f8, 1),
        (Space::Port, 0xcf8, 2),
        (Space::Port, 0x1f0, 2),
        (Space::Mmio, 0xb_8000, 2),
        (Space::Mmio, 0xfec0_0000, 2),
        (Space::Mmio, 0xd000_0064, 4),
        (Space::Msr, 0x6e0, 0),
    ] {
        let one = address(space, at, &[(true, size)], 100_000);
        assert_eq!(of(with_addresses(vec![one])), [], "{at:#x}");
    }
    let answered = Address {
        by_kvm: 1,
        ..doorbell(100_000)
    };
    assert_eq!(of(with_addresses(vec![answered])), []);
}

#[test]
fn there_is_no_advice_without_the_rows_that_it_compares() {
    let of = |costs: &Costs| advice(&[with_addresses(vec![doorbell(100_000)])], costs, 1.0);
    assert_eq!(of(&Costs::default()), []);
    assert_eq!(of(&costs_without("mmio-no-eventfd")), []);
    assert_eq!(of(&costs_without("mmio-wildcard-eventfd")), []);
    let [advice] = &of(&costs_without("notify-mmio-wildcard-eventfd"))[..] else {
        panic!("no advice");
    };
    let end = "and the time to wake the VMM's thread, which notify-mmio-wildcard-eventfd measures";
    assert!(advice.text.ends_with(end), "{}", advice.text);
}

#[test]
fn an_ioeventfd_that_costs_more_than_the_exit_is_not_for_anyone() {
    let rows = [
        ("mmio-no-eventfd", 2000.0),
        ("mmio-wildcard-eventfd", 6000.0),
    ];
    let costs = Costs::new(rows.map(|(name, time)| (name.to_owned(), time)));
    let vm = with_addresses(vec![doorbell(1_000_000)]);
    assert_eq!(advice(&[vm], &costs, 1.0), []);
}

#[test]
fn a_vm_that_has_ended_needs_no_advice() {
    let vm = Vm {
        has_ended: true,
        ..with_addresses(vec![doorbell(100_000)])
    };
    assert_eq!(of(vm), []);
}

const MANY_EOIS: [(Metric, u64); 3] = [
    (Metric::Eois, 10_000),
    (Metric::PvEois, 0),
    (Metric::Lines, 0),
];

#[test]
fn many_eois_without_pv_eoi_are_for_it() {
    assert_eq!(
        only(with_counts(&MANY_EOIS), AdviceKind::UsePvEoi),
        "10000 EOIs a second take 0.02 core (eoi-x2apic, 2.00 us); with PV EOI 0.00 core (eoi-pv, 0.10 us): the guest does not \
         use it, or its CPUID has no KVM_FEATURE_PV_EOI"
    );
}

#[test]
fn pv_eoi_is_not_for_few_or_unknown_eois_nor_where_it_is_used_or_cannot_be() {
    let [eois, unused, no_line] = MANY_EOIS;
    for (counts, eois_by_cpu) in [
        (&[(Metric::Eois, 5000), unused, no_line][..], false),
        (&[eois, (Metric::PvEois, 1), no_line], false),
        // The number of PV EOIs is not known.
        (&[eois], false),
        (&[unused, no_line], false),
        // PV EOI does not cover level-triggered interrupts, and interrupts that the CPU ends need none.
        (&[eois, unused, (Metric::Lines, 9000)], false),
        (&MANY_EOIS, true),
    ] {
        let vm = Vm {
            eois_by_cpu,
            ..with_counts(counts)
        };
        assert_eq!(kinds(vm), [], "{counts:?}, by CPU: {eois_by_cpu}");
    }
}

#[test]
fn many_messages_by_a_system_call_are_for_irqfds() {
    let many = [(Metric::Messages, 10_000), (Metric::Irqfds, 0)];
    assert_eq!(
        only(with_counts(&many), AdviceKind::UseIrqfd),
        "10000 MSIs by KVM_SIGNAL_MSI a second, each handled after 5.00 us (msi-to-running); with irqfds after 3.00 us \
         (irqfd-edge-to-running)"
    );
}

#[test]
fn few_messages_and_a_vm_that_uses_irqfds_are_fine() {
    let few = [(Metric::Messages, 4000), (Metric::Irqfds, 0)];
    assert_eq!(kinds(with_counts(&few)), []);
    let both = [(Metric::Messages, 10_000), (Metric::Irqfds, 1)];
    assert_eq!(kinds(with_counts(&both)), []);
    // Without this metric, it is not known whether the VM uses irqfds.
    assert_eq!(kinds(with_counts(&few[..1])), []);
}

#[test]
fn an_irqfd_that_a_worker_raises_is_for_an_msi() {
    let vm = |by_worker| Vm {
        pid: 4711,
        irqfds: vec![Irqfd {
            gsi: 11,
            count: 10_000,
            by_worker,
            first_signaller: None,
        }],
        ..Vm::default()
    };
    assert_eq!(
        only(vm(10_000), AdviceKind::AvoidWorker),
        "GSI 11: 10000 interrupts a second, each handled after 8.00 us (irqfd-level-to-running), as a worker of the kernel \
         raises it; by an MSI to one vCPU after 3.00 us (irqfd-edge-to-running)"
    );
    assert_eq!(kinds(vm(1000)), []);
    assert_eq!(kinds(vm(0)), []);
}
