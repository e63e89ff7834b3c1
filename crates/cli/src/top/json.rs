//! A line of JSON for a reading: counts since the command's start, and statistics since each VM's.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Serialize;

use super::text;
use vmbell_top::bpf::Metric;
use vmbell_top::model::{self, NameSource, Reason};
use vmbell_top::process;
use vmbell_top::reading::Reading;
use vmbell_top::sampled;
use vmbell_top::sources::Sources;

/// The version of the format. Fields may be added to it.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Line {
    schema_version: u32,
    /// Seconds since the command's start.
    seconds: f64,
    bpf: Source,
    counters: Source,
    /// Absent if none are to be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<Source>,
    /// Events that programs did not count; null without programs.
    lost: Option<u64>,
    unreadable_processes: usize,
    vms: Vec<Vm>,
}

/// Whether a source is used. If not, or in part, the reasons.
#[derive(Serialize)]
struct Source {
    used: bool,
    missing: Vec<String>,
}

#[derive(Serialize)]
struct Vm {
    pid: u32,
    fd: Option<u32>,
    vmm: Option<String>,
    name: Option<String>,
    ended: bool,
    vcpus: Vec<Vcpu>,
    cpu_seconds: Option<f64>,
    statistics: Option<BTreeMap<&'static str, u64>>,
    exits_to_vmm: Option<u64>,
    ioeventfds: Option<u64>,
    irqfds: Option<u64>,
    msi_ioctls: Option<u64>,
    lines_raised: Option<u64>,
    kicks: Option<u64>,
    /// Whether the CPU ends interrupts itself, so that they are not counted.
    eois_by_cpu: bool,
    eois: Option<u64>,
    pv_eois: Option<u64>,
    /// All exits by the CPU's reasons; absent unless they are counted.
    exits_by_reason: Option<BTreeMap<String, u64>>,
    /// Time in the VMM until the vCPUs were back; absent unless it is counted.
    vmm_nanoseconds: Option<u64>,
    addresses: Vec<Address>,
    reasons: BTreeMap<String, u64>,
    irqfds_by_gsi: Vec<Irqfd>,
    /// Absent unless samples are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<Sampled>,
}

