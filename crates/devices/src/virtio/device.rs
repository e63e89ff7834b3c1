//! A virtio device without a transport. Before it is plugged in, it is a handler or a worker with its user's choices;
//! then it is what every transport has: the status, the choice of features and the description of queues (virtio 1.3,
//! 2.1, 2.2 and 3.1), on the thread of the vCPU that accesses them. The values that the driver has written are plain
//! data.

use std::sync::Arc;
use std::{fmt, io};

use vm_memory::GuestMemoryMmap;
use vmbell::bus::Backlog;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_virtqueue::Status;

use super::config::VirtioConfig;
use super::driver::{DriverSide, Interrupts, Refusal, Trouble};
use super::queue::Handler;
use super::ring::{NOTIFICATION_DATA, OF_RINGS, QueueRegisters, RING_PACKED, VERSION_1};
use super::server::{DeviceInfo, Queues, Server};
use super::vhost::{Vhost, Worker};

/// A device that is not plugged in yet. Every transport and every board takes this type, which hides the type of the
/// handler or worker.
///
/// ```
/// use vmbell_devices::virtio::{Entropy, VirtioConfig, VirtioDevice};
///
/// let device = VirtioDevice::new(Entropy, 1, VirtioConfig::default());
/// assert_eq!(device.name(), "virtio-rng");
/// ```
#[must_use = "a device that is not plugged in does nothing"]
pub struct VirtioDevice {
    info: DeviceInfo,
    config: VirtioConfig,
    connect: Box<Connect>,
}

/// Starts the server of the queues.
type Connect = dyn FnOnce(DriverSide, Backlog) -> io::Result<Arc<dyn Server>> + Send;

impl VirtioDevice {
    /// Creates a device with this number of queues, which threads of this process serve.
    pub fn new<H: Handler + 'static>(handler: H, queues: u16, config: VirtioConfig) -> Self {
        let mut offered = OF_RINGS | handler.features();
        for (is_chosen, feature) in [
            (config.packed, RING_PACKED),
            (config.notification_data, NOTIFICATION_DATA),
        ] {
            offered |= if is_chosen { feature } else { 0 };
        }
        Self {
            info: DeviceInfo {
                id: H::DEVICE_ID,
                name: H::NAME,
                queues,
                features: offered,
                config: handler.config().into(),
            },
            config,
            connect: Box::new(move |driver, backlog| {
                let VirtioConfig { notify, .. } = config.of_handler()?;
                let handler = Arc::new(handler);
                let queues = Queues::new(H::NAME, handler, queues, notify, driver, backlog)?;
                Ok(Arc::new(queues))
            }),
        }
    }

    /// Creates a device whose queues a worker serves, in the guest memory that the worker was opened for.
    pub fn with_worker<W: Worker + 'static>(worker: W, config: VirtioConfig) -> Self {
        let features = worker.features();
        Self {
            info: DeviceInfo {
                id: W::DEVICE_ID,
                name: W::NAME,
                queues: W::QUEUES,
                features: features.known | features.others,
                config: worker.config().into(),
            },
            config,
            connect: Box::new(move |driver, _| {
                config.of_worker()?;
                Ok(Arc::new(Vhost::new(worker, driver)?))
            }),
        }
    }

    /// The device's name, for messages.
    pub const fn name(&self) -> &'static str {
        self.info.name
    }

    /// The choices of the device's user.
    pub const fn config(&self) -> VirtioConfig {
        self.config
    }

    /// How many queues the device has.
    pub(super) const fn queues(&self) -> u16 {
        self.info.queues
    }

    /// Starts the server of the queues. The queues are stopped at first.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or the choices contradict each other or the kind of
    /// device.
    pub(super) fn connect(
        self,
        driver: DriverSide,
        backlog: Backlog,
    ) -> io::Result<(DeviceInfo, Arc<dyn Server>)> {
        Ok((self.info, (self.connect)(driver, backlog)?))
    }
}

impl fmt::Debug for VirtioDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioDevice")
            .field("info", &self.info)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// A device without a transport.
pub(super) struct Control {
    device: DeviceInfo,
    server: Arc<dyn Server>,
    registers: Mutex<DriverRegisters>,
    interrupts: Arc<dyn Interrupts>,
    trouble: Arc<Trouble>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("registers", &self.registers)
            .finish_non_exhaustive()
    }
}

