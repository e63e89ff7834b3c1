//! INTx, MSI and MSI-X, and the changes between them.

use super::*;

const INTX_OFF: u16 = 0x0403;
const INTX_ON: u16 = 0x0003;

fn message(vector: u8) -> Option<Msi> {
    Some(Msi::fixed(0, vector))
}

#[test]
fn intx_is_on_until_the_guest_turns_it_off() {
    let mut pc = Pc::new();
    assert_eq!(pc.device.lock().wired, Wired::Intx(gsi()));
    pc.wiring();
    pc.command(INTX_OFF);
    assert_eq!(pc.wiring(), [Event::Disable]);
    pc.command(INTX_OFF);
    pc.command(INTX_ON);
    assert_eq!(pc.wiring(), [Event::Intx(gsi())]);
}

#[test]
fn device_without_a_pin_has_no_intx() {
    let mut config = pc::config();
    config[0x3d] = 0;
    let mut pc = Pc::with(config, &pc::info());
    assert_eq!(pc.device.lock().wired, Wired::Nothing);
    assert_eq!(pc.read(0x3c, 2), 0);
    let info = PciInfo {
        intx: false,
        ..pc::info()
    };
    let mut pc = Pc::with(pc::config(), &info);
    assert_eq!(pc.device.lock().wired, Wired::Nothing);
    assert_eq!(pc.read(0x3d, 1), 0);
}

#[test]
fn msi_takes_the_place_of_intx_and_gives_it_back() {
    let mut pc = Pc::new();
    pc.wiring();
    pc.set_msi(0x40, 1, true);
    let on = Event::Msi(vec![message(0x40), message(0x41)]);
    assert_eq!(pc.wiring(), [Event::Disable, on]);
    pc.set_msi(0x40, 1, false);
    assert_eq!(pc.wiring(), [Event::Disable, Event::Intx(gsi())]);
}

#[test]
fn msi_ends_without_intx_if_that_is_disabled() {
    let mut pc = Pc::new();
    pc.command(INTX_OFF);
    pc.wiring();
    pc.set_msi(0x40, 0, true);
    assert_eq!(pc.wiring(), [Event::Msi(vec![message(0x40)])]);
    pc.set_msi(0x40, 0, false);
    assert_eq!(pc.wiring(), [Event::Disable]);
    pc.command(INTX_ON);
    assert_eq!(pc.wiring(), [Event::Intx(gsi())]);
}

#[test]
fn msi_changes_without_going_off() {
    let mut pc = Pc::new();
    pc.set_msi(0x40, 1, true);
    pc.wiring();
    pc.write(MSI + 12, &0x60_u16.to_le_bytes());
    pc.write(MSI + 16, &2_u32.to_le_bytes());
    pc.write(MSI + 16, &2_u32.to_le_bytes());
    let expected = [
        Event::Msi(vec![message(0x60), message(0x61)]),
        Event::Msi(vec![message(0x60), None]),
    ];
    assert_eq!(pc.wiring(), expected);
}

#[test]
fn masked_vector_of_msi_shows_what_is_kept() {
    let mut pc = Pc::new();
    pc.device.lock().pending = vec![0, 1];
    assert_eq!(pc.read(MSI + 20, 4), 0, "msi is off");
    pc.set_msi(0x40, 1, true);
    pc.write(MSI + 16, &2_u32.to_le_bytes());
    assert_eq!(pc.read(MSI + 20, 4), 2);
    assert_eq!(pc.read(MSI + 20, 1), 2);
    assert_eq!(pc.read(MSI + 21, 1), 0);
    pc.device.take();
    pc.write(MSI + 20, &[0; 4]);
    assert_eq!(pc.device.take(), [], "read-only");
}

#[test]
fn each_vector_of_msix_is_changed_alone() {
    let mut pc = Pc::new();
    pc.set_vector(2, Msi::fixed(0, 0x52), false);
    pc.wiring();
    pc.set_msix(true, false);
    let on = vec![None, None, message(0x52), None];
    assert_eq!(pc.wiring(), [Event::Disable, Event::Msix(on)]);
    pc.set_vector(1, Msi::fixed(0, 0x51), false);
    assert_eq!(pc.wiring(), [Event::Vector(1, message(0x51))]);
    pc.set_vector(1, Msi::fixed(0, 0x61), false);
    let expected = [Event::Vector(1, None), Event::Vector(1, message(0x61))];
    assert_eq!(pc.wiring(), expected);
}

