//! A KVM guest: its vCPUs, the registration of its doorbells, and its assigned devices. Its functions run on any thread.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kvm_ioctls::VmFd;
use vm_memory::GuestMemoryMmap;
use vmbell::doorbell::{Datamatch, IoEventAddress, Pattern, Sharing};
use vmbell::irq::{Gic, Gsi};
use vmm_sys_util::eventfd::EventFd;

use super::guest::KvmGuest;
use super::statistics::Statistics;
use super::system::System;
use super::vcpu::KvmVcpu;
use super::vfio::VfioFiles;
use super::{doorbells, forward};
use crate::measure::Measure;
use crate::stage::CreatedVcpus;
use crate::state::VmState;
use crate::{
    AssignedDevices, DeviceMemory, Doorbell, Error, ForwardedInterrupt, IoEvents, Vcpu, Vm,
    VmConfig,
};

/// A guest that KVM runs.
#[derive(Debug)]
pub struct KvmVm {
    // Dropped before the VM that it belongs to.
    vfio_files: VfioFiles,
    pub(super) guest: Arc<KvmGuest>,
    pub(super) created_vcpus: CreatedVcpus<Arc<Statistics>>,
}

impl KvmVm {
    pub(super) fn new(system: Arc<System>, config: &VmConfig) -> Result<Self, Error> {
        Ok(Self {
            vfio_files: VfioFiles::default(),
            guest: Arc::new(KvmGuest::new(system, config)?),
            created_vcpus: CreatedVcpus::new(config.vcpus),
        })
    }

    pub(super) fn descriptor(&self) -> &VmFd {
        self.guest.vm()
    }

    fn doorbell(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Doorbell {
        let guest = Arc::downgrade(&self.guest);
        Doorbell::new(event, guest, address, datamatch, sharing)
    }

    /// Returns the counts of light and heavy exits. KVM does not count all light exits; on some hosts it counts none.
    pub(super) fn exits(&self) -> [u64; 2] {
        let mut sums = [0, 0];
        for statistics in self.created_vcpus.all() {
            let heavy = statistics.heavy();
            // The file was read once when the vCPU was created, and later reads cannot fail.
            let all = statistics.exits().unwrap_or(heavy);
            sums[0] += all.saturating_sub(heavy);
            sums[1] += heavy;
        }
        sums
    }
}

impl Vm for KvmVm {
    fn memory(&self) -> &GuestMemoryMmap {
        &self.guest.ram
    }

    fn create_vcpu(&self, index: u32) -> Result<Box<dyn Vcpu>, Error> {
        let make = || KvmVcpu::new(Arc::clone(&self.guest), index);
        Ok(Box::new(self.created_vcpus.create(index, make)?))
    }

    fn gic(&self) -> Option<Gic> {
        self.guest.parts.gic()
    }

    fn save(&self) -> Result<VmState, Error> {
        VmState::save(self.descriptor(), self.guest.irqchip)
    }

    fn restore(&self, state: &VmState) -> Result<(), Error> {
        state.restore(self.descriptor(), self.guest.irqchip)
    }

    fn measure(&self) -> &dyn Measure {
        self
    }
}

impl IoEvents for KvmVm {
    fn register_ioevent(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<Doorbell, Error> {
        let pattern = Pattern::from(datamatch);
        let vm = self.descriptor();
        match sharing {
            Sharing::Exclusive => doorbells::assign(vm, event, address, pattern)?,
            Sharing::Group => self.guest.groups.join(vm, event, address, pattern)?,
        }
        Ok(self.doorbell(event, address, datamatch, sharing))
    }

    fn register_payload(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        len: u32,
    ) -> Result<Doorbell, Error> {
        let datamatch = Datamatch::any_of(len)?;
        let vm = self.descriptor();
        let payload = doorbells::assign_payload(vm, event, address, datamatch.into())?;
        let doorbell = self.doorbell(event, address, datamatch, Sharing::Exclusive);
        Ok(doorbell.with_payload(payload))
    }
}

impl AssignedDevices for KvmVm {
    fn map_device_memory(&self, address: u64, memory: &DeviceMemory) -> Result<(), Error> {
        self.guest.slots.map_device(address, memory)
    }

    fn unmap_device_memory(&self, address: u64) -> Result<(), Error> {
        self.guest.slots.unmap_device(address)
    }

    fn add_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        self.vfio_files.add(self.descriptor(), file)
    }

    fn remove_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        self.vfio_files.remove(file)
    }

    fn forward_interrupt(
        &self,
        device: &Arc<File>,
        index: u32,
        gsi: Gsi,
    ) -> Result<Box<dyn ForwardedInterrupt>, Error> {
        let forwarded = forward::forward(self.descriptor(), device, index, gsi)?;
        Ok(Box::new(forwarded))
    }
}
