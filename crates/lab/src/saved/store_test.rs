use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::*;
use crate::cache::{Cache, DiskSize};
use crate::error::{LabError, LabFailure, cannot, failed};
use crate::read_only::read_only;

/// Whatever takes this long has hung.
const HANG: Duration = Duration::from_secs(120);
const NO_LIMIT: DiskSize = DiskSize(u64::MAX);
const RAM: u64 = 4 << 20;

pub(super) fn store(limit: DiskSize) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path().join("states"), limit);
    (folder, store)
}

pub(super) fn key(name: &str) -> StateKey {
    StateKey::new(format!("machine {name}")).part("kernel", name)
}

/// Returns the content of 8 KiB of a machine's memory, and of `state`.
fn content(name: &str) -> Vec<u8> {
    let bytes = name.bytes().cycle().zip((0..=250_u8).cycle());
    bytes.map(|(one, other)| one ^ other).take(8192).collect()
}

/// Where the memory has content. The rest is holes.
const USED: [u64; 3] = [0, 1 << 20, RAM - 8192];

/// Writes the files of a state.
pub(super) fn fill(draft: &StateDraft, name: &str) -> Result<(), LabError> {
    let ram = File::create(draft.ram()).map_err(cannot("make", draft.ram()))?;
    let content = content(name);
    let written = USED
        .iter()
        .try_for_each(|at| ram.write_all_at(&content, *at))
        .and_then(|()| fs::write(draft.state(), &content));
    written.map_err(cannot("write", draft.ram()))?;
    Ok(())
}

pub(super) fn make(store: &Store, name: &str) -> Saved {
    store
        .make(&key(name), DiskSize(1), || {}, |draft| fill(draft, name))
        .unwrap()
}

pub(super) fn open(store: &Store, name: &str) -> Result<Option<Saved>, LabError> {
    store.open(&key(name))
}

pub(super) fn assert_whole(saved: &Saved, name: &str) {
    let mut ram = vec![0; usize::try_from(RAM).unwrap()];
    saved.ram().read_exact_at(&mut ram, 0).unwrap();
    let mut expected = vec![0; ram.len()];
    for at in USED {
        expected[usize::try_from(at).unwrap()..][..8192].copy_from_slice(&content(name));
    }
    assert!(ram == expected);
    let mut state = vec![0; 8192];
    saved.state().read_exact_at(&mut state, 0).unwrap();
    assert!(state == content(name));
}

pub(super) fn names(store: &Store) -> Vec<String> {
    crate::cache::names(store.root()).unwrap()
}

#[test]
fn a_state_is_there_when_it_is_made_and_not_before() {
    let (_folder, store) = store(NO_LIMIT);
    assert!(open(&store, "a").unwrap().is_none());
    let made = store.make(
        &key("a"),
        DiskSize(1),
        || panic!("no one else makes it"),
        |draft| {
            fill(draft, "a")?;
            assert!(open(&store, "a").unwrap().is_none());
            Ok::<_, LabError>(())
        },
    );
    assert_whole(&made.unwrap(), "a");
    assert_whole(&open(&store, "a").unwrap().unwrap(), "a");
    assert!(open(&store, "b").unwrap().is_none());
    assert_eq!(names(&store), [key("a").name()]);
}

#[test]
fn states_are_outside_the_folder_that_ci_keeps() {
    let (lab, states) = (Cache::user().unwrap(), Store::user(NO_LIMIT).unwrap());
    assert_eq!(lab.root().parent(), states.root().parent());
    assert_ne!(lab.root(), states.root());
}

/// Damages the state `a`, and checks that it is removed with this message and can be made again.
fn spoil(store: &Store, message: &str, spoil: impl FnOnce(&Path)) {
    drop(make(store, "a"));
    spoil(&store.root().join(key("a").name()));
    let error = open(store, "a").unwrap_err();
    assert_eq!(error.kind(), LabFailure::Damaged, "{error}");
    assert!(error.to_string().ends_with(message), "{error}: {message}");
    assert!(open(store, "a").unwrap().is_none());
    assert_eq!(names(store), [key("b").name()]);
    assert_whole(&make(store, "a"), "a");
}

#[test]
fn a_state_with_a_damaged_file_is_removed_and_never_used() {
    let (_folder, store) = store(NO_LIMIT);
    drop(make(&store, "b"));
    let other = store.root().join(key("b").name());
    for (file, size) in [("ram", RAM), ("state", 8192)] {
        let cut = |left| {
            move |state: &Path| {
                let file = File::options().write(true).open(state.join(file)).unwrap();
                file.set_len(left).unwrap();
            }
        };
        for left in [0, 1, 4096, size / 2, size - 4096, size - 1, size + 1] {
            spoil(&store, "has another size", cut(left));
        }
        spoil(&store, "is missing", |state| {
            fs::remove_file(state.join(file)).unwrap();
        });
        spoil(&store, "is not a file", |state| {
            fs::remove_file(state.join(file)).unwrap();
            fs::create_dir(state.join(file)).unwrap();
        });
        spoil(&store, "has another checksum", |state| {
            fs::copy(other.join(file), state.join(file)).unwrap();
        });
        for at in (0..40).map(|step| step * (size - 1) / 39) {
            spoil(&store, "has another checksum", |state| {
                flip(&state.join(file), at, 1);
            });
        }
    }
}