/// How often the vCPUs were looked at, and how often they were in the VMM.
#[derive(Serialize)]
struct Sampled {
    samples: u64,
    addresses: Vec<SampledAddress>,
    reasons: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct SampledAddress {
    space: String,
    address: u64,
    samples: u64,
    accesses: Vec<Access>,
    name: Option<String>,
    name_source: Option<&'static str>,
}

#[derive(Serialize)]
struct Vcpu {
    id: u32,
    thread: u32,
    /// Its exits by the CPU's reasons; absent unless they are counted.
    exits_by_reason: Option<BTreeMap<String, u64>>,
}

#[derive(Serialize)]
struct Address {
    space: String,
    address: u64,
    exits_to_vmm: u64,
    vmm_nanoseconds: Option<u64>,
    ioeventfds: Option<u64>,
    answered_by_kvm: Option<u64>,
    accesses: Vec<Access>,
    eventfds: Vec<Eventfd>,
    name: Option<String>,
    name_source: Option<&'static str>,
}

#[derive(Serialize)]
struct Access {
    write: bool,
    /// 0 if it is not known.
    size: u8,
}

#[derive(Serialize)]
struct Eventfd {
    id: u32,
    fd: Option<u32>,
    /// Other processes that hold it.
    holders: Vec<Holder>,
    /// What in the kernel waits for it.
    waiter: Option<Waiter>,
}

#[derive(Serialize)]
struct Waiter {
    name: &'static str,
    thread: Option<u32>,
}

#[derive(Serialize)]
struct Holder {
    pid: u32,
    name: String,
}

#[derive(Serialize)]
struct Irqfd {
    gsi: u64,
    signals: u64,
    by_worker: u64,
    first_signaller: Option<u32>,
}

/// The line, with its end.
pub(super) fn line(sources: &Sources, now: &Reading, first: &Reading) -> Result<String> {
    let line = Line {
        schema_version: SCHEMA,
        seconds: now.at.saturating_duration_since(first.at).as_secs_f64(),
        bpf: Source {
            used: sources.bpf().is_ok(),
            missing: sources.missing_of_bpf(),
        },
        counters: Source {
            used: sources.counters().is_ok(),
            missing: sources.missing_of_counters(),
        },
        samples: samples(sources, now),
        lost: now.bpf.as_ref().map(|bpf| bpf.lost),
        unreadable_processes: now.unreadable,
        vms: sources.vms(now).into_iter().map(Vm::from).collect(),
    };
    let text = serde_json::to_string(&line).context("cannot write JSON")?;
    Ok(text + "\n")
}

fn samples(sources: &Sources, now: &Reading) -> Option<Source> {
    let missing = sources.missing_of_samples();
    let used = now.samples.is_some();
    (used || missing.is_some()).then(|| Source {
        used,
        missing: missing.into_iter().collect(),
    })
}

impl From<model::Vm> for Vm {
    fn from(vm: model::Vm) -> Self {
        let count = |metric| vm.counts.get(&metric).copied();
        let is_counted = |metric| vm.counts.contains_key(&metric);
        let [has_reasons, has_time, has_kvm, has_rings] =
            [Metric::Exits, Metric::VmmTime, Metric::ByKvm, Metric::Rings].map(is_counted);
        let address = |address: model::Address| Address {
            vmm_nanoseconds: has_time.then_some(address.vmm_time),
            ioeventfds: has_rings.then_some(address.rings),
            answered_by_kvm: has_kvm.then_some(address.by_kvm),
            ..Address::from(address)
        };
        let exits = vm.exits.iter();
        let of_all = |reason: &Reason| (reason.name.clone(), reason.count());
        let vcpu = |(id, thread): (&u32, &u32)| {
            let of_vcpu = |reason: &Reason| {
                let count = reason.by_vcpu.get(id)?;
                Some((reason.name.clone(), *count))
            };
            Vcpu {
                id: *id,
                thread: *thread,
                exits_by_reason: has_reasons.then(|| exits.clone().filter_map(of_vcpu).collect()),
            }
        };
        Self {
            pid: vm.pid,
            fd: vm.fd,
            exits_to_vmm: count(Metric::ToVmm),
            ioeventfds: count(Metric::Rings),
            irqfds: count(Metric::Irqfds),
            msi_ioctls: count(Metric::Messages),
            lines_raised: count(Metric::Lines),
            kicks: count(Metric::Kicks),
            eois_by_cpu: vm.eois_by_cpu,
            eois: count(Metric::Eois),
            pv_eois: count(Metric::PvEois),
            vmm: vm.vmm,
            name: vm.name,
            ended: vm.has_ended,
            vcpus: vm.vcpus.iter().map(vcpu).collect(),
            cpu_seconds: vm.cpu.map(super::cpu_seconds),
            statistics: vm.statistics,
            exits_by_reason: has_reasons.then(|| exits.map(of_all).collect()),
            vmm_nanoseconds: count(Metric::VmmTime),
            addresses: vm.addresses.into_iter().map(address).collect(),
            reasons: vm.reasons,
            irqfds_by_gsi: vm.irqfds.into_iter().map(Irqfd::from).collect(),
            sampled: vm.sampled.map(Sampled::from),
        }
    }
}

impl From<model::Address> for Address {
    fn from(address: model::Address) -> Self {
        let source = address.name.as_ref().map(|name| match name.source {
            NameSource::Table => "table",
            NameSource::Guess => "guess",
        });
        let accesses = address.accesses.into_iter();
        let eventfds = address.eventfds.into_iter();
        Self {
            space: text::space(address.space),
            address: address.address,
            exits_to_vmm: address.to_vmm,
            vmm_nanoseconds: None,
            ioeventfds: None,
            answered_by_kvm: None,
            accesses: accesses
                .map(|(write, size)| Access { write, size })
                .collect(),
            eventfds: eventfds
                .map(|eventfd| Eventfd {
                    id: eventfd.id,
                    fd: eventfd.fd,
                    holders: eventfd.holders.into_iter().map(Holder::from).collect(),
                    waiter: eventfd.waiter.map(|waiter| Waiter {
                        name: waiter.name,
                        thread: waiter.thread,
                    }),
                })
                .collect(),
            name: address.name.map(|name| name.text),
            name_source: source,
        }
    }
}

impl From<sampled::Sampled> for Sampled {
    fn from(sampled: sampled::Sampled) -> Self {
        let address = |address: model::Address| {
            let address = Address::from(address);
            SampledAddress {
                space: address.space,
                address: address.address,
                samples: address.exits_to_vmm,
                accesses: address.accesses,
                name: address.name,
                name_source: address.name_source,
            }
        };
        Self {
            samples: sampled.samples,
            addresses: sampled.addresses.into_iter().map(address).collect(),
            reasons: sampled.reasons,
        }
    }
}

impl From<process::Holder> for Holder {
    fn from(holder: process::Holder) -> Self {
        Self {
            pid: holder.pid,
            name: holder.name,
        }
    }
}

impl From<model::Irqfd> for Irqfd {
    fn from(irqfd: model::Irqfd) -> Self {
        Self {
            gsi: irqfd.gsi,
            signals: irqfd.count,
            by_worker: irqfd.by_worker,
            first_signaller: irqfd.first_signaller,
        }
    }
}
