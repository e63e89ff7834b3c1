//! The facts about a host that a reader needs to judge its numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The kernel, the CPU and what slows either down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The load average of the last minute when measuring began.
    pub load: Option<f64>,
    /// For each CPU vulnerability by its name in sysfs, what the kernel says about it.
    #[serde(default)]
    pub mitigations: BTreeMap<String, String>,
    /// Parameters of the KVM module that affect the numbers; empty if it is not loaded.
    #[serde(default)]
    pub kvm_params: BTreeMap<String, String>,
}

impl Host {
    /// The names of the vulnerabilities that the kernel mitigates (`wanted` true) or leaves open
    /// (`wanted` false).
    pub fn mitigated(&self, wanted: bool) -> Vec<&str> {
        self.mitigations
            .iter()
            .filter(|(_, text)| text.starts_with("Vulnerable") != wanted)
            .map(|(name, _)| name.as_str())
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
}
