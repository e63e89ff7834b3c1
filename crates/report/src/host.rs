//! The facts about a host that are needed to judge its numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The kernel, the CPU and what slows either down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// Operating system and release, e.g. `Linux 6.18.5`.
    pub kernel: String,
    /// The architecture: `x86_64`, `aarch64`.
    pub arch: String,
    /// The CPU's model name.
    pub cpu: String,
    /// The microcode revision; `None` if `/proc/cpuinfo` shows none.
    pub microcode: Option<String>,
    /// How many CPUs are online.
    pub cpus: usize,
    /// The CPUs that this process may use.
    pub allowed_cpus: Vec<usize>,
    /// The frequency governor; `None` if the kernel does not scale the frequency.
    pub governor: Option<String>,
    /// Whether simultaneous multithreading is active; `None` if the kernel does not say.
    pub smt: Option<bool>,
    /// The hypervisor that this host itself runs under; `None` if none shows itself.
    pub hypervisor: Option<String>,
    /// In which Linux of the lab this host is: 1 is L1, 2 a guest of L1; `None` if the lab was not asked for a depth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// The VMM that runs each nested Linux of the lab: `vmbell` or `qemu`; `None` in L1, and if there is no `depth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_vmm: Option<String>,
    /// The load average of the last minute when measuring began.
    pub load: Option<f64>,
    /// For each CPU vulnerability by its name in sysfs, what the kernel says about it.
    pub mitigations: BTreeMap<String, String>,
    /// Parameters of the KVM module that affect the numbers; empty if it is not loaded.
    pub kvm_params: BTreeMap<String, String>,
}

impl Host {
    /// The names of the vulnerabilities that the kernel mitigates (`wanted` true) or leaves open (`wanted` false).
    pub fn mitigated(&self, wanted: bool) -> Vec<&str> {
        self.mitigations
            .iter()
            .filter(|(_, text)| text.starts_with("Vulnerable") != wanted)
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Which Linux of the lab this is, in words; `None` if the lab was not asked for a depth.
    pub(crate) fn level(&self) -> Option<String> {
        let level = format!("L{} of the lab", self.depth?);
        Some(match &self.depth_vmm {
            Some(vmm) => format!("{level} under {vmm}"),
            None => level,
        })
    }

    /// The differences to another host that change what operations cost, in words; empty if there are none.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let [mine, others] = [self, other].map(Self::facts);
        let names: BTreeSet<&String> = mine.keys().chain(others.keys()).collect();
        let value = |facts: &BTreeMap<String, String>, name| match facts.get(name) {
            Some(value) => format!("'{value}'"),
            None => "unknown".to_owned(),
        };
        let differs = names
            .into_iter()
            .filter(|name| mine.get(*name) != others.get(*name));
        differs
            .map(|name| {
                let (mine, others) = (value(&mine, name), value(&others, name));
                format!("{name}: {mine} and {others}")
            })
            .collect()
    }

    /// The facts that change costs. The load and this process's CPUs are not properties of the host.
    fn facts(&self) -> BTreeMap<String, String> {
        let smt = self.smt.map(|is_on| if is_on { "on" } else { "off" });
        let depth = self.depth.map(|depth| depth.to_string());
        let optional = [
            ("microcode", self.microcode.as_deref()),
            ("governor", self.governor.as_deref()),
            ("SMT", smt),
            ("hypervisor", self.hypervisor.as_deref()),
            ("depth in the lab", depth.as_deref()),
            ("VMM of the depth", self.depth_vmm.as_deref()),
        ];
        let cpus = self.cpus.to_string();
        let known = [
            ("kernel", &*self.kernel),
            ("architecture", &self.arch),
            ("CPU", &self.cpu),
            ("CPUs online", &cpus),
        ];
        let named = optional
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let named = known.into_iter().chain(named);
        let named = named.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let each = |what: &'static str, all: &BTreeMap<String, String>| {
            let all = all.clone().into_iter();
            all.map(move |(name, value)| (format!("{what} {name}"), value))
        };
        named
            .chain(each("mitigation", &self.mitigations))
            .chain(each("parameter", &self.kvm_params))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_vulnerabilities_are_told_from_mitigated_ones() {
        let host = Host {
            mitigations: [
                ("spectre_v2", "Mitigation: Retpolines"),
                ("mds", "Vulnerable: no microcode"),
            ]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
            ..Host::default()
        };
        assert_eq!(host.mitigated(true), ["spectre_v2"]);
        assert_eq!(host.mitigated(false), ["mds"]);
    }

    #[test]
    fn hosts_differ_in_what_changes_costs() {
        let map = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let host = Host {
            kernel: "Linux 6.18.5".to_owned(),
            cpus: 8,
            smt: Some(true),
            load: Some(0.5),
            mitigations: map("spectre_v2", "Mitigation: Retpolines"),
            kvm_params: map("halt_poll_ns", "200000"),
            ..Host::default()
        };
        let busier = Host {
            load: Some(7.0),
            allowed_cpus: vec![1],
            ..host.clone()
        };
        assert_eq!(host.differences(&busier), [""; 0]);
        let other = Host {
            kernel: "Linux 6.19.0".to_owned(),
            smt: None,
            depth: Some(2),
            depth_vmm: Some("qemu".to_owned()),
            mitigations: map("spectre_v2", "Vulnerable"),
            ..host.clone()
        };
        assert_eq!(
            host.differences(&other),
            [
                "SMT: 'on' and unknown",
                "VMM of the depth: unknown and 'qemu'",
                "depth in the lab: unknown and '2'",
                "kernel: 'Linux 6.18.5' and 'Linux 6.19.0'",
                "mitigation spectre_v2: 'Mitigation: Retpolines' and 'Vulnerable'",
            ]
        );
        assert_eq!(other.level().as_deref(), Some("L2 of the lab under qemu"));
        assert_eq!(host.level(), None);
    }
}
