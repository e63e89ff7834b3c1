//! Rows on a host that loses what the guest waits for: each row ends at its time limit with a reason, and the other
//! rows are measured.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use vm_memory::GuestMemoryMmap;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::{ForwardedLine, Gic, Gsi, Msi, Route};
use vmbell_bench::BenchEntry;
use vmbell_bench::scenario::ScanValues;
use vmbell_hypervisor::measure::Measure;
use vmbell_hypervisor::{
    AssignedDevices, Capability, DeviceMemory, Doorbell, Error, ForwardedInterrupt, Hypervisor,
    IoEvents, Irqfd, Irqs, RemoveDoorbell, Support, Vcpu, Vm, VmConfig, VmState,
};
use vmbell_report::Status;
use vmm_sys_util::eventfd::EventFd;

use crate::measure::{measured, named};

/// A backend that accepts lines, messages and doorbells, and forgets them.
#[derive(Debug)]
struct Forgetful<H>(H);

#[derive(Debug)]
struct ForgetfulVm(Arc<dyn Vm>);

impl<H: Hypervisor> Hypervisor for Forgetful<H> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn support(&self, capability: Capability) -> Support {
        match capability {
            // The test is about what this backend loses, not about what the host's KVM cannot do.
            Capability::EndOfInterrupt => Support::Yes,
            capability => self.0.support(capability),
        }
    }

    fn create_vm(&self, config: &VmConfig) -> Result<Arc<dyn Vm>, Error> {
        Ok(Arc::new(ForgetfulVm(self.0.create_vm(config)?)))
    }
}

impl Vm for ForgetfulVm {
    fn memory(&self) -> &GuestMemoryMmap {
        self.0.memory()
    }

    fn create_vcpu(&self, index: u32) -> Result<Box<dyn Vcpu>, Error> {
        self.0.create_vcpu(index)
    }

    fn save(&self) -> Result<VmState, Error> {
        self.0.save()
    }

    fn restore(&self, state: &VmState) -> Result<(), Error> {
        self.0.restore(state)
    }

    fn gic(&self) -> Option<Gic> {
        self.0.gic()
    }

    fn measure(&self) -> &dyn Measure {
        self.0.measure()
    }
}

impl IoEvents for ForgetfulVm {
    fn register_ioevent(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<Doorbell, Error> {
        let guest = Weak::<Nothing>::new();
        Ok(Doorbell::new(event, guest, address, datamatch, sharing))
    }

    fn register_payload(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        len: u32,
    ) -> Result<Doorbell, Error> {
        self.register_ioevent(event, address, Datamatch::any_of(len)?, Sharing::Exclusive)
    }
}

/// The doorbell of a guest whose doorbells were never registered.
struct Nothing;

impl RemoveDoorbell for Nothing {
    fn remove_doorbell(
        &self,
        _event: &EventFd,
        _address: IoEventAddress,
        _datamatch: Datamatch,
        _sharing: Sharing,
    ) -> Result<(), Error> {
        Ok(())
    }
}

impl AssignedDevices for ForgetfulVm {
    fn map_device_memory(&self, address: u64, memory: &DeviceMemory) -> Result<(), Error> {
        self.0.map_device_memory(address, memory)
    }

    fn unmap_device_memory(&self, address: u64) -> Result<(), Error> {
        self.0.unmap_device_memory(address)
    }

    fn add_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        self.0.add_vfio_file(file)
    }

    fn remove_vfio_file(&self, file: BorrowedFd<'_>) -> Result<(), Error> {
        self.0.remove_vfio_file(file)
    }

    fn forward_interrupt(
        &self,
        device: &Arc<File>,
        index: u32,
        gsi: Gsi,
    ) -> Result<Box<dyn ForwardedInterrupt>, Error> {
        self.0.forward_interrupt(device, index, gsi)
    }
}

impl Irqs for ForgetfulVm {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        _resample: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        Ok(Irqfd::new(event, gsi, None, |_| Ok(())))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        self.0.set_routing(routes)
    }

    fn set_line(&self, _gsi: Gsi, _level: bool) -> Result<(), Error> {
        Ok(())
    }

    fn forward_line(&self, _gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Ok(Box::new(NeverRaised))
    }

    fn signal_msi(&self, _msi: Msi) -> Result<bool, Error> {
        Ok(true)
    }
}

/// A line that never reaches the guest.
#[derive(Debug)]
struct NeverRaised;

impl ForwardedLine for NeverRaised {
    fn raise(&self) {}

    fn has_ended(&self) -> bool {
        false
    }
}

/// Rows whose guest polls while it waits, halts while it waits, or has a device that also waits.
const ENDLESS: [&str; 6] = [
    if HAS_PORTS {
        "notify-portio-wildcard-eventfd"
    } else {
        "notify-mmio-wildcard-eventfd"
    },
    "irqfd-edge-to-halted",
    "msi-to-running",
    "level-resample",
    "level-userspace-unmask",
    "level-forwarded",
];
const GOOD: [&str; 2] = [
    if HAS_PORTS {
        "portio-no-eventfd"
    } else {
        "mmio-no-eventfd"
    },
    "doorbell-word",
];
const HAS_PORTS: bool = cfg!(target_arch = "x86_64");

fn a_host_that_forgets_costs_the_rows_that_it_forgets<H>(hypervisor: &H)
where
    H: Hypervisor + Clone + 'static,
{
    // A row that this backend cannot run is skipped, and does not end at its limit.
    let forwards = hypervisor.support(Capability::ForwardedLines).is_yes();
    let mut names = [ENDLESS.as_slice(), &GOOD].concat();
    names.retain(|name| forwards || *name != "level-forwarded");
    let forgetful: Arc<dyn Hypervisor> = Arc::new(Forgetful(hypervisor.clone()));
    let entries = named(&forgetful, &ScanValues::default(), &names);
    // How long a row takes depends on the host's other work, so limits are tried until one is long enough for the good
    // rows.
    let mut timeout = Duration::from_millis(300);
    while !is_enough(&entries, timeout) {
        timeout *= 2;
        assert!(timeout < kit::wait::HANG, "the good rows have hung");
    }
}

/// Fails unless each endless row ends at its time limit; returns whether the good rows finished before theirs.
fn is_enough(entries: &[BenchEntry], timeout: Duration) -> bool {
    let record = measured(entries, &[0, 1], [2, 10], timeout);
    let late = format!("took longer than {timeout:?}");
    let mut is_enough = true;
    for series in &record.series {
        let reason = series.reason.as_deref().unwrap_or_default();
        if GOOD.contains(&series.name.as_str()) && !reason.contains(&late) {
            assert_eq!(
                (series.status, series.samples.len()),
                (Status::Ok, 2),
                "{reason}"
            );
        } else {
            assert_eq!(series.status, Status::Failed, "{}: {reason}", series.name);
            assert!(reason.contains(&late), "{reason}");
            assert!(reason.contains("--run-timeout"), "{reason}");
            is_enough &= !GOOD.contains(&series.name.as_str());
        }
    }
    is_enough
}

testbed::on_usermode! {
    a_host_that_forgets_costs_the_rows_that_it_forgets;
}

testbed::on_kvm! {
    a_host_that_forgets_costs_the_rows_that_it_forgets;
}
