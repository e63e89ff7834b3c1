//! Saved states shared by several processes: the tests start themselves again as children.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};

use super::tests::{assert_whole, fill, key, make, names, open, store, whole};
use super::*;
use crate::cache::DiskSize;
use crate::error::{LabError, cannot};

/// The environment variable with a child's root folder.
const ROOT: &str = "VMBELL_SAVED_TEST";

/// Makes the command that runs this test again as a child with the root folder.
fn child(test: &str, store: &Store) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    let name = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    command
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(ROOT, store.root())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Returns the store of this process, if it is a child.
fn store_of_child(limit: DiskSize) -> Option<Store> {
    env::var_os(ROOT).map(|root| Store::at(root.into(), limit))
}

/// Sends a word to the parent, which waits for it in `heard`.
fn tell(word: &str) {
    println!("\n{word}");
    std::io::stdout().flush().unwrap();
}

fn heard(child: &mut Child, word: &str) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let mut lines = lines.map(|line| line.unwrap());
    assert!(
        lines.any(|line| line == word),
        "the child ended before it {word}"
    );
}

/// Waits until the parent kills this process.
fn wait_to_be_killed() {
    let _ = std::io::stdin().read(&mut [0]);
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn run_all(command: impl Fn() -> Command, count: usize) {
    let children: Vec<_> = (0..count).map(|_| command().spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

const NO_LIMIT: DiskSize = DiskSize(u64::MAX);
const BIG: usize = 16 << 20;
const PIECE: usize = 256 << 10;

/// Makes a state. `big` is large, so that most of the time goes into writing and sealing it; others are small.
fn make_sized(store: &Store, name: &str) -> Saved {
    let make = |draft: &StateDraft| {
        fill(draft, name)?;
        let write = || {
            let mut ram = fs::File::create(draft.ram())?;
            (1..=BIG / PIECE)
                .try_for_each(|byte| ram.write_all(&[u8::try_from(byte).unwrap_or(0); PIECE]))
        };
        if name == "big" {
            write().map_err(cannot("write", draft.ram()))?;
        }
        Ok::<_, LabError>(())
    };
    store.make(&key(name), DiskSize(1), || {}, make).unwrap()
}

fn assert_sized(saved: &Saved, name: &str) {
    if name != "big" {
        return assert_whole(saved, name);
    }
    let mut ram = Vec::new();
    saved.ram().read_to_end(&mut ram).unwrap();
    assert_eq!(ram.len(), BIG);
    let mut pieces = ram.chunks(PIECE).zip(1..);
    assert!(pieces.all(|(piece, byte)| piece == [byte; PIECE]));
}

#[test]
fn a_maker_that_is_killed_at_any_instant_leaves_a_working_cache() {
    /// An environment variable of the child: the name of what it makes, and after how many nanoseconds it is killed.
    const KILLED: &str = "VMBELL_SAVED_TEST_KILLED";
    const INSTANTS: u64 = 20;
    if let Some(store) = store_of_child(NO_LIMIT) {
        let killed = env::var(KILLED).unwrap();
        let (name, after) = killed.split_once(' ').unwrap();
        let after = Duration::from_nanos(after.parse().unwrap());
        let (ready, is_ready) = channel();
        thread::spawn(move || {
            ready.send(()).unwrap();
            thread::sleep(after);
            kill_process(getpid(), Signal::KILL).unwrap();
        });
        is_ready.recv().unwrap();
        let begun = Instant::now();
        drop(make_sized(&store, name));
        println!("\ntook {}", begun.elapsed().as_nanos());
        return;
    }
    let (_folder, store) = store(NO_LIMIT);
    // Returns how long the child took, unless it was killed.
    let run = |name: &str, after: u64| {
        let test = "a_maker_that_is_killed_at_any_instant_leaves_a_working_cache";
        let mut command = child(test, &store);
        let output = command.env(KILLED, format!("{name} {after}")).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        let took = output.lines().find_map(|line| line.strip_prefix("took "));
        took.map(|took| took.parse::<u64>().unwrap())
    };
    for name in ["small", "big"] {
        let mut longest = run(name, 1_000_000_000_000).unwrap();
        store.remove_all().unwrap();
        let mut killed = 0;
        while killed < INSTANTS {
            match run(name, longest * killed / INSTANTS) {
                // The child was faster this time.
                Some(took) => longest = longest.min(took),
                None => killed += 1,
            }
            let left = names(&store);
            // A complete state is used, everything else is made again.
            assert_sized(&make_sized(&store, name), name);
            assert_sized(&store.open(&key(name)).unwrap().unwrap(), name);
            // The maker of any state removes the leftovers of others.
            drop(make(&store, "a"));
            let mut expected = [name, "a"].map(|name| key(name).name());
            expected.sort();
            assert_eq!(names(&store), expected, "{left:?} were left");
            store.remove_all().unwrap();
        }
    }
}

#[test]
fn processes_that_need_a_state_at_once_make_it_once() {
    const KEYS: usize = 12;
    let name = |number: usize| format!("state {number}");
    if let Some(store) = store_of_child(NO_LIMIT) {
        for name in (0..KEYS).map(name) {
            let make = |draft: &StateDraft| {
                let made = store.root().with_extension(&name);
                fs::File::create_new(&made).map_err(cannot("make", made))?;
                fill(draft, &name)
            };
            let saved = store.make(&key(&name), DiskSize(1), || {}, make).unwrap();
            assert_whole(&saved, &name);
        }
        return;
    }
    let (_folder, store) = store(NO_LIMIT);
    let test = "processes_that_need_a_state_at_once_make_it_once";
    run_all(|| child(test, &store), 4);
    let mut expected: Vec<_> = (0..KEYS).map(|number| key(&name(number)).name()).collect();
    expected.sort();
    assert_eq!(names(&store), expected);
}

#[test]
fn processes_that_make_use_and_remove_states_at_once_see_only_whole_ones() {
    // There is room for two of the three states.
    const LIMIT: DiskSize = DiskSize(120 << 10);
    if let Some(store) = store_of_child(LIMIT) {
        let rounds = |first: usize| {
            for round in first..first + 40 {
                let name = ["a", "b", "c"][round % 3];
                let saved = make(&store, name);
                assert_whole(&saved, name);
                if let Some(other) = open(&store, "a").unwrap() {
                    assert_whole(&other, "a");
                }
                match round % 7 {
                    0 => saved.discard().unwrap(),
                    3 => drop(store.remove_all().unwrap()),
                    _ => drop(store.list().unwrap()),
                }
            }
        };
        let own = usize::try_from(std::process::id()).unwrap();
        thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || rounds(own + thread));
            }
        });
        return;
    }
    let (_folder, store) = store(LIMIT);
    let test = "processes_that_make_use_and_remove_states_at_once_see_only_whole_ones";
    run_all(|| child(test, &store), 3);
    drop(make(&store, "a"));
    let left = names(&store);
    assert!(left.iter().all(|name| StateKey::is_name(name)), "{left:?}");
    let total: u64 = store.list().unwrap().iter().map(|it| it.size.0).sum();
    assert!(total <= LIMIT.0, "{total}");
}

