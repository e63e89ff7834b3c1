//! A guest that drives the clock, with its own program (`guests/aarch64/clock.S`).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use vmbell::irq::Gsi;
use vmbell::memory::{Bytes, GuestAddress};
use vmbell_guest::{CODE, GicInterrupt, HANDLER, Interrupts, PARAMETERS, Parameters, offset};
use vmbell_hypervisor::aarch64::FIRST_SPI;
use vmbell_hypervisor::{Hypervisor, Irqchip, Vcpu, VmConfig};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::interrupt::Line;
use vmbell_vfio::placed::{self, Access, Handover, Place, Placed, Wire};
use vmbell_vmm::{Deadline, Machine, Stop};

use super::cpus::bind_vcpu;
use super::{ALARM, Clock};
use testbed::{HANG, HOLE, await_that, chain, configured, programs};

/// The shared peripheral interrupt, which is also the GSI.
const SPI: u32 = 5;
/// Bytes of the guest's RAM.
const RAM: u64 = 2 << 20;

/// The program's own words.
pub const HOLD: usize = 0x400;
pub const HELD: usize = 0x408;
pub const AGAIN: usize = 0x410;
pub const STATES: usize = 0x418;
pub const CHECK: usize = 0x420;
pub const IDENT: usize = 0x428;
pub const SPLIT: usize = 0x430;
pub const DEACTIVATE: usize = 0x438;

/// The GSI of the device's line.
pub fn line() -> Gsi {
    Gsi::new(SPI).unwrap()
}

/// The device's interrupt.
pub fn wire(handover: Handover) -> Wire {
    Wire {
        index: 0,
        gsi: line(),
        handover,
    }
}

/// A guest with the program.
pub struct Guest {
    pub machine: Machine,
}

impl Guest {
    pub fn new<H: Hypervisor>(h: &H) -> Self {
        let config = VmConfig {
            irqchip: Irqchip::Full,
            ram_size: RAM,
            ..VmConfig::default()
        };
        let machine = Machine::new(configured(h, config));
        Self { machine }
    }

    /// The guest as the device sees it.
    pub fn parts(&self) -> placed::Guest<'_> {
        let vm = self.machine.vm();
        placed::Guest {
            memory: vm.memory(),
            mmio: &self.machine.mmio,
            backend: Arc::clone(vm) as _,
            irqs: Arc::clone(vm) as _,
            on_error: Arc::new(|error| panic!("{}", chain(&error))),
        }
    }

    /// Puts the clock into the guest, ready for alarms.
    pub fn put(&self, clock: &Clock, access: Access, wires: &[Wire]) -> Placed {
        let place = Place {
            region: 0,
            address: HOLE,
            access,
        };
        let (device, space) = (Arc::clone(&clock.device), clock.space());
        let placed = Placed::new(device, space, &self.parts(), &[place], wires);
        let placed = placed.unwrap_or_else(|error| panic!("{}", chain(&error)));
        clock.prepare();
        placed
    }

    /// Puts the clock into the guest with this handover of its line, and its registers mapped.
    pub fn wired(&self, clock: &Clock, handover: Handover) -> Placed {
        self.put(clock, Access::Mapped, &[wire(handover)])
    }

    /// Forwards the line of the clock.
    pub fn forward(&self, clock: &Clock) -> Result<Line, PassthroughError> {
        Line::forward(&clock.device, 0, &*self.parts().backend, line())
    }

    /// Connects the line of the clock by irqfd and resample eventfd.
    pub fn connect(&self, clock: &Clock) -> Line {
        Line::connect(&clock.device, 0, &self.parts().irqs, line()).unwrap()
    }

    /// Takes the vCPU, with the program and a level-triggered interrupt.
    pub fn start(&self) -> Box<dyn Vcpu> {
        self.start_with(true)
    }

    /// Takes the vCPU, with the program and a level- or edge-triggered interrupt.
    pub fn start_with(&self, level: bool) -> Box<dyn Vcpu> {
        let machine = &self.machine;
        let interrupts = Interrupts {
            gic: Some(GicInterrupt {
                gic: machine.vm().gic().unwrap(),
                intid: FIRST_SPI + SPI,
                level,
                message: None,
            }),
            ..Interrupts::default()
        };
        interrupts.write(machine.vm().memory(), PARAMETERS).unwrap();
        let mut vcpu = machine.vm().create_vcpu(0).unwrap();
        let entry = programs::clock().load(machine.vm().memory(), 0).unwrap();
        vcpu.set_entry_point(entry).unwrap();
        vcpu.set_interrupt_handler(CODE.0 + HANDLER).unwrap();
        vcpu
    }

    /// Takes `count` interrupts.
    pub fn take(&self, vcpu: &mut Box<dyn Vcpu>, count: u64) {
        let begun = Instant::now();
        let stop = self.run(vcpu, count, move || begun.elapsed() > HANG);
        let counts = (self.served(), self.spurious());
        assert_eq!(stop, Stop::Done(0), "{counts:?} of {count}");
    }

    /// Takes interrupts while `meanwhile` runs, then stops the guest wherever it is.
    pub fn while_taking<T>(&self, vcpu: &mut Box<dyn Vcpu>, meanwhile: impl FnOnce() -> T) -> T
