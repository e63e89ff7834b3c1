//! Configuration space, BARs and their mappings.

use super::*;

#[test]
fn guest_sees_the_device_at_its_own_addresses() {
    let mut pc = Pc::new();
    assert_eq!(pc.read(0x00, 4), 0x10d3_8086);
    assert_eq!(pc.read(0x08, 4), 0x0200_0002, "class and revision");
    assert_eq!(pc.read(0x0e, 1), 0, "one function");
    assert_eq!(pc.read(0x2c, 4), 0x1234_8086, "subsystem");
    assert_eq!(u64::from(pc.read(0x10, 4)), pc::MEMORY);
    assert_eq!(pc.read(0x14, 4), 0xc001);
    assert_eq!(pc.read(0x18, 4) & 0xf, 0xc, "64 bits, prefetchable");
    assert_eq!(pc.read(0x3c, 2), 0x0100 | pc::GSI);
    assert_eq!(pc.read(0x06, 2) & 0x10, 0x10);
    let chain = [0x34, POWER + 1, MSI + 1, MSIX + 1].map(|at| pc.read(at, 1));
    assert_eq!(chain, [0x40, 0x50, 0x70, 0]);
}

#[test]
fn registers_of_other_capabilities_are_the_devices() {
    let mut pc = Pc::new();
    pc.device.take();
    assert_eq!(pc.read(POWER + 2, 2), 3);
    pc.write(0xc0, &[1, 2, 3, 4]);
    assert_eq!(pc.device.take(), [Event::Config(0xc0, vec![1, 2, 3, 4])]);
    assert_eq!(pc.read(0xc0, 4), 0x0403_0201);
}

#[test]
fn device_stays_in_d0() {
    let mut pc = Pc::new();
    pc.device.take();
    pc.write(POWER + 4, &[0x03, 0x81]);
    pc.write(POWER + 4, &[0xff]);
    let expected = [
        Event::Config(POWER + 4, vec![0x00, 0x81]),
        Event::Config(POWER + 4, vec![0xfc]),
    ];
    assert_eq!(pc.device.take(), expected);
}

#[test]
fn bars_are_mapped_without_the_pages_of_msix() {
    let mut pc = Pc::new();
    let base = pc.base(TABLE_BAR);
    let expected = [
        Event::Config(4, vec![3, 0]),
        Event::Wired(Wired::Intx(gsi())),
        Event::Map(0, 0..0x4000, pc::MEMORY),
        Event::Map(2, 0..0x2000, base),
        Event::Map(2, 0x4000..0x8000, base + 0x4000),
    ];
    assert_eq!(pc.device.take(), expected);
}

#[test]
fn bar_that_moves_takes_its_mapping_along() {
    let mut pc = Pc::new();
    pc.device.take();
    pc.write(0x10, &0xe800_0000_u32.to_le_bytes());
    let whole = || 0..0x4000;
    let expected = [
        Event::Unmap(0, whole(), pc::MEMORY),
        Event::Map(0, whole(), 0xe800_0000),
    ];
    assert_eq!(pc.device.take(), expected);
}

#[test]
fn mapping_goes_before_decoding_does() {
    let mut pc = Pc::new();
    pc.device.take();
    pc.command(0);
    let events = pc.device.take();
    assert_eq!(events.len(), 4, "{events:?}");
    assert_eq!(events[3], Event::Config(4, vec![0, 0]));
    assert!(pc.device.lock().mapped.is_empty());
    pc.command(6);
    let events = pc.device.take();
    assert_eq!(events[0], Event::Config(4, vec![6, 0]), "and bus mastering");
    assert_eq!(pc.device.lock().mapped.len(), 3);
}

#[test]
fn bar_over_ram_is_nowhere() {
    let mut pc = Pc::new();
    let conflicts = Arc::new(Mutex::new(Vec::new()));
    let says = Arc::clone(&conflicts);
    pc.root
        .on_conflict(move |conflict| says.lock().push(conflict.to_string()));
    pc.device.take();
    pc.write(0x10, &0x4000_u32.to_le_bytes());
    assert_eq!(pc.device.take(), [Event::Unmap(0, 0..0x4000, pc::MEMORY)]);
    assert!(!pc.memory.write(0x4000, &[0]));
    assert_eq!(
        *conflicts.lock(),
        [
            "BAR0 of the assigned device at 0x4000-0x7fff is over 0x0-0xfffffff, which is not free, and is not mapped"
        ]
    );
}

#[test]
fn conflict_is_told_to_the_owner_of_its_device() {
    let mut pc = Pc::new();
    let device = testbed::assigned::Device::new(pc::config(), &pc::parts());
    let second = pc::assign(&device, true, &pc.errors).unwrap().unwrap();
    let slot = pc.root.add(Arc::new(second)).unwrap();
    let conflicts = Arc::new(Mutex::new(Vec::new()));
    for slot in [1, slot] {
        let says = Arc::clone(&conflicts);
        pc.root
            .on_conflict_of(slot, move |_| says.lock().push(slot));
    }
    pc.root.on_conflict(|conflict| panic!("{conflict}"));
    let bar0 = 1_u32 << 31 | 2 << 11 | 0x10;
    pc.ports
        .write(vmbell_devices::pci::CONFIG_PORTS, &bar0.to_le_bytes());
    let data = vmbell_devices::pci::CONFIG_PORTS + 4;
    pc.ports.write(data, &0x4000_u32.to_le_bytes());
    assert_eq!(*conflicts.lock(), [2]);
}

