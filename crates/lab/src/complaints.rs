//! Reports of a kernel that checks itself, read at the end of a run: from lockdep, RCU, KASAN and kmemleak.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Only a kernel that checks itself has this file.
const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";
/// The kernel's log, one record per read.
const LOG: &str = "/dev/kmsg";
/// kmemleak reports nothing that is younger than 5 s.
const AGE: Duration = Duration::from_secs(6);
/// Words that mark the first line of a report.
const MARKS: [&str; 5] = [
    "BUG: ",
    "WARNING: ",
    "INFO: task ",
    "Oops",
    "suspected memory leaks",
];
/// The maximum number of lines of a report that are kept.
const KEPT: usize = 40;

/// Returns whether the kernel checks itself.
pub(crate) fn may_be() -> bool {
    Path::new(KMEMLEAK).exists()
}

/// Returns the first report since the boot and the leaks that kmemleak lists. The result is empty if the kernel
/// reported nothing.
pub(crate) fn find() -> io::Result<Vec<String>> {
    // The second scan reports the leaks that the first scan found.
    fs::write(KMEMLEAK, "scan")?;
    thread::sleep(AGE);
    fs::write(KMEMLEAK, "scan")?;
    let mut said = report(&read_log()?);
    if !said.is_empty() {
        let leaks = fs::read_to_string(KMEMLEAK)?;
        said.extend(leaks.lines().take(KEPT).map(str::to_owned));
    }
    Ok(said)
}

/// Reads the kernel's messages since the boot.
pub(crate) fn read_log() -> io::Result<String> {
    let mut options = File::options();
    let options = options.read(true).custom_flags(libc::O_NONBLOCK);
    let (mut log, mut text) = (options.open(LOG)?, String::new());
    let mut record = [0; 8192];
    loop {
        match log.read(&mut record) {
            Ok(length) => text += message(&String::from_utf8_lossy(&record[..length])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(text),
            // Records were overwritten before they were read; the next read continues after the lost records.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the first line of a record's message, without the prefix: `6,339,5140900,-;NET: ...`.
fn message(record: &str) -> &str {
    let text = record.split_once(';').map_or(record, |(_, text)| text);
    text.split_inclusive('\n').next().unwrap_or_default()
}

/// Returns the lines of the log, starting at the first report.
fn report(log: &str) -> Vec<String> {
    let lines = log.lines().map(str::trim_end);
    let is_before = |line: &&str| !MARKS.iter().any(|mark| line.contains(mark));
    lines
        .skip_while(is_before)
        .take(KEPT)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_begins_with_its_mark() {
        let records = [
            "6,1,100,-;Linux version 6.12\n",
            "4,2,200,-;======\n",
            "4,3,200,-;WARNING: possible circular locking dependency detected\n",
            "4,4,200,-; kvm/7 is trying to acquire lock:\n SUBSYSTEM=x\n",
        ];
        let log: String = records.map(message).concat();
        let said = [
            "WARNING: possible circular locking dependency detected",
            " kvm/7 is trying to acquire lock:",
        ];
        assert_eq!(report(&log), said);
        assert!(report("kmemleak: Kernel memory leak detector initialized\n").is_empty());
        let leak = "kmemleak: 2 new suspected memory leaks (see /sys/kernel/debug/kmemleak)";
        assert_eq!(report(leak), [leak]);
    }
}
