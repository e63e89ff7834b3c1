//! Virtqueue scenarios: a buffer there and back, from when the guest makes it available on a split ring until the guest
//! has seen it used and checked the answer, for every way to notify a virtio device.

use std::io;
use std::sync::Arc;

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::guest::{GuestScenario, ScenarioFailure, ScenarioGuest};
use super::notify::pin_to;
use super::wiring::{InterruptSource, Wiring};
use crate::{BenchEntry, RunSample, Subject, SubjectError, SubjectOptions};
use vmbell::bus::BusRange;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_devices::virtio::mmio::{Interrupt, VirtioMmio, register};
use vmbell_devices::virtio::{Inverter, Notify, Queue, VirtioConfig, VirtioDevice};
use vmbell_devices::{Listener, WordPoller};
use vmbell_guest::{Interrupts, PARAMETERS, Parameters, Program, programs};
use vmbell_hypervisor::{Capability, Doorbell, Hypervisor, IoEvents, Irqchip, Support, VmConfig};
use vmbell_report::Group;
use vmbell_vmm::Machine;

/// The address of the device's registers, where the guest has no memory.
const REGISTERS: u64 = 0xd000_1000;
/// The address of the guest's ring and buffers, above its program and stacks.
const RING: u64 = PARAMETERS.0 + 0x10_0000;

/// How the device learns of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hearing {
    /// The vCPU's thread leaves the guest, finds the register on the bus and serves the queue.
    DeviceModel,
    /// A thread sleeps on an eventfd that a write of the queue's index to the register signals.
    Ioeventfd,
    /// Like `Ioeventfd`, but the guest halts until an irqfd interrupts it, and acknowledges the interrupt through a
    /// doorbell.
    Irqfd,
    /// A thread polls the ring continuously.
    Polled,
}

impl Hearing {
    const ALL: [Self; 4] = [
        Self::DeviceModel,
        Self::Ioeventfd,
        Self::Irqfd,
        Self::Polled,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::DeviceModel => "virtqueue-roundtrip-device-model",
            Self::Ioeventfd => "virtqueue-roundtrip-ioeventfd",
            Self::Irqfd => "virtqueue-roundtrip-ioeventfd-irqfd",
            Self::Polled => "virtqueue-roundtrip-polled",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::DeviceModel => {
                "a buffer there and back on a split ring: served by a device model in the VMM"
            }
            Self::Ioeventfd => {
                "a buffer there and back on a split ring: served by a thread that an eventfd wakes"
            }
            Self::Irqfd => {
                "a buffer there and back on a split ring: served by a thread that an eventfd wakes, with an irqfd"
            }
            Self::Polled => {
                "a buffer there and back on a split ring: served by a thread that polls the ring"
            }
        }
    }

    fn program(self) -> Program {
        match self {
            Self::Irqfd => programs::virtqueue_interrupt(),
            _ => programs::virtqueue_polled(),
        }
    }

    const fn irqchip(self) -> Irqchip {
        match self {
            Self::Irqfd => Irqchip::Full,
            _ => Irqchip::None,
        }
    }

    /// Whether the guest polls while another thread works on the answer.
    const fn waits_awake(self) -> bool {
        matches!(self, Self::Ioeventfd | Self::Polled)
    }

    const fn needs(self) -> Capability {
        match self {
            Self::Ioeventfd => Capability::MmioDoorbell,
            Self::Irqfd => Capability::Interrupts,
            Self::DeviceModel | Self::Polled => Capability::Run,
        }
    }
}

/// Whether the scenario of this name needs two CPUs.
pub(super) fn needs_two_cpus(name: &str) -> bool {
    let mut all = Hearing::ALL.into_iter().filter(|one| one.waits_awake());
    all.any(|one| one.name() == name)
}

/// The entries. Each is compared with the device model's entry.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>) -> Vec<BenchEntry> {
    let entry = |hearing: Hearing| {
        let hypervisor = Arc::clone(hypervisor);
        let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
            if let Support::No(reason) = hypervisor.support(hearing.needs()) {
                return Err(SubjectError::Skipped(reason));
            }
            if hearing.waits_awake() {
                options.two_cpus()?;
            }
            Ok(Box::new(RoundTrip::new(&*hypervisor, hearing, options)?))
        };
        let (name, text) = (hearing.name(), hearing.description());
        let entry = BenchEntry::new(Group::Scenario, name, text, make);
        match hearing {
            Hearing::DeviceModel => entry,
            _ => entry.with_reference(Hearing::DeviceModel.name()),
        }
    };
    Hearing::ALL.into_iter().map(entry).collect()
}

struct RoundTrip {
    hearing: Hearing,
    guest: ScenarioGuest,
    device: Arc<VirtioMmio>,
    queue: Arc<Queue>,
    /// Sleeps between runs and during them.
    _listener: Option<(Listener, Doorbell)>,
    /// The doorbell by which the guest acknowledges an interrupt.
    _acknowledged: Option<Doorbell>,
    /// The number of requests that have been served, over all runs.
    served: u64,
}

