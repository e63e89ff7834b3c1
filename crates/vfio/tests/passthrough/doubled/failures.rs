//! Accesses of a guest that the kernel refuses.

use std::sync::Arc;

use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::placed::Handover;

use super::Doubled;
use crate::passthrough::double::RAISE;
use testbed::{HOLE, await_that};

fn each_kind_of_access_that_fails_is_told_to_the_vmm_once<H: Hypervisor>(h: &H) {
    let doubled = Doubled::new(h, Handover::Vmm, false);
    let errors = Arc::clone(&doubled.guest.errors);
    let mut mmio = doubled.guest.machine.mmio.reader();
    doubled.edu.set_broken(true);
    for _ in 0..3 {
        let mut data = [0; 4];
        assert!(mmio.read(HOLE, &mut data) && mmio.write(HOLE + RAISE, &[1, 0, 0, 0]));
        assert_eq!(data, [0xff; 4]);
    }
    let refused = "Input/output error (os error 5)";
    let [read, write] = ["read a region", "write to a region"]
        .map(|operation| format!("edu: cannot {operation}: {refused}"));
    assert_eq!(*errors.lock(), [read, write]);
    // The line comes up on a thread, and the next access ends the interrupt.
    doubled.edu.set_broken(false);
    assert!(mmio.write(HOLE + RAISE, &[1, 0, 0, 0]));
    doubled.edu.set_broken(true);
    await_that("the end that fails", || {
        mmio.read(HOLE, &mut [0; 4]);
        errors.lock().len() == 3
    });
    let end = errors.lock().pop();
    assert_eq!(
        end,
        Some(format!("edu: cannot unmask interrupt index 0: {refused}"))
    );
    doubled.edu.set_broken(false);
}

testbed::on_both! {
    each_kind_of_access_that_fails_is_told_to_the_vmm_once;
}
