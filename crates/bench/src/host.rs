//! Reads the facts about this host that are needed to judge its numbers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::cpuinfo::{self, field};
use super::{affinity, cpuid};
use vmbell_report::{Host, cpu_list};

/// The environment variable in which the lab says which of its Linuxes this is, if it was started with `--depth`.
pub const DEPTH_VARIABLE: &str = "VMBELL_DEPTH";
/// The environment variable that names the VMM which runs this Linux, if it runs inside another Linux of the lab.
pub const DEPTH_VMM_VARIABLE: &str = "VMBELL_DEPTH_VMM";

/// Reads the facts; what cannot be read is left out.
pub fn probe() -> Host {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Host {
        kernel: kernel(),
        arch: std::env::consts::ARCH.to_owned(),
        cpu: field(&cpuinfo, "model name")
            .or_else(|| cpuinfo::arm64_name(&cpuinfo))
            .unwrap_or_else(|| "unknown CPU".to_owned()),
        microcode: field(&cpuinfo, "microcode"),
        cpus: line("/sys/devices/system/cpu/online")
            .and_then(|list| cpu_list::parse(&list).ok())
            .map_or(0, |cpus| cpus.len()),
        allowed_cpus: affinity::allowed_cpus().unwrap_or_default(),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        smt: line("/sys/devices/system/cpu/smt/active").map(|text| text == "1"),
        hypervisor: cpuid::hypervisor().or_else(virtual_board),
        depth: std::env::var(DEPTH_VARIABLE)
            .ok()
            .and_then(|text| text.parse().ok()),
        depth_vmm: std::env::var(DEPTH_VMM_VARIABLE).ok(),
        load: line("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        mitigations: directory("/sys/devices/system/cpu/vulnerabilities")
            .into_iter()
            .filter(|(_, text)| text != "Not affected")
            .collect(),
        kvm_params: kvm_params("/sys/module".as_ref()),
    }
}

/// The virtual machine that a device tree describes; `None` on a real machine. On arm64 a hypervisor has no other way
/// to identify itself to a program.
fn virtual_board() -> Option<String> {
    let compatible = fs::read_to_string("/proc/device-tree/compatible").ok()?;
    let is_virtual = compatible
        .split('\0')
        .any(|name| name == "linux,dummy-virt");
    is_virtual.then(|| "a virtual machine (linux,dummy-virt)".to_owned())
}

/// The parameters of KVM's modules, each as `MODULE.NAME`.
fn kvm_params(modules: &Path) -> BTreeMap<String, String> {
    let of = |module: &'static str| {
        let parameters = directory(modules.join(module).join("parameters"));
        let named = move |(name, value)| (format!("{module}.{name}"), value);
        parameters.into_iter().map(named)
    };
    ["kvm", "kvm_amd", "kvm_intel"]
        .into_iter()
        .flat_map(of)
        .collect()
}

fn kernel() -> String {
    let part = |name: &str| line(&format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let name = format!("{} {}", part("ostype"), part("osrelease"));
    let groups = Path::new("/sys/module/kvm_ioeventfd").exists();
    with_kvm(
        name.trim(),
        line("/sys/module/kvm/taint").as_deref(),
        groups,
    )
}

/// The kernel's name, with a note if KVM is not the kernel's own: if the module was built outside the kernel's tree,
/// which taints it (Documentation/admin-guide/tainted-kernels.rst), or if kvm_ioeventfd handles its ioeventfds.
fn with_kvm(name: &str, taint: Option<&str>, groups: bool) -> String {
    let is_own = taint.is_none_or(|taint| !taint.contains('O'));
    let kvm = if is_own {
        ""
    } else {
        " with a KVM built out of tree"
    };
    let groups = if groups { " with kvm_ioeventfd" } else { "" };
    format!("{name}{kvm}{groups}")
}

/// The text of a file without its final newline; `None` if it is empty or cannot be read.
pub fn line(path: &str) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// The files of a directory: their names and texts.
fn directory(path: impl AsRef<Path>) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(path) else {
        return BTreeMap::new();
    };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let text = line(entry.path().to_str()?)?;
            Some((entry.file_name().into_string().ok()?, text))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kvm_that_is_not_the_kernels_own_is_named() {
        for taint in [None, Some("E")] {
            assert_eq!(with_kvm("Linux 6.12", taint, false), "Linux 6.12");
        }
        assert_eq!(
            with_kvm("Linux 6.12", Some("OE"), false),
            "Linux 6.12 with a KVM built out of tree"
        );
        assert_eq!(
            with_kvm("Linux 6.12", None, true),
            "Linux 6.12 with kvm_ioeventfd"
        );
    }

    #[test]
    fn every_parameter_of_kvms_modules_is_read() {
        let modules = tempfile::tempdir().unwrap();
        for (module, name) in [
            ("kvm", "halt_poll_ns"),
            ("kvm_intel", "enable_apicv"),
            ("ccp", "a"),
        ] {
            let folder = modules.path().join(module).join("parameters");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(name), "1\n").unwrap();
        }
        let read = ["kvm.halt_poll_ns", "kvm_intel.enable_apicv"];
        let read = read.map(|name| (name.to_owned(), "1".to_owned()));
        assert_eq!(kvm_params(modules.path()), read.into());
    }

    #[test]
    fn this_host_has_a_kernel_and_a_cpu() {
        let host = probe();
        assert!(host.kernel.starts_with("Linux "), "{}", host.kernel);
        assert!(host.cpus > 0);
        assert!(!host.allowed_cpus.is_empty());
    }
}
