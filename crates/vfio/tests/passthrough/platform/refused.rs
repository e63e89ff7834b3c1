//! What cannot be forwarded, and the name of the error that says so.

use std::fs::{self, File};
use std::sync::Arc;

use vmbell::irq::Gsi;
use vmbell_hypervisor::kvm::{ForwardError, KvmError};
use vmbell_hypervisor::{AssignedDevices, Capability, Error, Hypervisor, Irqchip, VmConfig};
use vmbell_vfio::PassthroughErrorKind;
use vmbell_vfio::interrupt::{InterruptPath, Line};
use vmbell_vfio::placed::{Access, Handover};

use super::Clock;
use super::guest::{Guest, line, wire};
use testbed::{chain, configured};

const MODULE: &str = "/dev/vfio-forward";
const HIDDEN: &str = "/dev/vfio-forward.hidden";

/// Fails unless the backend refuses to forward an interrupt with this error.
macro_rules! assert_refused {
    ($result:expr, $error:pat) => {
        let error = $result.map(drop).unwrap_err();
        match error.of_backend() {
            Some(KvmError::Forward { source: $error, .. }) => {}
            _ => panic!("{}: {error:?}", chain(&error)),
        }
    };
}

fn forward(backend: &dyn AssignedDevices, clock: &Clock, spi: u32) -> Result<(), Error> {
    let gsi = Gsi::new(spi).unwrap();
    let forwarded = backend.forward_interrupt(&clock.device.descriptor(), 0, gsi);
    forwarded.map(drop)
}

fn line_out_of_the_range_of_the_guests_gic_is_refused<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let backend = guest.parts().backend;
    for spi in [224, 988, 1019, Gsi::LIMIT - 1] {
        assert_refused!(forward(&*backend, &clock, spi), ForwardError::Range);
    }
    forward(&*backend, &clock, 223).unwrap();
}

fn interrupt_or_device_that_does_not_exist_is_refused<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let backend = guest.parts().backend;
    let wrong = backend.forward_interrupt(&clock.device.descriptor(), 1, line());
    assert_refused!(wrong, ForwardError::Index);
    let error = Line::forward(&clock.device, 1, &*backend, line()).unwrap_err();
    assert!(
        matches!(
            error.kind,
            PassthroughErrorKind::NoInterrupt { index: 1, .. }
        ),
        "{error:?}"
    );
    let no_device = Arc::new(File::open("/dev/null").unwrap());
    assert_refused!(
        backend.forward_interrupt(&no_device, 0, line()),
        ForwardError::Device
    );
}

fn interrupt_that_is_forwarded_is_refused_a_second_time<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let backend = guest.parts().backend;
    let first = guest.forward(&clock).unwrap();
    for spi in [line().number(), line().number() + 1] {
        assert_refused!(forward(&*backend, &clock, spi), ForwardError::Busy);
    }
    drop(first);
    forward(&*backend, &clock, line().number()).unwrap();
}

fn line_that_is_up_is_refused<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let guest = Guest::new(h);
    let _placed = guest.put(&clock, Access::Mapped, &[]);
    let parts = guest.parts();
    // The guest's set-up makes the interrupt level-triggered.
    let mut vcpu = guest.start();
    guest.take(&mut vcpu, 0);
    parts.irqs.set_line(line(), true).unwrap();
    let refused = forward(&*parts.backend, &clock, line().number());
    assert_refused!(refused, ForwardError::InProgress);
    parts.irqs.set_line(line(), false).unwrap();
    // The guest's next run forgets the interrupt.
    guest.take(&mut vcpu, 0);
    forward(&*parts.backend, &clock, line().number()).unwrap();
}

fn guest_without_interrupt_controllers_is_refused<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let config = VmConfig {
        irqchip: Irqchip::None,
        ..VmConfig::default()
    };
    let vm = configured(h, config);
    assert_refused!(forward(&*vm, &clock, line().number()), ForwardError::Gic);
}

fn without_the_module_the_capability_says_so_and_the_classic_way_is_there<H: Hypervisor>(h: &H) {
    let clock = Clock::open();
    let hidden = Hidden::new();
    let no = h.support(Capability::ForwardedInterrupts);
    assert!(!no.is_yes());
    let reason = format!("{no:?}");
    assert!(reason.contains("vfio_forward is not loaded"), "{reason}");
    assert!(
        reason.contains("a resample eventfd unmasks the line"),
        "{reason}"
    );
    let guest = Guest::new(h);
    let backend = guest.parts().backend;
    let refused = forward(&*backend, &clock, line().number());
    assert_refused!(refused, ForwardError::NoModule { .. });
    let placed = guest.put(&clock, Access::Mapped, &[wire(Handover::Irqfd)]);
    assert_eq!(placed.paths(), [InterruptPath::Resample]);
    let mut vcpu = guest.start();
    guest.take(&mut vcpu, 20);
    drop(hidden);
    assert!(h.support(Capability::ForwardedInterrupts).is_yes());
}

/// The module's file under another name, until the value is dropped. A test that is alone with the clock is also alone
/// with this file.
struct Hidden;

impl Hidden {
    fn new() -> Self {
        fs::rename(MODULE, HIDDEN).unwrap();
        Self
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = fs::rename(HIDDEN, MODULE);
    }
}

testbed::on_kvm! {
    line_out_of_the_range_of_the_guests_gic_is_refused;
    interrupt_or_device_that_does_not_exist_is_refused;
    interrupt_that_is_forwarded_is_refused_a_second_time;
    line_that_is_up_is_refused;
    guest_without_interrupt_controllers_is_refused;
    without_the_module_the_capability_says_so_and_the_classic_way_is_there;
}
