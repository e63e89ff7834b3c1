//! Counts the exits of this Linux' guests by their codes, in the kernel: a histogram of the tracepoint `kvm:kvm_exit`. A code is SVM's
//! on x86-64, and the class of the exception on arm64 (Arm DDI 0487, ESR_EL2.EC), where that of an interrupt is 0.
//!
//! The exits of a guest's guests are among them, because every exit of theirs first comes here. From the program's first mark on
//! each exit is also recorded, and the recording is read when the program has ended.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::job::NamedExits;
use crate::tracefs;

const EVENT: &str = "events/kvm/kvm_exit";
/// The field that has the code.
const CODE: &str = if cfg!(target_arch = "aarch64") {
    "esr_ec"
} else {
    "exit_reason"
};
/// The recording's size for each CPU: about a million exits.
const KILOBYTES: u32 = 64 << 10;
/// What SVM calls an access to an I/O port, whose number is in bits 16 to 31 of the first word of information (APM volume 2,
/// 15.10.2).
const IO: (u32, &str) = (0x7b, "io");

/// Begins to count, and to record when the program has marked an exit by a write to this port.
pub fn begin(marks: Option<u16>) -> io::Result<()> {
    let keys = format!("hist:keys={CODE}");
    let Some(port) = marks else {
        return trigger(&keys);
    };
    tracefs::write(&file("tracing_on"), "0")?;
    tracefs::write(&file("buffer_size_kb"), &KILOBYTES.to_string())?;
    tracefs::write(&event("enable"), "1")?;
    let (first, code) = (u64::from(port) << 16, IO.0);
    let last = first | 0xffff;
    trigger(&keys)?;
    trigger(&format!(
        "traceon if exit_reason == {code} && info1 >= {first} && info1 <= {last}"
    ))
}

/// Adds a trigger.
fn trigger(text: &str) -> io::Result<()> {
    tracefs::write(&event("trigger"), text)
}

/// A file of tracefs, which the loader has mounted.
fn file(name: &str) -> PathBuf {
    Path::new(tracefs::PLACES[0]).join(name)
}

/// A file of the event.
fn event(name: &str) -> PathBuf {
    file(EVENT).join(name)
}

/// The counts so far, the most frequent code first.
pub fn read() -> io::Result<Vec<(u32, u64)>> {
    let text = fs::read_to_string(event("hist"))?;
    let lines = text.lines();
    let mut counts: Vec<_> = lines.filter_map(|line| count(line, CODE)).collect();
    counts.sort_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
    Ok(counts)
}

/// The code and the count of a line such as `{ exit_reason:        123 } hitcount:       2000`, whose field is `exit_reason`.
fn count(line: &str, field: &str) -> Option<(u32, u64)> {
    let line = line.strip_prefix("{ ")?.strip_prefix(field)?;
    let line = line.strip_prefix(':')?;
    let (code, line) = line.split_once('}')?;
    let (_, count) = line.split_once("hitcount:")?;
    Some((code.trim().parse().ok()?, count.trim().parse().ok()?))
}

/// The exits between each two marks that were recorded.
pub fn between_marks(port: u16) -> io::Result<Vec<NamedExits>> {
    tracefs::write(&file("tracing_on"), "0")?;
    if tracefs::lost(Path::new(tracefs::PLACES[0]))? > 0 {
        return Err(io::Error::other(
            "the exits between marks are not known: the kernel's buffer had no room for them",
        ));
    }
    parts(BufReader::new(File::open(file("trace"))?), port)
}

/// The parts of a trace between two marks.
fn parts(trace: impl BufRead, port: u16) -> io::Result<Vec<NamedExits>> {
    let (mut parts, mut part) = (Vec::new(), None);
    for line in trace.lines() {
        let line = line?;
        let Some((reason, info)) = exit(&line) else {
            continue;
        };
        if reason == IO.1 && (info >> 16) & 0xffff == u64::from(port) {
            parts.extend(part.replace(NamedExits::new()));
        } else if let Some(part) = &mut part {
            *part.entry(reason.to_owned()).or_default() += 1;
        }
    }
    Ok(parts)
}

/// The reason and the first word of information of a line such as
/// `... kvm_exit: vcpu 0 reason io rip 0x1000 info1 0x0000000000600241 ...`.
fn exit(line: &str) -> Option<(&str, u64)> {
    let (_, line) = line.split_once(" kvm_exit: ")?;
    let (_, line) = line.split_once(" reason ")?;
    let (reason, line) = line.split_once(" rip ")?;
    let (_, line) = line.split_once(" info1 0x")?;
    let info = line.split_whitespace().next()?;
    Some((reason, u64::from_str_radix(info, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_histogram_is_a_code_and_its_count() {
        let line = "{ exit_reason:        123 } hitcount:       2000";
        assert_eq!(count(line, "exit_reason"), Some((123, 2000)));
        let other = "{ esr_ec:         26 } hitcount:         48";
        assert_eq!(count(other, "esr_ec"), Some((26, 48)));
        assert_eq!(count(other, "exit_reason"), None);
        let info = "# trigger info: hist:keys=exit_reason:vals=hitcount";
        assert_eq!(count(info, "exit_reason"), None);
        assert_eq!(count("    Hits: 12", "exit_reason"), None);
    }

    #[test]
    fn a_trace_is_cut_at_its_marks() {
        let line = |reason: &str, info: u32| {
            format!(
                "  vcpu-0-99  [000] d....  1.5: kvm_exit: vcpu 0 reason {reason} rip 0x1000 info1 0x{info:016x} info2 0x0\n"
            )
        };
        let mark = line("io", 0x0b0e_0010);
        let text = [
            "# tracer: nop\n",
            &line("npf", 0),
            &mark,
            &line("io", 0x0060_0010),
            &line("npf", 0),
            &line("npf", 0),
            &mark,
            &mark,
            &line("hlt", 0),
        ]
        .concat();
        let parts = parts(text.as_bytes(), 0xb0e).unwrap();
        let first = [("io".to_owned(), 1), ("npf".to_owned(), 2)];
        assert_eq!(parts, [NamedExits::from(first), NamedExits::new()]);
    }
}
