//! Level-triggered lines: by irqfd and resample, and through the VMM.

use std::sync::Arc;

use vmbell::eventfd::EventFd;
use vmbell::irq::{ForwardedLine, Gsi, IrqError, Msi, Route};
use vmbell_hypervisor::{Error, Hypervisor, Irqfd, Irqs};
use vmbell_vfio::PassthroughErrorKind;
use vmbell_vfio::interrupt::{InterruptPath, Line};
use vmbell_vfio::placed::Handover;

use super::Doubled;
use crate::passthrough::double::{ACK, Edu, INTX, RAISE, Space};
use crate::passthrough::guest::{Guest, line, place, wire};
use testbed::{await_that, count, event};

const MANY: u64 = 1000;

fn thousand_line_interrupts_pass_the_vmm_by<H: Hypervisor>(h: &H) {
    let doubled = Doubled::new(h, Handover::Irqfd, true);
    assert_eq!(doubled.placed.paths(), [InterruptPath::Resample]);
    let run = doubled.guest.run(MANY);
    println!("{run:?}");
    assert_eq!((run.interrupts, run.spurious), (MANY, 0));
    assert!(run.exits <= 1, "{run:?}");
    assert_eq!(doubled.edu.signalled(INTX), MANY);
    await_that("the last unmask", || doubled.edu.unmasked(INTX) == MANY);
}

fn thousand_line_interrupts_arrive_where_registers_are_not_mapped<H: Hypervisor>(h: &H) {
    let doubled = Doubled::new(h, Handover::Irqfd, false);
    let run = doubled.guest.run(MANY);
    println!("{run:?}");
    assert_eq!((run.interrupts, run.spurious), (MANY, 0));
    // Each interrupt takes three accesses, and the end of the run takes two exits.
    assert!(run.exits <= 3 * MANY + 2, "{run:?}");
}

fn thousand_line_interrupts_go_through_the_vmm<H: Hypervisor>(h: &H) {
    let doubled = Doubled::new(h, Handover::Vmm, false);
    let [InterruptPath::Vmm { reason }] = &doubled.placed.paths()[..] else {
        panic!("{:?}", doubled.placed.paths())
    };
    assert_eq!(reason, "it was asked for");
    let run = doubled.guest.run(MANY);
    println!("{run:?}");
    assert_eq!(run.interrupts, MANY);
    // The first access ends the interrupt, and only the second takes the line down.
    assert!(run.spurious <= MANY, "{run:?}");
    assert!(run.exits >= 3 * MANY, "{run:?}");
}

/// A guest without an I/O APIC below the VMM.
#[derive(Debug, Default)]
struct Split;

impl Irqs for Split {
    fn register_irqfd(
        &self,
        _: &Arc<EventFd>,
        _: Gsi,
        _: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        Err(IrqError::NoResample.into())
    }

    fn set_routing(&self, _: &[Route]) -> Result<(), Error> {
        Ok(())
    }

    fn set_line(&self, _: Gsi, _: bool) -> Result<(), Error> {
        Ok(())
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }

    fn signal_msi(&self, _: Msi) -> Result<bool, Error> {
        Ok(false)
    }
}

#[test]
fn line_goes_through_the_vmm_where_the_backend_cannot_resample() {
    let device = Edu::pci().open();
    let irqs = Arc::new(Split) as Arc<dyn Irqs>;
    let connected = Line::connect(&device, INTX, &irqs, line()).unwrap();
    let InterruptPath::Vmm { reason } = connected.path() else {
        panic!("{connected:?}")
    };
    assert_eq!(reason, IrqError::NoResample.to_string());
    assert!(connected.needs_accesses());
}

fn line_that_the_vmm_hands_on_is_not_mapped_past_it<H: Hypervisor>(h: &H) {
    let (edu, space) = (Edu::pci(), Space::new() as Arc<_>);
    let device = edu.open();
    let place = vmbell_vfio::placed::Place {
        access: vmbell_vfio::placed::Access::MappedFromStart,
        ..place(h, true)
    };
    let guest = Guest::new(h, &device, &[place]);
    let error = guest.put(&device, &space, &[place], &[wire(Handover::Vmm)]);
    let error = error.map(drop).unwrap_err();
    assert!(
        matches!(error.kind, PassthroughErrorKind::Watched { region: 0, .. }),
        "{error}"
    );
    edu.assert_quiet();
}

