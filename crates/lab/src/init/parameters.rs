//! Compares the parameters of KVM's modules that the user sets with those that the loaded modules have. KVM clears a
//! parameter for a feature that the CPU lacks, without an error.

use std::fs;
use std::path::Path;

/// Returns a note for each of `wanted`, such as `kvm_intel.enable_apicv=1`, that differs from its file below `modules`
/// (`/sys/module`). A parameter whose file does not show its value as it was set has no note.
pub(super) fn refused(wanted: &[String], modules: &Path) -> Vec<String> {
    let note = |text: &String| {
        let (name, value) = text.split_once('=')?;
        let (module, parameter) = name.split_once('.')?;
        let path = modules.join(module).join("parameters").join(parameter);
        let found = fs::read_to_string(path).ok()?;
        let found = found.trim();
        let is_refused = match (boolean(value), number(value), found) {
            (Some(wanted), _, "Y" | "N") => wanted != (found == "Y"),
            (_, Some(wanted), _) => number(found)? != wanted,
            _ => return None,
        };
        is_refused.then(|| format!("KVM refused {text}: {name} is {found} on this CPU"))
    };
    wanted.iter().filter_map(note).collect()
}

/// Parses a Boolean. The kernel's `kstrtobool` reads only the first letters, but a parameter may have other words
/// that begin with them, such as `force`.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "y" | "yes" | "t" | "true" | "on" => Some(true),
        "0" | "n" | "no" | "f" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// Parses a number as the kernel's `kstrtoll` does for the base 0, except for octal numbers.
fn number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The notes for these parameters of modules that have these values.
    fn notes(wanted: &[&str]) -> Vec<String> {
        let modules = tempfile::tempdir().unwrap();
        for (name, value) in [
            ("kvm_intel/parameters/enable_apicv", "N"),
            ("kvm_intel/parameters/ept", "Y"),
            ("kvm_intel/parameters/ple_gap", "0"),
            ("kvm/parameters/halt_poll_ns", "16"),
            ("kvm/parameters/nx_huge_pages", "Y"),
        ] {
            let path = modules.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        refused(&wanted, modules.path())
    }

    #[test]
    fn a_parameter_that_kvm_cleared_is_told_with_its_value() {
        for wanted in ["1", "y", "on", "true"] {
            let wanted = format!("kvm_intel.enable_apicv={wanted}");
            let note = format!("KVM refused {wanted}: kvm_intel.enable_apicv is N on this CPU");
            assert_eq!(notes(&[&wanted]), [note]);
        }
        let all = notes(&["kvm_intel.ple_gap=7", "kvm_intel.ept=0"]);
        assert_eq!(
            all,
            [
                "KVM refused kvm_intel.ple_gap=7: kvm_intel.ple_gap is 0 on this CPU",
                "KVM refused kvm_intel.ept=0: kvm_intel.ept is Y on this CPU",
            ]
        );
    }

    #[test]
    fn a_parameter_that_kvm_has_as_it_was_set_has_no_note() {
        let kept = [
            "kvm_intel.enable_apicv=off",
            "kvm_intel.enable_apicv=N",
            "kvm_intel.ept=1",
            "kvm.halt_poll_ns=0x10",
            "kvm.halt_poll_ns=16",
        ];
        assert_eq!(notes(&kept), [""; 0]);
        // KVM shows the first three as a Boolean, and the last has no file.
        let words = ["auto", "force", "never"].map(|word| format!("kvm.nx_huge_pages={word}"));
        let [auto, force, never] = words.each_ref().map(String::as_str);
        assert_eq!(notes(&[auto, force, never, "kvm.absent=1"]), [""; 0]);
    }
}
