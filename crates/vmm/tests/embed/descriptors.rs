//! How many descriptors a guest of the usermode backend takes, and when. In its own process, because all
//! descriptors of the process are counted.

use testbed::Usermode;
use vmbell::irq::Gsi;

use testbed::process::alone;
use testbed::taker::{Doing, EDGE, PINS, take, taken, while_running, with_interrupts};
use testbed::{await_that, configured, event};

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn a_guest_takes_descriptors_when_it_needs_them_and_gives_all_back() {
    alone(|| {
        // The first guest opens the descriptors that all guests of a process share.
        drop(configured(&Usermode, with_interrupts(1)));
        let (irqfd, resample) = (event(), event());
        let before = descriptors();
        let more = || descriptors() - before;
        let vm = configured(&Usermode, with_interrupts(2));
        assert_eq!(
            more(),
            5,
            "two files, a pidfd, a listener and an unused eventfd"
        );
        let _irqfd = vm
            .register_irqfd(&irqfd, Gsi::new(5).unwrap(), None)
            .unwrap();
        assert_eq!(more(), 7, "an epoll and its eventfd");
        let vcpus = [0, 1].map(|index| take(&vm, index, Doing::Halts, 0, PINS));
        while_running(&vm, vcpus.into(), || {
            await_that("an irqfd that has woken a vcpu", || {
                irqfd.write(1).unwrap();
                more() >= 9
            });
            assert_eq!(
                more(),
                9,
                "an epoll and an eventfd in which the vcpu sleeps"
            );
            let before = taken(&vm, 0, EDGE);
            await_that("a wake-up by them", || {
                irqfd.write(1).unwrap();
                taken(&vm, 0, EDGE) > before
            });
            assert_eq!(more(), 9);
        });
        let level = vm
            .register_irqfd(&event(), Gsi::new(4).unwrap(), Some(&resample))
            .unwrap();
        assert_eq!(more(), 11, "ours, and one more for its resamplefd");
        drop(vm);
        drop(level);
        assert_eq!(descriptors(), before);
    });
}
