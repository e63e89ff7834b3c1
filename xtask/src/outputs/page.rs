//! Finds the commands of a page, and the output that the page has for each.

use std::ops::Range;

/// A command of a page, with the output that the page has for it.
#[derive(Debug)]
pub(super) struct Transcript {
    /// The line of the command, counted from 1.
    pub(super) line: usize,
    pub(super) command: String,
    /// What precedes each line of the block.
    pub(super) indent: String,
    /// Where the output is in the page, in bytes.
    pub(super) place: Range<usize>,
    /// The output's lines, without the indent.
    pub(super) output: Vec<String>,
}

/// Returns the commands after `$ `, but none after the last output of a block.
///
/// Text after `console` in the first line of a fenced block is put before each of the block's commands.
pub(super) fn transcripts(page: &str) -> Vec<Transcript> {
    let mut transcripts: Vec<Transcript> = Vec::new();
    let (mut at, mut first_of_block, mut prefix) = (0, 0, "");
    let mut lines = page.split_inclusive('\n').zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        at += line.len();
        let (indent, text) = line.split_at(line.len() - line.trim_start_matches(' ').len());
        if let Some(info) = line.strip_prefix("```") {
            prefix = info.trim().strip_prefix("console").unwrap_or_default();
        }
        let Some(text) = text.strip_prefix("$ ") else {
            continue;
        };
        let mut command = format!("{prefix} {}", text.trim_end())
            .trim_start()
            .to_owned();
        while command.ends_with(['\\', '&'])
            && let Some((line, _)) = lines.next()
        {
            at += line.len();
            command = format!("{command}\n{}", line.trim());
        }
        let mut place = at..at;
        let is_output = |line: &str| {
            let is_inside = line.trim().is_empty() || line.starts_with(indent);
            let text = line.trim_start();
            is_inside && !text.starts_with("$ ") && !text.starts_with("```")
        };
        while let Some((line, _)) = lines.next_if(|(line, _)| is_output(line)) {
            at += line.len();
            if !line.trim().is_empty() {
                place.end = at;
            }
        }
        let output = page[place.clone()].lines();
        let output = output.map(|line| line.get(indent.len()..).unwrap_or_default().to_owned());
        transcripts.push(Transcript {
            line: number,
            command,
            indent: indent.to_owned(),
            output: output.collect(),
            place,
        });
        let is_last = !lines
            .peek()
            .is_some_and(|(line, _)| line.trim_start().starts_with("$ "));
        if is_last {
            let has_output = |transcript: &Transcript| !transcript.output.is_empty();
            let printing = transcripts[first_of_block..].iter().rposition(has_output);
            transcripts.truncate(first_of_block + printing.map_or(0, |last| last + 1));
            first_of_block = transcripts.len();
        }
    }
    transcripts
}

#[cfg(test)]
#[path = "page_test.rs"]
mod tests;
