//! Package sources other than the system's: with an added component like Debian's `non-free`, or the lab's own list.
//!
//! To add a component, the lab's apt reads copies of the system's sources, in which each source with `main` also has
//! the component: at the same address, with the same suite and key. apt skips a source that lacks the component.

use std::fs;

use super::Apt;
use crate::error::{LabError, cannot};

/// Where a system keeps its list of sources.
const LIST: &str = "/etc/apt/sources.list";
const PARTS: &str = "/etc/apt/sources.list.d";
/// The folder with the lab's copies of these lists.
const OWN_PARTS: &str = "sources.list.d";

impl Apt {
    /// Adds a component to the sources that are read from now on. [`update`](Self::update) fetches its indexes.
    pub fn add_component(&mut self, component: &str) -> Result<(), LabError> {
        let parts = self.configuration().with_file_name(OWN_PARTS);
        // A system may have its sources in either place.
        let text = fs::read_to_string(LIST).unwrap_or_default();
        self.read_only(&with_component(&text, component), None)?;
        fs::create_dir_all(&parts).map_err(cannot("make", &parts))?;
        for part in fs::read_dir(PARTS).into_iter().flatten().flatten() {
            if let Ok(text) = fs::read_to_string(part.path()) {
                let path = parts.join(part.file_name());
                fs::write(&path, with_component(&text, component))
                    .map_err(cannot("write", path))?;
            }
        }
        Ok(())
    }

    /// Replaces the system's sources with these, in the format of `sources.list`. `keyring` has the keys that sign
    /// them, if those are not the system's own.
    pub fn read_only(
        &mut self,
        sources: &str,
        keyring: Option<&'static str>,
    ) -> Result<(), LabError> {
        self.keyring = keyring;
        let configuration = self.configuration();
        let list = configuration.with_file_name("sources.list");
        let parts = configuration.with_file_name(OWN_PARTS);
        fs::write(&list, sources).map_err(cannot("write", &list))?;
        let own = fs::read_to_string(&configuration).map_err(cannot("read", &configuration))?;
        let places = format!(
            "Dir::Etc::SourceList \"{}\";\nDir::Etc::SourceParts \"{}\";\n",
            list.display(),
            parts.display()
        );
        fs::write(&configuration, own + &places).map_err(cannot("write", configuration))
    }
}

/// Adds the component after each `main` in a file of sources, in either of apt's formats (sources.list(5)).
fn with_component(text: &str, component: &str) -> String {
    let line = |line: &str| {
        let names = line.starts_with("deb ")
            || line
                .split_once(':')
                .is_some_and(|(name, _)| name.eq_ignore_ascii_case("components"));
        let has = |word: &str| line.split_whitespace().any(|other| other == word);
        // Text after a `#` is a comment, where a component would be ignored.
        let (line, comment) = line.split_at(line.find('#').unwrap_or(line.len()));
        if names && has("main") && !has(component) {
            format!("{} {component} {comment}\n", line.trim_end())
        } else {
            format!("{line}{comment}\n")
        }
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_main_have_the_component_too_in_both_forms() {
        let old = "deb [signed-by=/k] http://a/debian bookworm main # ours\n\
                   deb-src http://a/debian bookworm main\n# deb http://b c main\n";
        let new = "deb [signed-by=/k] http://a/debian bookworm main non-free # ours\n\
                   deb-src http://a/debian bookworm main\n# deb http://b c main\n";
        assert_eq!(with_component(old, "non-free"), new);
        let old = "Types: deb\nURIs: http://a/main\nSuites: main\nComponents: main contrib\n";
        let new = old.replace("main contrib", "main contrib non-free ");
        assert_eq!(with_component(old, "non-free"), new);
    }

    #[test]
    fn sources_that_have_it_or_have_no_main_stay() {
        for text in [
            "deb http://a b main non-free\n",
            "deb http://a b universe\n",
            "Components: non-free main\n",
            "Suites: main\n",
        ] {
            assert_eq!(with_component(text, "non-free"), text);
        }
    }
}
