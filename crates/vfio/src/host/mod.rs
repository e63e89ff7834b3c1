//! Which devices of this host could be assigned to a guest, and what stands in the way of each: read from sysfs, from
//! any thread. The rules are those of Linux's `drivers/vfio` and `drivers/iommu/iommu.c` (6.12).
//!
//! Nothing here writes to sysfs: a driver is bound by whoever owns the host, with the commands of
//! [`Obstacle::fix`]. What a file contains is not trusted: a missing, empty or odd one means that the host does not say.
//!
//! ```no_run
//! use vmbell_vfio::host::{Bus, Host};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::system();
//! let device = host.find(&[Bus::Pci], "00:03.0")?;
//! for obstacle in host.obstacles(&device) {
//!     println!("{obstacle}\n{}", obstacle.fix().join("\n"));
//! }
//! # Ok(())
//! # }
//! ```

mod access;
mod bus;
mod cpu;
mod device;
mod files;
mod find;
mod group;
mod identity;
mod iommu;
mod left_out;
mod modules;
mod obstacle;
mod obstacles;
mod pci_address;
mod quote;
mod region;
mod reset;
mod root;
#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests;

pub use bus::Bus;
pub use device::HostDevice;
pub use find::FindError;
pub use group::{Group, Member};
pub use identity::Identity;
pub use iommu::NoIommu;
pub use left_out::LeftOut;
pub use modules::ModuleState;
pub use obstacle::Obstacle;
pub use pci_address::{PciAddress, PciAddressError};
pub use region::{HostRegion, RegionKind};
pub use reset::Reset;
pub use root::Host;
