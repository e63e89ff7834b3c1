//! The used buffer notification is an interrupt.

use vmbell::doorbell::{Datamatch, Sharing};
use vmbell::irq::Gsi;
use vmbell_devices::Listener;
use vmbell_devices::virtio::mmio::Interrupt;
use vmbell_devices::virtio::{Inverter, Notify};
use vmbell_guest::{CODE, HANDLER, Interrupts, PARAMETERS, Results, programs};
use vmbell_hypervisor::{Hypervisor, Irqchip, Vm, VmConfig};

use super::roundtrip::{ACKNOWLEDGE, COUNT, NOTIFY, Rig};
use testbed::{configured, event};

fn answers_come_back_by_an_irqfd_to_a_guest_that_halts<H: Hypervisor>(hypervisor: &H) {
    let (taken, heavy) = interrupted(hypervisor, false);
    assert_eq!(
        heavy,
        taken + 1,
        "each acknowledgement, and the one that says done"
    );
}

fn an_acknowledgement_by_doorbell_wakes_nobody<H: Hypervisor>(hypervisor: &H) {
    let (_, heavy) = interrupted(hypervisor, true);
    assert_eq!(heavy, 1, "the one that says done");
}

/// Returns the GSI of an edge-triggered interrupt, and how the guest takes that interrupt.
#[cfg(target_arch = "x86_64")]
fn edge(vm: &dyn Vm) -> (Gsi, Interrupts) {
    use vmbell::irq::{Msi, Route, Target};
    use vmbell_guest::VECTOR;

    let gsi = Gsi::new(24).unwrap();
    let target = Target::Msi(Msi::fixed(0, VECTOR));
    vm.set_routing(&[Route { gsi, target }]).unwrap();
    let interrupts = Interrupts {
        pv_eoi: true,
        ..Interrupts::default()
    };
    (gsi, interrupts)
}

#[cfg(target_arch = "aarch64")]
fn edge(vm: &dyn Vm) -> (Gsi, Interrupts) {
    use vmbell_guest::GicInterrupt;
    use vmbell_hypervisor::aarch64::FIRST_SPI;

    const SPI: u32 = 5;
    let interrupt = GicInterrupt {
        gic: vm.gic().unwrap(),
        intid: FIRST_SPI + SPI,
        level: false,
        message: None,
    };
    let interrupts = Interrupts {
        gic: Some(interrupt),
        ..Interrupts::default()
    };
    (Gsi::new(SPI).unwrap(), interrupts)
}

/// Returns the interrupts and the heavy exits of a run whose answers come by irqfd.
fn interrupted<H: Hypervisor>(hypervisor: &H, doorbell: bool) -> (u64, u64) {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    };
    let vm = configured(hypervisor, config);
    let (gsi, interrupts) = edge(&*vm);
    let irqfd = vm.register_irqfd(&event(), gsi, None).unwrap();
    let mut interrupt = Interrupt::new(Box::new(irqfd));
    let _acknowledged = doorbell.then(|| {
        let event = interrupt.acknowledge_by_doorbell().unwrap();
        let value = Datamatch::U32(Some(Interrupt::ACKNOWLEDGE));
        vm.register_ioevent(&event, ACKNOWLEDGE, value, Sharing::Exclusive)
            .unwrap()
    });
    let mut rig = Rig::with(
        vm,
        programs::virtqueue_interrupt(),
        Inverter,
        Notify::Exit,
        interrupt,
    );
    rig.vcpu.set_interrupt_handler(CODE.0 + HANDLER).unwrap();
    interrupts
        .write(rig.machine.vm().memory(), PARAMETERS)
        .unwrap();
    let queue = rig.queue();
    let listener = Listener::start(|| {}, move || queue.serve_before_sleep().more).unwrap();
    let index = Datamatch::U32(Some(0));
    let vm = rig.machine.vm();
    let _doorbell = vm
        .register_ioevent(listener.event(), NOTIFY, index, Sharing::Exclusive)
        .unwrap();
    assert_eq!(rig.run().0, COUNT);
    let before = Results::read(rig.machine.vm().memory(), PARAMETERS)
        .unwrap()
        .interrupts;
    let (right, heavy) = rig.run();
    assert_eq!(right, 2 * COUNT);
    assert_eq!(rig.queue().served(), 2 * COUNT);
    let taken = Results::read(rig.machine.vm().memory(), PARAMETERS)
        .unwrap()
        .interrupts;
    assert!(taken > 0 && taken <= 2 * COUNT, "{taken} interrupts");
    (taken - before, heavy)
}

testbed::on_both! {
    answers_come_back_by_an_irqfd_to_a_guest_that_halts;
    an_acknowledgement_by_doorbell_wakes_nobody;
}
