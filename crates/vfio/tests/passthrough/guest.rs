//! A guest that drives edu, the double or the real one, with its own program.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use rustix::fs::{MemfdFlags, memfd_create};
use vmbell::irq::{Gsi, Msi, Route, Target};
use vmbell::memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmbell::sync::Mutex;
use vmbell_guest::{CODE, HANDLER, Interrupts, PARAMETERS, Parameters, VECTOR, offset};
use vmbell_hypervisor::{Capability, Hypervisor, IRQ_ARCH, Irqchip, Vcpu, VmConfig};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::Device;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::placed::{self, Access, Handover, Place, Placed, Wire};
use vmbell_vmm::{Machine, Stop};

use testbed::{HOLE, await_that, chain, configured, kick_if_hung, programs};

/// Bytes of the guest's RAM.
pub const RAM: u64 = 8 << 20;
/// The pin of the I/O APIC that is the device's line.
const PIN: u8 = 20;
/// A level-triggered redirection entry.
const LEVEL: u32 = 1 << 15;

/// The GSI of the device's line.
pub fn line() -> Gsi {
    Gsi::new(PIN.into()).unwrap()
}

/// Memory of a file, from `base`.
pub fn memory(base: u64, size: u64) -> GuestMemoryMmap {
    memory_of(&[(base, size)])
}

/// Memory of these regions of one file.
pub fn memory_of(regions: &[(u64, u64)]) -> GuestMemoryMmap {
    let file = File::from(memfd_create("passed-ram", MemfdFlags::CLOEXEC).unwrap());
    let file = Arc::new(file);
    let mut end = 0;
    let ranges: Vec<_> = regions
        .iter()
        .map(|(base, size)| {
            let place = FileOffset::from_arc(Arc::clone(&file), end);
            end += size;
            (GuestAddress(*base), *size as usize, Some(place))
        })
        .collect();
    file.set_len(end).unwrap();
    GuestMemoryMmap::from_ranges_with_files(ranges).unwrap()
}

/// Where region 0 of the device is, and how the guest reaches it.
pub fn place<H: Hypervisor>(h: &H, mapped: bool) -> Place {
    let movable = h.support(Capability::MovableDeviceMemory).is_yes();
    Place {
        region: 0,
        address: HOLE,
        access: match (mapped, movable) {
            (false, _) => Access::Emulated,
            (true, true) => Access::Mapped,
            (true, false) => Access::MappedFromStart,
        },
    }
}

/// The device's first interrupt.
pub fn wire(handover: Handover) -> Wire {
    Wire {
        index: 0,
        gsi: line(),
        handover,
    }
}

/// What a run of the guest counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of interrupts that had a reason.
    pub interrupts: u64,
    /// The number of interrupts that had no reason.
    pub spurious: u64,
    /// The number of exits to the VMM.
    pub exits: u64,
}

/// A guest with the program that drives the device.
pub struct Guest {
    pub machine: Machine,
    /// The errors of accesses that have failed.
    pub errors: Arc<Mutex<Vec<String>>>,
    memory: GuestMemoryMmap,
}

impl Guest {
    /// Makes a guest for this device. The device's registers may be in these places.
    pub fn new<H: Hypervisor>(h: &H, device: &Device, places: &[Place]) -> Self {
        let memory = memory(VmConfig::default().ram_base, RAM);
        let config = VmConfig {
            irqchip: Irqchip::Full,
            device_memory: placed::device_memory(device, places).unwrap(),
            ..VmConfig::with_memory(memory.clone())
        };
        Self {
            machine: Machine::new(configured(h, config)),
            errors: Arc::default(),
            memory,
        }
    }

