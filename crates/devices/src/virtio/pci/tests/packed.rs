//! Packed rings, which a device offers if it is configured to do so.

use super::*;
use vmbell_virtqueue::{Buffer, Features, PackedDriver, PackedLayout, brand};

const DEVICE_FEATURE_SELECT: u64 = 0;
const DEVICE_FEATURE: u64 = 4;
/// VERSION_1 and RING_PACKED in the upper half of the features.
const UPPER: u64 = 1 << 0 | 1 << 2;
const SIZE: u16 = 8;

fn pc(packed: bool) -> Pc {
    Pc::new(VirtioConfig {
        notify: Notify::Exit,
        packed,
        ..VirtioConfig::default()
    })
}

#[test]
fn packed_rings_are_offered_if_that_is_asked_for() {
    for packed in [false, true] {
        let mut pc = pc(packed);
        pc.set(DEVICE_FEATURE_SELECT, 4, 1);
        assert_eq!(pc.get(DEVICE_FEATURE, 4) & 1 << 2 != 0, packed);
    }
}

#[test]
fn requests_in_a_packed_ring_are_answered_lap_after_lap() {
    let mut pc = pc(true);
    pc.negotiate_with(UPPER);
    let layout = PackedLayout::contiguous(0, SIZE);
    let registers = SplitLayout {
        size: SIZE,
        descriptors: layout.descriptors,
        avail: layout.driver_event,
        used: layout.device_event,
    };
    assert!(pc.set_up(0, &registers, 0xffff));
    pc.go_live();
    brand::scoped(|brand| {
        let memory = pc.memory.clone();
        let memory = &memory;
        let mut driver = PackedDriver::new(&memory, &layout, Features::default(), brand).unwrap();
        for lap in 0..3 * SIZE {
            let pieces = ([Buffer::new(0x8000, 8)], [Buffer::new(0x9000, 8)]);
            driver.add(&pieces.0, &pieces.1, lap).unwrap();
            assert!(!pc.store(NOTIFY, 2, 0), "there is no doorbell");
            let used = driver.get_used().unwrap().unwrap();
            assert_eq!((used.data, used.len), (lap, 8));
        }
    });
}

#[test]
fn a_packed_ring_outside_of_ram_does_not_become_ready() {
    let mut pc = pc(true);
    pc.negotiate_with(UPPER);
    let end = RAM as u64;
    let registers = SplitLayout {
        size: SIZE,
        descriptors: end - 16,
        avail: 0,
        used: 4,
    };
    assert!(!pc.set_up(0, &registers, 0xffff));
}
