//! `xtask/words.toml`: the refused and counted phrases, and the number of words of all pages.

use anyhow::{Context, Result};
use serde::Deserialize;
use toml_edit::{DocumentMut, value};

/// The path of the list, relative to the root.
pub(super) const PATH: &str = "xtask/words.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    pub(super) pages: Limit,
    pub(super) refused: Vec<Phrase>,
    pub(super) counted: Vec<Counted>,
}

/// The maximum number of words that README.md and docs/*.md may have together.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limit {
    pub(super) limit: usize,
    /// The limit is never lowered below this.
    pub(super) goal: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phrase {
    /// The words of the phrase in lower case. A `#` is any number.
    pub(super) found: String,
    /// Longer phrases that contain this one and are good English.
    #[serde(default)]
    except: Vec<String>,
    pub(super) write: String,
}

/// A phrase that is good English in some sentences, and the number of places that have it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counted {
    pub(super) found: String,
    pub(super) write: String,
    pub(super) count: usize,
}

impl List {
    pub(super) fn parse(text: &str) -> Result<Self> {
        toml_edit::de::from_str(text).with_context(|| format!("cannot read {PATH}"))
    }
}

impl Phrase {
    /// Returns where the phrase begins in `text`, which must be in lower case.
    pub(super) fn offsets(&self, text: &str) -> Vec<usize> {
        without(words(text, &self.found), text, &self.found, &self.except)
    }
}

/// Returns where `phrase` occurs in `text` as whole words.
pub(super) fn words(text: &str, phrase: &str) -> Vec<usize> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let first = phrase.split('#').next().unwrap_or(phrase);
    let found = text.match_indices(first).filter_map(|(at, _)| {
        let end = at + length(&text[at..], phrase)?;
        Some((at, end))
    });
    let whole = found
        .filter(|&(at, end)| !text[..at].ends_with(is_word) && !text[end..].starts_with(is_word));
    whole.map(|(at, _)| at).collect()
}

/// Returns the length of `phrase` at the start of `text`; `None` if `text` does not start with it.
fn length(text: &str, phrase: &str) -> Option<usize> {
    let mut rest = text;
    for (index, piece) in phrase.split('#').enumerate() {
        if index > 0 {
            let after = rest.trim_start_matches(|character: char| character.is_ascii_digit());
            if after.len() == rest.len() {
                return None;
            }
            rest = after;
        }
        rest = rest.strip_prefix(piece)?;
    }
    Some(text.len() - rest.len())
}

/// Returns the offsets of `phrase` in `text` that are not inside one of the longer phrases of `except`.
fn without(offsets: Vec<usize>, text: &str, phrase: &str, except: &[String]) -> Vec<usize> {
    let is_good = |at: usize| {
        except.iter().any(|longer| {
            longer.match_indices(phrase).any(|(before, _)| {
                let begin = at.checked_sub(before);
                begin
                    .and_then(|begin| text.get(begin..))
                    .is_some_and(|text| text.starts_with(longer))
            })
        })
    };
    offsets.into_iter().filter(|&at| !is_good(at)).collect()
}

/// Returns the list's text with lower numbers. No number is raised.
pub(super) fn lowered(text: &str, counts: &[usize], words: usize) -> Result<String> {
    let list = List::parse(text)?;
    let mut file: DocumentMut = text.parse()?;
    // Rounded up, because otherwise each changed sentence would change the limit.
    let limit = words.next_multiple_of(100).max(list.pages.goal);
    if limit < list.pages.limit {
        replace(&mut file["pages"]["limit"], limit)?;
    }
    let counted = file["counted"].as_array_of_tables_mut();
    let counted = counted.context("`counted` has no tables")?;
    for ((table, phrase), &count) in counted.iter_mut().zip(&list.counted).zip(counts) {
        if count < phrase.count {
            replace(&mut table["count"], count)?;
        }
    }
    Ok(file.to_string())
}

/// Replaces the number of an item, and keeps the comment after it.
fn replace(item: &mut toml_edit::Item, number: usize) -> Result<()> {
    let old = item.as_value().context("a number is missing")?;
    let decor = old.decor().clone();
    *item = value(i64::try_from(number)?);
    if let Some(new) = item.as_value_mut() {
        *new.decor_mut() = decor;
    }
    Ok(())
}

#[cfg(test)]
#[path = "list_test.rs"]
mod tests;