where {
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        std::thread::scope(|scope| {
            let guest = scope.spawn(|| self.run(vcpu, u64::MAX, move || is_over.load(SeqCst)));
            let result = catch_unwind(AssertUnwindSafe(meanwhile));
            ended.store(true, SeqCst);
            let stop = guest.join().unwrap_or_else(|panic| resume_unwind(panic));
            assert_eq!(stop, Stop::Kicked);
            result.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Runs the program for `count` interrupts, or until a condition holds.
    fn run(
        &self,
        vcpu: &mut Box<dyn Vcpu>,
        count: u64,
        is_over: impl Fn() -> bool + Send + 'static,
    ) -> Stop {
        let parameters = Parameters {
            count,
            address: HOLE,
            value: ALARM.into(),
            pause: 0,
        };
        parameters
            .write(self.machine.vm().memory(), PARAMETERS)
            .unwrap();
        bind_vcpu(self.machine.vm().gic());
        let _deadline = Deadline::when(is_over, vcpu.kick_handle()).unwrap();
        let stop = self.machine.runner(&mut **vcpu).run();
        stop.unwrap_or_else(|error| panic!("{}", chain(&error)))
    }

    /// Holds the guest in its handler of an interrupt.
    pub fn hold(&self) {
        self.set(HOLD, 1);
        await_that("an interrupt to hold", || self.is_held());
        // A handler that began before the word was set may still end.
        std::thread::sleep(Duration::from_millis(5));
        await_that("an interrupt to hold", || self.is_held());
    }

    fn is_held(&self) -> bool {
        self.word(HELD) > self.served() + self.spurious()
    }

    /// Lets the guest end its interrupt.
    pub fn release(&self) {
        self.set(HOLD, 0);
    }

    /// Waits for `count` more interrupts.
    pub fn await_more(&self, what: &str, count: u64) {
        let enough = self.served() + count;
        await_that(what, || self.served() >= enough);
    }

    /// Returns the number of interrupts in which the clock had something to serve.
    pub fn served(&self) -> u64 {
        self.word(offset::SERVED)
    }

    /// Returns the number of interrupts without a reason.
    pub fn spurious(&self) -> u64 {
        self.word(offset::ANSWERED)
    }

    pub fn word(&self, at: usize) -> u64 {
        let place = GuestAddress(PARAMETERS.0 + at as u64);
        self.machine.vm().memory().load(place, SeqCst).unwrap()
    }

    pub fn set(&self, at: usize, value: u64) {
        let place = GuestAddress(PARAMETERS.0 + at as u64);
        let memory = self.machine.vm().memory();
        memory.store(value, place, SeqCst).unwrap();
    }
}
