//! One boot of Linux in a VMM, until its kernel finds no root file system: its time by the kernel's clock, and its
//! exits by reason and address.
//!
//! The kernel needs no initrd for that, so any VMM boots it like the image. The line of its panic has the time; then it
//! resets the machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::output::text::chain;
use crate::process::find;
use crate::suites::boots::{BatchTimes, BootRow, CountedBatch, VmmFailure};
use crate::suites::kvm_trace::{
    self, KvmEvent, KvmEventKind, TraceError, TraceRecording, TracedThreads, WantedEvent, bounded,
    count,
};
use vmbell_report::{ReasonsOfRun, Timing};

/// The name of the row.
pub(super) const ROW: &str = "linux-boot";
/// What an operation of the row is.
const DESCRIPTION: &str = "a boot of Linux, until its kernel finds no root file system";
/// One vCPU: two vCPUs that wait for each other spin for a long time on the only CPU of the deterministic lab.
pub(super) const CPUS: u32 = 1;
/// The guest's memory in MiB: the kernel's file alone takes 60.
pub(super) const MEMORY: u32 = 256;
/// The kernel's parameters. On panic it resets the machine by a fault, and every VMM then ends. It prints little on the
/// serial port, where each character is an exit, and skips self-tests.
const PARAMETERS: &str = "console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests apparmor=0 audit=0 \
    initcall_blacklist=load_system_certificate_list";
/// In the lab, QEMU 7.2's SVM switches vector state off at exits: docs/emulator-bugs.md.
const IN_LAB: &str = " noxsave";
/// The end of a boot.
const PANIC: &str = "Kernel panic - not syncing: VFS: Unable to mount root fs";
/// The exit to the VMM that then resets the machine. What follows is another boot, because some VMMs restart the guest.
const RESET: &str = "KVM_EXIT_SHUTDOWN";
/// The recorded events. Every access that exits has an event with its address.
const EVENTS: [WantedEvent; 6] = [
    WantedEvent::all("kvm_exit"),
    WantedEvent::all("kvm_userspace_exit"),
    WantedEvent::all("kvm_pio"),
    WantedEvent::all("kvm_mmio"),
    WantedEvent::all("kvm_fast_mmio"),
    WantedEvent::all("kvm_msr"),
];
/// How many addresses are distinguished at most, and how many are kept.
const ADDRESSES: usize = 8192;
const KEPT: usize = 32;
/// The page of an address.
const PAGE: u64 = !0xfff;

/// The kernel's parameters.
pub(super) fn parameters(timing: Timing) -> String {
    match timing {
        Timing::Native => PARAMETERS.to_owned(),
        Timing::Emulated | Timing::Instructions => PARAMETERS.to_owned() + IN_LAB,
    }
}

/// Whether a piece of output has the end of a boot.
pub(super) fn is_complete(piece: &[u8]) -> bool {
    find(piece, PANIC).is_some()
}

/// Whether a file is a bzImage (Linux `Documentation/arch/x86/boot.rst`).
pub(super) fn is_bzimage(kernel: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(kernel).and_then(|file| file.read_exact_at(&mut magic, 0x202));
    read.is_ok() && magic == *b"HdrS"
}

/// What is counted in a boot.
#[derive(Debug, Default)]
struct LinuxTally {
    reasons: ReasonsOfRun,
    addresses: BTreeMap<String, u64>,
    has_ended: bool,
}

impl kvm_trace::EventTally for LinuxTally {
    fn add(&mut self, event: KvmEvent<'_>) -> Result<(), TraceError> {
        if self.has_ended {
            return Ok(());
        }
        let address = match event.what {
            KvmEventKind::Exit(reason) => return count(&mut self.reasons.exits, reason),
            KvmEventKind::Userspace(reason) => {
                self.has_ended = reason == RESET;
                return count(&mut self.reasons.userspace, reason);
            }
            KvmEventKind::Port(port) => format!("port {port:#x}"),
            // Linux also writes to this port, as a delay.
            KvmEventKind::Mark(_) => "port 0x80".to_owned(),
            KvmEventKind::MmioRead(address) | KvmEventKind::MmioWrite(address) => {
                format!("MMIO page {:#x}", address & PAGE)
            }
            KvmEventKind::Msr(register) => format!("MSR {register:#x}"),
            KvmEventKind::Msi => return Ok(()),
        };
        if let Some(count) = self.addresses.get_mut(&address) {
            *count += 1;
            return Ok(());
        }
        bounded(self.addresses.len(), "addresses", ADDRESSES)?;
        self.addresses.insert(address, 1);
        Ok(())
    }
}

impl LinuxTally {
    /// The counts, with only the most frequent addresses.
    fn counted(self) -> CountedBatch {
        let mut events: Vec<(String, u64)> = self.addresses.into_iter().collect();
        events.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        events.truncate(KEPT);
        CountedBatch {
            operations: 1.0,
            reasons: self.reasons,
            counts: Vec::new(),
            events,
        }
    }
}

