//! Level-triggered lines: every piece of work is done, and no interrupt comes without work.

use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use vmbell::irq::{Gsi, LevelLine};
use vmbell::sync::Mutex;
use vmbell_hypervisor::{Hypervisor, IrqTrigger, Irqfd, Vm, VmExit};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::EventFd;

use testbed::taker::{
    Doing, LEVEL, PINS, PV_EOI, SAID, SAY_SO, WORK, add_work, await_all_work, spared, spurious,
    take, taken, while_running_and_seeing, with_interrupts, work,
};
use testbed::{bells, configured, count, event, rounds};

/// Pieces of work, to be scaled by `rounds`.
const WORKS: u64 = 250;

/// A device with a resampling irqfd: it signals when it has work, and again at an EOI while it still has work.
struct Resampled<'v> {
    vm: &'v Arc<dyn Vm>,
    irqfd: Irqfd,
    by: By,
    resample: Arc<EventFd>,
    asserted: Mutex<bool>,
}

impl Resampled<'_> {
    fn signal(&self) {
        match self.by {
            By::Write => self.irqfd.event().write(1).unwrap(),
            By::Trigger => self.irqfd.signal(),
        }
    }

    fn add(&self) {
        let mut asserted = self.asserted.lock();
        add_work(self.vm, 0);
        if !*asserted {
            *asserted = true;
            self.signal();
        }
    }

    fn resample(&self) {
        let mut asserted = self.asserted.lock();
        if count(&self.resample) > 0 {
            *asserted = work(self.vm, 0) > 0;
            if *asserted {
                self.signal();
            }
        }
    }
}

/// How a device signals its irqfd.
#[derive(Clone, Copy, Debug)]
enum By {
    /// With a write to the eventfd, like another process.
    Write,
    /// Through the registered [`Irqfd`], as a device in this process does.
    Trigger,
}

fn resampled<H: Hypervisor>(h: &H, by: By, doing: Doing, flags: u64) {
    let works = rounds(WORKS);
    let vm = configured(h, with_interrupts(1));
    let (gsi, resample) = (Gsi::new(4).unwrap(), event());
    let irqfd = vm.register_irqfd(&event(), gsi, Some(&resample)).unwrap();
    let device = Resampled {
        vm: &vm,
        irqfd,
        by,
        resample,
        asserted: Mutex::new(false),
    };
    let vcpu = take(&vm, 0, doing, 0x77, WORK | PINS | flags);
    let end = AtomicBool::new(false);
    while_running_and_seeing(&vm, vec![vcpu], &|_| {}, || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A thread that polled without a pause would use the guest's CPU time.
                let epoll = Epoll::new().unwrap();
                let readable = EpollEvent::new(EventSet::IN, 0);
                let resample = device.resample.as_raw_fd();
                epoll
                    .ctl(ControlOperation::Add, resample, readable)
                    .unwrap();
                while !end.load(Relaxed) {
                    match epoll.wait(10, &mut [readable]) {
                        Err(error) if error.kind() == ErrorKind::Interrupted => {}
                        waited => drop(waited.unwrap()),
                    }
                    device.resample();
                }
            });
            for round in 0..works {
                device.add();
                if round % 16 == 0 {
                    std::thread::yield_now();
                }
            }
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                await_all_work(&vm, 0);
            }));
            end.store(true, Relaxed);
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    });
    // One interrupt for each piece of work: no more and no fewer.
    assert_eq!(
        (taken(&vm, 0, LEVEL), spurious(&vm, 0)),
        (works, 0),
        "{by:?}, {doing:?}"
    );
    // The EOI has to reach the device, so no EOI was skipped except that of the last interrupt, which is not a level.
    assert!(spared(&vm, 0) <= 1, "EOIs of a level line were put off");
}

fn all_resampled<H: Hypervisor>(h: &H, by: By) {
    resampled(h, by, Doing::Spins, 0);
    resampled(h, by, Doing::Halts, 0);
    resampled(h, by, Doing::Writes, 0);
    resampled(h, by, Doing::Spins, PV_EOI);
}

fn a_resampled_line_loses_nothing_and_invents_nothing<H: Hypervisor>(h: &H) {
    all_resampled(h, By::Write);
}

fn a_line_that_a_trigger_raises_loses_and_invents_nothing<H: Hypervisor>(h: &H) {
    all_resampled(h, By::Trigger);
}

fn a_line_stays_up_until_the_device_is_served<H: Hypervisor>(h: &H) {
    let works = rounds(WORKS);
    let vm = configured(h, with_interrupts(1));
    let gsi = Gsi::new(4).unwrap();
    let line = LevelLine::new(|up| vm.set_line(gsi, up));
    let device = Mutex::new(line.connect());
    let vcpu = take(&vm, 0, Doing::Spins, 0, WORK | PINS | SAY_SO);
    // The device lowers its line when the last piece of work is taken.
    let see = |exit: &VmExit| {
        if bells::is_rung(exit, SAID) {
            let mut device = device.lock();
            if work(&vm, 0) == 0 {
                device.deassert().unwrap();
            }
        }
    };
    while_running_and_seeing(&vm, vec![vcpu], &see, || {
        for _ in 0..works {
            let mut device = device.lock();
            add_work(&vm, 0);
            device.assert().unwrap();
        }
        await_all_work(&vm, 0);
    });
    assert_eq!((taken(&vm, 0, LEVEL), spurious(&vm, 0)), (works, 0));
}

testbed::on_both! {
    a_resampled_line_loses_nothing_and_invents_nothing;
    a_line_that_a_trigger_raises_loses_and_invents_nothing;
    a_line_stays_up_until_the_device_is_served;
}
