//! The cheapest exit of a backend, and its ioeventfd: a loop around the exit, without a bus or a device.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::guest::{ScenarioFailure, boot};
use super::kvm_run::{EXIT_IO, EXIT_MMIO, RunPage};
use crate::affinity::Pinned;
use crate::select::HAS_PORTS;
use crate::subject::nanoseconds;
use crate::{
    BenchEntry, CommandLimit, RunSample, Subject, SubjectError, SubjectOptions, SubjectSetting,
};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{PARAMETERS, Parameters, programs};
use vmbell_hypervisor::{Capability, Doorbell, Hypervisor, Vcpu, Vm, VmConfig, VmEntry, VmExit};
use vmbell_report::Group;
use vmbell_vmm::{Deadline, Machine};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// The port and the address that the guest writes to.
const PORT: u64 = 0xc050;
const ADDRESS: u64 = 0xd000_0050;

/// What the guest of a loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BareExit {
    /// `out` to a port.
    Pio,
    /// A store to an address without memory.
    Mmio,
    /// A store of four bytes that signals an eventfd without a reader. The kernel answers it and the guest continues,
    /// so the guest exits to the loop only when it is done.
    Ioeventfd,
}

/// The entries; none if the backend has no such loop.
pub(super) fn entries(hypervisor: &Arc<dyn Hypervisor>) -> Vec<BenchEntry> {
    if !hypervisor.support(Capability::BareLoop).is_yes() {
        return Vec::new();
    }
    let kinds = [
        (
            BareExit::Pio,
            "run-pio",
            "an out of 4 bytes that leaves the guest",
        ),
        (
            BareExit::Mmio,
            "run-mmio",
            "a store of 4 bytes that leaves the guest",
        ),
        (
            BareExit::Ioeventfd,
            "ioeventfd",
            "a store of 4 bytes that signals an eventfd without a reader",
        ),
    ];
    let entry = |(exit, kind, what)| {
        let backend = hypervisor.name();
        let name = format!("floor-{backend}-{kind}");
        let text = format!("{what}: a bare loop around {backend}'s exit");
        let (hypervisor, subject) = (Arc::clone(hypervisor), name.clone());
        let make = move |options: &SubjectOptions| -> Result<Box<dyn Subject>, SubjectError> {
            let bare = BareLoop::new(&*hypervisor, exit)
                .map_err(|error| SubjectError::failed(&subject, error))?;
            Ok(Box::new(BareScenario {
                name: subject.clone(),
                cpu: options.first_cpu(),
                limit: options.limit.clone(),
                bare,
            }))
        };
        BenchEntry::new(Group::Floor, name, text, make).on_backend(backend)
    };
    let is_here = |(exit, ..): &(BareExit, _, _)| HAS_PORTS || *exit != BareExit::Pio;
    kinds.into_iter().filter(is_here).map(entry).collect()
}

struct BareScenario {
    name: String,
    cpu: usize,
    limit: CommandLimit,
    bare: BareLoop,
}

/// A guest that only exits, and the loop around it.
struct BareLoop {
    exit: BareExit,
    page: RunPage,
    vcpu: Box<dyn Vcpu>,
    /// The doorbell of the guest's stores, unless they exit to the loop.
    doorbell: Option<Doorbell>,
    machine: Machine,
}

impl BareLoop {
    fn new(hypervisor: &dyn Hypervisor, exit: BareExit) -> Result<Self, ScenarioFailure> {
        let machine = Machine::new(hypervisor.create_vm(&VmConfig::default())?);
        let program = match exit {
            BareExit::Pio => programs::portio(),
            BareExit::Mmio | BareExit::Ioeventfd => programs::mmio(),
        };
        let vcpu = boot(&machine, program, 0, false)?;
        let doorbell = match exit {
            BareExit::Pio | BareExit::Mmio => None,
            BareExit::Ioeventfd => Some(ring(machine.vm().as_ref())?),
        };
        Ok(Self {
            exit,
            page: RunPage::map(descriptor(&*vcpu)?)?,
            vcpu,
            doorbell,
            machine,
        })
    }

