use std::fs;

use super::*;
use crate::bpf::Kind;
use crate::names;

/// Lets a thread of a process live in this `/proc`.
fn start(proc: &Path, thread: u32, process: u32, started: u64) {
    let folder = proc.join(thread.to_string());
    fs::create_dir_all(&folder).unwrap();
    let stat = format!("{thread} (CPU 0/KVM) S{} {started} 0", " 0".repeat(18));
    fs::write(folder.join("stat"), stat).unwrap();
    fs::write(
        folder.join("status"),
        format!("Name:\tqemu\nTgid:\t{process}\n"),
    )
    .unwrap();
}

fn end(proc: &Path, thread: u32) {
    fs::remove_dir_all(proc.join(thread.to_string())).unwrap();
}

fn eois(counts: &[(u32, u64)]) -> Traced {
    let event = |thread| ThreadEvent {
        thread,
        vcpu: None,
        kind: Kind::Eoi,
        address: 0,
        is_write: false,
        size: 0,
    };
    Traced {
        counts: counts
            .iter()
            .map(|(thread, count)| (event(*thread), *count))
            .collect(),
        lost: 0,
    }
}

/// A folder of statistics with one vCPU.
fn folder(inode: u64, creator: u32, id: u32, thread: u32) -> (Directory, Statistics) {
    let statistics = Statistics {
        vcpus: BTreeMap::from([(id, thread)]),
        ..Statistics::default()
    };
    (
        Directory {
            creator,
            fd: 9,
            inode,
        },
        statistics,
    )
}

fn read(
    owners: &mut Owners,
    traced: &Traced,
    proc: &Path,
    folders: Option<&BTreeMap<Directory, Statistics>>,
) -> BpfReading {
    let mut events = BpfReading::default();
    owners.add_to(&mut events, traced, proc, folders);
    events
}

/// The page of each VM, its vCPU and its count.
fn sums(events: &BpfReading) -> BTreeSet<(u32, u16, u64)> {
    let each = events.counts.iter();
    each.map(|(event, counted)| (event.vm.page, event.vcpu, counted.count))
        .collect()
}

#[test]
fn two_vms_of_a_process_are_told_apart_by_their_statistics() {
    let proc = tempfile::tempdir().unwrap();
    for thread in [70, 71, 72] {
        start(proc.path(), thread, 70, 5);
    }
    let folders = BTreeMap::from([folder(3, 70, 0, 71), folder(4, 70, 1, 72)]);
    let mut owners = Owners::default();
    let events = read(
        &mut owners,
        &eois(&[(71, 10), (72, 20)]),
        proc.path(),
        Some(&folders),
    );
    assert_eq!(sums(&events), BTreeSet::from([(3, 0, 10), (4, 1, 20)]));
    let vcpus: BTreeSet<(u32, u32)> = events.vcpus.into_values().collect();
    assert_eq!(vcpus, BTreeSet::from([(70, 71), (70, 72)]));
}

#[test]
fn without_statistics_all_threads_of_a_process_are_one_vm_without_vcpus() {
    let proc = tempfile::tempdir().unwrap();
    for thread in [71, 72] {
        start(proc.path(), thread, 70, 5);
    }
    let mut owners = Owners::default();
    let events = read(&mut owners, &eois(&[(71, 10), (72, 20)]), proc.path(), None);
    assert_eq!(sums(&events), BTreeSet::from([(ONLY_PROCESS, 0, 30)]));
    assert!(events.vcpus.is_empty());
    assert!(owners.creators().all(|creator| creator == (70, 70)));
}

#[test]
fn a_thread_is_of_its_processs_only_vm_where_statistics_name_no_threads() {
    let proc = tempfile::tempdir().unwrap();
    for thread in [70, 71] {
        start(proc.path(), thread, 70, 5);
    }
    let (directory, _) = folder(3, 70, 0, 71);
    let folders = BTreeMap::from([(directory, Statistics::default())]);
    let mut owners = Owners::default();
    let events = read(&mut owners, &eois(&[(71, 10)]), proc.path(), Some(&folders));
    assert_eq!(sums(&events), BTreeSet::from([(3, 0, 10)]));
}

#[test]
fn a_thread_that_runs_another_vm_counts_for_it_from_then_on() {
    let proc = tempfile::tempdir().unwrap();
    start(proc.path(), 71, 71, 5);
    let mut owners = Owners::default();
    let before = BTreeMap::from([folder(3, 71, 0, 71)]);
    read(&mut owners, &eois(&[(71, 10)]), proc.path(), Some(&before));
    let after = BTreeMap::from([folder(4, 71, 0, 71)]);
    let events = read(&mut owners, &eois(&[(71, 15)]), proc.path(), Some(&after));
    assert_eq!(sums(&events), BTreeSet::from([(3, 0, 10), (4, 0, 5)]));
}

#[test]
fn a_vm_that_has_ended_keeps_its_counts_until_it_is_forgotten() {
    let proc = tempfile::tempdir().unwrap();
    start(proc.path(), 71, 71, 5);
    let folders = BTreeMap::from([folder(3, 71, 0, 71)]);
    let mut owners = Owners::default();
    read(&mut owners, &eois(&[(71, 10)]), proc.path(), Some(&folders));
    end(proc.path(), 71);
    let events = read(&mut owners, &eois(&[(71, 12)]), proc.path(), None);
    assert_eq!(sums(&events), BTreeSet::from([(3, 0, 12)]));
    let ended = events.counts.keys().map(|event| event.vm).collect();
    owners.forget(&ended);
    // A later thread with the same number.
    start(proc.path(), 71, 90, 6);
    let events = read(&mut owners, &eois(&[(71, 13)]), proc.path(), None);
    assert_eq!(sums(&events), BTreeSet::from([(ONLY_PROCESS, 0, 1)]));
    assert_eq!(events.lost, 0);
}

#[test]
fn events_of_a_thread_that_was_never_seen_are_lost() {
    let proc = tempfile::tempdir().unwrap();
    let mut owners = Owners::default();
    let events = read(&mut owners, &eois(&[(71, 10)]), proc.path(), None);
    assert!(events.counts.is_empty());
    assert_eq!(events.lost, 10);
    // They are lost once.
    let events = read(&mut owners, &eois(&[(71, 10)]), proc.path(), None);
    assert_eq!(events.lost, 10);
}

#[test]
fn a_rest_without_an_address_counts_if_two_readings_have_it_and_takes_nothing_away() {
    let proc = tempfile::tempdir().unwrap();
    start(proc.path(), 71, 71, 5);
    let rest = |count| {
        let mut traced = eois(&[(71, 1)]);
        let event = ThreadEvent {
            thread: 71,
            vcpu: None,
            kind: Kind::Other,
            address: names::EXIT_MMIO.into(),
            is_write: false,
            size: 0,
        };
        traced.counts.insert(event, count);
        traced
    };
    let mut owners = Owners::default();
    for (count, expected) in [
        (0, 0),
        (1, 0),
        (0, 0),
        (2, 0),
        (3, 2),
        (1, 2),
        (4, 2),
        (4, 4),
    ] {
        let events = read(&mut owners, &rest(count), proc.path(), None);
        let counts = events.counts.iter();
        let mut rests = counts.filter(|(event, _)| event.kind == Kind::Other);
        let rest = rests.next().map_or(0, |(_, counted)| counted.count);
        assert_eq!(rest, expected, "{count}");
    }
}