impl RoundTrip {
    fn new(
        hypervisor: &dyn Hypervisor,
        hearing: Hearing,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let name = hearing.name();
        let config = VmConfig {
            spin: options.spin,
            irqchip: hearing.irqchip(),
            vcpu_cpus: vec![options.first_cpu()],
            ..VmConfig::default()
        };
        let guest =
            ScenarioGuest::with_config(hypervisor, name, hearing.program(), config, options)?;
        let vm = guest.machine.vm();
        // The threads belong to this scenario, which pins them.
        let config = VirtioConfig {
            notify: match hearing {
                Hearing::Polled => Notify::Never,
                _ => Notify::Exit,
            },
            ..VirtioConfig::default()
        };
        let (interrupt, acknowledged) = match hearing {
            Hearing::Irqfd => irqfd(&guest.machine)
                .map(|(interrupt, doorbell)| (interrupt, Some(doorbell)))
                .map_err(|error| guest.failed(error))?,
            _ => (Interrupt::none(), None),
        };
        let backlog = guest.machine.backlog.clone();
        let device = VirtioDevice::new(Inverter, 1, config);
        let device = VirtioMmio::new(device, vm.memory(), interrupt, backlog);
        let device = Arc::new(device.map_err(|error| guest.failed(error))?);
        let queue = device.queues().first().map(Arc::clone);
        let queue = queue.ok_or_else(|| guest.failed("the device has no queue"))?;
        let registers = BusRange::new(REGISTERS, register::CONFIG);
        registers
            .and_then(|range| guest.machine.mmio.insert(range, device.clone()))
            .map_err(|error| guest.failed(error))?;
        let listener = match hearing {
            Hearing::Ioeventfd | Hearing::Irqfd => Some(
                listen(vm.as_ref(), &queue, guest.other_cpu)
                    .map_err(|error| guest.failed(error))?,
            ),
            Hearing::DeviceModel | Hearing::Polled => None,
        };
        Ok(Self {
            hearing,
            guest,
            device,
            queue,
            _listener: listener,
            _acknowledged: acknowledged,
            served: 0,
        })
    }

    /// Makes the polling thread for one run. Between runs it would disturb other subjects on its CPU.
    fn poller(&self) -> io::Result<Option<WordPoller>> {
        if self.hearing != Hearing::Polled {
            return Ok(None);
        }
        let queue = Arc::clone(&self.queue);
        let look = move || {
            // The result is ignored: the poller serves the queue again anyway.
            let _ = queue.serve();
            queue.served()
        };
        WordPoller::start(pin_to(self.guest.other_cpu), look, |_| {}).map(Some)
    }
}

/// Makes an irqfd that raises an edge in the guest, and a doorbell by which the guest acknowledges the interrupt
/// without waking a thread.
fn irqfd(machine: &Machine) -> Result<(Interrupt, Doorbell), ScenarioFailure> {
    let vm = machine.vm();
    let wiring = Wiring::new(vm.as_ref(), InterruptSource::Edge, Hearing::Irqfd.name())?;
    Interrupts {
        pv_eoi: true,
        ..wiring.interrupts
    }
    .write(machine.vm().memory(), PARAMETERS)?;
    wiring.connect(vm.as_ref())?;
    let gsi = wiring.gsi(Hearing::Irqfd.name())?;
    let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
    let irqfd = vm.register_irqfd(&event, gsi, None)?;
    let mut interrupt = Interrupt::new(Box::new(irqfd));
    let acknowledged = vm.register_ioevent(
        &interrupt.acknowledge_by_doorbell()?,
        IoEventAddress::Mmio(REGISTERS + register::INTERRUPT_ACK),
        Datamatch::U32(Some(Interrupt::ACKNOWLEDGE)),
        Sharing::Exclusive,
    )?;
    Ok((interrupt, acknowledged))
}

/// Starts a thread that sleeps on an eventfd, which notifications of `queue` signal.
fn listen(
    events: &dyn IoEvents,
    queue: &Arc<Queue>,
    cpu: usize,
) -> Result<(Listener, Doorbell), ScenarioFailure> {
    let queue = Arc::clone(queue);
    let index = u32::from(queue.index());
    let listener = Listener::start(pin_to(cpu), move || queue.serve_before_sleep().more)?;
    let doorbell = events.register_ioevent(
        listener.event(),
        IoEventAddress::Mmio(REGISTERS + register::QUEUE_NOTIFY),
        Datamatch::U32(Some(index)),
        Sharing::Exclusive,
    )?;
    Ok((listener, doorbell))
}

impl GuestScenario for RoundTrip {
    fn guest(&self) -> &ScenarioGuest {
        &self.guest
    }

    fn measure(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let poller = self.poller().map_err(|error| self.guest.failed(error))?;
        let run = self.guest.run(&Parameters {
            count: ops,
            address: REGISTERS,
            value: RING,
            pause: 0,
        });
        drop(poller);
        // If the device refused something, its reason explains why the guest gave up.
        if let Some(refusal) = self.device.take_refusal() {
            return Err(self.guest.failed(refusal));
        }
        let run = run?;
        let served = self.queue.served();
        let new = served - std::mem::replace(&mut self.served, served);
        self.guest.agree("the device", new, ops)?;
        let elapsed_ns = self.guest.clock.ns(run.ticks);
        Ok(run.sample(ops, elapsed_ns))
    }
}
