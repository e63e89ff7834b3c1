//! What a driver finds in configuration space (virtio 1.3, 4.1.2 and 4.1.4).

use super::*;
use crate::virtio::Entropy;

fn rng() -> Pc {
    Pc::with(Entropy, 1, VirtioConfig::default())
}

#[test]
fn the_ids_are_those_of_a_modern_entropy_device() {
    let mut pc = rng();
    assert_eq!(pc.config(0x00, 4), 0x1044_1af4);
    assert_eq!(pc.config(0x08, 4), 0x00ff_0001, "class and revision");
    assert_eq!(pc.config(0x2c, 4), 0x1044_1af4, "the subsystem");
    assert_eq!(pc.config(0x06, 2), 0x0010, "there are capabilities");
    assert_eq!(pc.config(0x3d, 1), 0, "there is no interrupt pin");
}

/// Type, length, BAR, offset and length of the structure, for each vendor-specific capability.
fn structures(pc: &mut Pc) -> Vec<[u64; 5]> {
    let vendor = pc
        .capabilities()
        .into_iter()
        .filter(|(id, _)| *id == VENDOR);
    let fields = |(_, at)| {
        [(3, 1), (2, 1), (4, 1), (8, 4), (12, 4)].map(|(field, len)| pc.config(at + field, len))
    };
    vendor.map(fields).collect()
}

#[test]
fn notifications_at_ports_come_before_those_in_memory() {
    let mut pc = Pc::with(
        Inverter,
        QUEUES,
        VirtioConfig {
            notify_ports: true,
            ..VirtioConfig::default()
        },
    );
    let all = structures(&mut pc);
    let notify = all.iter().filter(|[kind, ..]| *kind == 2);
    assert_eq!(
        notify.collect::<Vec<_>>(),
        [&[2, 20, 1, 0, 8], &[2, 20, 0, 0x3000, 8]]
    );
    assert_eq!(pc.config(0x14, 4), PORTS | 1);
    pc.configure(0x14, 4, 0xffff_ffff);
    assert_eq!(pc.config(0x14, 4), 0xffff_fff9, "eight ports");
}

#[test]
fn each_structure_has_one_capability_that_says_where_it_is() {
    let mut pc = rng();
    assert_eq!(
        structures(&mut pc),
        [
            [1, 16, 0, 0x0000, 56],
            [2, 20, 0, 0x3000, 4],
            [3, 16, 0, 0x1000, 1],
            [5, 20, 0, 0, 0],
        ]
    );
    let (_, notify) = pc.capabilities()[1];
    assert_eq!(pc.config(notify + 16, 4), 4, "the multiplier");
    let msix = pc.msix();
    assert_eq!(pc.config(msix + 2, 2), 1, "two vectors, and off");
    assert_eq!(pc.config(msix + 4, 4), 0x4000);
    assert_eq!(pc.config(msix + 8, 4), 0x5000);
}

#[test]
fn the_common_configuration_is_that_of_a_reset() {
    let mut pc = rng();
    let fields = [(0, 4), (8, 4), (16, 2), (18, 2), (20, 1), (21, 1), (22, 2)];
    let values = fields.map(|(at, len)| pc.get(at, len));
    assert_eq!(values, [0, 0, 0xffff, 1, 0, 0, 0]);
    assert_eq!(pc.get(QUEUE_SIZE, 2), 256, "the most");
    assert_eq!(pc.get(QUEUE_VECTOR, 2), 0xffff);
    assert_eq!(pc.get(QUEUE_ENABLE, 2), 0);
    assert_eq!(pc.get(QUEUE_NOTIFY_OFF, 2), 0);
    assert_eq!(pc.get(4, 4), 0x3000_0000, "indirect, event index");
    pc.set(0, 4, 1);
    assert_eq!(pc.get(4, 4), 0x0000_0009, "version 1, in order");
    pc.set(0, 4, 2);
    assert_eq!(pc.get(4, 4), 0);
}

#[test]
fn a_queue_that_is_not_there_has_no_size() {
    let mut pc = rng();
    pc.set(QUEUE_SELECT, 2, 1);
    assert_eq!(pc.get(QUEUE_SIZE, 2), 0);
    assert_eq!(pc.get(QUEUE_VECTOR, 2), 0xffff);
    for (field, len) in [(QUEUE_SIZE, 2), (QUEUE_ENABLE, 2), (32, 8), (32, 4)] {
        pc.set(field, len, 1);
        assert_eq!(pc.get(field, len), 0);
    }
}

#[test]
fn queues_are_notified_at_places_of_their_own() {
    let mut pc = Pc::plain();
    let offsets = [0, 1].map(|queue| {
        pc.set(QUEUE_SELECT, 2, queue);
        pc.get(QUEUE_NOTIFY_OFF, 2)
    });
    assert_eq!(offsets, [0, 1]);
}

#[test]
fn addresses_are_written_whole_or_by_halves() {
    let mut pc = Pc::plain();
    for field in QUEUE_ADDRESSES {
        pc.set(field, 8, 0x1234_5678_9abc_def0);
        assert_eq!(pc.get(field, 4), 0x9abc_def0);
        assert_eq!(pc.get(field + 4, 4), 0x1234_5678);
        pc.set(field + 4, 4, 7);
        assert_eq!(pc.get(field, 8), 0x7_9abc_def0);
    }
}
