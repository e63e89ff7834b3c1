//! Doubles of VMMs: shell scripts that print what a VMM would.

use std::fs;

use tempfile::TempDir;

use super::common::{Words, vmbell};

/// The image's output, with `ticks` in each of three batches of ten operations.
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

/// A folder with scripts that replace VMMs.
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

    /// Adds a VMM that runs this script. In it, `$folder` is the folder.
    pub fn script(mut self, name: &str, script: &str) -> Self {
        let path = self.path(&format!("{name}.sh"));
        let folder = self.folder.path().display();
        fs::write(&path, format!("folder={folder}\n{script}\n")).unwrap();
        self.words.push(format!(
            "{name}=/bin/sh '{path}' {{image}} {{cmdline}} {{disk}}"
        ));
        self
    }

    /// Adds a VMM that prints this text.
    pub fn prints(self, name: &str, text: &str) -> Self {
        fs::write(self.path(&format!("{name}.txt")), text).unwrap();
        self.script(name, &format!("cat $folder/{name}.txt"))
    }

    /// Adds a VMM that runs this script and then prints the image's output.
    pub fn boots_after(self, script: &str, name: &str) -> Self {
        fs::write(self.path("image.txt"), printed(1000)).unwrap();
        self.script(name, &format!("{script}\ncat $folder/image.txt"))
    }

    /// The command with all of these VMMs, in this order.
    pub fn command(&self, names: impl Words, args: impl Words) -> assert_cmd::Command {
        let mut command = vmbell("bench vmms");
        command.args(names.words());
        for word in &self.words {
            command.args(["--vmm", word]);
        }
        let args = args.words();
        command.args(&args);
        if !args.contains(&"--exits") {
            // Exits are not counted, so that the boots are the same on every host.
            command.args(["--exits", "off"]);
        }
        command
    }
}

pub fn shared(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name));
    line.unwrap_or_else(|| panic!("no line {name} in:\n{text}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
