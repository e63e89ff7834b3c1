//! Lines of `trace_pipe`: which thread left the guest, and why.
//!
//! The kernel writes `COMMAND-THREAD [CPU] FLAGS SEQUENCE: EVENT: FIELDS` (Linux `kernel/trace/trace_output.c`), with
//! the command's name in 16 columns, of which at most 15 are used; the fields are those of `arch/x86/kvm/trace.h` and
//! `include/trace/events/kvm.h`. A program chooses its own name, so nothing is searched for in these columns.

/// The width of a command's name.
const COMMAND: usize = 16;
/// The maximum length of an exit reason's name.
const REASON: usize = 40;
/// How the text of a write to the port of marks begins.
const MARK: &str = "pio_write at 0x80 ";

/// A line in an unknown form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trace has a line that cannot be read")]
pub(crate) struct UnreadableLine;

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceLine<'a> {
    /// Something happened on a thread.
    Event(KvmEvent<'a>),
    /// The kernel had no room for events.
    Lost,
    /// A line that is not counted.
    Other,
}

/// Something that happened on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KvmEvent<'a> {
    /// The thread's ID.
    pub(crate) thread: u32,
    /// The event's position among all events.
    pub(crate) sequence: u64,
    /// What happened.
    pub(crate) what: KvmEventKind<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvmEventKind<'a> {
    /// The guest left the CPU, for this reason.
    Exit(&'a str),
    /// `KVM_RUN` returned to the VMM, for this reason.
    Userspace(&'a str),
    /// The guest wrote this value to the port of marks.
    Mark(u64),
    /// The guest accessed a port.
    Port(u64),
    /// The guest wrote to a device's registers, at this address.
    MmioWrite(u64),
    /// The guest read a device's registers, at this address.
    MmioRead(u64),
    /// The guest accessed a model-specific register.
    Msr(u64),
    /// An interrupt was sent as an MSI.
    Msi,
}

/// Parses a line without its line end.
pub(crate) fn parse(line: &[u8]) -> Result<TraceLine<'_>, UnreadableLine> {
    match line {
        // A heading, or the kernel's note that a CPU's buffer started. A name has at most 15 characters, so it does not
        // fill the first column.
        [] | [b'#', ..] => return Ok(TraceLine::Other),
        // "CPU:3 [LOST 12 EVENTS]"
        [b'C', ..] => return Ok(TraceLine::Lost),
        _ => {}
    }
    let rest = line.get(COMMAND..).ok_or(UnreadableLine)?;
    let rest = std::str::from_utf8(rest).map_err(|_| UnreadableLine)?;
    let rest = rest.strip_prefix('-').ok_or(UnreadableLine)?;
    let (thread, rest) = rest.split_once(' ').ok_or(UnreadableLine)?;
    let (_, rest) = rest.split_once("] ").ok_or(UnreadableLine)?;
    let (sequence, rest) = rest.split_once(": ").ok_or(UnreadableLine)?;
    let sequence = sequence
        .split_whitespace()
        .next_back()
        .ok_or(UnreadableLine)?;
    let (event, fields) = rest.split_once(": ").ok_or(UnreadableLine)?;
    let what = match event {
        "kvm_exit" => KvmEventKind::Exit(exit(fields)?),
        "kvm_userspace_exit" => KvmEventKind::Userspace(reason(fields)?),
        "kvm_pio" => match fields.strip_prefix(MARK) {
            Some(fields) => KvmEventKind::Mark(value(fields).ok_or(UnreadableLine)?),
            None => KvmEventKind::Port(number(fields, "at")?),
        },
        "kvm_mmio" if fields.starts_with("mmio write ") => {
            KvmEventKind::MmioWrite(number(fields, "gpa")?)
        }
        // If the VMM answers a read, `unsatisfied-read` precedes this line.
        "kvm_mmio" if fields.starts_with("mmio read ") => {
            KvmEventKind::MmioRead(number(fields, "gpa")?)
        }
        // A doorbell that KVM matched without decoding the instruction.
        "kvm_fast_mmio" => KvmEventKind::MmioWrite(number(fields, "gpa")?),
        "kvm_msr" => KvmEventKind::Msr(msr(fields).ok_or(UnreadableLine)?),
        "kvm_msi_set_irq" => KvmEventKind::Msi,
        _ => return Ok(TraceLine::Other),
    };
    Ok(TraceLine::Event(KvmEvent {
        thread: thread.parse().map_err(|_| UnreadableLine)?,
        sequence: sequence.parse().map_err(|_| UnreadableLine)?,
        what,
    }))
}

/// The reason of an exit. Intel's CPUs have one reason for both the guest's exceptions and the host's NMIs; `intr_info`
/// tells them apart (SDM volume 3, 25.9.2).
fn exit(fields: &str) -> Result<&str, UnreadableLine> {
    const VALID: u32 = 1 << 31;
    const TYPE: u32 = 7 << 8;
    const NMI: u32 = 2 << 8;
    let reason = reason(fields)?;
    let info = after(fields, "intr_info").and_then(hexadecimal);
    let is_nmi = |info: u64| {
        let info = u32::try_from(info).unwrap_or_default();
        info & VALID != 0 && info & TYPE == NMI
    };
    if reason == "EXCEPTION_NMI" && info.is_some_and(is_nmi) {
        return Ok("NMI");
    }
    Ok(reason)
}

/// The word after `reason`. It goes into reports, so it is checked.
fn reason(fields: &str) -> Result<&str, UnreadableLine> {
    let word = after(fields, "reason").ok_or(UnreadableLine)?;
    let is_plain = word
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain && word.len() <= REASON {
        Ok(word)
    } else {
        Err(UnreadableLine)
    }
}

fn value(fields: &str) -> Option<u64> {
    hexadecimal(after(fields, "val")?)
}

/// The number after `name`.
fn number(fields: &str, name: &str) -> Result<u64, UnreadableLine> {
    after(fields, name)
        .and_then(hexadecimal)
        .ok_or(UnreadableLine)
}

/// The register of `msr_read 10a = 0x1`, whose number has no prefix.
fn msr(fields: &str) -> Option<u64> {
    u64::from_str_radix(fields.split_whitespace().nth(1)?, 16).ok()
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// The word that follows `name`.
fn after<'f>(fields: &'f str, name: &str) -> Option<&'f str> {
    let mut words = fields.split_whitespace();
    words.find(|word| *word == name)?;
    words.next()
}

#[cfg(test)]
#[path = "line_test.rs"]
mod tests;