/// Boots with `boot`, which returns the output, and makes a row from it. With an `obstacle`, exits are not counted.
pub(super) fn row<E>(
    obstacle: Option<&str>,
    boot: impl FnOnce() -> Result<Result<Vec<u8>, String>, E>,
) -> Result<BootRow, E> {
    let recording = match obstacle {
        Some(obstacle) => Err(obstacle.to_owned()),
        None => TraceRecording::start(&EVENTS, TracedThreads::Children, LinuxTally::default())
            .map_err(chain),
    };
    let batches = boot()?.and_then(|output| {
        Ok(BatchTimes {
            operations: 1,
            ns: vec![nanoseconds(&output)?],
        })
    });
    let counted = recording
        .and_then(|recording| recording.finish().map_err(chain))
        .map(|tally| vec![tally.counted()]);
    Ok(BootRow {
        name: ROW.to_owned(),
        description: Some(DESCRIPTION.to_owned()),
        batches,
        counted: Some(counted),
    })
}

/// The row if every boot hung; `failure` is that of the last one.
pub(super) fn hung(failure: VmmFailure) -> BootRow {
    BootRow {
        name: ROW.to_owned(),
        description: Some(DESCRIPTION.to_owned()),
        counted: Some(Err(failure.reason.clone())),
        batches: Err(failure.reason),
    }
}

/// When the kernel panicked, according to its own clock: the time in the line `[    1.234567] Kernel panic`.
fn nanoseconds(output: &[u8]) -> Result<f64, String> {
    let text = String::from_utf8_lossy(output);
    let line = text.lines().find(|line| line.contains(PANIC));
    let line = line.ok_or("Linux did not finish booting")?;
    let time = line
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    let seconds = time.and_then(|(time, _)| time.trim().parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    let seconds = seconds.ok_or("Linux's panic has no time")?;
    Ok((seconds * 1e9).round())
}

#[cfg(test)]
mod tests {
    use kvm_trace::EventTally as _;

    use super::*;

    #[test]
    fn a_boot_has_the_time_of_its_end() {
        let line =
            format!("[    0.0] Linux version\r\n[    1.234567] {PANIC} on unknown-block\r\n");
        assert_eq!(nanoseconds(line.as_bytes()), Ok(1_234_567_000.0));
        assert!(is_complete(line.as_bytes()));
        for output in ["", PANIC, "[    1.2] Kernel panic - not syncing: oops"] {
            assert!(nanoseconds(output.as_bytes()).is_err(), "{output}");
        }
    }

    #[test]
    fn a_boot_after_the_reset_is_not_counted() {
        let mut tally = LinuxTally::default();
        for _ in 0..3 {
            for what in [
                KvmEventKind::Exit("io"),
                KvmEventKind::Port(0x3f8),
                KvmEventKind::Userspace("KVM_EXIT_IO"),
                KvmEventKind::Exit("shutdown"),
                KvmEventKind::Userspace(RESET),
            ] {
                let event = KvmEvent {
                    thread: 1,
                    sequence: 1,
                    what,
                };
                tally.add(event).unwrap();
            }
        }
        let counted = tally.counted();
        let one = |name: &str| (name.to_owned(), 1);
        assert_eq!(counted.reasons.exits, [one("io"), one("shutdown")].into());
        assert_eq!(
            counted.reasons.userspace,
            [one("KVM_EXIT_IO"), one(RESET)].into()
        );
        assert_eq!(counted.events, [one("port 0x3f8")]);
    }

    #[test]
    fn addresses_are_counted_and_the_most_frequent_are_kept() {
        let mut tally = LinuxTally::default();
        let mut add = |what| {
            let event = KvmEvent {
                thread: 1,
                sequence: 1,
                what,
            };
            tally.add(event).unwrap();
        };
        for port in 0..40 {
            add(KvmEventKind::Port(port));
        }
        for offset in [0x80, 0x300] {
            add(KvmEventKind::MmioWrite(0xfee0_0000 + offset));
            add(KvmEventKind::MmioRead(0xfee0_0000 + offset));
        }
        add(KvmEventKind::Exit("io"));
        add(KvmEventKind::Msr(0x6e0));
        add(KvmEventKind::Msr(0x6e0));
        let counted = tally.counted();
        assert_eq!(counted.events.len(), KEPT);
        assert_eq!(
            counted.events[..2],
            [
                ("MMIO page 0xfee00000".to_owned(), 4),
                ("MSR 0x6e0".to_owned(), 2)
            ]
        );
        assert_eq!(counted.reasons.exits, [("io".to_owned(), 1)].into());
    }

    #[test]
    fn a_bzimage_is_told_from_an_elf() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kernel");
        for (bytes, wanted) in [
            (vmbell_probe_image::bzimage(), true),
            (vmbell_probe_image::ELF.to_vec(), false),
            (Vec::new(), false),
        ] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(is_bzimage(&file), wanted);
        }
    }

    #[test]
    fn a_boot_that_does_not_end_is_a_row_with_a_reason() {
        let row = row::<()>(Some("no tracefs"), || Ok(Ok(b"Linux version".to_vec()))).unwrap();
        assert!(row.batches.unwrap_err().contains("did not finish booting"));
        assert_eq!(row.counted, Some(Err("no tracefs".to_owned())));
    }
}
