use super::*;

/// A key as a program writes it.
fn key() -> [u8; COUNTER_KEY] {
    let mut key = [0; COUNTER_KEY];
    key[0..8].copy_from_slice(&0xfebf_1000_u64.to_le_bytes());
    key[8..12].copy_from_slice(&0x8810_0000_u32.to_le_bytes());
    key[12..16].copy_from_slice(&4711_u32.to_le_bytes());
    key[16..20].copy_from_slice(&0x77_u32.to_le_bytes());
    key[20..22].copy_from_slice(&300_u16.to_le_bytes());
    key[22] = RecordKind::Ring as u8;
    key[23] = 2 << 1 | 1;
    key
}

#[test]
fn a_key_says_what_happened_where_and_to_which_vm() {
    let vm = KernelVm {
        page: 0x8810_0000,
        creator: 4711,
    };
    let event = CountedEvent {
        vm,
        vcpu: 300,
        kind: RecordKind::Ring,
        address: 0xfebf_1000,
        is_write: true,
        size: 2,
        device: 0x77,
    };
    assert_eq!(CountedEvent::of(&key()), Some(event));
}

#[test]
fn a_key_of_no_known_kind_is_no_event() {
    let mut key = key();
    for kind in [0, 17, 255] {
        key[22] = kind;
        assert_eq!(CountedEvent::of(&key), None);
    }
}

#[test]
fn a_ring_names_its_eventfd_its_bus_and_what_waits() {
    let of = |bus: u8| {
        let mut value = [0; COUNTER_VALUE];
        value[0] = 9;
        value[8..12].copy_from_slice(&31_u32.to_le_bytes());
        value[12] = bus;
        value[24..32].copy_from_slice(&0xffff_ffff_c0a0_1230_u64.to_le_bytes());
        CountedRecord::of(&value)
    };
    assert_eq!((of(0).count, of(0).eventfd()), (9, 31));
    assert_eq!(of(0).waiter, 0xffff_ffff_c0a0_1230);
    // KVM's buses: MMIO, ports, a bus of another architecture, and MMIO without a size.
    let spaces = [0, 1, 2, 3].map(|bus| of(bus).space());
    let expected = [Space::Mmio, Space::Port, Space::Bus(2), Space::Mmio];
    assert_eq!(spaces, expected);
}

#[test]
fn the_idle_thread_signals_nothing() {
    let thread = |detail| {
        CountedRecord {
            count: 1,
            detail,
            ..CountedRecord::default()
        }
        .thread()
    };
    assert_eq!(thread(0), None);
    assert_eq!(thread(100 << 32 | 101), Some(101));
}