impl Control {
    /// Creates a device in the state after a reset, with queues of `size` descriptors.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or the choices of the device contradict each other.
    pub(super) fn new(
        device: VirtioDevice,
        memory: GuestMemoryMmap,
        interrupts: Arc<dyn Interrupts>,
        backlog: Backlog,
        size: u16,
    ) -> io::Result<Self> {
        let trouble = Arc::<Trouble>::default();
        let driver = DriverSide {
            memory: Arc::new(memory),
            interrupts: Arc::clone(&interrupts),
            trouble: Arc::clone(&trouble),
        };
        let (device, server) = device.connect(driver, backlog)?;
        Ok(Self {
            registers: Mutex::new(DriverRegisters::new(device.queues, size)),
            device,
            server,
            interrupts,
            trouble,
        })
    }

    /// The fixed properties of the device.
    pub(super) const fn device(&self) -> &DeviceInfo {
        &self.device
    }

    /// The server of the queues.
    pub(super) fn server(&self) -> &Arc<dyn Server> {
        &self.server
    }

    /// How the driver is interrupted.
    pub(super) fn interrupts(&self) -> &Arc<dyn Interrupts> {
        &self.interrupts
    }

    /// Takes the last refusal; `None` if there was none since the last call.
    pub(super) fn take_refusal(&self) -> Option<Refusal> {
        self.trouble.take()
    }

    /// Locks the registers.
    pub(super) fn registers(&self) -> MutexGuard<'_, DriverRegisters> {
        self.registers.lock()
    }

    /// Resets the device: no thread accesses a ring any more.
    pub(super) fn reset(&self, registers: &mut DriverRegisters) {
        self.server.stop();
        registers.reset();
        self.interrupts.reset();
        self.trouble.over();
    }

    /// The status that the driver reads, with DEVICE_NEEDS_RESET if the driver has broken a queue.
    pub(super) fn status(&self, registers: &DriverRegisters) -> Status {
        if self.trouble.needs_reset() && registers.status != Status::RESET {
            return registers.status.with(Status::NEEDS_RESET);
        }
        registers.status
    }

    /// Handles a write to the status.
    pub(super) fn set_status(&self, registers: &mut DriverRegisters, new: Status) {
        let old = registers.status;
        if new == Status::RESET {
            self.reset(registers);
            return;
        }
        // Only the device sets DEVICE_NEEDS_RESET.
        let new = Status(new.0 & !Status::NEEDS_RESET.0);
        if !new.has(old) {
            let (old, new) = (old.0, new.0);
            self.trouble.note(Refusal::StatusCleared { old, new });
            return;
        }
        let mut taken = new;
        if new.has(Status::FEATURES_OK) && !old.has(Status::FEATURES_OK) {
            let chosen = registers.driver_features;
            let offered = self.device.features;
            if !accepts(chosen, offered) {
                taken = Status(taken.0 & !Status::FEATURES_OK.0);
                self.trouble.note(Refusal::Features { chosen, offered });
            }
        }
        if new.has(Status::DRIVER_OK) && !old.has(Status::DRIVER_OK) {
            if taken.has(Status::FEATURES_OK) {
                self.go_live(registers);
            } else {
                taken = Status(taken.0 & !Status::DRIVER_OK.0);
                self.trouble.note(Refusal::DriverOkTooEarly);
            }
        }
        registers.status = taken;
    }

    fn go_live(&self, registers: &DriverRegisters) {
        let started = self
            .server
            .start(registers.driver_features, &registers.queues);
        if let Err(refusal) = started {
            self.trouble.note(refusal);
            self.interrupts.configuration();
        }
    }

    /// Reads the configuration that only this type of device has, at any offset and width. Bytes after its end are
    /// zeros.
    pub(super) fn read_config(&self, offset: u64, data: &mut [u8]) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let config = &self.device.config;
        let config = config.get(offset..).unwrap_or_default();
        data.fill(0);
        for (byte, config) in data.iter_mut().zip(config) {
            *byte = *config;
        }
    }

    /// The half of the device's features that the driver has selected.
    pub(super) fn offered(&self, registers: &DriverRegisters) -> u32 {
        let offered = self.device.features;
        half(offered, registers.device_features_sel)
    }

    /// Handles a write to the half of the driver's features that the driver has selected.
    pub(super) fn choose(&self, registers: &mut DriverRegisters, half: u32) {
        if !registers.status.has(Status::FEATURES_OK) {
            let (bits, selector) = (registers.driver_features, registers.driver_features_sel);
            registers.driver_features = with_half(bits, selector, half);
        }
    }

    /// Stops the selected queue.
    pub(super) fn disable_queue(&self, registers: &mut DriverRegisters) {
        if let Some((index, _)) = registers.selected() {
            self.server.stop_queue(index);
            registers.queues[usize::from(index)].ready = false;
        }
    }

    /// Makes the selected queue ready. A queue that cannot be set up does not become ready, which the driver sees when
    /// it reads the register.
    pub(super) fn enable_queue(&self, registers: &mut DriverRegisters) {
        let Some((index, queue)) = registers.selected() else {
            return;
        };
        let status = registers.status;
        if !status.has(Status::FEATURES_OK) || status.has(Status::DRIVER_OK) {
            let status = status.0;
            self.trouble.note(Refusal::ReadyOutOfTurn {
                queue: index,
                status,
            });
            return;
        }
        let features = registers.driver_features;
        match self.server.check(index, &queue, features) {
            Ok(()) => registers.queues[usize::from(index)].ready = true,
            Err(refusal) => self.trouble.note(refusal),
        }
    }
}