fn flip(path: &Path, at: u64, bits: u8) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ bits], at).unwrap();
}

#[test]
fn a_state_with_a_damaged_manifest_is_removed_and_never_used() {
    let (_folder, store) = store(NO_LIMIT);
    drop(make(&store, "b"));
    let other = store.root().join(key("b").name());
    spoil(&store, "is missing", |state| {
        fs::remove_file(state.join("manifest.json")).unwrap();
    });
    spoil(&store, "is that of another state", |state| {
        fs::copy(other.join("manifest.json"), state.join("manifest.json")).unwrap();
    });
    spoil(&store, "is that of another state", |state| {
        for file in ["manifest.json", "ram", "state"] {
            fs::copy(other.join(file), state.join(file)).unwrap();
        }
    });
    drop(make(&store, "a"));
    let path = store.root().join(key("a").name()).join("manifest.json");
    let size = fs::metadata(&path).unwrap().len();
    for left in (0..size).step_by(7) {
        drop(make(&store, "a"));
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(left)
            .unwrap();
        assert_eq!(
            open(&store, "a").unwrap_err().kind(),
            LabFailure::Damaged,
            "{left}"
        );
    }
    for at in (0..size).step_by(3) {
        drop(make(&store, "a"));
        flip(&path, at, 2);
        match open(&store, "a") {
            // The change is in the title or the time.
            Ok(saved) => assert_whole(&saved.unwrap(), "a"),
            Err(error) => assert_eq!(error.kind(), LabFailure::Damaged, "{at}: {error}"),
        }
    }
}

#[test]
fn a_copy_without_holes_is_as_good() {
    let (_folder, store) = store(NO_LIMIT);
    drop(make(&store, "a"));
    let ram = store.root().join(key("a").name()).join("ram");
    let content = fs::read(&ram).unwrap();
    fs::write(&ram, content).unwrap();
    assert_whole(&open(&store, "a").unwrap().unwrap(), "a");
}

#[test]
fn the_second_maker_waits_for_the_first_and_uses_its_state() {
    let (_folder, store) = store(NO_LIMIT);
    let (told, waiting) = channel();
    let second = || {
        let not_again = |_: &StateDraft| -> Result<(), LabError> { panic!("it is made twice") };
        let saved = store.make(&key("a"), DiskSize(1), || told.send(()).unwrap(), not_again);
        assert_whole(&saved.unwrap(), "a");
    };
    thread::scope(|scope| {
        let make_first = |draft: &StateDraft| {
            let second = scope.spawn(second);
            waiting.recv_timeout(HANG).unwrap();
            // A state with a different key has a different lock.
            drop(make(&store, "b"));
            assert!(!second.is_finished());
            fill(draft, "a")
        };
        let saved = store.make(&key("a"), DiskSize(1), || {}, make_first);
        assert_whole(&saved.unwrap(), "a");
    });
    assert_eq!(names(&store).len(), 2);
}

#[test]
fn a_maker_that_fails_leaves_nothing() {
    let (_folder, store) = store(NO_LIMIT);
    let failed = |draft: &StateDraft| {
        fill(draft, "a")?;
        Err(failed!("no"))
    };
    let error = store
        .make(&key("a"), DiskSize(1), || {}, failed)
        .unwrap_err();
    assert_eq!(error.to_string(), "no");
    let nothing = |_: &StateDraft| Ok::<_, LabError>(());
    let error = store
        .make(&key("a"), DiskSize(1), || {}, nothing)
        .unwrap_err();
    assert!(error.to_string().contains("cannot open"), "{error}");
    assert!(names(&store).is_empty());
    assert_whole(&make(&store, "a"), "a");
}

/// Returns the error with its cause.
pub(super) fn whole(error: &LabError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let (_folder, store) = store(NO_LIMIT);
    drop(make(&store, "b"));
    let full = Path::new("/dev/full");
    type Spoil = fn(&StateDraft, &Path);
    let cases: [(u64, Spoil, &str); 3] = [
        (
            u64::MAX,
            |_, _| panic!("there is no space for it"),
            "PB needed in",
        ),
        (
            1,
            |draft, full| symlink(full, draft.state()).unwrap(),
            "No space left on device",
        ),
        (
            1,
            |draft, full| {
                let folder = draft.ram().parent().unwrap().to_path_buf();
                symlink(full, folder.join("manifest.json")).unwrap();
            },
            "No space left on device",
        ),
    ];
    for (needed, spoil, said) in cases {
        let make = |draft: &StateDraft| {
            spoil(draft, full);
            fill(draft, "a")
        };
        let error = store
            .make(&key("a"), DiskSize(needed), || {}, make)
            .unwrap_err();
        assert!(whole(&error).contains(said), "{error}");
        assert_eq!(names(&store), [key("b").name()]);
    }
    assert_whole(&make(&store, "a"), "a");
}