    /// Lets the guest exit this number of times, and returns the time that it took.
    fn run(&mut self, exits: u64) -> Result<Duration, ScenarioFailure> {
        let address = match self.exit {
            BareExit::Pio => PORT,
            BareExit::Mmio | BareExit::Ioeventfd => ADDRESS,
        };
        let parameters = Parameters {
            count: exits,
            address,
            ..Parameters::default()
        };
        parameters.write(self.machine.vm().memory(), PARAMETERS)?;
        let started = Instant::now();
        let elapsed = if let Some(doorbell) = &self.doorbell {
            finish(&mut *self.vcpu)?;
            let elapsed = started.elapsed();
            let signals = doorbell.event().read()?;
            if signals != exits {
                return Err(format!("{signals} of {exits} stores signalled").into());
            }
            elapsed
        } else {
            self.leave(exits)?;
            let elapsed = started.elapsed();
            finish(&mut *self.vcpu)?;
            elapsed
        };
        Ok(elapsed)
    }

    /// Runs until the guest has exited to the loop this number of times.
    fn leave(&mut self, exits: u64) -> Result<(), ScenarioFailure> {
        // The first run tells the vCPU's handle which thread to kick.
        match self.vcpu.run(VmEntry::Resume)? {
            VmExit::PioOut { .. } | VmExit::MmioWrite { .. } => {}
            exit => return Err(format!("the guest left with {exit:x?}").into()),
        }
        let vcpu = descriptor(&*self.vcpu)?;
        let mut made = 1;
        while made < exits {
            match self.page.run(vcpu) {
                Ok(EXIT_IO | EXIT_MMIO) => made += 1,
                Ok(reason) => return Err(format!("the guest left for reason {reason}").into()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(error.into());
                }
                Err(_) if self.vcpu.is_kicked() => {
                    return Err(format!("kicked, {made} of {exits} exits after its start").into());
                }
                Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Runs until the guest says that it is done.
fn finish(vcpu: &mut dyn Vcpu) -> Result<(), ScenarioFailure> {
    match vcpu.run(VmEntry::Resume)? {
        VmExit::PioOut { .. } => Ok(()),
        VmExit::MmioWrite { address, .. } if address != ADDRESS => Ok(()),
        exit => Err(format!("the guest left with {exit:x?} instead of its end").into()),
    }
}

fn descriptor(vcpu: &dyn Vcpu) -> Result<BorrowedFd<'_>, ScenarioFailure> {
    let descriptor = vcpu.descriptor();
    descriptor.ok_or_else(|| "the backend's vcpu has no descriptor".into())
}

/// Lets the guest's stores signal an eventfd.
fn ring(vm: &dyn Vm) -> Result<Doorbell, ScenarioFailure> {
    let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
    let any = Datamatch::U32(None);
    Ok(vm.register_ioevent(
        &event,
        IoEventAddress::Mmio(ADDRESS),
        any,
        Sharing::Exclusive,
    )?)
}

impl Subject for BareScenario {
    fn name(&self) -> &str {
        &self.name
    }

    fn setting(&self) -> SubjectSetting {
        SubjectSetting {
            cpus: vec![self.cpu],
            ..SubjectSetting::default()
        }
    }

    fn run(&mut self, ops: u64) -> Result<RunSample, SubjectError> {
        let failed = |error: ScenarioFailure| SubjectError::failed(&self.name, error);
        let _pinned = Pinned::to(&[self.cpu]).map_err(|error| failed(error.into()))?;
        let limit = self.limit.clone();
        let kick = self.bare.vcpu.kick_handle();
        let _deadline = Deadline::when(move || limit.is_run_over(), kick)
            .map_err(|error| failed(error.into()))?;
        let elapsed = self.bare.run(ops).map_err(|error| {
            if self.limit.is_run_over() {
                let subject = self.name.clone();
                return SubjectError::TimedOut { subject };
            }
            failed(error)
        })?;
        Ok(RunSample {
            ops,
            elapsed_ns: nanoseconds(elapsed),
            heavy: match self.bare.exit {
                BareExit::Pio | BareExit::Mmio => ops,
                BareExit::Ioeventfd => 0,
            },
            ..RunSample::default()
        })
    }
}