fn every_index_of_a_platform_device_is_resampled<H: Hypervisor>(h: &H) {
    let edu = Edu::platform(&[true, true, true, false]);
    let device = edu.open();
    let guest = Guest::new(h, &device, &[]);
    let irqs = guest.parts().irqs;
    let paths: Vec<_> = (0..4)
        .map(|index| {
            let gsi = Gsi::new(16 + index).unwrap();
            let line = Line::connect(&device, index, &irqs, gsi).unwrap();
            (line.path(), line)
        })
        .collect();
    let expected = [
        InterruptPath::Resample,
        InterruptPath::Resample,
        InterruptPath::Resample,
        InterruptPath::Irqfd,
    ];
    assert_eq!(
        paths
            .iter()
            .map(|(path, _)| path.clone())
            .collect::<Vec<_>>(),
        expected
    );
    drop(paths);
    edu.assert_quiet();
}

#[test]
fn row_4_line_that_stays_up_is_signalled_once_until_it_is_unmasked() {
    let edu = Edu::pci();
    let device = edu.open();
    let trigger = event();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.write(0, RAISE, &1_u32.to_le_bytes()).unwrap();
    for bit in 1..20 {
        device
            .write(0, RAISE, &(1_u32 << bit).to_le_bytes())
            .unwrap();
    }
    assert_eq!(count(&trigger), 1);
    for _ in 0..10 {
        device.unmask(INTX, 0).unwrap();
        assert_eq!(count(&trigger), 1, "again, as the line is up");
    }
    device.write(0, ACK, &u32::MAX.to_le_bytes()).unwrap();
    device.unmask(INTX, 0).unwrap();
    assert_eq!(count(&trigger), 0);
}

fn row_5_one_end_is_told_to_all_devices_of_a_line<H: Hypervisor>(h: &H) {
    let doubled = Doubled::new(h, Handover::Irqfd, true);
    let other = Edu::pci();
    let silent = other.open();
    let irqs = doubled.guest.parts().irqs;
    let second = Line::connect(&silent, INTX, &irqs, line()).unwrap();
    let run = doubled.guest.run(100);
    assert_eq!((run.interrupts, run.spurious), (100, 0));
    for edu in [&doubled.edu, &other] {
        await_that("each end", || edu.unmasked(INTX) >= 1);
    }
    // EOIs that come close together signal an eventfd only once.
    assert!(other.unmasked(INTX) <= 100, "{}", other.unmasked(INTX));
    drop(second);
    other.assert_quiet();
    // The first device continues alone.
    let before = other.unmasked(INTX);
    doubled
        .device()
        .write(0, RAISE, &1_u32.to_le_bytes())
        .unwrap();
    assert_eq!(other.unmasked(INTX), before);
}

fn row_6_irqfd_that_is_dropped_while_the_line_is_up_harms_nobody<H: Hypervisor>(h: &H) {
    let edu = Edu::pci();
    let device = edu.open();
    let places = [place(h, true)];
    let guest = Guest::new(h, &device, &places);
    let parts = guest.parts();
    let (trigger, resample) = (event(), event());
    let irqfd = parts
        .irqs
        .register_irqfd(&trigger, line(), Some(&resample))
        .unwrap();
    device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
    device.set_unmask(INTX, 0, Some(&resample)).unwrap();
    device.write(0, RAISE, &1_u32.to_le_bytes()).unwrap();
    drop((irqfd, trigger, resample));
    device.set_unmask(INTX, 0, None).unwrap();
    device.disable(INTX).unwrap();
    device.write(0, ACK, &1_u32.to_le_bytes()).unwrap();
    edu.assert_quiet();
    // The line works again.
    let space = Space::new() as Arc<_>;
    let placed = guest.put(&device, &space, &places, &[wire(Handover::Irqfd)]);
    let _placed = placed.unwrap();
    let run = guest.run(100);
    assert_eq!((run.interrupts, run.spurious), (100, 0));
}

#[test]
fn row_7_device_that_is_closed_with_its_eventfds_lets_go_of_them() {
    let edu = Edu::pci();
    let (trigger, unmask) = (event(), event());
    for _ in 0..20 {
        let device = edu.open();
        device.set_triggers(INTX, 0, &[Some(&trigger)]).unwrap();
        device.set_unmask(INTX, 0, Some(&unmask)).unwrap();
        device.write(0, RAISE, &1_u32.to_le_bytes()).unwrap();
        assert_eq!(count(&trigger), 1);
        drop(device);
        edu.assert_given_back();
        unmask.write(1).unwrap();
        assert_eq!(count(&unmask), 1, "no device takes it");
        assert_eq!(count(&trigger), 0);
    }
}

testbed::on_both! {
    thousand_line_interrupts_pass_the_vmm_by;
    thousand_line_interrupts_arrive_where_registers_are_not_mapped;
    thousand_line_interrupts_go_through_the_vmm;
    line_that_the_vmm_hands_on_is_not_mapped_past_it;
    every_index_of_a_platform_device_is_resampled;
    row_5_one_end_is_told_to_all_devices_of_a_line;
    row_6_irqfd_that_is_dropped_while_the_line_is_up_harms_nobody;
}
