//! Nodes that no guest could use.

use super::super::{DeviceNode, NodeError, Parent, sample_tree};
use super::devices::{clk24mhz, clock, level, parent, property, region, rtc, texts};

fn refusal(parent: &Parent, change: impl FnOnce(&mut DeviceNode)) -> String {
    let mut device = rtc();
    change(&mut device);
    sample_tree(&[device], parent).unwrap_err().to_string()
}

fn refused(change: impl FnOnce(&mut DeviceNode)) -> String {
    refusal(&parent(2, 2, 1), change)
}

#[test]
fn an_address_above_4_gib_does_not_fit_into_one_cell() {
    let beyond = |device: &mut DeviceNode| {
        device.regions.push(region(0x1_0000_0000, 0x1000));
    };
    assert_eq!(
        refusal(&parent(1, 1, 1), beyond),
        "pl031@8c000000: region 1 (0x1000 bytes at 0x100000000) does not fit into 1 cell(s) of an address and 1 of a size"
    );
    let into = |device: &mut DeviceNode| device.regions[0] = region(0xffff_f000, 0x2000);
    assert!(refusal(&parent(1, 1, 1), into).contains("does not fit"));
    let last = |device: &mut DeviceNode| device.regions[0] = region(0xffff_f000, 0x1000);
    let mut device = rtc();
    last(&mut device);
    sample_tree(&[device], &parent(1, 1, 1)).unwrap();
    let large = |device: &mut DeviceNode| device.regions[0] = region(0, 0x1_0000_0000);
    assert!(refusal(&parent(2, 1, 1), large).contains("does not fit"));
}

#[test]
fn a_region_is_neither_empty_nor_beyond_the_last_address() {
    assert_eq!(
        refused(|device| device.regions[0].size = 0),
        "pl031@8c000000: region 0 (0x0 bytes at 0x8c000000) is empty"
    );
    let wraps = refused(|device| device.regions[0] = region(u64::MAX, 2));
    assert!(wraps.contains("does not fit into 2"), "{wraps}");
    let mut device = rtc();
    device.regions[0] = region(u64::MAX, 1);
    sample_tree(&[device], &parent(2, 2, 1)).unwrap();
    assert_eq!(
        refused(|device| device.regions.clear()),
        "pl031: the device has no region"
    );
}

#[test]
fn regions_do_not_overlap() {
    let twice = refused(|device| device.regions.push(device.regions[0]));
    assert_eq!(
        twice,
        "pl031@8c000000: regions 0 (0x1000 bytes at 0x8c000000) and 1 (0x1000 bytes at 0x8c000000) overlap"
    );
    let inside = refused(|device| {
        device.regions = vec![
            region(0x9000, 0x10),
            region(0x3000, 1),
            region(0x8000, 0x1001),
        ];
    });
    assert!(
        inside.contains("regions 0 (0x10 bytes at 0x9000) and 2 (0x1001"),
        "{inside}"
    );
    let mut device = rtc();
    device.regions = vec![region(0x9000, 0x10), region(0x8000, 0x1000)];
    sample_tree(&[device], &parent(2, 2, 1)).unwrap();
}

#[test]
fn interrupts_need_a_controller_that_has_them() {
    let absent = Parent {
        interrupts: None,
        ..parent(2, 2, 1)
    };
    let error = refusal(&absent, |_| ());
    assert!(error.contains("names no interrupt controller"), "{error}");
    let range = refused(|device| device.interrupts[0] = level(988));
    assert!(range.contains("interrupt 988 is out of range, the controller has 988"));
    let twice = refused(|device| device.interrupts.push(device.interrupts[0]));
    assert!(twice.contains("interrupt 112 is listed twice"), "{twice}");
}

#[test]
fn names_are_those_of_a_device_tree() {
    for name in [
        "",
        "9pl",
        "a@1",
        "a/b",
        "é",
        "a\0",
        "abcdefghijklmnopqrstuvwxyz0123456",
    ] {
        let error = refused(|device| device.name = name.to_owned());
        assert!(error.contains("not a name of a node"), "{name}: {error}");
    }
    for names in [&[][..], &[""], &["a\0b"]] {
        let error = refused(|device| device.compatible = texts(names));
        assert!(error.contains("'compatible' has no names"), "{error}");
    }
    for cells in [0, 3] {
        let error = refusal(&parent(cells, 2, 1), |_| ());
        assert!(error.contains("each has to be 1 or 2"), "{error}");
    }
}

#[test]
fn what_is_set_for_the_guest_is_not_copied() {
    for name in ["reg", "interrupts", "phandle", "iommus", "clocks", "status"] {
        let error = refused(|device| device.properties.push(property(name, [])));
        assert!(error.contains("is not copied"), "{name}: {error}");
    }
    let error = refused(|device| device.properties.push(property("a b", [])));
    assert!(error.contains("not a name of a property"), "{error}");
    let error = refused(|device| device.properties.push(property("clock-names", [])));
    assert!(error.contains("'clock-names' is listed twice"), "{error}");
}

#[test]
fn clocks_of_one_name_are_one_clock() {
    let mut other = rtc();
    other.regions[0].address += 0x1000;
    sample_tree(&[rtc(), other.clone()], &parent(2, 2, 1)).unwrap();
    other.clocks = vec![clock(Some(1), &["clk24mhz"])];
    let error = sample_tree(&[rtc(), other.clone()], &parent(2, 2, 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the clock 'clk24mhz' of 1 Hz has the output name of the clock 'clk24mhz' of 24000000 Hz"
    );
    other.clocks = vec![clock(Some(1), &["a\0"])];
    let error = sample_tree(&[other], &parent(2, 2, 1)).unwrap_err();
    assert!(matches!(error, NodeError::ClockName { .. }), "{error}");
}

#[test]
fn phandles_end() {
    let mut device = rtc();
    device.clocks = vec![clk24mhz(), clock(None, &[])];
    for (controller, written) in [(u32::MAX, 0), (u32::MAX - 1, 0), (u32::MAX - 2, 1)] {
        let devices = [device.clone()];
        let error = sample_tree(&devices, &parent(2, 2, controller)).unwrap_err();
        let missing = &device.clocks[written];
        assert!(
            matches!(&error, NodeError::NoPhandle { clock } if clock == missing),
            "{controller:#x}: {error}"
        );
    }
}
