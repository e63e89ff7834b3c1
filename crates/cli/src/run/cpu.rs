//! Parses `--cpu-features -NAME,...`: CPU features that are hidden from the guest.

use vmbell_bench::did_you_mean;
use vmbell_hypervisor::CpuFeatures;

/// Parses the option's value.
pub(super) fn hidden(text: &str) -> Result<CpuFeatures, String> {
    let mut features = CpuFeatures::NONE;
    if text.is_empty() {
        return Ok(features);
    }
    for part in text.split(',') {
        let Some(name) = part.strip_prefix('-') else {
            return Err(format!(
                "'{part}' has no '-': features can only be hidden, as in '-x2apic'"
            ));
        };
        if !features.insert(name) {
            let all: Vec<_> = CpuFeatures::names().collect();
            let hint = did_you_mean(name, &all);
            return Err(format!("unknown CPU feature '{name}'{hint}"));
        }
    }
    Ok(features)
}

#[cfg(test)]
#[path = "cpu_test.rs"]
mod tests;
