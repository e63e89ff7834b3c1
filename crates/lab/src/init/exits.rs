//! Counts the exits of this Linux' guests by their codes, in the kernel: a histogram of the tracepoint `kvm:kvm_exit`.
//!
//! The exits of a guest's guests are among them, because every exit of theirs first comes here.

use std::fs;
use std::io;

const EVENT: &str = "/sys/kernel/tracing/events/kvm/kvm_exit";
const KEYS: &str = "hist:keys=exit_reason";

/// Begins to count.
pub fn begin() -> io::Result<()> {
    fs::write(format!("{EVENT}/trigger"), KEYS)
}

/// The counts so far, the most frequent code first.
pub fn read() -> io::Result<Vec<(u32, u64)>> {
    let text = fs::read_to_string(format!("{EVENT}/hist"))?;
    let mut counts: Vec<_> = text.lines().filter_map(count).collect();
    counts.sort_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
    Ok(counts)
}

/// The code and the count of a line such as `{ exit_reason:        123 } hitcount:       2000`.
fn count(line: &str) -> Option<(u32, u64)> {
    let (_, line) = line.split_once("exit_reason:")?;
    let (code, line) = line.split_once('}')?;
    let (_, count) = line.split_once("hitcount:")?;
    Some((code.trim().parse().ok()?, count.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_histogram_is_a_code_and_its_count() {
        let line = "{ exit_reason:        123 } hitcount:       2000";
        assert_eq!(count(line), Some((123, 2000)));
        assert_eq!(
            count("# trigger info: hist:keys=exit_reason:vals=hitcount"),
            None
        );
        assert_eq!(count("    Hits: 12"), None);
    }
}
