//! What changed since the last commit that this branch shares with the main one, from git, and the packages that have it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The main branch, by its usual names: of a fork, of a clone, of a repository without a remote.
const MAIN: [&str; 3] = ["upstream/main", "origin/main", "main"];
/// Files and folders that every package is built with.
const OF_ALL: [&str; 4] = [".cargo", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// The files that differ from the base, as paths from the repository's root.
#[derive(Debug)]
pub(super) struct Changes {
    root: PathBuf,
    base: String,
    files: BTreeSet<PathBuf>,
}

impl Changes {
    /// Asks git: what is committed on this branch, what is not, and files that git does not know.
    pub(super) fn find(root: &Path) -> Result<Self> {
        let main = MAIN.into_iter().find(|name| {
            let name = format!("{name}^{{commit}}");
            git(root, &["rev-parse", "--verify", "--quiet", &name]).is_ok()
        });
        let Some(main) = main else {
            bail!(
                "git has no branch to compare with, of {}: use --all, or fetch one",
                MAIN.join(", ")
            );
        };
        let base = git(root, &["merge-base", "HEAD", main])
            .with_context(|| format!("HEAD shares no commit with {main}: is the clone shallow?"))?;
        let base = base.trim();
        let known = git(root, &["diff", "--name-only", "--no-renames", "-z", base])?;
        let unknown = git(root, &["ls-files", "--others", "--exclude-standard", "-z"])?;
        let names = known.split('\0').chain(unknown.split('\0'));
        let files = names.filter(|name| !name.is_empty()).map(PathBuf::from);
        Ok(Self {
            root: root.to_owned(),
            base: format!("{main} ({})", base.get(..12).unwrap_or(base)),
            files: files.collect(),
        })
    }

    /// Whether a package is built from a file that changed.
    pub(super) fn touch(&self, package: &Path) -> bool {
        let Ok(folder) = package.strip_prefix(&self.root) else {
            return false;
        };
        let of_all = OF_ALL.map(Path::new);
        self.files
            .iter()
            .any(|file| file.starts_with(folder) || of_all.iter().any(|all| file.starts_with(all)))
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.files.len();
        write!(f, "{count} files differ from {}", self.base)
    }
}

fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    ensure!(
        output.status.success(),
        "git {} failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).context("a file's name is not UTF-8")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A repository whose branch `main` has `crates/a` and `crates/b`, with the branch `topic` checked out.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        git(root, &["init", "--quiet", "--initial-branch=main"]).unwrap();
        write(root, "crates/a/src/lib.rs", "");
        write(root, "crates/b/src/lib.rs", "");
        write(root, "Cargo.toml", "");
        commit(root);
        git(root, &["switch", "--quiet", "--create", "topic"]).unwrap();
        folder
    }

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn commit(root: &Path) {
        git(root, &["add", "--all"]).unwrap();
        let user = ["-c", "user.name=t", "-c", "user.email=t@t"];
        let commit = ["commit", "--quiet", "--no-gpg-sign", "--message=change"];
        git(root, &[&user[..], &commit].concat()).unwrap();
    }

    /// Of the two packages, those that changed.
    fn touched(root: &Path) -> Vec<&'static str> {
        let changes = Changes::find(root).unwrap();
        let touched = |name: &&str| changes.touch(&root.join("crates").join(name));
        ["a", "b"].into_iter().filter(touched).collect()
    }

    #[test]
    fn nothing_is_touched_on_a_fresh_branch() {
        assert!(touched(repository().path()).is_empty());
    }

    #[test]
    fn committed_changed_and_unknown_files_touch_their_packages() {
        let repository = repository();
        let root = repository.path();
        write(root, "crates/a/src/lib.rs", "// committed");
        commit(root);
        assert_eq!(touched(root), ["a"]);
        write(root, "crates/b/src/new.rs", "// unknown to git");
        assert_eq!(touched(root), ["a", "b"]);
        fs::remove_file(root.join("crates/b/src/new.rs")).unwrap();
        fs::remove_file(root.join("crates/b/src/lib.rs")).unwrap();
        assert_eq!(touched(root), ["a", "b"]);
    }

    #[test]
    fn what_main_got_meanwhile_is_no_change() {
        let repository = repository();
        let root = repository.path();
        git(root, &["switch", "--quiet", "main"]).unwrap();
        write(root, "crates/b/src/lib.rs", "// of main");
        commit(root);
        git(root, &["switch", "--quiet", "topic"]).unwrap();
        assert!(touched(root).is_empty());
    }

    #[test]
    fn the_workspaces_manifest_touches_every_package() {
        let repository = repository();
        let root = repository.path();
        write(root, "Cargo.toml", "[workspace]");
        assert_eq!(touched(root), ["a", "b"]);
    }

    #[test]
    fn a_package_is_not_touched_by_a_neighbour_of_a_longer_name() {
        let repository = repository();
        write(repository.path(), "crates/ab/src/lib.rs", "");
        assert!(touched(repository.path()).is_empty());
    }

    #[test]
    fn a_repository_without_a_main_branch_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        git(
            folder.path(),
            &["init", "--quiet", "--initial-branch=other"],
        )
        .unwrap();
        let error = Changes::find(folder.path()).unwrap_err().to_string();
        assert!(
            error.starts_with("git has no branch to compare with"),
            "{error}"
        );
    }
}
