//! Which local APICs accept a message.

use vmbell_core::lapic::{Destination, Effect, Lapic, MMIO_BASE, Message, Mode, Raise, Register};

use super::lapic;

fn message(mode: Mode, destination: Destination) -> Message {
    Message {
        vector: 0x41,
        mode,
        level: false,
        destination,
    }
}

/// Returns the result of a message, and the local APICs that accepted it.
fn delivered(lapics: &[Lapic], message: Message) -> (Raise, Vec<usize>) {
    let mut accepted = Vec::new();
    let raise = message.deliver(lapics.iter(), |index| accepted.push(index));
    (raise, accepted)
}

/// Returns the local APICs that accepted a message. They begin its interrupt, so that they can accept the next message.
fn begun(lapics: &[Lapic], message: Message) -> Vec<usize> {
    let (_, vcpus) = delivered(lapics, message);
    assert!(
        vcpus
            .iter()
            .all(|&vcpu| lapics[vcpu].start_service(message.vector))
    );
    vcpus
}

fn four() -> Vec<Lapic> {
    (0..4).map(lapic).collect()
}

#[test]
fn physical_destination_is_the_one_with_that_id() {
    let to = message(Mode::Fixed, Destination::Physical(2));
    assert_eq!(delivered(&four(), to), (Raise::Accepted, vec![2]));
    let absent = message(Mode::Fixed, Destination::Physical(4));
    assert_eq!(delivered(&four(), absent), (Raise::Refused, vec![]));
}

#[test]
fn everybody_and_everybody_else_get_one_each() {
    let all = message(Mode::Fixed, Destination::All);
    assert_eq!(delivered(&four(), all).1, [0, 1, 2, 3]);
    let others = message(Mode::Fixed, Destination::AllBut(1));
    assert_eq!(delivered(&four(), others).1, [0, 2, 3]);
}

#[test]
fn flat_logical_destination_is_a_mask() {
    let lapics: Vec<_> = (0..8).map(lapic).collect();
    for lapic in &lapics {
        let _ = lapic.write(Register::Ldr, 1 << (24 + lapic.id()));
    }
    for (address, vcpus) in [
        (0b1010, vec![1, 3]),
        // In cluster mode these destinations would be the clusters 2, 8 and 15.
        (0b10_0010, vec![1, 5]),
        (0b1000_0000, vec![7]),
        (0xff, (0..8).collect()),
        (0, vec![]),
    ] {
        let to = message(Mode::Fixed, Destination::Logical(address));
        assert_eq!(begun(&lapics, to), vcpus, "{address:#b}");
    }
}

#[test]
fn destination_format_is_clusters_unless_all_its_four_bits_are_set() {
    for (dfr, vcpus) in [(u32::MAX, vec![0, 1]), (0, vec![0]), (0x7fff_ffff, vec![0])] {
        let lapics = [lapic(0), lapic(1)];
        for (lapic, logical) in lapics.iter().zip([0x11, 0x21]) {
            let _ = lapic.write(Register::Dfr, dfr);
            let _ = lapic.write(Register::Ldr, logical << 24);
        }
        let to = message(Mode::Fixed, Destination::Logical(0x11));
        assert_eq!(delivered(&lapics, to).1, vcpus, "{dfr:#x}");
    }
}

#[test]
fn clustered_logical_destination_is_a_cluster_and_a_mask() {
    let lapics = four();
    for lapic in &lapics {
        let (cluster, member) = (lapic.id() / 2, lapic.id() % 2);
        let _ = lapic.write(Register::Dfr, 0);
        let _ = lapic.write(Register::Ldr, (cluster << 4 | 1 << member) << 24);
    }
    for (address, vcpus) in [
        (0x13, vec![2, 3]),
        (0x03, vec![0, 1]),
        (0x11, vec![2]),
        (0x02, vec![1]),
        (0x10, vec![]),
        (0x21, vec![]),
    ] {
        let to = message(Mode::Fixed, Destination::Logical(address));
        assert_eq!(begun(&lapics, to), vcpus, "{address:#x}");
    }
}

#[test]
fn x2apic_has_its_logical_destination_from_its_id() {
    let lapics: Vec<_> = [0, 5, 0x21].into_iter().map(lapic).collect();
    for lapic in &lapics {
        assert_eq!(lapic.write_base(MMIO_BASE | 0xc00), Effect::None);
    }
    assert_eq!(lapics[2].read(Register::Ldr), 2 << 16 | 2);
    for (address, vcpus) in [
        (1 << 5 | 1, vec![0, 1]),
        (1 << 5, vec![1]),
        (2 << 16 | 2, vec![2]),
        (2 << 16 | 3, vec![2]),
        (2 << 16 | 1, vec![]),
        (2, vec![]),
        (1 << 16 | 2, vec![]),
        (2 << 16, vec![]),
    ] {
        let to = message(Mode::Fixed, Destination::Logical(address));
        assert_eq!(begun(&lapics, to), vcpus, "{address:#x}");
    }
}

#[test]
fn lowest_priority_is_one_and_the_least_busy() {
    let lapics = four();
    for (lapic, tpr) in lapics.iter().zip([0x40, 0x20, 0x30, 0x20]) {
        let _ = lapic.write(Register::Tpr, tpr);
    }
    let to = message(Mode::LowestPriority, Destination::All);
    assert_eq!(delivered(&lapics, to), (Raise::Accepted, vec![1]));
    let _ = lapics[1].write(Register::Svr, 0xff);
    assert_eq!(delivered(&lapics, to), (Raise::Accepted, vec![3]));
}

#[test]
fn message_that_all_had_already_is_coalesced() {
    let lapics = four();
    let to = message(Mode::Fixed, Destination::All);
    let _ = delivered(&lapics, to);
    assert_eq!(delivered(&lapics, to), (Raise::Coalesced, vec![]));
    assert!(lapics[2].start_service(0x41));
    assert_eq!(delivered(&lapics, to), (Raise::Accepted, vec![2]));
}