/// The registers of the device. After a reset, all registers are zero, except for the sizes of queues on some
/// transports.
#[derive(Clone, Debug, Default)]
pub(super) struct DriverRegisters {
    pub(super) status: Status,
    pub(super) device_features_sel: u32,
    pub(super) driver_features_sel: u32,
    pub(super) driver_features: u64,
    pub(super) queue_sel: u32,
    pub(super) queues: Vec<QueueRegisters>,
    /// The size of each queue after a reset.
    size: u16,
}

impl DriverRegisters {
    pub(super) fn new(queues: u16, size: u16) -> Self {
        let queue = QueueRegisters {
            size: size.into(),
            ..QueueRegisters::default()
        };
        Self {
            queues: vec![queue; usize::from(queues)],
            size,
            ..Self::default()
        }
    }

    /// Sets all registers to their initial values.
    pub(super) fn reset(&mut self) {
        let queues = u16::try_from(self.queues.len()).unwrap_or(u16::MAX);
        *self = Self::new(queues, self.size);
    }

    /// The queue that is selected, if there is one.
    pub(super) fn selected(&self) -> Option<(u16, QueueRegisters)> {
        let index = u16::try_from(self.queue_sel).ok()?;
        let queue = self.queues.get(usize::from(index))?;
        Some((index, *queue))
    }

    /// The selected queue for writing; `None` while the queue is ready, because a ring must not move while in use.
    pub(super) fn selected_mut(&mut self) -> Option<&mut QueueRegisters> {
        let index = usize::try_from(self.queue_sel).ok()?;
        self.queues.get_mut(index).filter(|queue| !queue.ready)
    }
}

/// Replaces one half of a 64-bit address: half 0 is the low one.
pub(super) fn set_half(address: &mut u64, half: usize, value: u32) {
    let value = u64::from(value);
    *address = if half == 0 {
        *address & !0xffff_ffff | value
    } else {
        *address & 0xffff_ffff | value << 32
    };
}

/// Whether a device that offers `offered` can accept the driver's choice.
const fn accepts(chosen: u64, offered: u64) -> bool {
    chosen & !offered == 0 && chosen & VERSION_1 != 0
}

/// The 32 bits that a selector names; 0 for a selector above 1.
pub(super) const fn half(bits: u64, selector: u32) -> u32 {
    match selector {
        0 => (bits & 0xffff_ffff) as u32,
        1 => (bits >> 32) as u32,
        _ => 0,
    }
}

/// `bits` with one half replaced.
const fn with_half(bits: u64, selector: u32, half: u32) -> u64 {
    match selector {
        0 => bits & !0xffff_ffff | half as u64,
        1 => bits & 0xffff_ffff | (half as u64) << 32,
        _ => bits,
    }
}
