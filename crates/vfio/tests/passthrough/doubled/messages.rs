//! Message-signalled interrupts.

use std::sync::Arc;

use vmbell::irq::Msi;
use vmbell_devices::pci::Routes;
use vmbell_hypervisor::Hypervisor;
use vmbell_vfio::PassthroughErrorKind;
use vmbell_vfio::interrupt::Vectors;

use crate::passthrough::double::{Edu, INTX, MSI, RAISE, Space};
use crate::passthrough::guest::{Guest, place};
use testbed::{count, event};

const MANY: u64 = 1000;

/// A guest with a double that sends messages.
fn with_messages<H: Hypervisor>(h: &H) -> (Guest, Arc<Edu>, impl Drop + use<H>, Vectors) {
    let (edu, space) = (Edu::pci(), Space::new() as Arc<_>);
    let device = edu.open();
    let places = [place(h, true)];
    let guest = Guest::new(h, &device, &places);
    let placed = guest.put(&device, &space, &places, &[]).unwrap();
    let routes = Routes::new(guest.parts().irqs, Guest::pins());
    let vectors = Vectors::enable(&device, MSI, 1, &routes).unwrap();
    (guest, edu, placed, vectors)
}

fn thousand_messages_pass_the_vmm_by<H: Hypervisor>(h: &H) {
    let (guest, edu, _placed, mut vectors) = with_messages(h);
    vectors.set(0, Some(Guest::message())).unwrap();
    let run = guest.run(MANY);
    println!("{run:?}");
    assert_eq!((run.interrupts, run.spurious), (MANY, 0));
    assert!(run.exits <= 1, "{run:?}");
    assert_eq!((edu.signalled(MSI), edu.signalled(INTX)), (MANY, 0));
    drop(vectors);
    edu.assert_quiet();
}

fn message_that_is_masked_waits_until_it_is_not<H: Hypervisor>(h: &H) {
    let (guest, _edu, _placed, mut vectors) = with_messages(h);
    guest.while_running(|| {
        // The guest has raised an interrupt, and has no message for it yet.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(guest.counts(), (0, 0));
        for round in 0..50 {
            let before = guest.counts().0;
            vectors.set(0, Some(Guest::message())).unwrap();
            testbed::await_that("the one that waited", || guest.counts().0 > before);
            vectors.set(0, None).unwrap();
            assert_eq!(guest.counts().1, 0, "round {round}");
        }
    });
}

fn message_can_lead_elsewhere_while_it_comes<H: Hypervisor>(h: &H) {
    let (guest, _edu, _placed, mut vectors) = with_messages(h);
    let message = Guest::message();
    vectors.set(0, Some(message)).unwrap();
    guest.while_running(|| {
        for round in 0..100_u8 {
            let vector = if round % 2 == 0 { 0x71 } else { 0x51 };
            vectors.set(0, Some(Msi::fixed(0, vector))).unwrap();
            let before = guest.counts().0;
            testbed::await_that("the next one", || guest.counts().0 > before);
        }
    });
    // The interrupt that ended the program may have had no reason.
    assert!(guest.counts().1 <= 1, "{:?}", guest.counts());
}

fn vectors_that_the_device_has_not_are_refused<H: Hypervisor>(h: &H) {
    let edu = Edu::pci();
    let device = edu.open();
    let guest = Guest::new(h, &device, &[]);
    let routes = Routes::new(guest.parts().irqs, Guest::pins());
    for (index, count) in [(MSI, 2), (2, 1), (3, 1), (9, 1), (MSI, 2048)] {
        let error = Vectors::enable(&device, index, count, &routes).unwrap_err();
        assert!(
            matches!(error.kind, PassthroughErrorKind::NoInterrupt { .. }),
            "{error}"
        );
    }
    let mut vectors = Vectors::enable(&device, MSI, 1, &routes).unwrap();
    let error = vectors.set(1, Some(Guest::message())).unwrap_err();
    assert!(
        matches!(
            error.kind,
            PassthroughErrorKind::NoInterrupt { subindex: 1, .. }
        ),
        "{error}"
    );
    drop(vectors);
    edu.assert_quiet();
}

#[test]
fn messages_and_line_are_not_on_together() {
    let edu = Edu::pci();
    let device = edu.open();
    let (message, line) = (event(), event());
    device.set_triggers(MSI, 0, &[Some(&message)]).unwrap();
    let error = device.set_triggers(INTX, 0, &[Some(&line)]).unwrap_err();
    assert!(
        matches!(
            error.kind,
            PassthroughErrorKind::Interrupt { index: INTX, .. }
        ),
        "{error}"
    );
    device.write(0, RAISE, &1_u32.to_le_bytes()).unwrap();
    assert_eq!((count(&message), count(&line)), (1, 0));
    // Once messages are off, the interrupt that is still wanted goes to the line.
    device.disable(MSI).unwrap();
    device.set_triggers(INTX, 0, &[Some(&line)]).unwrap();
    assert_eq!((count(&message), count(&line)), (0, 1));
}

testbed::on_both! {
    thousand_messages_pass_the_vmm_by;
    message_that_is_masked_waits_until_it_is_not;
    message_can_lead_elsewhere_while_it_comes;
    vectors_that_the_device_has_not_are_refused;
}
