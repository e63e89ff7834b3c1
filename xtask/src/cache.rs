//! A user's cache of what tasks download: `$XDG_CACHE_HOME/vmbell/ci`, or `~/.cache/vmbell/ci`, where `.ci/run` also
//! keeps its tools. An entry's name contains everything that it depends on, so an entry never changes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use vmbell_lab::cache::Cache;

/// Returns the path of `name` in the cache. If it is missing, `make` makes a file or folder at the path it gets.
pub(crate) fn entry(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    // This cache is next to the lab's cache.
    let lab = Cache::user().context("there is no folder for what is downloaded")?;
    entry_in(&lab.root().with_file_name("ci"), name, make)
}

fn entry_in(folder: &Path, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(path);
    }
    let keep = || format!("cannot keep {}", path.display());
    fs::create_dir_all(folder).with_context(keep)?;
    // The entry is made under another name until it is complete.
    let drafts = tempfile::tempdir_in(folder).with_context(keep)?;
    let draft = drafts.path().join("draft");
    make(&draft)?;
    match fs::rename(&draft, &path) {
        // Another process has made the entry in the meantime.
        Err(_) if path.exists() => {}
        result => result.with_context(keep)?,
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = |draft: &Path| Ok(fs::write(draft, "made")?);
        let path = entry_in(folder.path(), "a-1", file).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"made");
        let again = entry_in(folder.path(), "a-1", |_| anyhow::bail!("made twice"));
        assert_eq!(again.unwrap(), path);
    }

    #[test]
    fn a_failure_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let half = |draft: &Path| {
            fs::create_dir(draft)?;
            anyhow::bail!("no answer")
        };
        let error = entry_in(folder.path(), "a-1", half).unwrap_err();
        assert_eq!(error.to_string(), "no answer");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn of_two_makers_the_first_one_has_made_it() {
        let folder = tempfile::tempdir().unwrap();
        let make = |what: &'static str| {
            move |draft: &Path| {
                fs::create_dir(draft)?;
                Ok(fs::write(draft.join("file"), what)?)
            }
        };
        let path = entry_in(folder.path(), "a-1", |draft| {
            entry_in(folder.path(), "a-1", make("first"))?;
            make("second")(draft)
        });
        assert_eq!(fs::read(path.unwrap().join("file")).unwrap(), b"first");
    }
}