#[test]
fn a_state_that_another_process_uses_stays() {
    if let Some(store) = store_of_child(NO_LIMIT) {
        let _used = open(&store, "a").unwrap().unwrap();
        tell("uses it");
        return wait_to_be_killed();
    }
    let (_folder, store) = store(DiskSize(0));
    drop(make(&store, "a"));
    let test = "a_state_that_another_process_uses_stays";
    let mut child = child(test, &store).spawn().unwrap();
    heard(&mut child, "uses it");
    drop(make(&store, "b"));
    assert_eq!(store.remove_all().unwrap().in_use, [key("a").name()]);
    assert_whole(&open(&store, "a").unwrap().unwrap(), "a");
    kill(child);
    drop(make(&store, "c"));
    assert_eq!(names(&store), [key("c").name()]);
}

#[test]
fn a_limit_of_the_file_size_is_told_and_leaves_nothing() {
    if let Some(store) = store_of_child(NO_LIMIT) {
        let make = |draft: &StateDraft| fill(draft, "a");
        let error = store.make(&key("a"), DiskSize(1), || {}, make).unwrap_err();
        assert!(whole(&error).contains("File too large"), "{error}");
        assert!(names(&store).is_empty());
        return;
    }
    let (_folder, store) = store(NO_LIMIT);
    let child = child(
        "a_limit_of_the_file_size_is_told_and_leaves_nothing",
        &store,
    );
    let limited = || {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", r#"trap "" XFSZ; ulimit -f 1024; exec "$@""#, "sh"])
            .arg(child.get_program())
            .args(child.get_args())
            .env(ROOT, store.root())
            .stdout(Stdio::piped());
        shell
    };
    run_all(limited, 1);
    assert_whole(&make(&store, "a"), "a");
}
