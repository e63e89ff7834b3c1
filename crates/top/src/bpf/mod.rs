//! The source `bpf`: programs attached to KVM's functions, which count in the kernel.
//!
//! `asm` assembles the programs. `programs` lists the functions that they are attached to, `accesses` and `interrupts`
//! what they count there, and `builder` what they share. `record` is the layout of map entries, and `syscall` the
//! system call. If this kernel lacks a function, its program is left out, and its [`Metric`] keeps the reason.

mod accesses;
mod asm;
mod builder;
mod error;
mod interrupts;
mod metric;
mod programs;
mod record;
mod rights;
mod syscall;

use std::collections::{BTreeMap, HashMap};

use self::builder::BtfTarget;
pub use self::error::BpfError;
use self::error::system;
pub use self::metric::Metric;
pub use self::programs::Isa;
use self::programs::{Cpu, Program};
use self::record::{AWAY_VALUE, COUNTER_KEY, COUNTER_VALUE, VCPU_KEY, VCPU_VALUE, vcpu_of};
pub use self::record::{CountedEvent, CountedRecord, KernelVm, RecordKind};
use self::syscall::{Link, Map, MapType};
use crate::btf::Btf;

/// The maximum number of different events that are counted, for all VMs together.
const COUNTERS: u32 = 1 << 14;
const VCPUS: u32 = 1 << 12;

/// Programs that are attached until this value is dropped.
#[derive(Debug)]
pub struct Bpf {
    counters: Map<COUNTER_KEY, COUNTER_VALUE>,
    vcpus: Map<VCPU_KEY, VCPU_VALUE>,
    lost: Map<4, 8>,
    /// The vCPUs that are in the VMM, if that time is counted.
    away: Option<Map<VCPU_KEY, AWAY_VALUE>>,
    isa: Option<Isa>,
    links: BTreeMap<Metric, Vec<Link>>,
    missing: Vec<(Metric, BpfError)>,
}

/// What was counted since the programs were attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BpfReading {
    /// The events.
    pub counts: HashMap<CountedEvent, CountedRecord>,
    /// The process and the thread of each vCPU that an event was counted on.
    pub vcpus: HashMap<(KernelVm, u32), (u32, u32)>,
    /// Events that were not counted, because a map was full or the same program was already running.
    pub lost: u64,
    /// How to interpret the reasons of exits.
    pub isa: Option<Isa>,
}

impl Bpf {
    /// Attaches the programs of all metrics that are not optional, and of those in `with`. They count only the VMs that the
    /// threads `creators` created, or all VMs if `creators` is empty.
    pub fn attach(creators: &[u32], with: &[Metric]) -> Result<Self, BpfError> {
        rights::check()?;
        if !std::path::Path::new("/sys/module/kvm").exists() {
            return Err(BpfError::NoKvm);
        }
        if let Some(metric) = with.iter().find(|metric| !metric.exists()) {
            return Err(BpfError::Architecture(*metric));
        }
        let btf = Btf::of_kernel("kvm")?;
        let isa = Isa::of_host();
        let cpu = match isa.filter(|_| with.contains(&Metric::Exits)) {
            Some(isa) => Some(Cpu {
                isa,
                btf: Btf::of_kernel(isa.module())?,
            }),
            None => None,
        };
        let counters = Map::new(MapType::Hash, COUNTERS).map_err(rights::explain)?;
        let vcpus = Map::new(MapType::Hash, VCPUS).map_err(rights::explain)?;
        let lost = Map::new(MapType::Array, 1).map_err(rights::explain)?;
        let away = match with.contains(&Metric::VmmTime) {
            true => Some(Map::new(MapType::Hash, VCPUS).map_err(rights::explain)?),
            false => None,
        };
        let target = BtfTarget {
            counters: counters.fd(),
            vcpus: vcpus.fd(),
            lost: lost.fd(),
            away: away.as_ref().map(Map::fd),
            creators: creators.to_vec(),
        };
        // A built-in KVM is described in the kernel's own BTF.
        let module = match btf.has_module() {
            true => Some(syscall::module_btf("kvm").map_err(rights::explain)?),
            false => None,
        };
        let load = |program: Program| {
            let Program {
                attach,
                function,
                code,
            } = program;
            let module = module.as_ref().filter(|_| function.in_module);
            Link::new(&code, attach, function.id, module).map_err(rights::explain_refused)
        };
        let (mut links, mut missing) = (BTreeMap::new(), Vec::<(_, BpfError)>::new());
        for metric in Metric::ALL {
            if !metric.exists() || metric.is_optional() && !with.contains(&metric) {
                continue;
            }
            let loaded = match metric {
                // VmmTime also needs the program for exits to the VMM. That program's error is the first in the list.
                Metric::VmmTime if !links.contains_key(&Metric::ToVmm) => Err(missing.remove(0).1),
                _ => {
                    let programs = Program::all(metric, &btf, cpu.as_ref(), &target);
                    let programs = programs.map_err(BpfError::from);
                    programs.and_then(|programs| programs.into_iter().map(load).collect())
                }
            };
            match loaded {
                Ok(loaded) => {
                    links.insert(metric, loaded);
                }
                Err(error) if metric.is_optional() => {
                    let source = Box::new(error);
                    return Err(BpfError::Optional { metric, source });
                }
                Err(error) => missing.push((metric, error)),
            }
        }
        if links.is_empty()
            && let Some((_, error)) = missing.pop()
        {
            return Err(error);
        }
        Ok(Self {
            counters,
            vcpus,
            lost,
            away,
            isa,
            links,
            missing,
        })
    }

