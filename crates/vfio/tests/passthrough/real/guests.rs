//! A guest drives edu itself, and takes its interrupts over each path.

use std::sync::Arc;

use testbed::Usermode;
use vmbell::irq::Msi;
use vmbell_devices::pci::Routes;
use vmbell_hypervisor::{AssignedDevices, Hypervisor, Irqs};
use vmbell_vfio::interrupt::{InterruptPath, Vectors};
use vmbell_vfio::placed::{Handover, Placed};

use super::Real;
use crate::passthrough::double::MSI;
use crate::passthrough::guest::{Guest, Run, place, wire};
use testbed::taker::{Doing, take, taken, while_running, with_interrupts};
use testbed::{await_that, configured};

const MANY: u64 = 1000;
/// The index of MSI-X.
const MSIX: u32 = 2;

/// Edu in a guest.
struct InGuest {
    // Dropped first: the guest outlives its device.
    placed: Placed,
    guest: Guest,
    _real: Real,
}

impl InGuest {
    /// Puts edu into a guest, with this handover of its line, if any.
    fn new<H: Hypervisor>(h: &H, handover: Option<Handover>, mapped: bool) -> Self {
        let real = Real::edu(None);
        let places = [place(h, mapped)];
        let guest = Guest::new(h, &real.device, &places);
        let wires: Vec<_> = handover.map(wire).into_iter().collect();
        let placed = guest.put(&real.device, &real.space(), &places, &wires);
        Self {
            placed: placed.unwrap(),
            guest,
            _real: real,
        }
    }
}

fn passed_the_vmm_by(what: &str, run: Run) {
    println!("{what}: {run:?}");
    assert_eq!((run.interrupts, run.spurious), (MANY, 0));
    assert!(run.exits <= 1, "{run:?}");
}

fn thousand_interrupts_of_intx_pass_the_vmm_by<H: Hypervisor>(h: &H) {
    let edu = InGuest::new(h, Some(Handover::Irqfd), true);
    assert_eq!(edu.placed.paths(), [InterruptPath::Resample]);
    passed_the_vmm_by("intx, irqfd and resample", edu.guest.run(MANY));
}

fn thousand_interrupts_of_msi_pass_the_vmm_by<H: Hypervisor>(h: &H) {
    let edu = InGuest::new(h, None, true);
    let routes = Routes::new(edu.guest.parts().irqs, Guest::pins());
    let mut vectors = Vectors::enable(edu.placed.device(), MSI, 1, &routes).unwrap();
    vectors.set(0, Some(Guest::message())).unwrap();
    passed_the_vmm_by("msi, irqfd", edu.guest.run(MANY));
}

fn thousand_interrupts_of_intx_go_through_the_vmm<H: Hypervisor>(h: &H) {
    let edu = InGuest::new(h, Some(Handover::Vmm), true);
    assert!(matches!(
        edu.placed.paths()[..],
        [InterruptPath::Vmm { .. }]
    ));
    let run = edu.guest.run(MANY);
    println!("intx, vmm: {run:?}");
    assert_eq!(run.interrupts, MANY);
    // The handler's first access ends the interrupt, and only its second takes the device's line down.
    assert!(run.spurious <= MANY, "{run:?}");
    assert!(run.exits >= 3 * MANY, "{run:?}");
}

fn thousand_interrupts_of_intx_come_where_registers_are_not_mapped<H: Hypervisor>(h: &H) {
    let edu = InGuest::new(h, Some(Handover::Irqfd), false);
    let run = edu.guest.run(MANY);
    println!("intx, irqfd and resample, registers by exits: {run:?}");
    assert_eq!((run.interrupts, run.spurious), (MANY, 0));
    assert!(run.exits <= 3 * MANY + 2, "{run:?}");
}

fn the_backend_is_told_of_the_group_before_the_device_is_opened<H: Hypervisor>(h: &H) {
    // Making the guest needs the device only to learn where the device will be mapped.
    let guest = {
        let first = Real::edu(None);
        Guest::new(h, &first.device, &[])
    };
    let backend = guest.parts().backend as Arc<dyn AssignedDevices>;
    for _ in 0..3 {
        let real = Real::edu(Some(&backend));
        let places = [place(h, true)];
        let wires = [wire(Handover::Irqfd)];
        let placed = guest.put(&real.device, &real.space(), &places, &wires);
        drop(placed.unwrap());
    }
    let real = Real::edu(Some(&backend));
    let (places, wires) = ([place(h, true)], [wire(Handover::Irqfd)]);
    let placed = guest.put(&real.device, &real.space(), &places, &wires);
    let _placed = placed.unwrap();
    passed_the_vmm_by("intx, backend notified", guest.run(MANY));
}

/// The registers are mapped into the sandbox, where the guest's code runs.
fn the_same_guest_drives_it_on_the_other_backend<H: Hypervisor>(_h: &H) {
    let edu = InGuest::new(&Usermode, Some(Handover::Irqfd), true);
    assert_eq!(edu.placed.paths(), [InterruptPath::Resample]);
    passed_the_vmm_by("intx, usermode", edu.guest.run(MANY));
}

fn the_other_backend_takes_its_messages<H: Hypervisor>(_h: &H) {
    let edu = InGuest::new(&Usermode, None, true);
    let routes = Routes::new(edu.guest.parts().irqs, Guest::pins());
    let mut vectors = Vectors::enable(edu.placed.device(), MSI, 1, &routes).unwrap();
    vectors.set(0, Some(Guest::message())).unwrap();
    passed_the_vmm_by("msi, usermode", edu.guest.run(MANY));
}

fn each_vector_of_the_card_is_a_message_of_its_own<H: Hypervisor>(h: &H) {
    const VECTORS: u8 = 5;
    let card = Real::card();
    let vm = configured(h, with_interrupts(1));
    let irqs = vm.clone() as Arc<dyn Irqs>;
    let routes = Routes::new(irqs, Guest::pins());
    let mut vectors = Vectors::enable(&card.device, MSIX, VECTORS.into(), &routes).unwrap();
    let message = |vector: u8| Msi::fixed(0, 0x70 + vector);
    for vector in 0..VECTORS {
        vectors.set(vector.into(), Some(message(vector))).unwrap();
    }
    let vcpu = take(&vm, 0, Doing::Halts, 0, 0);
    while_running(&vm, vec![vcpu], || {
        let signal = |vector: u8| card.device.trigger(MSIX, vector.into()).unwrap();
        let has = |vector, count| {
            await_that("the message", || taken(&vm, 0, 0x70 + vector) == count);
        };
        for round in 1..=50 {
            for vector in 0..VECTORS {
                signal(vector);
                has(vector, round);
            }
        }
        // A masked vector waits, and the others do not.
        vectors.set(3, None).unwrap();
        signal(3);
        signal(4);
        has(4, 51);
        assert!(vectors.is_pending(3) && !vectors.is_pending(2));
        has(3, 50);
        vectors.set(3, Some(message(3))).unwrap();
        has(3, 51);
    });
}

testbed::on_kvm! {
    each_vector_of_the_card_is_a_message_of_its_own;
    thousand_interrupts_of_intx_pass_the_vmm_by;
    thousand_interrupts_of_msi_pass_the_vmm_by;
    thousand_interrupts_of_intx_go_through_the_vmm;
    thousand_interrupts_of_intx_come_where_registers_are_not_mapped;
    the_backend_is_told_of_the_group_before_the_device_is_opened;
    the_same_guest_drives_it_on_the_other_backend;
    the_other_backend_takes_its_messages;
}
