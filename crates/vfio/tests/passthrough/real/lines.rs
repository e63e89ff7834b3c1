//! INTx and MSI as eventfds, without a guest.

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::PassthroughErrorKind;

use super::{Real, acknowledge, assert_signalled, assert_silent, raise, read, write};
use crate::passthrough::double::{IDENT, INTX, MSI, RAISE};
use testbed::event;

fn registers_are_read_and_written<H: Hypervisor>(_h: &H) {
    let edu = Real::edu(None);
    assert_eq!(read(&edu.device, 0), IDENT);
    // The liveness register inverts.
    write(&edu.device, 4, 0x1234_5678);
    assert_eq!(read(&edu.device, 4), !0x1234_5678);
}

fn line_is_masked_when_it_is_signalled<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let trigger = event();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    raise(device);
    assert_signalled(&trigger);
    write(device, RAISE, 2);
    assert_silent(&trigger);
    // Unmasked by request while the line is up: the interrupt comes again.
    device.unmask(INTX, 0).unwrap();
    assert_signalled(&trigger);
    acknowledge(device);
    device.unmask(INTX, 0).unwrap();
    assert_silent(&trigger);
}

fn line_is_unmasked_by_an_eventfd<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let (trigger, unmask) = (event(), event());
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.set_unmask(INTX, 0, Some(&unmask)).unwrap();
    raise(device);
    assert_signalled(&trigger);
    for _ in 0..10 {
        unmask.write(1).unwrap();
        assert_signalled(&trigger);
    }
    acknowledge(device);
    unmask.write(1).unwrap();
    assert_silent(&trigger);
    raise(device);
    assert_signalled(&trigger);
}

fn line_can_be_masked_beforehand<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let trigger = event();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.mask(INTX, 0).unwrap();
    raise(device);
    assert_silent(&trigger);
    device.unmask(INTX, 0).unwrap();
    assert_signalled(&trigger);
    device.disable(INTX).unwrap();
    write(device, RAISE, 2);
    assert_silent(&trigger);
}

fn each_message_is_a_signal<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let trigger = event();
    device.set_triggers(MSI, 0, &[Some(&trigger)]).unwrap();
    for _ in 0..20 {
        raise(device);
        assert_signalled(&trigger);
        acknowledge(device);
    }
    let error = device.mask(MSI, 0).unwrap_err();
    assert!(matches!(
        error.kind,
        PassthroughErrorKind::NotMaskable { .. }
    ));
    device.disable(MSI).unwrap();
    raise(device);
    assert_silent(&trigger);
}

fn message_is_signalled_by_loopback<H: Hypervisor>(_h: &H) {
    let Real { device, .. } = &Real::edu(None);
    let trigger = event();
    device.set_triggers(MSI, 0, &[Some(&trigger)]).unwrap();
    device.trigger(MSI, 0).unwrap();
    assert_signalled(&trigger);
}

testbed::on_kvm! {
    registers_are_read_and_written;
    line_is_masked_when_it_is_signalled;
    line_is_unmasked_by_an_eventfd;
    line_can_be_masked_beforehand;
    each_message_is_a_signal;
    message_is_signalled_by_loopback;
}
