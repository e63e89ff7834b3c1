//! A reading as a line of JSON: counts since the command's start, and statistics since each VM's.
//!
//! The fields are those of [`TopLine`]; this file only assigns a VM's counts to them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use vmbell_report::{
    TopAccess, TopAddress, TopEventfd, TopHolder, TopIrqfd, TopLine, TopNameSource, TopSampled,
    TopSampledAddress, TopSource, TopVcpu, TopVm, TopWaiter,
};
use vmbell_top::address::{Address, Eventfd};
use vmbell_top::bpf::Metric;
use vmbell_top::model::Vm;
use vmbell_top::names::{Name, NameSource};
use vmbell_top::reading::Reading;
use vmbell_top::sources::Sources;

use super::addresses;

/// The line, with its end.
pub(super) fn line(sources: &Sources, now: &Reading, first: &Reading) -> Result<String> {
    let source = |used, missing| TopSource { used, missing };
    let samples = (now.samples.is_some(), sources.missing_of_samples());
    let line = TopLine {
        schema_version: TopLine::VERSION,
        seconds: now.at.saturating_duration_since(first.at).as_secs_f64(),
        bpf: source(sources.bpf().is_ok(), sources.missing_of_bpf()),
        counters: source(sources.counters().is_ok(), sources.missing_of_counters()),
        samples: (samples != (false, None))
            .then(|| source(samples.0, samples.1.into_iter().collect())),
        lost: now.bpf.as_ref().map(|bpf| bpf.lost),
        unreadable_processes: now.unreadable,
        vms: sources.vms(now).into_iter().map(vm).collect(),
    };
    let text = serde_json::to_string(&line).context("cannot write JSON")?;
    Ok(text + "\n")
}

fn vm(vm: Vm) -> TopVm {
    let count = |metric| vm.counts.get(&metric).copied();
    let has = |metric| vm.counts.contains_key(&metric);
    let by_reason = |of_vcpu: Option<u32>| -> Option<BTreeMap<String, u64>> {
        let counts = vm.exits.iter().filter_map(|reason| {
            let count = match of_vcpu {
                Some(id) => *reason.by_vcpu.get(&id)?,
                None => reason.count(),
            };
            Some((reason.name.clone(), count))
        });
        has(Metric::Exits).then(|| counts.collect())
    };
    let vcpus = vm.vcpus.iter().map(|(id, thread)| TopVcpu {
        id: *id,
        thread: *thread,
        exits_by_reason: by_reason(Some(*id)),
    });
    let addresses = vm.addresses.iter().map(|address| TopAddress {
        space: addresses::space(address.space),
        address: address.address,
        exits_to_vmm: address.to_vmm,
        vmm_nanoseconds: has(Metric::VmmTime).then_some(address.vmm_time),
        ioeventfds: has(Metric::Rings).then_some(address.rings),
        answered_by_kvm: has(Metric::ByKvm).then_some(address.by_kvm),
        accesses: accesses(&address.accesses),
        eventfds: address.eventfds.iter().map(eventfd).collect(),
        name: name(address),
        name_source: name_source(address),
    });
    let irqfds = vm.irqfds.iter().map(|irqfd| TopIrqfd {
        gsi: irqfd.gsi,
        signals: irqfd.count,
        by_worker: irqfd.by_worker,
        first_signaller: irqfd.first_signaller,
    });
    let sampled = vm.sampled.as_ref().map(|sampled| TopSampled {
        samples: sampled.samples,
        addresses: sampled.addresses.iter().map(sampled_address).collect(),
        reasons: sampled.reasons.clone(),
    });
    let statistics = vm.statistics.as_ref().map(|counts| {
        let counts = counts.iter();
        counts
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    });
    TopVm {
        pid: vm.pid,
        fd: vm.fd,
        ended: vm.has_ended,
        vcpus: vcpus.collect(),
        cpu_seconds: vm.cpu.map(super::cells::cpu_seconds),
        statistics,
        exits_to_vmm: count(Metric::ToVmm),
        ioeventfds: count(Metric::Rings),
        irqfds: count(Metric::Irqfds),
        msi_ioctls: count(Metric::Messages),
        lines_raised: count(Metric::Lines),
        kicks: count(Metric::Kicks),
        eois_by_cpu: vm.eois_by_cpu,
        eois: count(Metric::Eois),
        pv_eois: count(Metric::PvEois),
        exits_by_reason: by_reason(None),
        vmm_nanoseconds: count(Metric::VmmTime),
        addresses: addresses.collect(),
        irqfds_by_gsi: irqfds.collect(),
        sampled,
        vmm: vm.vmm,
        name: vm.name,
        reasons: vm.reasons,
    }
}

fn sampled_address(address: &Address) -> TopSampledAddress {
    TopSampledAddress {
        space: addresses::space(address.space),
        address: address.address,
        samples: address.to_vmm,
        accesses: accesses(&address.accesses),
        name: name(address),
        name_source: name_source(address),
    }
}

fn name(address: &Address) -> Option<String> {
    address.name.as_ref().map(|name| name.text.clone())
}

fn name_source(address: &Address) -> Option<TopNameSource> {
    let Name { source, .. } = address.name.as_ref()?;
    Some(match source {
        NameSource::Table => TopNameSource::Table,
        NameSource::Guess => TopNameSource::Guess,
    })
}

fn accesses(accesses: &BTreeSet<(bool, u8)>) -> Vec<TopAccess> {
    let each = accesses.iter();
    each.map(|&(write, size)| TopAccess { write, size })
        .collect()
}

fn eventfd(eventfd: &Eventfd) -> TopEventfd {
    TopEventfd {
        id: eventfd.id,
        fd: eventfd.fd,
        holders: eventfd
            .holders
            .iter()
            .map(|holder| TopHolder {
                pid: holder.pid,
                name: holder.name.clone(),
            })
            .collect(),
        waiter: eventfd.waiter.as_ref().map(|waiter| TopWaiter {
            name: waiter.name.to_owned(),
            thread: waiter.thread,
        }),
    }
}

#[cfg(test)]
#[path = "json_test.rs"]
mod tests;
