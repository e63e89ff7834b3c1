//! How the cost of a doorbell grows with the number of other registered doorbells, and with the number of vCPUs that
//! ring it at the same time. Each combination of values is a separate entry.

use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use vm_memory::GuestAddress;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::guest::{GuestRun, ScenarioFailure, ScenarioGuest};
use super::path::{RingConsumer, RingInstruction};
use crate::{BenchEntry, CommandLimit, SubjectError, affinity};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_guest::{CODE, HANDLER, Interrupts, Parameters, Program, Results, STACK_TOP};
use vmbell_hypervisor::{Doorbell, EntryPoint, IoEvents, Vcpu};
use vmbell_vmm::{Deadline, Machine, Stop};

/// The values of each parameter. With an empty list, the parameter has its usual value and does not appear in names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanValues {
    /// How many doorbells are registered in addition to the one that is rung: alternately at other addresses, and, if
    /// the rung doorbell matches one value, at the same address for other values. For a registration: how many other
    /// doorbells or irqfds there are.
    pub doorbells: Vec<u32>,
    /// How many vCPUs ring at the same time, or how many vCPUs the guest has if one interrupts all others.
    pub vcpus: Vec<u32>,
}

/// One combination of the values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanPoint {
    /// The number of doorbells in addition to the one that is rung; `None` if it is not scanned.
    pub(super) doorbells: Option<u32>,
    /// The number of vCPUs; `None` if it is not scanned.
    pub(super) vcpus: Option<u32>,
}

/// The values of one parameter; only `None` if the parameter is not scanned.
pub(super) fn values(list: &[u32]) -> Vec<Option<u32>> {
    match list {
        [] => vec![None],
        list => list.iter().copied().map(Some).collect(),
    }
}

/// The entry for one value of a single parameter. It is compared with the entry for the value `first`, or with the
/// entry `unscanned` if the parameter is not scanned.
pub(super) fn at_value(
    entry: BenchEntry,
    (parameter, value): (&str, Option<u32>),
    first: Option<u32>,
    unscanned: Option<&str>,
) -> BenchEntry {
    let reference = match (value, first) {
        (None, _) => unscanned.map(str::to_owned),
        (Some(value), Some(first)) if value != first => {
            Some(format!("{},{parameter}={first}", entry.name()))
        }
        _ => None,
    };
    let entry = match value {
        Some(value) => entry.with_parameter(parameter, value),
        None => entry,
    };
    match reference {
        Some(reference) => entry.with_reference(reference),
        None => entry,
    }
}

impl ScanValues {
    /// All combinations, starting with those of the first values.
    pub(super) fn scales(&self) -> Vec<ScanPoint> {
        let with = |doorbells| {
            let vcpus = values(&self.vcpus).into_iter();
            vcpus.map(move |vcpus| ScanPoint { doorbells, vcpus })
        };
        values(&self.doorbells).into_iter().flat_map(with).collect()
    }
}

impl ScanPoint {
    /// The parameters that are scanned, as names and values.
    pub(super) fn parameters(self) -> Vec<(&'static str, u32)> {
        let doorbells = self.doorbells.map(|value| ("doorbells", value));
        let vcpus = self.vcpus.map(|value| ("vcpus", value));
        doorbells.into_iter().chain(vcpus).collect()
    }

    /// Registers the additional doorbells for `bell` on `path`; all of them signal one eventfd without a reader.
    pub(super) fn register(
        self,
        doorbells: &dyn IoEvents,
        (path, bell): (RingInstruction, RingConsumer),
    ) -> Result<Vec<Doorbell>, ScenarioFailure> {
        let event = Arc::new(EventFd::new(EFD_NONBLOCK)?);
        let mut registered = Vec::new();
        for number in 1..=self.doorbells.unwrap_or_default() {
            let of_one_value = bell == RingConsumer::Datamatch && number % 2 == 0;
            let (address, value) = if of_one_value {
                (path.address(), path.value() + u64::from(number))
            } else {
                (beside(path.address(), number), path.value())
            };
            let datamatch = match (address, of_one_value) {
                (IoEventAddress::Hypercall(_), true) => Datamatch::U64(Some(value)),
                (IoEventAddress::Hypercall(_), false) => Datamatch::U64(None),
                // The values above are small.
                (_, true) => Datamatch::U32(u32::try_from(value).ok()),
                (_, false) => Datamatch::U32(None),
            };
            let (event, alone) = (&event, Sharing::Exclusive);
            registered.push(doorbells.register_ioevent(event, address, datamatch, alone)?);
        }
        Ok(registered)
    }
}

/// The maximum number of additional doorbells: the ports have no room for more.
pub const MOST: u32 = 4096;

/// The address of the additional doorbell `number`, near the one at `address`. Ports end at 0xffff, so the later
/// doorbells are below `address`.
pub(super) fn beside(address: IoEventAddress, number: u32) -> IoEventAddress {
    let distance = 8 * u64::from(number);
    match address {
        IoEventAddress::Pio(port) => {
            let distance = 8 * u16::try_from(number).unwrap_or(u16::MAX / 8);
            IoEventAddress::Pio(match distance.checked_sub(0x3000) {
                None => port + distance,
                Some(beyond) => port - beyond - 8,
            })
        }
        IoEventAddress::Mmio(address) => IoEventAddress::Mmio(address + distance),
        IoEventAddress::Hypercall(number) => IoEventAddress::Hypercall(number + distance),
    }
}

