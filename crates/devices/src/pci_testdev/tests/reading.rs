//! Selection, header and counts of tests without a doorbell.

use super::*;

#[test]
fn identity_and_bars_are_those_of_the_specification() {
    let device = PciTestdev::new(
        PciTestdevConfig {
            membar: 4 << 30,
            pv: false,
        },
        Arc::new(Registry::default()),
        Box::new(|error| panic!("{error}")),
    )
    .unwrap();
    let FunctionInfo { identity, bars, .. } = device.info();
    assert_eq!((identity.vendor, identity.device), (0x1b36, 0x0005));
    let sizes = bars.map(|bar| bar.map(|bar| (bar.space, bar.size)));
    let expected = [
        Some((BarSpace::Memory32, 4096)),
        Some((BarSpace::Io, 256)),
        Some((BarSpace::Memory64, 4 << 30)),
        None,
        None,
        None,
    ];
    assert_eq!(sizes, expected);
}

#[test]
fn membar_of_4_gib_is_sized_through_both_of_its_registers() {
    let mut pc = Pc::new(PciTestdevConfig {
        membar: 4 << 30,
        pv: false,
    });
    let mut register = |at: u32, data: &[u8]| {
        pc.config(at, data);
        pc.input(CONFIG_PORTS + 4, 4)
    };
    assert_eq!(register(0x18, &[0xff; 4]), 0x0000_000c);
    assert_eq!(register(0x1c, &[0xff; 4]), 0xffff_ffff);
    register(0x18, &[0; 4]);
    register(0x1c, &0x10_u32.to_le_bytes());
    assert_eq!(pc.load(0x10_0000_0000, 4), 0xffff_ffff, "nothing after it");
}

#[test]
fn nothing_is_selected_at_first_and_everything_reads_zero() {
    let mut pc = Pc::plain();
    for at in [0, 1, 4, 16, 2048, 4095] {
        assert_eq!(pc.load(MEMORY + at, 1), 0, "{at}");
    }
    assert_eq!(pc.input(PORTS, 4), 0);
}

#[test]
fn each_test_has_its_byte_its_value_and_its_name() {
    let mut pc = Pc::plain();
    let rows = [
        (0, 2048, 0xfa, "mmio-no-eventfd"),
        (1, 2049, 0xce, "mmio-wildcard-eventfd"),
        (2, 2050, 0xfa, "mmio-datamatch-eventfd"),
    ];
    for (test, offset, data, name) in rows {
        pc.store(MEMORY + TEST, &[test]);
        assert_eq!(pc.load(MEMORY, 1), u64::from(test));
        assert_eq!(pc.load(MEMORY + WIDTH, 1), 1);
        assert_eq!(pc.load(MEMORY + 4, 4), offset);
        assert_eq!(pc.load(MEMORY + 8, 4), data);
        assert_eq!(pc.name(), name);
    }
    let rows = [
        (0, 131, 0xfa, "portio-no-eventfd"),
        (1, 132, 0xce, "portio-wildcard-eventfd"),
        (2, 133, 0xfa, "portio-datamatch-eventfd"),
    ];
    for (test, offset, data, name) in rows {
        pc.out(PORTS + TEST, &[test]);
        assert_eq!(pc.input(PORTS + 4, 4), offset);
        assert_eq!(pc.input(PORTS + 8, 1), data);
        assert_eq!(pc.name(), name, "either BAR shows the test");
    }
}

#[test]
fn fourth_test_is_there_on_request() {
    let mut pc = Pc::pv();
    pc.store(MEMORY + TEST, &[3]);
    assert_eq!(
        (pc.load(MEMORY + 4, 4), pc.load(MEMORY + 8, 1)),
        (2051, 0xce)
    );
    assert_eq!(pc.name(), "mmio-pv-eventfd");
    pc.out(PORTS + TEST, &[3]);
    assert_eq!(pc.input(PORTS + 4, 4), 128 + 7);
    assert_eq!(pc.name(), "portio-pv-eventfd");
    pc.out(PORTS + TEST, &[4]);
    assert_eq!(pc.input(PORTS + WIDTH, 1), 0);
}

#[test]
fn test_numbers_3_and_255_end_the_scan_with_width_0() {
    let mut pc = Pc::plain();
    for number in [3, 255] {
        pc.store(MEMORY + TEST, &[0]);
        assert_eq!(pc.load(MEMORY + WIDTH, 1), 1);
        pc.store(MEMORY + TEST, &[number]);
        assert_eq!(pc.load(MEMORY + WIDTH, 1), 0);
        assert_eq!(pc.name(), "");
    }
}

#[test]
fn reads_of_32_bits_equal_four_of_8() {
    let mut pc = Pc::plain();
    pc.out(PORTS + TEST, &[2]);
    for at in (0..48).step_by(4) {
        let bytes = (0..4).map(|byte| pc.load(MEMORY + at + byte, 1) << (8 * byte));
        let bytes: u64 = bytes.sum();
        assert_eq!(pc.load(MEMORY + at, 4), bytes);
        assert_eq!(pc.input(PORTS + at, 4), bytes);
    }
}

#[test]
fn count_rises_for_the_exact_byte_at_the_exact_offset_only() {
    let mut pc = Pc::plain();
    pc.store(MEMORY + TEST, &[0]);
    let byte = MEMORY + 2048;
    assert_eq!(pc.count(), 0);
    for _ in 0..16 {
        pc.store(byte, &[0xfa]);
    }
    assert_eq!(pc.count(), 16);
    // The wrong value, and the addresses next to the test's byte.
    pc.store(byte, &[0xfb]);
    pc.store(byte - 1, &[0xfa]);
    pc.store(byte + 1, &[0xfa]);
    assert_eq!(pc.count(), 16);
    // A wide write counts as its single bytes.
    pc.store(byte, &[0xfa, 0, 0, 0]);
    pc.store(byte - 1, &[0, 0xfa]);
    pc.store(byte, &[0, 0xfa]);
    assert_eq!(pc.count(), 18);
}

#[test]
fn count_starts_again_with_each_selection() {
    let mut pc = Pc::plain();
    pc.out(PORTS + TEST, &[0]);
    pc.out(PORTS + 131, &[0xfa]);
    assert_eq!(pc.input(PORTS + COUNT, 4), 1);
    pc.out(PORTS + TEST, &[0]);
    assert_eq!(pc.input(PORTS + COUNT, 4), 0);
}

#[test]
fn header_cannot_be_written() {
    let mut pc = Pc::plain();
    pc.store(MEMORY + TEST, &[0]);
    for at in 1..64 {
        pc.store(MEMORY + at, &[0xfa]);
    }
    assert_eq!(pc.name(), "mmio-no-eventfd");
    assert_eq!(pc.count(), 0);
    assert_eq!(pc.load(MEMORY + 4, 4), 2048);
}

#[test]
fn membar_of_a_bad_size_is_refused_by_name() {
    for membar in [1, 3 << 20, u64::MAX] {
        let config = PciTestdevConfig { membar, pv: false };
        let device = PciTestdev::new(
            config,
            Arc::new(Registry::default()),
            Box::new(|error| panic!("{error}")),
        );
        let error = Pc::plain().root.add(Arc::new(device.unwrap())).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("BAR2 of pci-testdev: a size of"), "{text}");
    }
}
