use std::fs::{self, File};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;
use crate::error::{LabError, LabFailure};
use crate::read_only::read_only;

/// Whatever takes this long has hung.
const HANG: Duration = Duration::from_secs(120);

fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::at(folder.path().join("lab"));
    (folder, cache)
}

fn make(cache: &Cache, content: &str) -> CacheEntry {
    let lock = cache.lock_prepare(|| {}).unwrap();
    let draft = cache.draft(&lock, "linux-hash").unwrap();
    fs::write(draft.path("vmlinux"), content).unwrap();
    draft.commit("Linux 6".into(), Vec::new()).unwrap()
}

fn open(cache: &Cache) -> Result<Option<CacheEntry>, LabError> {
    CacheEntry::open(cache.folder("linux-hash"))
}

#[test]
fn an_entry_is_there_when_it_is_committed_and_not_before() {
    let (_folder, cache) = cache();
    assert!(open(&cache).unwrap().is_none());
    let lock = cache.lock_prepare(|| {}).unwrap();
    let draft = cache.draft(&lock, "linux-hash").unwrap();
    fs::write(draft.path("vmlinux"), "k").unwrap();
    assert!(open(&cache).unwrap().is_none());
    draft.commit("Linux 6".into(), Vec::new()).unwrap();
    assert_eq!(
        fs::read(open(&cache).unwrap().unwrap().path("vmlinux")).unwrap(),
        b"k"
    );
}

#[test]
fn an_abandoned_draft_leaves_nothing_and_a_killed_ones_remains_are_swept() {
    let (_folder, cache) = cache();
    let lock = cache.lock_prepare(|| {}).unwrap();
    drop(cache.draft(&lock, "linux-hash").unwrap());
    drop(lock);
    fs::create_dir(cache.root().join("draft-killed")).unwrap();
    let _lock = cache.lock_prepare(|| {}).unwrap();
    let names: Vec<_> = fs::read_dir(cache.root())
        .unwrap()
        .map(|item| item.unwrap().file_name())
        .collect();
    assert_eq!(names, ["prepare.lock"]);
}

#[test]
fn damage_shows_and_making_anew_mends_it() {
    let (_folder, cache) = cache();
    let path = make(&cache, "whole").path("vmlinux");
    type Spoil = fn(&std::path::Path);
    let cases: [(Spoil, &str); 3] = [
        (
            |path| fs::write(path, "who").unwrap(),
            "vmlinux has another size",
        ),
        (
            |path| fs::write(path, "while").unwrap(),
            "vmlinux has another SHA-256",
        ),
        (|path| fs::remove_file(path).unwrap(), "vmlinux is missing"),
    ];
    for (spoil, message) in cases {
        spoil(&path);
        let error = open(&cache).unwrap_err();
        assert_eq!(error.kind(), LabFailure::Damaged);
        assert!(error.to_string().ends_with(message), "{error}");
        make(&cache, "whole");
        assert!(open(&cache).unwrap().is_some());
    }
    fs::write(cache.folder("linux-hash").join("manifest.json"), "{").unwrap();
    assert_eq!(open(&cache).unwrap_err().kind(), LabFailure::Damaged);
    fs::remove_file(cache.folder("linux-hash").join("manifest.json")).unwrap();
    assert_eq!(open(&cache).unwrap_err().kind(), LabFailure::Damaged);
}

#[test]
fn a_file_that_was_only_touched_is_still_good() {
    let (_folder, cache) = cache();
    let path = make(&cache, "whole").path("vmlinux");
    fs::write(path, "whole").unwrap();
    open(&cache).unwrap().unwrap().verify().unwrap();
}

#[test]
fn the_second_preparation_waits_for_the_first() {
    let (_folder, cache) = cache();
    let first = cache.lock_prepare(|| {}).unwrap();
    let (told, waiting) = channel();
    let second = {
        let cache = cache.clone();
        std::thread::spawn(move || cache.lock_prepare(|| told.send(()).unwrap()).map(drop))
    };
    waiting.recv_timeout(HANG).unwrap();
    assert!(!second.is_finished());
    drop(first);
    second.join().unwrap().unwrap();
}

#[test]
fn clean_leaves_a_cache_in_use_alone() {
    let (_folder, cache) = cache();
    assert_eq!(cache.clean().unwrap(), DiskSize(0));
    make(&cache, "whole");
    let used = cache.lock_use().unwrap();
    let also = cache.lock_use().unwrap();
    let error = cache.clean().unwrap_err().to_string();
    assert!(error.ends_with("in use by another `vmbell lab`"), "{error}");
    drop((used, also));
    assert!(cache.clean().unwrap() > DiskSize(5));
    assert!(open(&cache).unwrap().is_none());
    assert!(cache.entries().unwrap().is_empty());
}

#[test]
fn what_a_killed_preparation_left_is_removed_when_nobody_prepares() {
    let (_folder, cache) = cache();
    let names = || {
        let list = fs::read_dir(cache.root()).unwrap();
        let mut names: Vec<_> = list.map(|item| item.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let lock = cache.lock_prepare(|| {}).unwrap();
    fs::create_dir(cache.root().join("draft-killed")).unwrap();
    cache.downloads(&lock).unwrap();
    cache.tidy().unwrap();
    assert_eq!(names(), ["downloads", "draft-killed", "prepare.lock"]);
    drop(lock);
    cache.tidy().unwrap();
    assert_eq!(names(), ["prepare.lock"]);
}

#[test]
fn a_cache_that_cannot_be_written_is_used_as_it_is() {
    let (_folder, cache) = cache();
    make(&cache, "whole");
    fs::create_dir(cache.root().join("draft-killed")).unwrap();
    // The lock file does not exist until a run has taken the lock.
    for _ in 0..2 {
        read_only(cache.root(), || {
            let used = cache.lock_use().unwrap();
            assert!(open(&cache).unwrap().is_some());
            cache.tidy().unwrap();
            drop(used);
            let error = cache.lock_prepare(|| {}).unwrap_err();
            assert!(error.to_string().contains("cannot open"), "{error}");
        });
        drop(cache.lock_use().unwrap());
    }
    // A process that may write does not remove entries in use.
    read_only(cache.root(), || {
        let _used = cache.lock_use().unwrap();
        let other = File::open(cache.root().join("use.lock")).unwrap();
        assert!(other.try_lock().is_err());
    });
}

#[test]
fn the_users_caches_are_in_an_absolute_folder() {
    let at = |xdg: Option<&str>, home: Option<&str>| {
        let variable = |name: &str| match name {
            "XDG_CACHE_HOME" => xdg.map(Into::into),
            "HOME" => home.map(Into::into),
            other => panic!("{other} is read"),
        };
        root::caches(variable).map(|path| path.display().to_string())
    };
    assert_eq!(at(Some("/x"), Some("/home/a")).unwrap(), "/x");
    for relative in [None, Some(""), Some("x"), Some("./x"), Some("~/x")] {
        assert_eq!(at(relative, Some("/home/a")).unwrap(), "/home/a/.cache");
        assert_eq!(at(None, relative), None, "{relative:?}");
    }
}
