//! The console of L1's kernel: its last lines, and whether the kernel panicked.

use loader::window::LAST_WORDS;

/// At least this many of the last bytes are kept, because a console may print for hours.
const KEPT: usize = 64 << 10;
/// The maximum number of lines that an error message shows.
const SHOWN_LINES: usize = 25;
/// The maximum number of lines of an oops that an error message shows, from its first line to the panic that follows
/// it.
const OOPS_LINES: usize = 60;
const AFTER_PANIC: usize = 12;
const PANIC: &str = "Kernel panic - not syncing";
/// What the first line of an oops contains.
const OOPS: [&str; 4] = [
    "BUG: ",
    "kernel BUG at ",
    "Oops: ",
    "general protection fault",
];

/// The end of a console's output.
#[derive(Clone, Debug, Default)]
pub struct ConsoleTail {
    text: Vec<u8>,
    panicked: bool,
}

impl ConsoleTail {
    /// Appends console output. Returns whether this output is the first to show that the kernel panicked.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let before = self.panicked;
        let seam = self.text.len().saturating_sub(32);
        self.text.extend_from_slice(bytes);
        // Searched here and not at the end, because a long trace may push the panic out.
        self.panicked |= find(&self.text[seam..], PANIC.as_bytes());
        if self.text.len() > 2 * KEPT {
            self.text.drain(..self.text.len() - KEPT);
        }
        self.panicked && !before
    }

    /// Whether the kernel has printed that it panicked.
    pub fn panicked(&self) -> bool {
        self.panicked
    }

    /// Returns why the loader shut the machine down, if it did.
    pub fn loader_failed(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.text);
        let (_, reason) = text.rsplit_once(LAST_WORDS)?;
        Some(reason.lines().next()?.trim().to_owned())
    }

    /// Returns the last lines, or an oops and the panic after it, without carriage returns and control sequences.
    pub fn tail(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.text)
            .chars()
            .filter(|c| *c == '\n' || *c == '\t' || !c.is_control())
            .collect();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        // The lines before a panic are more useful than the trace after it.
        let panic = lines.iter().position(|line| line.contains(PANIC));
        let oops = panic.and_then(|panic| first_of_oops(&lines[..panic]));
        let shown = match (oops, panic) {
            (Some(oops), Some(panic)) => &lines[oops..=panic],
            _ => {
                let end = panic.map_or(lines.len(), |line| (line + AFTER_PANIC).min(lines.len()));
                &lines[end.saturating_sub(SHOWN_LINES)..end]
            }
        };
        match shown {
            [] => "  (nothing)".to_owned(),
            shown => shown.iter().map(|line| format!("  | {line}\n")).collect(),
        }
    }
}

/// Returns the index of the first line of an oops, if the last lines contain an oops.
fn first_of_oops(lines: &[&str]) -> Option<usize> {
    let from = lines.len().saturating_sub(OOPS_LINES);
    let is_first = |line: &&str| OOPS.iter().any(|mark| line.contains(mark));
    Some(from + lines[from..].iter().position(is_first)?)
}

fn find(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_seen_across_pieces_and_after_a_long_trace() {
        let mut console = ConsoleTail::default();
        assert!(!console.push(b"[    1.0] Kernel panic - not "));
        assert!(!console.panicked());
        assert!(console.push(b"syncing: Attempted to kill init!\r\n"));
        for _ in 0..1000 {
            assert!(!console.push(&[b'x'; 1000]));
        }
        assert!(console.panicked());
        assert!(console.text.len() <= 2 * KEPT + 1000);
    }

    #[test]
    fn an_oops_is_shown_from_its_first_line_to_the_panic() {
        let mut console = ConsoleTail::default();
        for _ in 0..10 {
            console.push(b"[ 1.0] quiet\r\n");
        }
        console.push(b"[ 2.0] BUG: unable to handle page fault for address: 0000001300007ed8\r\n");
        for _ in 0..40 {
            console.push(b"[ 2.0] a register\r\n");
        }
        console.push(b"[ 2.0] Kernel panic - not syncing: Fatal exception\r\n[ 2.0] Kernel Offset: disabled\r\n");
        let tail = console.tail();
        assert!(tail.starts_with("  | [ 2.0] BUG: unable"), "{tail}");
        assert!(tail.ends_with("Fatal exception\n"), "{tail}");
        assert_eq!(tail.lines().count(), 42);
    }

    #[test]
    fn the_loaders_last_words_are_its_reason() {
        let mut console = ConsoleTail::default();
        assert_eq!(console.loader_failed(), None);
        console.push(b"lab: loader: out of memory\r\n[ 1.0] Kernel panic - not syncing\r\n");
        assert_eq!(console.loader_failed().as_deref(), Some("out of memory"));
    }

    #[test]
    fn the_tail_is_the_last_lines_in_plain_text() {
        let mut console = ConsoleTail::default();
        assert_eq!(console.tail(), "  (nothing)");
        for line in 0..100 {
            console.push(format!("line {line}\r\n").as_bytes());
        }
        console.push(b"\x1b[2Jlast");
        let tail = console.tail();
        assert_eq!(tail.lines().count(), SHOWN_LINES);
        assert!(tail.ends_with("  | [2Jlast\n"), "{tail}");
        assert!(!tail.contains('\r'));
    }
}
