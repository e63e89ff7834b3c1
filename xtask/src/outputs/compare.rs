//! Aligns the output in a page with what the command prints.

use super::page::Transcript;

/// A line of the page or of what is printed, in their common order.
#[derive(Debug)]
enum Step<'a> {
    /// The page's line, and the printed one.
    Same(&'a str, &'a str),
    /// The line `...` of the page.
    Elision(&'a str),
    /// A printed line that the page leaves out.
    Elided(&'a str),
    /// A line that is only in the page, and its number.
    Gone(usize, &'a str),
    /// A line that is only printed, and the number of the page's line that follows.
    New(usize, &'a str),
}

impl Step<'_> {
    fn differs(&self) -> bool {
        matches!(self, Self::Gone(..) | Self::New(..))
    }
}

/// The output of a command, aligned with the output in the page.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    transcript: &'a Transcript,
    steps: Vec<Step<'a>>,
}

impl<'a> Comparison<'a> {
    /// Aligns the lines so that as few as possible differ.
    pub(super) fn new(transcript: &'a Transcript, printed: &'a str) -> Self {
        let page = &transcript.output;
        // A page may leave out what the lab itself says.
        let is_lab = |line: &str| line.starts_with("lab: ");
        let has_lab = page.iter().any(|line| is_lab(line));
        let printed = printed.trim_end().lines();
        let printed: Vec<&str> = printed.filter(|line| has_lab || !is_lab(line)).collect();
        let (end, printed_end) = (page.len(), printed.len());
        let exact = transcript.command.contains("--deterministic");
        let is_elision = |i: usize| page.get(i).is_some_and(|line| line.trim() == "...");
        let same = |i: usize, j: usize| {
            i < end && j < printed_end && !is_elision(i) && is_same(&page[i], printed[j], exact)
        };
        // For each pair of lines: how many of the lines from there to the two ends differ.
        let mut differ = vec![vec![usize::MAX; printed_end + 2]; end + 2];
        differ[end][printed_end] = 0;
        for i in (0..=end).rev() {
            for j in (0..=printed_end).rev() {
                let one = usize::from(!is_elision(i));
                let mut least = differ[i][j];
                for (i, j) in [(i + 1, j), (i, j + 1)] {
                    least = least.min(differ[i][j].saturating_add(one));
                }
                if same(i, j) {
                    least = least.min(differ[i + 1][j + 1]);
                }
                differ[i][j] = least;
            }
        }
        let first = transcript.line + transcript.command.lines().count();
        let (mut i, mut j, mut steps) = (0, 0, Vec::new());
        while (i, j) != (end, printed_end) {
            if same(i, j) && differ[i][j] == differ[i + 1][j + 1] {
                steps.push(Step::Same(&page[i], printed[j]));
                (i, j) = (i + 1, j + 1);
            } else if is_elision(i) {
                if differ[i][j] == differ[i + 1][j] {
                    steps.push(Step::Elision(&page[i]));
                    i += 1;
                } else {
                    steps.push(Step::Elided(printed[j]));
                    j += 1;
                }
            } else if differ[i][j] == differ[i + 1][j].saturating_add(1) {
                steps.push(Step::Gone(first + i, &page[i]));
                i += 1;
            } else {
                steps.push(Step::New(first + i, printed[j]));
                j += 1;
            }
        }
        Self { transcript, steps }
    }

    /// Returns the lines that differ.
    pub(super) fn diff(&self, page: &str) -> Vec<String> {
        let lines = self.steps.iter().filter_map(|step| match step {
            Step::Same(..) | Step::Elision(_) | Step::Elided(_) => None,
            Step::Gone(number, line) => Some(format!("{page}:{number}: -{line}")),
            Step::New(number, line) => Some(format!("{page}:{number}: +{line}")),
        });
        lines.collect()
    }

    /// Returns the output for the page: with the printed numbers, and with all printed lines if any line differs.
    pub(super) fn updated(&self) -> String {
        let differs = self.steps.iter().any(Step::differs);
        let lines = self.steps.iter().filter_map(|step| match step {
            Step::Elision(page) if !differs => Some(*page),
            Step::Elided(line) if differs => Some(*line),
            Step::Same(page, _) if page.contains("...") => Some(*page),
            Step::Same(_, line) | Step::New(_, line) => Some(*line),
            Step::Gone(..) | Step::Elision(_) | Step::Elided(_) => None,
        });
        let indent = &self.transcript.indent;
        let lines = lines.map(|line| format!("{indent}{line}").trim_end().to_owned() + "\n");
        lines.collect()
    }
}

/// Whether a line of a page matches a printed line. If `exact`, two numbers may differ by at most a fifth of the larger
/// one, unless both are below 100.
fn is_same(page: &str, printed: &str, exact: bool) -> bool {
    let (page, numbers) = normal(page);
    let (printed, found) = normal(printed);
    if let Some((start, rest)) = page.split_once("...") {
        let (middle, end) = rest.rsplit_once("...").unwrap_or(("", rest));
        let inner = printed.strip_prefix(start);
        let inner = inner.and_then(|inner| inner.strip_suffix(end));
        return inner.is_some_and(|inner| {
            let mut parts = middle.split("...");
            parts
                .try_fold(inner, |inner, part| Some(inner.split_once(part)?.1))
                .is_some()
        });
    }
    let both = |(a, b): (&Option<u64>, &Option<u64>)| Some(((*a)?, (*b)?));
    let is_near = |(a, b): (u64, u64)| a.abs_diff(b) * 5 <= a.max(b) || a.max(b) < 100;
    page == printed && (!exact || numbers.iter().zip(&found).filter_map(both).all(is_near))
}

/// Returns a line with single spaces, and `#` for each number except zero; and for each number without a unit its value
/// without a fraction, or `None` if it is not compared.
fn normal(line: &str) -> (String, Vec<Option<u64>>) {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut text, mut numbers, mut rest) = (String::new(), Vec::new(), line.as_str());
    while let Some(character) = rest.chars().next() {
        // `<0.01` is compared as 0, because another run may have no such event at all.
        if let Some(after) = rest.strip_prefix("<0.01") {
            text.push('0');
            numbers.push(Some(0));
            rest = after;
            continue;
        }
        let is_in_word = text.ends_with(|last: char| last.is_alphanumeric() || last == '_');
        if !character.is_ascii_digit() || is_in_word {
            text.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        }
        let (number, after) = rest.split_at(number_length(rest));
        let unit = ["ns", "µs", "us", "ms", "s"].into_iter().find_map(|unit| {
            let after = after.trim_start().strip_prefix(unit)?;
            (!after.starts_with(char::is_alphanumeric)).then_some(after)
        });
        if let Some(after) = unit {
            text.push_str("# s");
            rest = after;
        } else {
            text.push_str(if number == "0" { "0" } else { "#" });
            let whole = number.split('.').next().unwrap_or_default();
            let value = whole.replace(',', "").parse().ok();
            // A ratio to a few instructions varies.
            numbers.push(value.filter(|_| !after.starts_with('x')));
            rest = after;
        }
    }
    (text, numbers)
}

/// Returns the length of the number that the text begins with: `12`, `1,000`, `6.1.4` or `2.5e-6`.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = 0;
    loop {
        at += match bytes.get(at) {
            Some(byte) if byte.is_ascii_digit() => 1,
            Some(b'.' | b',' | b'e') if is_digit(at + 1) => 2,
            Some(b'e') if matches!(bytes.get(at + 1), Some(b'+' | b'-')) && is_digit(at + 2) => 3,
            _ => return at,
        };
    }
}

#[cfg(test)]
#[path = "compare_test.rs"]
mod tests;