#[test]
fn what_is_not_mapped_goes_over_the_bus() {
    let mut pc = Pc::new();
    pc.device.take();
    let base = pc.base(TABLE_BAR);
    let mut data = [0; 2];
    assert!(pc.memory.read(base + TABLE + 0x80, &mut data));
    assert_eq!(data, [0x80, 0x80], "the table's page after the table");
    pc.memory.write(base + TABLE + 0x80, &[1, 2, 3]);
    pc.ports.write(0xc004, &[7]);
    let expected = [
        Event::Bar(2, TABLE + 0x80, vec![1, 2, 3]),
        Event::Bar(1, 4, vec![7]),
    ];
    assert_eq!(pc.device.take(), expected);
}

#[test]
fn device_that_is_gone_reads_as_ones_and_is_reported_once() {
    let mut pc = Pc::new();
    pc.device.lock().fails = true;
    let base = pc.base(0);
    for _ in 0..2 {
        assert_eq!(pc.read(0x2c, 4), u32::MAX);
        let mut data = [0; 2];
        pc.memory.read(base + 8, &mut data);
        assert_eq!(data, [0xff; 2]);
        pc.memory.write(base, &data);
        pc.write(0xc0, &[0; 4]);
        pc.memory.write(base + 0x1000, &data);
    }
    assert_eq!(
        *pc.errors.lock(),
        [
            "cannot read 4 bytes at 0x2c of configuration space, and the guest reads ones",
            "cannot read 2 bytes at 0x8 of BAR0, and the guest reads ones",
            "cannot write 2 bytes at 0x0 of BAR0, and the guest's write is lost",
            "cannot write 4 bytes at 0xc0 of configuration space, and the guest's write is lost",
        ]
    );
}

#[test]
fn bar_that_cannot_be_mapped_stays_on_the_bus() {
    let mut pc = Pc::new();
    pc.command(0);
    pc.device.lock().fails = true;
    pc.command(2);
    pc.device.lock().fails = false;
    assert_eq!(
        pc.errors.lock()[..2],
        [
            "cannot write 0x0002 to the device's command register",
            "cannot map 0x4000 bytes at 0x0 of BAR0 at 0xe0000000",
        ]
    );
    pc.device.take();
    pc.memory.write(pc::MEMORY + 8, &[1]);
    assert_eq!(pc.device.take(), [Event::Bar(0, 8, vec![1])]);
    pc.command(0);
    assert_eq!(
        pc.device.take(),
        [Event::Config(4, vec![0, 0])],
        "nothing to unmap"
    );
}

#[test]
fn reset_restores_what_the_guest_found() {
    let mut pc = Pc::new();
    pc.write(0x10, &0xe800_0000_u32.to_le_bytes());
    pc.set_vector(1, Msi::fixed(0, 0x51), false);
    pc.set_msix(true, false);
    pc.command(0x0400);
    let before = vec![None, Some(Msi::fixed(0, 0x51)), None, None];
    assert_eq!(pc.device.lock().wired, Wired::Msix(before));
    pc.device.take();
    pc.root.reset();
    let events = pc.device.take();
    assert_eq!(events[0], Event::Wired(Wired::Nothing));
    assert_eq!(events[1], Event::Reset);
    assert_eq!(events[2], Event::Config(4, vec![3, 0]));
    assert_eq!(events[3], Event::Wired(Wired::Intx(gsi())));
    assert_eq!(events[4], Event::Map(0, 0..0x4000, pc::MEMORY));
    pc.set_msix(true, false);
    let expected = Wired::Msix(vec![None; VECTORS.into()]);
    assert_eq!(pc.device.lock().wired, expected, "the table is empty");
}

#[test]
fn reset_that_fails_is_reported() {
    let pc = Pc::new();
    pc.device.lock().fails = true;
    pc.root.reset();
    let errors = pc.errors.lock();
    assert!(
        errors.contains(&"cannot reset the device".into()),
        "{errors:?}"
    );
}

#[test]
fn dropped_device_is_unmapped_and_silent() {
    let pc = Pc::new();
    let device = Arc::clone(&pc.device);
    assert_eq!(device.lock().mapped.len(), 3);
    drop(pc);
    let state = device.lock();
    assert!(state.mapped.is_empty());
    assert_eq!(state.wired, Wired::Nothing);
}

#[test]
fn device_that_is_given_back_is_reset_and_answers_no_more() {
    let mut pc = Pc::new();
    pc.device.take();
    pc.function.give_back();
    let events = pc.device.take();
    assert_eq!(events[0], Event::Wired(Wired::Nothing));
    assert!(matches!(
        events[1..4],
        [Event::Unmap(..), Event::Unmap(..), Event::Unmap(..)]
    ));
    assert!(events.contains(&Event::Reset), "{events:?}");
    assert_eq!(pc.read(0x2c, 4), u32::MAX);
    pc.command(0);
    drop(pc.root);
    assert_eq!(pc.device.take(), []);
    let failed = "cannot read 4 bytes at 0x2c of configuration space, and the guest reads ones";
    assert_eq!(pc.errors.lock()[0], failed);
}

#[test]
fn without_mmap_every_access_goes_over_the_bus() {
    let device = testbed::assigned::Device::new(pc::config(), &pc::parts());
    let pc = Pc::new();
    let second = pc::assign(&device, false, &pc.errors).unwrap().unwrap();
    pc.root.add(Arc::new(second)).unwrap();
    assert_eq!(device.lock().wired, Wired::Intx(gsi()));
    assert!(device.lock().mapped.is_empty());
}