/// An additional vCPU, with its own page of parameters.
pub(super) struct OtherVcpu {
    machine: Arc<Machine>,
    vcpu: Box<dyn Vcpu>,
    page: GuestAddress,
    cpu: usize,
    rings: u64,
}

impl OtherVcpu {
    /// Makes the vCPU with this index, which is not 0, pinned to `cpu`.
    pub(super) fn new(
        guest: &ScenarioGuest,
        program: Program,
        (index, cpu): (u32, usize),
    ) -> Result<Self, ScenarioFailure> {
        let machine = Arc::clone(&guest.machine);
        // The lower end of the stack that the next vCPU would have; stacks grow down from 64 KiB above it.
        let page = GuestAddress(STACK_TOP.0 + 0x1_0000 * u64::from(index));
        let mut vcpu = machine.vm().create_vcpu(index)?;
        let entry = match program.load(machine.vm().memory(), index)? {
            EntryPoint::Program { pc, sp, .. } => EntryPoint::Program {
                pc,
                sp,
                arguments: [page.0, index.into()],
            },
            other => other,
        };
        vcpu.set_entry_point(entry)?;
        Ok(Self {
            machine,
            vcpu,
            page,
            cpu,
            rings: 0,
        })
    }

    /// Sends the vCPU's interrupts to its program's handler, which handles them as `interrupts` says.
    pub(super) fn take_interrupts(
        &mut self,
        interrupts: &Interrupts,
    ) -> Result<(), ScenarioFailure> {
        interrupts.write(self.machine.vm().memory(), self.page)?;
        Ok(self.vcpu.set_interrupt_handler(CODE.0 + HANDLER)?)
    }

    /// Performs the run on the calling thread and returns the ticks that it took; `None` if the guest did not finish.
    fn run(
        &mut self,
        parameters: &Parameters,
        limit: &CommandLimit,
    ) -> Result<Option<u64>, ScenarioFailure> {
        affinity::prefer(self.cpu);
        let memory = self.machine.vm().memory();
        parameters.write(memory, self.page)?;
        let limit = limit.clone();
        let _deadline = Deadline::when(move || limit.is_run_over(), self.vcpu.kick_handle())?;
        let stop = self.machine.runner(&mut *self.vcpu).run()?;
        let results = Results::read(memory, self.page)?;
        let performed = results.rings - self.rings;
        self.rings = results.rings;
        let is_done = matches!(stop, Stop::Done(_)) && performed == parameters.count;
        Ok(is_done.then_some(results.ticks))
    }
}

/// Performs a run of the guest's first vCPU, and of the others at the same time. Returns the run of the first vCPU, and
/// the ticks of the slowest other vCPU.
pub(super) fn run_with_others(
    (guest, first): (&mut ScenarioGuest, &Parameters),
    (others, other): (&mut [OtherVcpu], &Parameters),
) -> Result<(GuestRun, u64), SubjectError> {
    let limit = guest.limit.clone();
    let kicks: Vec<_> = others.iter().map(|one| one.vcpu.kick_handle()).collect();
    let (run, ends) = std::thread::scope(|scope| {
        let threads: Vec<_> = others
            .iter_mut()
            .map(|one| scope.spawn(|| one.run(other, &limit)))
            .collect();
        let run = guest.run(first);
        if run.is_err() {
            kicks.iter().for_each(|kick| kick.kick());
        }
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join();
        (run, threads.into_iter().map(join).collect::<Vec<_>>())
    });
    let (run, mut slowest) = (run?, 0);
    for end in ends {
        let ticks = end
            .map_err(|_| guest.failed("a vcpu's thread panicked"))?
            .map_err(|error| guest.failed(error))?
            .ok_or_else(|| guest.stopped(Stop::Kicked))?;
        slowest = slowest.max(ticks);
    }
    Ok((run, slowest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_measured_once() {
        let scan = ScanValues {
            doorbells: vec![1, 10],
            vcpus: vec![1, 2],
        };
        let all: Vec<_> = scan
            .scales()
            .iter()
            .map(|scale| scale.parameters())
            .collect();
        let of = |doorbells, vcpus| vec![("doorbells", doorbells), ("vcpus", vcpus)];
        assert_eq!(all, [of(1, 1), of(1, 2), of(10, 1), of(10, 2)]);
        assert_eq!(ScanValues::default().scales(), [ScanPoint::default()]);
    }

    #[test]
    fn the_most_doorbells_beside_one_have_addresses_of_their_own() {
        for address in [
            RingInstruction::Portio.address(),
            RingInstruction::Mmio.address(),
            RingInstruction::Hypercall.address(),
        ] {
            let mut all: Vec<u64> = (1..=MOST)
                .map(|number| beside(address, number).value())
                .collect();
            all.push(address.value());
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 1 + MOST as usize, "{address:?}");
        }
    }
}
