//! The comparison as Markdown, to be pasted into an issue or a commit message.

use std::fmt::Write;

use super::{Comparison, Verdict};
use crate::markdown::escape;

/// Writes `comparison` as GitHub-flavoured Markdown.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("{}\n", escape(&comparison.headline()));
    if !comparison.differences.is_empty() {
        text.push('\n');
    }
    for difference in &comparison.differences {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "- {}", escape(&difference.to_string()));
    }
    for (group, rows) in comparison.tables() {
        let _ = writeln!(
            text,
            "\n| {} | old | new | new/old | 95 % CI | verdict |\n|:---|---:|---:|---:|:---:|:---|",
            group.name()
        );
        for row in rows {
            let interval = match &row.interval {
                Some([low, high]) => format!("{low} to {high}"),
                None => "-".to_owned(),
            };
            let verdict = match row.verdict {
                Verdict::Faster | Verdict::Slower => format!("**{}**", row.verdict.name()),
                Verdict::Same | Verdict::Inconclusive => row.verdict.name().to_owned(),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {interval} | {verdict} |",
                escape(&row.name),
                escape(&row.old),
                escape(&row.new),
                escape(&row.ratio),
            );
        }
    }
    let _ = writeln!(text, "\n**{}**", comparison.summary());
    for remark in comparison.remarks() {
        let _ = writeln!(text, "\n{}", escape(&remark));
    }
    text
}

#[cfg(test)]
#[path = "markdown_test.rs"]
mod tests;