    /// The guest as the device sees it.
    pub fn parts(&self) -> placed::Guest<'_> {
        let errors = Arc::clone(&self.errors);
        placed::Guest {
            memory: &self.memory,
            mmio: &self.machine.mmio,
            backend: Arc::clone(self.machine.vm()) as _,
            irqs: Arc::clone(self.machine.vm()) as _,
            on_error: Arc::new(move |error| errors.lock().push(chain(&error))),
        }
    }

    /// Puts the device into the guest.
    pub fn put(
        &self,
        device: &Arc<Device>,
        space: &Arc<dyn DmaSpace>,
        places: &[Place],
        wires: &[Wire],
    ) -> Result<Placed, PassthroughError> {
        let (device, space) = (Arc::clone(device), Arc::clone(space));
        Placed::new(device, space, &self.parts(), places, wires)
    }

    /// The routes that the guest has from its start: a pin for each line.
    pub fn pins() -> Vec<Route> {
        let route = |pin: u8| Route {
            gsi: Gsi::new(pin.into()).unwrap(),
            target: Target::Pin(pin),
        };
        (0..IRQ_ARCH.pins()).map(route).collect()
    }

    /// The message that interrupts the guest.
    pub fn message() -> Msi {
        Msi::fixed(0, VECTOR)
    }

    /// Takes the vCPU, with the program for `count` interrupts.
    pub fn start(&self, count: u64) -> Box<dyn Vcpu> {
        let machine = &self.machine;
        self.set_count(count);
        let interrupts = Interrupts {
            route: Some((PIN, LEVEL | u32::from(VECTOR))),
            ..Interrupts::default()
        };
        interrupts.write(machine.vm().memory(), PARAMETERS).unwrap();
        let mut vcpu = machine.vm().create_vcpu(0).unwrap();
        let entry = programs::edu().load(machine.vm().memory(), 0).unwrap();
        vcpu.set_entry_point(entry).unwrap();
        vcpu.set_interrupt_handler(CODE.0 + HANDLER).unwrap();
        vcpu
    }

    fn set_count(&self, count: u64) {
        let parameters = Parameters {
            count,
            address: HOLE,
            ..Parameters::default()
        };
        parameters
            .write(self.machine.vm().memory(), PARAMETERS)
            .unwrap();
    }

    /// Runs the vCPU until it says that it is done; fails if it hangs.
    pub fn run_to_end(&self, vcpu: &mut Box<dyn Vcpu>) -> u32 {
        let _unless_done = kick_if_hung(vcpu.kick_handle());
        let stop = self.machine.runner(&mut **vcpu).run();
        match stop.unwrap_or_else(|error| panic!("{}", chain(&error))) {
            Stop::Done(data) => data,
            stop => panic!("{stop:?} after {:?}", self.counts()),
        }
    }

    /// Takes `count` interrupts, after a run that sets the interrupt controllers up.
    pub fn run(&self, count: u64) -> Run {
        let mut vcpu = self.start(0);
        self.run_to_end(&mut vcpu);
        self.set_count(count);
        let before = self.machine.vm().measure().exit_counts().heavy;
        let ident = self.run_to_end(&mut vcpu);
        assert_eq!(ident, crate::passthrough::double::IDENT);
        let (interrupts, spurious) = self.counts();
        Run {
            interrupts,
            spurious,
            exits: self.machine.vm().measure().exit_counts().heavy - before,
        }
    }

    /// Returns how many interrupts had a reason, and how many had none.
    pub fn counts(&self) -> (u64, u64) {
        (self.word(offset::SERVED), self.word(offset::ANSWERED))
    }

    fn word(&self, at: usize) -> u64 {
        let place = GuestAddress(PARAMETERS.0 + at as u64);
        self.memory.load(place, SeqCst).unwrap()
    }

    /// Runs an endless program while `meanwhile` runs, then ends the program.
    pub fn while_running(&self, meanwhile: impl FnOnce()) {
        let mut vcpu = self.start(u64::MAX / 2);
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || self.run_to_end(&mut vcpu));
            await_that("the guest's start", || self.word(offset::READY) > 0);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(meanwhile));
            let place = GuestAddress(PARAMETERS.0 + offset::TARGET as u64);
            self.memory.write_obj(0_u64, place).unwrap();
            let irqs = self.parts().irqs;
            irqs.signal_msi(Self::message()).unwrap();
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
            thread.join().unwrap();
        });
    }
}
