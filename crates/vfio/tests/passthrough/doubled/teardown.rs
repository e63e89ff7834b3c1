//! A device is taken out while it interrupts its guest: nothing is left.

use std::sync::Arc;

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::placed::Handover;

use crate::passthrough::double::{Edu, RAISE, Space};
use crate::passthrough::guest::{Guest, place, wire};
use crate::passthrough::holdings::Holdings;
use testbed::process::alone;
use testbed::{await_that, rounds};

fn torn_down<H: Hypervisor>(h: &H, handover: Handover) {
    let (edu, space) = (Edu::pci(), Space::new());
    let dma = Arc::clone(&space) as Arc<dyn DmaSpace>;
    let places = [place(h, handover == Handover::Irqfd)];
    let guest = Guest::new(h, &edu.open(), &places);
    edu.assert_given_back();
    guest.while_running(|| {
        let mut before_all = None;
        for round in 0..rounds(100) {
            let device = edu.open();
            edu.attach(&space);
            let placed = guest
                .put(&device, &dma, &places, &[wire(handover)])
                .unwrap();
            let before = guest.counts().0;
            device.write(0, RAISE, &1_u32.to_le_bytes()).unwrap();
            drop(device);
            let more = before + 1 + round % 7;
            await_that("interrupts", || guest.counts().0 >= more);
            drop(placed);
            edu.assert_given_back();
            assert_eq!(space.mapped(), [], "round {round}");
            // The first round keeps what is created once per process, such as a backend's own threads.
            let first = before_all.get_or_insert_with(Holdings::now);
            first.await_again();
        }
    });
    drop(guest);
    let left = Holdings::now().named("passed-ram");
    assert_eq!(left, [""; 0], "the guest's memory");
}

fn device_is_taken_out_in_mid_interrupt<H: Hypervisor>(h: &H) {
    alone(|| torn_down(h, Handover::Irqfd));
}

fn device_of_the_vmms_line_is_taken_out_in_mid_interrupt<H: Hypervisor>(h: &H) {
    alone(|| torn_down(h, Handover::Vmm));
}

testbed::on_both! {
    device_is_taken_out_in_mid_interrupt;
    device_of_the_vmms_line_is_taken_out_in_mid_interrupt;
}
