//! Finds the listed phrases in files.

use std::collections::HashSet;

use super::list::{self, List};
use super::prose::{Kind, Prose};

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) line: usize,
}

/// What was found in all files.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Refused phrases and wrong markers, one per line.
    pub(super) problems: Vec<String>,
    /// The places of each counted phrase.
    pub(super) counted: Vec<Vec<Place>>,
    /// The number of words of README.md and of each page docs/*.md.
    pub(super) pages: Vec<(String, usize)>,
}

impl Findings {
    /// Checks files, each given as path and text.
    pub(super) fn of(list: &List, files: &[(String, String)]) -> Self {
        let mut findings = Self {
            counted: vec![Vec::new(); list.counted.len()],
            ..Self::default()
        };
        for (path, text) in files {
            if let Some(kind) = Kind::of(path) {
                findings.add(list, path, &Prose::new(kind, text));
            }
            if is_page(path) {
                let words = text.split_whitespace().count();
                findings.pages.push((path.clone(), words));
            }
        }
        findings
    }

    fn add(&mut self, list: &List, path: &str, prose: &Prose) {
        for (phrase, places) in list.counted.iter().zip(&mut self.counted) {
            let offsets = list::words(&prose.text, &phrase.found);
            places.extend(offsets.into_iter().map(|at| Place {
                path: path.to_owned(),
                line: prose.line(at),
            }));
        }
        let mut used = HashSet::new();
        for phrase in &list.refused {
            for at in phrase.offsets(&prose.text) {
                let line = prose.line(at);
                let allowing = prose.markers.iter().position(|marker| {
                    let near = [line, line + 1].contains(&(marker.line + 1));
                    near && marker.phrase == phrase.found
                });
                match allowing {
                    Some(marker) => {
                        used.insert(marker);
                    }
                    None => self.problems.push(format!(
                        "{path}:{line}: \"{}\": write {}",
                        phrase.found, phrase.write
                    )),
                }
            }
        }
        for (index, marker) in prose.markers.iter().enumerate() {
            let wrong = match (marker.reason.is_empty(), used.contains(&index)) {
                (true, _) => "gives no reason",
                (false, false) => "allows nothing",
                (false, true) => continue,
            };
            let (line, phrase) = (marker.line, &marker.phrase);
            self.problems.push(format!(
                "{path}:{line}: the marker for \"{phrase}\" {wrong}"
            ));
        }
    }

    /// Returns the number of words of all pages.
    pub(super) fn words(&self) -> usize {
        self.pages.iter().map(|(_, words)| words).sum()
    }

    /// Returns all that fails, one or more lines each. `changed` returns the lines changed since the last update.
    pub(super) fn problems(
        &self,
        list: &List,
        changed: impl FnOnce() -> HashSet<Place>,
    ) -> Vec<String> {
        let mut problems = self.problems.clone();
        let risen = |(phrase, places): &(&list::Counted, &Vec<Place>)| places.len() > phrase.count;
        let counted = || list.counted.iter().zip(&self.counted);
        let changed = if counted().any(|pair| risen(&pair)) {
            changed()
        } else {
            HashSet::new()
        };
        for (phrase, places) in counted() {
            let (found, count, most) = (&phrase.found, places.len(), phrase.count);
            if count < most {
                problems.push(format!(
                    "the count of \"{found}\" is {count}, not {most}: \
                     write {count} into {}, or run `cargo xtask words --update`",
                    list::PATH
                ));
            } else if count > most {
                let mut new: Vec<&Place> = places
                    .iter()
                    .filter(|place| changed.contains(place))
                    .collect();
                let which = if new.is_empty() {
                    "all"
                } else {
                    "on changed lines"
                };
                if new.is_empty() {
                    new = places.iter().collect();
                }
                let new: String = new
                    .iter()
                    .map(|place| format!("\n  {}:{}", place.path, place.line))
                    .collect();
                problems.push(format!(
                    "the count of \"{found}\" is {count}, more than {most}: write {}; {which}:{new}",
                    phrase.write
                ));
            }
        }
        let (words, limit) = (self.words(), list.pages.limit);
        if words > limit {
            problems.push(format!(
                "README.md and docs/*.md have {words} words, more than {limit}"
            ));
        }
        problems
    }
}

/// Returns whether the words of this page are counted.
fn is_page(path: &str) -> bool {
    let page = path.strip_prefix("docs/").unwrap_or_default();
    path == "README.md" || page.ends_with(".md") && !page.contains('/')
}

#[cfg(test)]
#[path = "check_test.rs"]
mod tests;
