//! A device is given back while it interrupts its guest, and when the host takes it away: nothing is left.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use vmbell_hypervisor::{AssignedDevices, Hypervisor};
use vmbell_vfio::interrupt::RemovalRequest;
use vmbell_vfio::placed::Handover;

use super::bad::{bind, unbind};
use super::{EDU, Real, alone_with_devices, group_file, raise};
use crate::passthrough::double::REQUEST;
use crate::passthrough::guest::{Guest, place, wire};
use crate::passthrough::holdings::Holdings;
use testbed::await_that;
use testbed::process::alone;

const ROUNDS: u64 = 100;

fn device_is_given_back_in_mid_interrupt_a_hundred_times<H: Hypervisor>(h: &H) {
    // The other process, which uses the device for this test, has its own lock.
    let _alone = alone_with_devices();
    alone(|| given_back(h));
}

fn given_back<H: Hypervisor>(h: &H) {
    let places = [place(h, true)];
    let guest = {
        let real = Real::open(EDU, None);
        Guest::new(h, &real.device, &places)
    };
    let backend = guest.parts().backend as Arc<dyn AssignedDevices>;
    guest.while_running(|| {
        let mut after_first = None;
        for round in 0..ROUNDS {
            // The VMM's path comes first: the first thread that waits for an eventfd creates what the process then
            // keeps.
            let handover = [Handover::Irqfd, Handover::Vmm][usize::from(round % 5 == 0)];
            let real = Real::open(EDU, Some(&backend));
            let placed = guest.put(&real.device, &real.space(), &places, &[wire(handover)]);
            let placed = placed.unwrap();
            let before = guest.counts().0;
            raise(&real.device);
            let more = before + 1 + round % 7;
            await_that("interrupts", || guest.counts().0 >= more);
            drop((real, placed));
            // The group, the device and its memory are free again.
            await_that("the group", || fs::File::open(group_file(EDU)).is_ok());
            after_first.get_or_insert_with(Holdings::now).await_again();
        }
    });
    drop((guest, backend));
    for what in ["passed-ram", "vfio", "kvm-v"] {
        assert_eq!(Holdings::now().named(what), [""; 0], "{what}");
    }
}

fn device_that_the_host_takes_away_is_given_back_in_mid_run<H: Hypervisor>(h: &H) {
    let real = Real::edu(None);
    let places = [place(h, true)];
    let guest = Guest::new(h, &real.device, &places);
    let placed = guest.put(
        &real.device,
        &real.space(),
        &places,
        &[wire(Handover::Irqfd)],
    );
    let placed = placed.unwrap();
    let asked = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&asked);
    let request = RemovalRequest::watch(&real.device, move || {
        heard.fetch_add(1, SeqCst);
    });
    let request = request.unwrap().unwrap();
    assert!(real.device.irq(REQUEST).is_ok());
    let Real {
        device,
        container,
        _alone,
    } = real;
    guest.while_running(|| {
        await_that("interrupts", || guest.counts().0 > 10);
        // The host waits until the device is closed.
        let host = std::thread::spawn(|| unbind(EDU, "vfio-pci"));
        await_that("the request", || asked.load(SeqCst) > 0);
        assert!(!host.is_finished());
        drop((request, placed, device, container));
        // KVM ends a resampling irqfd in two steps (Linux `irqfd_resampler_shutdown`): it removes the
        // resamplefd, and lowers the line a grace period later. Between them an EOI does not lower the line. Now it is
        // down, and one interrupt may be on its way.
        let spurious = guest.counts().1;
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(guest.counts().1 <= spurious + 1, "{:?}", guest.counts());
        await_that("the host's end", || host.is_finished());
        host.join().unwrap();
    });
    bind(EDU);
}

testbed::on_kvm! {
    device_is_given_back_in_mid_interrupt_a_hundred_times;
    device_that_the_host_takes_away_is_given_back_in_mid_run;
}
