//! KVM's module and its parameters, and the hypervisor under this host, if any.

use super::finding::{Finding, Severity};
use super::tree::HostFiles;

const MODULES: &str = "/sys/module";

/// Returns the findings; `hypervisor` is what this host itself runs under.
pub(super) fn find(tree: &HostFiles, hypervisor: Option<&str>) -> Vec<Finding> {
    let mut found = Vec::new();
    if !tree.names(&format!("{MODULES}/kvm_pvm")).is_empty() {
        found.push(Finding::new(
            Severity::Distorts,
            ("KVM is kvm_pvm", format!("{MODULES}/kvm_pvm")),
            "the guest's kernel mode runs in an emulator, not on the CPU: exits cost a different time than on hardware",
            "measure with --backend usermode or `vmbell lab -- vmbell bench`, or load kvm_intel or kvm_amd where the CPU shows VMX or SVM",
        ));
    }
    if let Some(hypervisor) = hypervisor {
        found.push(Finding::new(
            Severity::Slows,
            (format!("this host is itself a guest, under {hypervisor}"), "CPUID 1, ECX bit 31"),
            "each exit of a guest is also an exit of this host, which takes several times as long, and other guests use its CPU time",
            "measure on the bare machine; compare with hosts under the same hypervisor only",
        ));
    }
    found.extend(interrupts(tree));
    found.extend(mmio_doorbells(tree));
    found.extend(halt_polling(tree));
    found
}

/// Whether the CPU delivers and ends interrupts without an exit.
fn interrupts(tree: &HostFiles) -> Option<Finding> {
    let files = [("kvm_intel", "enable_apicv", "N"), ("kvm_amd", "avic", "N")];
    files.into_iter().find_map(|(module, name, off)| {
        let file = format!("{MODULES}/{module}/parameters/{name}");
        let finding = match tree.line(&file) {
            Ok(Some(value)) if value == off || value == "0" => Finding::new(
                Severity::Slows,
                (format!("{module}.{name} is off"), file.clone()),
                "each interrupt of a running guest, and each EOI (eoi-*), is an exit; PV EOI (eoi-pv) saves the second",
                &format!("modprobe -r {module} && modprobe {module} {name}=1, where the CPU has it and no guest runs"),
            ),
            Ok(_) => return None,
            Err(error) => {
                let whether = format!("{module}.{name} is off");
                Finding::untold(&whether, &file, &error.to_string())
            }
        };
        Some(finding)
    })
}

/// Whether KVM decodes a store to an ioeventfd of any length, which depends on the CPU's vendor.
fn mmio_doorbells(tree: &HostFiles) -> Option<Finding> {
    let file = format!("{MODULES}/kvm_intel/parameters/ept");
    let (fact, source, effect, remedy) = match tree.line(&file) {
        Ok(Some(value)) if value == "Y" || value == "1" => (
            "this CPU has Intel's VMX: KVM does not decode a store to an MMIO ioeventfd of any length (fast MMIO)",
            file,
            "an ioeventfd with a length (mmio-wildcard-eventfd) costs several times as much as one of any length \
             (mmio-any-length-eventfd)",
            "in a VMM: register MMIO doorbells with length 0, and give each queue its own address",
        ),
        Ok(_) if !tree.names(&format!("{MODULES}/kvm_amd")).is_empty() => (
            "this CPU has AMD's SVM: KVM decodes each store to an MMIO ioeventfd",
            format!("{MODULES}/kvm_amd"),
            "an ioeventfd of any length (mmio-any-length-eventfd) costs as much as one with a length \
             (mmio-wildcard-eventfd), and more than one for a port",
            "in a VMM: prefer a port as the doorbell where the guest can use one",
        ),
        Ok(_) => return None,
        Err(error) => {
            let whether = "KVM decodes each store to an MMIO ioeventfd";
            return Some(Finding::untold(whether, &file, &error.to_string()));
        }
    };
    Some(Finding::new(Severity::Note, (fact, source), effect, remedy))
}

fn halt_polling(tree: &HostFiles) -> Option<Finding> {
    let file = format!("{MODULES}/kvm/parameters/halt_poll_ns");
    match tree.line(&file) {
        Ok(Some(value)) if value == "0" => Some(Finding::new(
            Severity::Slows,
            (
                "KVM does not poll before a halted vCPU sleeps",
                file.clone(),
            ),
            "an interrupt for a halted guest (irqfd-edge-to-halted) wakes a thread each time",
            &format!("echo 200000 > {file}: up to 200 us of a core for each halt"),
        )),
        Ok(Some(value)) => Some(Finding::new(
            Severity::Note,
            (
                format!("KVM polls for up to {value} ns before a halted vCPU sleeps"),
                file.clone(),
            ),
            "wake-ups within this time are fast, but keep the core busy: rows with short pauses look better than \
             guests with long ones",
            &format!("echo 0 > {file} shows what a real wake-up costs"),
        )),
        Ok(None) => None,
        Err(error) => Some(Finding::untold(
            "KVM polls before a halted vCPU sleeps",
            &file,
            &error.to_string(),
        )),
    }
}

#[cfg(test)]
#[path = "kvm_test.rs"]
mod tests;
