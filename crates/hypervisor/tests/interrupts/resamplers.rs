//! Many resampling irqfds on one GSI, and their removal: each EOI notifies each registered irqfd once, and no removed
//! irqfd.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use vmbell::irq::Gsi;
use vmbell_hypervisor::{Hypervisor, Irqfd, Irqs};
use vmm_sys_util::eventfd::EventFd;

use testbed::taker::{Doing, LEVEL, PINS, take, taken, while_running, with_interrupts};
use testbed::{await_that, configured, count, event, rounds};

/// More resampling irqfds than the usermode backend's stub signals on its own (`vmbell_core::ioapic::PIN_RESAMPLEFDS`);
/// the others are left to the monitor.
const MANY: usize = 12;
/// The irqfds that are not removed: the usermode backend's stub signals some of these irqfds itself, and the monitor
/// signals the others.
const STAY: [usize; 3] = [2, 7, 11];

fn gsi() -> Gsi {
    Gsi::new(4).unwrap()
}

/// A resampling irqfd that counts how often it was notified of an EOI.
struct Device {
    irqfd: Irqfd,
    resample: Arc<EventFd>,
    told: u64,
}

impl Device {
    fn on(vm: &dyn Irqs) -> Self {
        let resample = event();
        let irqfd = vm.register_irqfd(&event(), gsi(), Some(&resample));
        Self {
            irqfd: irqfd.unwrap(),
            resample,
            told: 0,
        }
    }

    fn told(&mut self) -> u64 {
        self.told += count(&self.resample);
        self.told
    }

    /// Raises the line and waits for the EOI that lowers it, which is number `eois`. The notification of the previous
    /// EOI may reach this device only during this call.
    fn raise(&mut self, eois: u64) {
        self.irqfd.event().write(1).unwrap();
        await_that("the resamplefd", || self.told() >= eois);
    }
}

fn each_of_many_resamplefds_is_told_once<H: Hypervisor>(h: &H, doing: Doing) {
    let vm = configured(h, with_interrupts(1));
    let mut devices: Vec<_> = (0..MANY).map(|_| Device::on(&*vm)).collect();
    let vcpu = take(&vm, 0, doing, 0, PINS);
    let mut eois = 0;
    while_running(&vm, vec![vcpu], || {
        for round in 0..200 {
            eois += 1;
            devices[round % MANY].raise(eois);
        }
        for device in &mut devices {
            await_that("each resamplefd", || device.told() >= eois);
        }
        for index in (0..MANY).filter(|index| !STAY.contains(index)) {
            let removed = &mut devices[index];
            removed.irqfd.remove().unwrap();
            assert_eq!(removed.told(), eois, "device {index} at its removal");
            removed.told = 0;
            for round in 0..10 {
                eois += 1;
                devices[STAY[round % STAY.len()]].raise(eois);
            }
            let left = (0..MANY).filter(|one| *one > index || STAY.contains(one));
            for one in left {
                await_that("each that is left", || devices[one].told() >= eois);
            }
        }
    });
    for (index, device) in devices.iter_mut().enumerate() {
        let expected = if STAY.contains(&index) { eois } else { 0 };
        assert_eq!(device.told(), expected, "{doing:?}, device {index}");
    }
    assert_eq!(taken(&vm, 0, LEVEL), eois, "{doing:?}");
}

fn an_eoi_tells_each_of_many_once<H: Hypervisor>(h: &H) {
    each_of_many_resamplefds_is_told_once(h, Doing::Spins);
    each_of_many_resamplefds_is_told_once(h, Doing::Halts);
}

/// One device raises the line at each notification, while another device is added and removed and `others` stay.
fn removed_beside<H: Hypervisor>(h: &H, others: usize, doing: Doing) {
    let removals = rounds(300);
    let what = format!("{doing:?} with {others} others");
    let vm = configured(h, with_interrupts(1));
    let mut device = Device::on(&*vm);
    let _others: Vec<_> = (0..others).map(|_| Device::on(&*vm)).collect();
    let vcpu = take(&vm, 0, doing, 0, PINS);
    let (end, mut raised, mut seen) = (AtomicBool::new(false), 0, 0);
    while_running(&vm, vec![vcpu], || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Relaxed) {
                    raised += 1;
                    device.raise(raised);
                }
            });
            let removed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for removal in 0..removals {
                    let mut guest = Device::on(&*vm);
                    std::thread::sleep(Duration::from_micros(removal % 7 * 50));
                    guest.irqfd.remove().unwrap();
                    let told = guest.told();
                    std::thread::sleep(Duration::from_millis(1));
                    assert_eq!(guest.told(), told, "told after removal {removal}, {what}");
                    seen += told;
                }
            }));
            end.store(true, Relaxed);
            removed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    });
    assert_eq!((device.told(), taken(&vm, 0, LEVEL)), (raised, raised));
    assert!(seen > 0, "no eoi came between two removals, {what}");
}

fn a_removed_one_is_told_no_more_while_eois_come<H: Hypervisor>(h: &H) {
    for doing in [Doing::Spins, Doing::Halts] {
        removed_beside(h, 0, doing);
        removed_beside(h, 5, doing);
    }
}

/// There are more irqfds than the usermode backend's stub signals itself: in the first case until one of these irqfds
/// is removed, and in the second case even after that.
fn a_removed_one_of_many_is_told_no_more_while_eois_come<H: Hypervisor>(h: &H) {
    for doing in [Doing::Spins, Doing::Halts] {
        removed_beside(h, 7, doing);
        removed_beside(h, MANY, doing);
    }
}

testbed::on_both! {
    an_eoi_tells_each_of_many_once;
    a_removed_one_is_told_no_more_while_eois_come;
    a_removed_one_of_many_is_told_no_more_while_eois_come;
}
