//! Doubles of VMMs: shell scripts that print what a VMM could.

use std::fs;

use tempfile::TempDir;

use super::common::vmbell;

/// What the image prints, with `ticks` in each of three batches of ten operations.
pub fn printed(ticks: u32) -> String {
    format!(
        r#"firmware
=== vmbell-probe start ===
row cpuid
=== vmbell-probe begin 1 ===
{{"version":1,"boot":"pvh","cpu":{{"vendor":"GenuineIntel","brand":"A CPU"}},"hypervisor":"KVMKVMKVM","apic":"xapic","cpus":1,"tsc_hz":1000000000,"tsc_source":"pvclock","devices":[{{"kind":"rng","transport":"pci","found_by":"pci-cf8","interrupt":"msix","gsi":null}}],"rows":[{{"name":"cpuid","mark":1,"operations":10,"samples":[{ticks},{ticks},{ticks}]}},{{"name":"pm-timer-read","mark":9,"reason":"the FADT names no PM timer"}}],"end":"pm1a"}}
=== vmbell-probe end ===
"#
    )
}

/// A folder with scripts that stand for VMMs.
pub struct Doubles {
    pub folder: TempDir,
    pub words: Vec<String>,
}

impl Doubles {
    pub fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            words: Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Adds a VMM that runs this script.
    pub fn script(mut self, name: &str, script: &str) -> Self {
        let path = self.path(&format!("{name}.sh"));
        fs::write(&path, script).unwrap();
        self.words.push(format!(
            "{name}=/bin/sh '{path}' {{image}} {{cmdline}} {{disk}}"
        ));
        self
    }

    /// Adds a VMM that prints this text.
    pub fn prints(self, name: &str, text: &str) -> Self {
        let path = self.path(&format!("{name}.txt"));
        fs::write(&path, text).unwrap();
        self.script(name, &format!("cat '{path}'\n"))
    }

    /// The command with all of them, in their order.
    pub fn command(&self, names: &[&str], args: &[&str]) -> assert_cmd::Command {
        let mut words = vec!["bench", "vmms"];
        words.extend(names);
        for word in &self.words {
            words.extend(["--vmm", word]);
        }
        words.extend(args);
        if !args.contains(&"--exits") {
            // The same boots whatever this host allows.
            words.extend(["--exits", "off"]);
        }
        vmbell(&words)
    }
}

pub fn shared(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no line {name} in:\n{text}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
