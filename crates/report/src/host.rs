//! What one must know of a host to read its numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Kernel and CPU, and what slows them down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// System and release, e.g. `Linux 6.18.5`.
    pub kernel: String,
    /// `x86_64`, `aarch64`.
    pub arch: String,
    /// The CPU's model name.
    pub cpu: String,
    /// Its microcode revision, if there is one.
    pub microcode: Option<String>,
    /// CPUs that are on.
    pub cpus: usize,
    /// CPUs that this process may use.
    pub allowed_cpus: Vec<usize>,
    /// The frequency governor, if the kernel scales the frequency.
    pub governor: Option<String>,
    /// Whether cores have several hardware threads.
    pub smt: Option<bool>,
    /// The hypervisor that this system itself runs under.
    pub hypervisor: Option<String>,
    /// The load of the last minute when measuring began.
    pub load: Option<f64>,
    /// What the kernel does against each vulnerability of the CPU that there is.
    #[serde(default)]
    pub mitigations: BTreeMap<String, String>,
    /// Parameters of the KVM module, where it is loaded.
    #[serde(default)]
    pub kvm_params: BTreeMap<String, String>,
}

impl Host {
    /// Vulnerabilities that the kernel works against (true) or leaves open (false), by name.
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
