//! What `vmbell top` counted at a moment: a line of its `--json`, and of its recordings.
//!
//! The types are the JSON of `docs/top.md`: `vmbell top` writes them and `vmbell report` reads them. What is not known
//! is null, never 0. An unknown field is an error on reading, because it may change the meaning of the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopLine {
    /// The version of the format, [`TopLine::VERSION`].
    pub schema_version: u64,
    /// Seconds since the command's start.
    pub seconds: f64,
    /// The programs in the kernel.
    pub bpf: TopSource,
    /// KVM's statistics.
    pub counters: TopSource,
    /// Samples of vCPUs; absent if no samples are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<TopSource>,
    /// Events that programs did not count; null without programs.
    pub lost: Option<u64>,
    /// The number of processes that could not be read.
    pub unreadable_processes: usize,
    /// The VMs.
    pub vms: Vec<TopVm>,
}

impl TopLine {
    /// The version of the format.
    pub const VERSION: u64 = 1;
}

/// Whether a source is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopSource {
    /// Whether the source is used.
    pub used: bool,
    /// Why the source is not used, or what it lacks.
    pub missing: Vec<String>,
}

/// A VM. Counts are since the command's start, and null if they are not counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/top.md says what each of them counts")]
pub struct TopVm {
    pub pid: u32,
    /// The VM's descriptor in the process.
    pub fd: Option<u32>,
    pub vmm: Option<String>,
    pub name: Option<String>,
    pub ended: bool,
    pub vcpus: Vec<TopVcpu>,
    pub cpu_seconds: Option<f64>,
    /// KVM's own statistics, since the VM's start.
    pub statistics: Option<BTreeMap<String, u64>>,
    pub exits_to_vmm: Option<u64>,
    pub ioeventfds: Option<u64>,
    pub irqfds: Option<u64>,
    pub msi_ioctls: Option<u64>,
    pub lines_raised: Option<u64>,
    pub kicks: Option<u64>,
    /// Whether the CPU ends interrupts itself, so that EOIs are not counted.
    pub eois_by_cpu: bool,
    pub eois: Option<u64>,
    pub pv_eois: Option<u64>,
    pub exits_by_reason: Option<BTreeMap<String, u64>>,
    /// Time in the VMM until the vCPUs were back.
    pub vmm_nanoseconds: Option<u64>,
    pub addresses: Vec<TopAddress>,
    /// How often a vCPU returned to the VMM without an address, by reason.
    pub reasons: BTreeMap<String, u64>,
    pub irqfds_by_gsi: Vec<TopIrqfd>,
    /// Absent unless samples are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<TopSampled>,
}

/// A vCPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TopVcpu {
    pub id: u32,
    pub thread: u32,
    pub exits_by_reason: Option<BTreeMap<String, u64>>,
}

/// An address that the guest accessed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/top.md says what each of them counts")]
pub struct TopAddress {
    pub space: String,
    pub address: u64,
    pub exits_to_vmm: u64,
    pub vmm_nanoseconds: Option<u64>,
    pub ioeventfds: Option<u64>,
    pub answered_by_kvm: Option<u64>,
    pub accesses: Vec<TopAccess>,
    pub eventfds: Vec<TopEventfd>,
    pub name: Option<String>,
    pub name_source: Option<TopNameSource>,
}

/// Where a name comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopNameSource {
    /// The address is fixed on a PC.
    Table,
    /// Guessed from the shape of the access. It can be wrong.
    Guess,
}

/// A kind of access to an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopAccess {
    /// Whether the accesses write.
    pub write: bool,
    /// The size in bytes; 0 if it is not known.
    pub size: u8,
}

/// The eventfd of an ioeventfd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopEventfd {
    /// The eventfd's number in the kernel.
    pub id: u32,
    /// A descriptor of the eventfd in the VMM's process.
    pub fd: Option<u32>,
    /// Other processes that hold the eventfd.
    pub holders: Vec<TopHolder>,
    /// What in the kernel waits for the eventfd.
    pub waiter: Option<TopWaiter>,
}

/// A process that holds an eventfd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the names say it")]
pub struct TopHolder {
    pub pid: u32,
    pub name: String,
}

/// What in the kernel waits for an eventfd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopWaiter {
    /// `vhost` or `irqfd`.
    pub name: String,
    /// The vhost thread.
    pub thread: Option<u32>,
}

/// An interrupt that an irqfd raises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "docs/top.md says what each of them counts")]
pub struct TopIrqfd {
    pub gsi: u64,
    pub signals: u64,
    pub by_worker: u64,
    pub first_signaller: Option<u32>,
}

/// How often vCPUs were looked at, and how often they were in the VMM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopSampled {
    /// The samples of all vCPUs.
    pub samples: u64,
    /// Samples in the VMM for an access.
    pub addresses: Vec<TopSampledAddress>,
    /// Samples in the VMM for a different reason.
    pub reasons: BTreeMap<String, u64>,
}

/// An address that vCPUs accessed when they were seen in the VMM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as those of TopAddress")]
pub struct TopSampledAddress {
    pub space: String,
    pub address: u64,
    pub samples: u64,
    pub accesses: Vec<TopAccess>,
    pub name: Option<String>,
    pub name_source: Option<TopNameSource>,
}
