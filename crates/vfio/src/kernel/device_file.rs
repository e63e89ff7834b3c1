//! A device's file as the kernel has it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::super::device::{DeviceFile, DeviceInfo, SetIrqs};
use super::group::Member;
use super::ioctl;

/// The file of a device that the kernel's VFIO has.
#[derive(Debug)]
pub struct KernelFile {
    // Dropped first: a group can leave its container only when its devices are closed.
    pub(super) file: Arc<File>,
    pub(super) _member: Member,
}

impl DeviceFile for KernelFile {
    fn info(&self) -> io::Result<DeviceInfo> {
        ioctl::device_info(&self.file)
    }

    fn region_info(&self, index: u32, room: usize) -> io::Result<Vec<u8>> {
        ioctl::region_info(&self.file, index, room)
    }

    fn irq_info(&self, index: u32) -> io::Result<(u32, u32)> {
        ioctl::irq_info(&self.file, index)
    }

    fn set_irqs(&self, request: &SetIrqs<'_>) -> io::Result<()> {
        ioctl::set_irqs(&self.file, request)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn reset(&self) -> io::Result<()> {
        ioctl::reset(&self.file)
    }

    fn mappable(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}