#[test]
fn the_least_recently_used_state_goes_first_and_none_in_use() {
    let (_folder, store) = store(NO_LIMIT);
    for name in ["a", "b", "c", "d"] {
        drop(make(&store, name));
    }
    let used = open(&store, "a").unwrap().unwrap();
    drop(open(&store, "c").unwrap());
    let list = store.list().unwrap();
    let order: Vec<_> = list.iter().map(|listed| listed.name.clone()).collect();
    assert_eq!(order, ["b", "d", "a", "c"].map(|name| key(name).name()));
    let size = list[0].size;
    assert!((24 << 10..RAM).contains(&size.0), "{size}");

    let there = || ["a", "b", "c", "d", "e", "f"].map(|name| open(&store, name).unwrap().is_some());
    let limited = |states: u64| Store::at(store.root().to_path_buf(), DiskSize(size.0 * states));
    drop(make(&limited(3), "e"));
    assert_eq!(there(), [true, false, true, false, true, false]);
    // By now `a` is the least recently used state, but still in use.
    drop(make(&limited(1), "f"));
    assert_eq!(there(), [true, false, false, false, false, true]);
    assert_whole(&used, "a");
    drop(used);
    drop(make(&limited(0), "b"));
    assert_eq!(there(), [false, true, false, false, false, false]);
}

#[test]
fn the_list_says_what_a_state_is() {
    let (_folder, store) = store(NO_LIMIT);
    drop(make(&store, "a"));
    let list = store.list().unwrap();
    let manifest = list[0].manifest.as_ref().unwrap();
    assert_eq!(manifest.key, key("a"));
    assert_eq!((manifest.ram.size, manifest.state.size), (RAM, 8192));
    assert!(manifest.made <= list[0].used);
    drop(make(&store, "b"));
    let path = |name: &str| store.root().join(key(name).name()).join("manifest.json");
    fs::copy(path("b"), path("a")).unwrap();
    fs::remove_file(path("b")).unwrap();
    let list = store.list().unwrap();
    assert_eq!(list.len(), 2);
    assert!(list.iter().all(|listed| listed.manifest.is_none()));
}

#[test]
fn clean_removes_all_but_what_is_used_or_made() {
    let (_folder, store) = store(NO_LIMIT);
    assert_eq!(store.remove_all().unwrap(), Removed::default());
    for name in ["a", "b"] {
        drop(make(&store, name));
    }
    store.digest(&std::env::current_exe().unwrap()).unwrap();
    let used = open(&store, "a").unwrap().unwrap();
    let while_made = |draft: &StateDraft| {
        let removed = store.remove_all()?;
        assert_eq!(removed.in_use, [key("a").name(), key("c").name()]);
        assert!(removed.freed > DiskSize(24 << 10), "{}", removed.freed);
        fill(draft, "c")
    };
    let made = store
        .make(&key("c"), DiskSize(1), || {}, while_made)
        .unwrap();
    assert_whole(&made, "c");
    drop((used, made));
    assert!(store.remove_all().unwrap().in_use.is_empty());
    assert!(names(&store).is_empty(), "{:?}", names(&store));
}

#[test]
fn a_discarded_state_is_gone_for_all_but_those_that_use_it() {
    let (_folder, store) = store(NO_LIMIT);
    let first = make(&store, "a");
    let second = open(&store, "a").unwrap().unwrap();
    first.discard().unwrap();
    assert!(open(&store, "a").unwrap().is_none());
    assert!(names(&store).is_empty());
    assert_whole(&second, "a");
    drop(make(&store, "a"));
    second.discard().unwrap();
    assert!(open(&store, "a").unwrap().is_some());
}

#[test]
fn a_state_that_cannot_be_written_is_not_used_and_stays() {
    let (_folder, store) = store(NO_LIMIT);
    drop(make(&store, "a"));
    read_only(store.root(), || {
        assert!(open(&store, "a").unwrap_err().is_read_only());
        assert!(open(&store, "b").unwrap().is_none());
        let made = store.make(&key("b"), DiskSize(1), || {}, |draft| fill(draft, "b"));
        assert!(made.unwrap_err().is_read_only());
    });
    assert_whole(&open(&store, "a").unwrap().unwrap(), "a");
}
