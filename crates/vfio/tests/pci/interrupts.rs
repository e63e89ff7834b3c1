//! INTx, MSI and MSI-X, and the changes between them.

use testbed::assigned::Device;

use super::*;
use kit::wait::await_that;
use vmbell_vfio::interrupt::InterruptPath;

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
    assert_eq!(pc.wiring(), [Wired::Nothing]);
    pc.command(INTX_OFF);
    pc.command(INTX_ON);
    assert_eq!(pc.wiring(), [Wired::Intx(gsi())]);
}

#[test]
fn device_without_a_pin_has_no_intx() {
    let mut config = pc::config();
    config[0x3d] = 0;
    let mut pc = Pc::with(Device::new(config, &pc::parts()));
    assert_eq!(pc.device.lock().wired, Wired::Nothing);
    assert_eq!(pc.read(0x3c, 2), 0);
    let parts = Parts {
        irqs: [0, 2, VECTORS.into()],
        ..pc::parts()
    };
    let mut pc = Pc::with(Device::new(pc::config(), &parts));
    assert_eq!(pc.device.lock().wired, Wired::Nothing);
    assert_eq!(pc.read(0x3d, 1), 0);
}

#[test]
fn msi_takes_the_place_of_intx_and_gives_it_back() {
    let mut pc = Pc::new();
    pc.wiring();
    pc.set_msi(0x40, 1, true);
    let on = Wired::Msi(vec![message(0x40), message(0x41)]);
    assert_eq!(pc.wiring(), [Wired::Nothing, on]);
    pc.set_msi(0x40, 1, false);
    assert_eq!(pc.wiring(), [Wired::Nothing, Wired::Intx(gsi())]);
}

#[test]
fn msi_ends_without_intx_if_that_is_disabled() {
    let mut pc = Pc::new();
    pc.command(INTX_OFF);
    pc.wiring();
    pc.set_msi(0x40, 0, true);
    assert_eq!(pc.wiring(), [Wired::Msi(vec![message(0x40)])]);
    pc.set_msi(0x40, 0, false);
    assert_eq!(pc.wiring(), [Wired::Nothing]);
    pc.command(INTX_ON);
    assert_eq!(pc.wiring(), [Wired::Intx(gsi())]);
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
        Wired::Msi(vec![message(0x60), message(0x41)]),
        Wired::Msi(vec![message(0x60), message(0x61)]),
        Wired::Msi(vec![message(0x60), None]),
    ];
    assert_eq!(pc.steps(), expected);
}

#[test]
fn masked_vector_of_msi_shows_what_is_kept() {
    let mut pc = Pc::new();
    assert_eq!(pc.read(MSI + 20, 4), 0, "msi is off");
    pc.set_msi(0x40, 1, true);
    pc.write(MSI + 16, &2_u32.to_le_bytes());
    for vector in [0, 1] {
        pc.device.signal(vector);
    }
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
    let on = |first| Wired::Msix(vec![None, first, message(0x52), None]);
    assert_eq!(pc.wiring(), [Wired::Nothing, on(None)]);
    pc.set_vector(1, Msi::fixed(0, 0x51), false);
    assert_eq!(pc.steps(), [on(message(0x51))]);
    pc.set_vector(1, Msi::fixed(0, 0x61), false);
    assert_eq!(pc.steps(), [on(None), on(message(0x61))]);
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
    let all = |first, last| Wired::Msix(vec![first, None, None, last]);
    let on = message(0x50);
    assert_eq!(pc.steps(), [all(on, None), all(on, on)]);
    pc.set_msix(true, true);
    assert_eq!(pc.steps(), [all(None, on), all(None, None)]);
}

#[test]
fn msix_is_stronger_than_msi() {
    let mut pc = Pc::new();
    pc.set_msi(0x40, 0, true);
    pc.wiring();
    pc.set_msix(true, false);
    let all = vec![None; 4];
    assert_eq!(pc.wiring(), [Wired::Nothing, Wired::Msix(all)]);
    pc.set_msix(false, false);
    let back = Wired::Msi(vec![message(0x40)]);
    assert_eq!(pc.wiring(), [Wired::Nothing, back]);
}

#[test]
fn message_that_is_no_interrupt_keeps_intx_off_and_the_vector_too() {
    let mut pc = Pc::new();
    pc.wiring();
    pc.set_msi(0x02, 0, true);
    assert_eq!(pc.wiring(), [Wired::Nothing, Wired::Msi(vec![None])]);
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
    assert_eq!(*pc.errors.lock(), Vec::<String>::new());
}

#[test]
fn pending_bits_of_msix_are_those_of_masked_vectors() {
    let mut pc = Pc::new();
    let at = pc.base(TABLE_BAR) + PENDING;
    let bits = |pc: &mut Pc| {
        let mut data = [0; 8];
        assert!(pc.memory.read(at, &mut data));
        u64::from_le_bytes(data)
    };
    assert_eq!(bits(&mut pc), 0, "msi-x is off");
    pc.set_vector(1, Msi::fixed(0, 0x51), false);
    pc.set_msix(true, false);
    pc.device.signal(0);
    pc.device.signal(1);
    assert_eq!(bits(&mut pc), 1, "vector 1 is on");
    pc.set_msix(true, true);
    assert_eq!(bits(&mut pc), 3);
    pc.device.take();
    pc.memory.write(at, &[0; 8]);
    assert_eq!(pc.device.take(), [], "read-only");
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
    for on in [true, false, true] {
        pc.set_msix(on, false);
        pc.set_vector(1, Msi::fixed(0, 0x51), false);
    }
    assert_eq!(
        *pc.errors.lock(),
        ["cannot turn MSI-X on", "cannot turn INTx on"]
    );
}

#[test]
fn vector_that_cannot_be_changed_is_reported_once() {
    let mut pc = Pc::new();
    pc.set_msix(true, false);
    pc.device.lock().fails = true;
    for number in [0x51, 0x52] {
        pc.set_vector(1, Msi::fixed(0, number), false);
    }
    assert_eq!(
        *pc.errors.lock(),
        ["cannot turn a vector of MSI-X on or off"]
    );
}

#[test]
fn intx_that_the_vmm_hands_on_ends_with_an_access_and_nothing_is_mapped() {
    let device = Device::new(pc::config(), &pc::parts());
    device.lock().resamples = false;
    let mut pc = Pc::with(device);
    assert!(matches!(
        pc.function.intx_path(),
        Some(InterruptPath::Vmm { .. })
    ));
    assert!(pc.device.lock().mapped.is_empty());
    pc.device.signal(0);
    await_that("the line to be up", || pc.device.lock().line);
    let at = pc.base(0);
    pc.memory.read(at, &mut [0; 4]);
    assert!(!pc.device.lock().line);
    pc.set_msix(true, false);
    pc.command(0x0004);
    pc.command(0x0006);
    assert!(pc.device.lock().mapped.is_empty(), "for good");
}