    /// Returns the programs if at least one of them counts by address: exits to the VMM, or ioeventfds.
    pub fn by_address(mut self) -> Result<Self, BpfError> {
        match self.missing.is_empty() || self.counts(Metric::ToVmm) || self.counts(Metric::Rings) {
            true => Ok(self),
            // The error of the first metric, exits to the VMM.
            false => Err(self.missing.swap_remove(0).1),
        }
    }

    /// Whether a metric is counted.
    pub fn counts(&self, metric: Metric) -> bool {
        self.links.contains_key(&metric)
    }

    /// The metrics that should be counted but are not, and why.
    pub fn missing(&self) -> &[(Metric, BpfError)] {
        &self.missing
    }

    /// Reads the counts.
    pub fn read(&self) -> Result<BpfReading, BpfError> {
        let read = || system("cannot read what was counted");
        let mut reading = BpfReading {
            isa: self.isa,
            ..BpfReading::default()
        };
        for (key, value) in self.counters.entries().map_err(read())? {
            if let Some(event) = CountedEvent::of(&key) {
                reading.counts.insert(event, CountedRecord::of(&value));
            }
        }
        for (key, value) in self.vcpus.entries().map_err(read())? {
            let both = u64::from_ne_bytes(value);
            let halves = (both >> 32, both & u64::from(u32::MAX));
            let halves = (u32::try_from(halves.0), u32::try_from(halves.1));
            if let (Ok(process), Ok(thread)) = halves {
                reading.vcpus.insert(vcpu_of(&key), (process, thread));
            }
        }
        let lost = self.lost.get(&[0; 4]).map_err(read())?;
        reading.lost = lost.map_or(0, u64::from_ne_bytes);
        for link in self.links.values().flatten() {
            reading.lost += link.missed().map_err(read())?;
        }
        Ok(reading)
    }

    /// Forgets VMs that have ended, so that their counters make room for others.
    pub fn forget(&self, ended: impl Fn(KernelVm) -> bool) -> Result<(), BpfError> {
        let forget = || system("cannot remove what was counted of an ended VM");
        for (key, _) in self.counters.entries().map_err(forget())? {
            if CountedEvent::of(&key).is_some_and(|event| ended(event.vm)) {
                self.counters.remove(&key).map_err(forget())?;
            }
        }
        for (key, _) in self.vcpus.entries().map_err(forget())? {
            if ended(vcpu_of(&key).0) {
                self.vcpus.remove(&key).map_err(forget())?;
                if let Some(away) = &self.away {
                    away.remove(&key).map_err(forget())?;
                }
            }
        }
        Ok(())
    }
}
