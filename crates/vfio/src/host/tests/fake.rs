//! A folder that looks like a host's `/sys`, `/dev`, `/proc` and `/lib/modules`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::super::{Bus, Host, HostDevice, Obstacle};

pub(super) const NIC: &str = "0000:00:03.0";
pub(super) const RTC: &str = "9010000.pl031";
pub(super) const RELEASE: &str = "6.12.0-test";

pub(super) struct Fake {
    folder: tempfile::TempDir,
}

impl Fake {
    pub(super) fn new() -> Self {
        Self {
            // In memory: on a disk, tests with thousands of files mostly wait for the disk.
            folder: tempfile::tempdir_in("/dev/shm").unwrap(),
        }
    }

    /// A host where the NIC is ready to be assigned.
    pub(super) fn ready() -> Self {
        let fake = Self::new();
        fake.nic().driver(Bus::Pci, NIC, "vfio-pci");
        fake.group(Bus::Pci, NIC, 7)
            .write("dev/vfio/vfio", "")
            .write("dev/vfio/7", "");
        fake
    }

    /// An e1000e without a driver.
    pub(super) fn nic(&self) -> &Self {
        self.pci(NIC, 0x02_0000)
            .write(
                &format!("sys/bus/pci/devices/{NIC}/reset_method"),
                "flr bus\n",
            )
            .driver_of(Bus::Pci, "vfio-pci")
    }

    pub(super) fn host(&self) -> Host {
        Host::at(self.folder.path())
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn find(&self, name: &str) -> HostDevice {
        self.host().find(&Bus::ALL, name).unwrap()
    }

    pub(super) fn obstacles(&self, name: &str) -> Vec<Obstacle> {
        self.host().obstacles(&self.find(name))
    }

    pub(super) fn write(&self, file: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(super) fn remove(&self, file: &str) -> &Self {
        let path = self.path().join(file);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        self
    }

    pub(super) fn link(&self, file: &str, target: &str) -> &Self {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
        self
    }

    pub(super) fn pci(&self, name: &str, class: u32) -> &Self {
        let device = format!("sys/bus/pci/devices/{name}");
        self.write(&format!("{device}/vendor"), "0x8086\n")
            .write(&format!("{device}/device"), "0x10d3\n")
            .write(&format!("{device}/class"), format!("{class:#08x}\n"))
            .link(&format!("{device}/subsystem"), "../../../bus/pci")
    }

    /// The PL031 of QEMU's arm64 board.
    pub(super) fn rtc(&self) -> &Self {
        let node = "sys/firmware/devicetree/base/pl031@9010000";
        self.write("sys/firmware/devicetree/base/#address-cells", [0, 0, 0, 2])
            .write("sys/firmware/devicetree/base/#size-cells", [0, 0, 0, 2])
            .write(&format!("{node}/compatible"), "arm,pl031\0arm,primecell\0")
            .write(
                &format!("{node}/reg"),
                [0, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0],
            )
            .link(
                &format!("sys/bus/amba/devices/{RTC}/of_node"),
                "../../../../firmware/devicetree/base/pl031@9010000",
            )
            .link(
                &format!("sys/bus/amba/devices/{RTC}/subsystem"),
                "../../../bus/amba",
            )
    }

    pub(super) fn driver_of(&self, bus: Bus, driver: &str) -> &Self {
        self.write(&format!("sys/bus/{bus}/drivers/{driver}/uevent"), "")
    }

    pub(super) fn driver(&self, bus: Bus, name: &str, driver: &str) -> &Self {
        self.driver_of(bus, driver).link(
            &format!("sys/bus/{bus}/devices/{name}/driver"),
            &format!("../../drivers/{driver}"),
        )
    }

    pub(super) fn group(&self, bus: Bus, name: &str, group: u32) -> &Self {
        self.link(
            &format!("sys/bus/{bus}/devices/{name}/iommu_group"),
            &format!("../../../../kernel/iommu_groups/{group}"),
        )
        .link(
            &format!("sys/kernel/iommu_groups/{group}/devices/{name}"),
            &format!("../../../../bus/{bus}/devices/{name}"),
        )
    }

    pub(super) fn release(&self) -> &Self {
        self.write("proc/sys/kernel/osrelease", format!("{RELEASE}\n"))
    }

    pub(super) fn modules(&self, index: &str, text: &str) -> &Self {
        self.release()
            .write(&format!("lib/modules/{RELEASE}/{index}"), text)
    }
}
