//! Counts the exits of this Linux' guests by exit code, with a histogram of the tracepoint `kvm:kvm_exit`. The code is
//! SVM's on x86-64. On arm64 it is the exception class (Arm DDI 0487, ESR_EL2.EC), and 0 for interrupts.
//!
//! This includes the exits of nested guests, because each of those arrives here first. After the program's first mark
//! each exit is also recorded, and the recording is read after the program has ended.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::job::NamedExits;
use crate::tracefs;

const EVENT: &str = "events/kvm/kvm_exit";
/// The trace field that contains the code.
const CODE: &str = if cfg!(target_arch = "aarch64") {
    "esr_ec"
} else {
    "exit_reason"
};
/// The size of the recording per CPU: about a million exits.
const KILOBYTES: u32 = 64 << 10;
/// SVM's exit code for an access to an I/O port. The port's number is in bits 16 to 31 of the first information word
/// (APM volume 2, 15.10.2).
const IO: (u32, &str) = (0x7b, "io");

/// Starts to count, and to record after the program has made a mark by a write to this port.
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

/// Adds a trigger to the event.
fn trigger(text: &str) -> io::Result<()> {
    tracefs::write(&event("trigger"), text)
}

/// Returns the path of a file of tracefs, which the loader has mounted.
fn file(name: &str) -> PathBuf {
    Path::new(tracefs::PLACES[0]).join(name)
}

/// Returns the path of a file of the event.
fn event(name: &str) -> PathBuf {
    file(EVENT).join(name)
}

/// Returns the counts so far, most frequent code first.
pub fn read() -> io::Result<Vec<(u32, u64)>> {
    let text = fs::read_to_string(event("hist"))?;
    let lines = text.lines();
    let mut counts: Vec<_> = lines.filter_map(|line| count(line, CODE)).collect();
    counts.sort_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
    Ok(counts)
}

/// Returns the code and the count in a line like `{ exit_reason:        123 } hitcount:       2000` for its `field`.
fn count(line: &str, field: &str) -> Option<(u32, u64)> {
    let line = line.strip_prefix("{ ")?.strip_prefix(field)?;
    let line = line.strip_prefix(':')?;
    let (code, line) = line.split_once('}')?;
    let (_, count) = line.split_once("hitcount:")?;
    Some((code.trim().parse().ok()?, count.trim().parse().ok()?))
}

/// Returns the recorded exits between each two marks.
pub fn between_marks(port: u16) -> io::Result<Vec<NamedExits>> {
    tracefs::write(&file("tracing_on"), "0")?;
    if tracefs::lost(Path::new(tracefs::PLACES[0]))? > 0 {
        return Err(io::Error::other(
            "the exits between marks are not known: the kernel's buffer had no room for them",
        ));
    }
    parts(BufReader::new(File::open(file("trace"))?), port)
}

/// Splits a trace at the marks, and counts the exits between them.
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

/// Returns the reason and the first information word of a line like
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
