//! Finds the host's devices that could be assigned to a guest, and what prevents that for each: read from sysfs, on any
//! thread. The rules are those of Linux's `drivers/vfio` and `drivers/iommu/iommu.c` (6.12).
//!
//! Nothing here writes to sysfs: the host's owner binds drivers. The content of files is not trusted: a missing, empty
//! or malformed file counts as unknown.
//!
//! ```no_run
//! use vmbell_vfio::host::{Bus, Host};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::system();
//! let device = host.find(&[Bus::Pci], "00:03.0")?;
//! for obstacle in host.obstacles(&device) {
//!     println!("{obstacle}");
//! }
//! # Ok(())
//! # }
//! ```

mod bus;
mod device;
mod files;
mod find;
mod iommu;
mod modules;
mod obstacle;
#[cfg(test)]
#[cfg(not(any(loom, miri)))]
mod tests;

pub use bus::{Bus, PciAddress, PciAddressError};
pub use device::{HostDevice, HostRegion, Identity, LeftOut, RegionKind, Reset};
pub use files::Host;
pub use find::FindError;
pub use iommu::{Group, Member, NoIommu};
pub use modules::ModuleState;
pub use obstacle::Obstacle;