#[test]
fn function_mask_masks_the_vectors_that_are_on() {
    let mut pc = Pc::new();
    pc.set_msix(true, true);
    for vector in [0, 3] {
        pc.set_vector(vector, Msi::fixed(0, 0x50), false);
    }
    let all = Wired::Msix(vec![None; 4]);
    assert_eq!(pc.device.lock().wired, all);
    pc.wiring();
    pc.set_msix(true, false);
    let on = [0, 3].map(|vector| Event::Vector(vector, message(0x50)));
    assert_eq!(pc.wiring(), on);
    pc.set_msix(true, true);
    let off = [0, 3].map(|vector| Event::Vector(vector, None));
    assert_eq!(pc.wiring(), off);
}

#[test]
fn msix_is_stronger_than_msi() {
    let mut pc = Pc::new();
    pc.set_msi(0x40, 0, true);
    pc.wiring();
    pc.set_msix(true, false);
    let all = vec![None; 4];
    assert_eq!(pc.wiring(), [Event::Disable, Event::Msix(all)]);
    pc.set_msix(false, false);
    let back = Event::Msi(vec![message(0x40)]);
    assert_eq!(pc.wiring(), [Event::Disable, back]);
}

#[test]
fn message_that_is_no_interrupt_keeps_intx_off_and_the_vector_too() {
    let mut pc = Pc::new();
    pc.wiring();
    pc.set_msi(0x02, 0, true);
    assert_eq!(pc.wiring(), [Event::Disable, Event::Msi(vec![None])]);
    pc.set_vector(
        0,
        Msi {
            address: 0x1000,
            data: 0x50,
            device: None,
        },
        false,
    );
    pc.set_msix(true, false);
    assert_eq!(pc.device.lock().wired, Wired::Msix(vec![None; 4]));
    assert_eq!(*pc.errors.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn pending_bits_of_msix_are_those_of_masked_vectors() {
    let mut pc = Pc::new();
    pc.device.lock().pending = vec![0, 1, 9];
    let at = pc.base(TABLE_BAR) + PENDING;
    let bits = |pc: &mut Pc| {
        let mut data = [0; 8];
        assert!(pc.memory.read(at, &mut data));
        u64::from_le_bytes(data)
    };
    assert_eq!(bits(&mut pc), 0, "msi-x is off");
    pc.set_vector(1, Msi::fixed(0, 0x51), false);
    pc.set_msix(true, false);
    assert_eq!(bits(&mut pc), 1, "vector 1 is on, and there is no vector 9");
    pc.set_msix(true, true);
    assert_eq!(bits(&mut pc), 3);
    pc.device.take();
    pc.memory.write(at, &[0; 8]);
    assert_eq!(pc.device.take(), [], "read-only");
}

#[test]
fn pending_bit_that_cannot_be_read_is_told_and_set() {
    let mut pc = Pc::new();
    pc.set_msix(true, true);
    pc.device.lock().fails = true;
    let (at, mut data) = (pc.base(TABLE_BAR) + PENDING, [0; 8]);
    assert!(pc.memory.read(at, &mut data));
    assert_eq!(data, 0b1111_u64.to_le_bytes());
    assert_eq!(
        *pc.errors.lock().unwrap(),
        ["cannot find out whether vector 0 is pending, and the guest reads that it is"]
    );
}

#[test]
fn access_across_the_end_of_the_table_reaches_nothing() {
    let mut pc = Pc::new();
    pc.device.take();
    let end = pc.base(TABLE_BAR) + TABLE + u64::from(VECTORS) * 16;
    let mut data = [0; 4];
    pc.memory.read(end - 2, &mut data);
    assert_eq!(data, [0xff; 4]);
    pc.memory.write(end - 2, &[0; 4]);
    assert_eq!(pc.device.take(), []);
    pc.memory.read(end - 4, &mut data);
    assert_eq!(data, [1, 0, 0, 0], "still masked");
}

#[test]
fn interrupts_that_cannot_be_wired_are_reported_once() {
    let mut pc = Pc::new();
    pc.device.lock().fails = true;
    pc.set_msix(true, false);
    pc.write(0x3c, &[0]);
    pc.set_vector(1, Msi::fixed(0, 0x51), false);
    assert_eq!(
        *pc.errors.lock().unwrap(),
        [
            "cannot turn interrupts off",
            "cannot turn a vector of MSI-X on or off"
        ]
    );
}
