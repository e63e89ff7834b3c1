//! A virtio device before it is plugged in: its handler or worker, with what its user chose. Every transport and every board
//! takes this one value. The type of the handler or worker ends here.

use std::fmt;
use std::io;
use std::sync::Arc;

use vmbell::bus::Backlog;

use super::config::VirtioConfig;
use super::driver_side::DriverSide;
use super::features;
use super::queues::Queues;
use super::request::Handler;
use super::server::{DeviceInfo, Server};
use super::vhost::{Vhost, Worker};

/// A device that is not plugged in yet.
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

/// Starts what serves the queues.
type Connect = dyn FnOnce(DriverSide, Backlog) -> io::Result<Arc<dyn Server>> + Send;

impl VirtioDevice {
    /// A device with this number of queues, which threads of this process serve.
    pub fn new<H: Handler + 'static>(handler: H, queues: u16, config: VirtioConfig) -> Self {
        let mut offered = features::OF_RINGS | handler.features();
        for (is_chosen, feature) in [
            (config.packed, features::RING_PACKED),
            (config.notification_data, features::NOTIFICATION_DATA),
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

    /// A device whose queues a worker serves, in the guest's memory that it was opened for.
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

    /// What its user chose.
    pub const fn config(&self) -> VirtioConfig {
        self.config
    }

    /// How many queues it has.
    pub(super) const fn queues(&self) -> u16 {
        self.info.queues
    }

    /// Starts what serves the queues. They are stopped.
    ///
    /// # Errors
    ///
    /// The process cannot have more descriptors or threads, or the choices contradict each other or the kind of device.
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
