use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::*;
use crate::bpf::{BpfReading, Isa};
use crate::names::NameSource;
use crate::process::Holder;
use crate::sampler::{SampledPlace, Samples};
use crate::waiters::Waiter;

const PID: u32 = 4711;

fn kernel_vm(page: u32) -> KernelVm {
    KernelVm { page, creator: PID }
}

fn event(vm: u32, kind: RecordKind, address: u64) -> CountedEvent {
    CountedEvent {
        vm: kernel_vm(vm),
        vcpu: 0,
        kind,
        address,
        is_write: true,
        size: 2,
        device: 0,
    }
}

/// A reading of one process with these folders (descriptor, exits, thread of vCPU 0) and counts.
fn reading(
    folders: &[(u32, u64, Option<u32>)],
    counts: &[(CountedEvent, u64, u64)],
    vcpus: &[(u32, u32)],
) -> Reading {
    let directory = |(fd, exits, thread): &(u32, u64, Option<u32>)| {
        let directory = Directory {
            creator: PID,
            fd: *fd,
            inode: u64::from(*fd),
        };
        let statistics = Statistics {
            vcpus: thread.iter().map(|thread| (0, *thread)).collect(),
            values: BTreeMap::from([("exits", *exits)]),
            ..Statistics::default()
        };
        (directory, statistics)
    };
    let counted = |(event, count, detail): &(CountedEvent, u64, u64)| {
        let (count, detail) = (*count, *detail);
        let counted = CountedRecord {
            count,
            detail,
            ..CountedRecord::default()
        };
        (*event, counted)
    };
    let vcpu = |(vm, thread): &(u32, u32)| ((kernel_vm(*vm), 0), (PID, *thread));
    let process = Process {
        vmm: Some("qemu".to_owned()),
        eventfds: BTreeMap::from([(31, 8)]),
        ..Process::default()
    };
    let threads = folders
        .iter()
        .filter_map(|(_, _, thread)| *thread)
        .chain([PID]);
    Reading {
        at: Instant::now(),
        interval: Duration::from_secs(1),
        processes: BTreeMap::from([(PID, process)]),
        unreadable: 0,
        creators: threads.map(|thread| (thread, PID)).collect(),
        cpu: HashMap::new(),
        bpf: Some(BpfReading {
            counts: counts.iter().map(counted).collect(),
            vcpus: vcpus.iter().map(vcpu).collect(),
            lost: 0,
            isa: Some(Isa::Svm),
        }),
        counters: Some(folders.iter().map(directory).collect()),
        eois_by_cpu: false,
        samples: None,
        holders: BTreeMap::new(),
        waiters: BTreeMap::new(),
        shown_closed: BTreeSet::new(),
    }
}

/// `count` writes of a VM that signalled the ioeventfd at an address.
fn ring(vm: u32, count: u64, eventfd: u64) -> (CountedEvent, u64, u64) {
    (event(vm, RecordKind::Ring, 0x50), count, eventfd)
}

/// The first VM of a reading in which all metrics are counted.
fn first(reading: &Reading) -> Vm {
    vms(reading, |_| true).remove(0)
}

/// The only VM, with these counts.
fn counted(counts: &[(CountedEvent, u64, u64)]) -> Vm {
    first(&reading(&[(5, 0, None)], counts, &[]))
}

/// The descriptor, the exits and the rings of each VM.
fn parts(reading: &Reading) -> Vec<(Option<u32>, Option<u64>, Option<u64>)> {
    let vms = vms(reading, |_| true);
    let part = |vm: &Vm| {
        let exits = vm.statistics.as_ref().map(|all| all["exits"]);
        (vm.fd, exits, vm.counts.get(&Metric::Rings).copied())
    };
    vms.iter().map(part).collect()
}

#[test]
fn several_vms_of_a_process_are_told_apart_by_the_threads_of_their_vcpus() {
    let counts = [ring(1, 7, 31), ring(2, 9, 32)];
    let reading = reading(
        &[(5, 100, Some(20)), (6, 200, Some(21))],
        &counts,
        &[(1, 21), (2, 20)],
    );
    let expected = [(Some(5), Some(100), Some(9)), (Some(6), Some(200), Some(7))];
    assert_eq!(parts(&reading), expected);
}

#[test]
fn a_vm_that_has_no_vcpu_yet_does_not_run() {
    let mut reading = reading(&[(5, 100, Some(20)), (6, 0, None)], &[], &[]);
    let count = |reading: &Reading| parts(reading).len();
    assert_eq!(count(&reading), 2);
    let counters = reading.counters.as_mut().unwrap();
    let second = counters.values_mut().next_back().unwrap();
    second.has_no_vcpu = true;
    assert_eq!(count(&reading), 1);
}

#[test]
fn the_only_vm_of_its_creator_needs_no_vcpu() {
    let counts = [ring(1, 7, 31)];
    let one = reading(&[(5, 100, None)], &counts, &[]);
    assert_eq!(parts(&one), [(Some(5), Some(100), Some(7))]);
    // With two VMs, it is not known which one was counted: the counts are shown without a folder.
    let two = reading(&[(5, 100, None), (6, 200, None)], &counts, &[]);
    let expected = [
        (None, None, Some(7)),
        (Some(5), Some(100), Some(0)),
        (Some(6), Some(200), Some(0)),
    ];
    assert_eq!(parts(&two), expected);
}

#[test]
fn what_a_source_does_not_tell_is_missing_and_not_zero() {
    let mut without = reading(&[], &[], &[]);
    without.counters = None;
    without.bpf = None;
    let vms = vms(&without, |_| true);
    let [vm] = &vms[..] else {
        panic!("{vms:?}");
    };
    assert_eq!((&vm.statistics, vm.counts.len(), vm.cpu), (&None, 0, None));
    let idle = reading(&[(5, 0, None)], &[], &[]);
    let some = |metric| metric != Metric::Eois;
    let vm = &super::vms(&idle, some)[0];
    assert_eq!(vm.counts.get(&Metric::Rings), Some(&0));
    assert_eq!(vm.counts.get(&Metric::Eois), None);
    assert_eq!(vm.pv_eoi_share(), None);
}

#[test]
fn exits_and_rings_of_an_address_are_one_row_with_its_eventfd_and_its_name() {
    let read = CountedEvent {
        is_write: false,
        size: 4,
        ..event(1, RecordKind::Port, 0x608)
    };
    let mmio_bus = 0;
    let counts = [
        (event(1, RecordKind::Mmio, 0xfebf_1000), 5, 0),
        (
            event(1, RecordKind::Ring, 0xfebf_1000),
            20,
            mmio_bus << 32 | 31,
        ),
        (read, 3, 0),
        (event(1, RecordKind::Port, 0x3f8), 0, 0),
        (event(1, RecordKind::Other, 5), 2, 0),
        (
            event(1, RecordKind::Failed, u64::from((-4_i32).cast_unsigned())),
            4,
            0,
        ),
    ];
    let mut reading = reading(&[(5, 100, None)], &counts, &[]);
    let holder = |pid| Holder {
        pid,
        name: "virtiofsd".to_owned(),
    };
    let backend = holder(812);
    reading.holders = BTreeMap::from([(31, vec![holder(PID), backend.clone()])]);
    let vhost = Waiter {
        name: "vhost",
        thread: Some(152),
    };
    reading.waiters = BTreeMap::from([(31, vhost.clone())]);
    let vm = first(&reading);
    assert_eq!(vm.counts[&Metric::ToVmm], 5 + 3 + 2 + 4);
    let [doorbell, timer] = &vm.addresses[..] else {
        panic!("{:?}", vm.addresses);
    };
    assert_eq!((doorbell.to_vmm, doorbell.rings), (5, 20));
    assert_eq!(
        doorbell.eventfds,
        [Eventfd {
            id: 31,
            fd: Some(8),
            holders: vec![backend],
            waiter: Some(vhost),
        }]
    );
    let name = doorbell.name.as_ref().unwrap();
    assert_eq!(
        (&*name.text, name.source),
        ("virtio-pci notify", NameSource::Guess)
    );
    assert_eq!(
        (timer.space, timer.to_vmm, &timer.name),
        (Space::Port, 3, &None)
    );
    let reasons = [("hlt".to_owned(), 2), ("signal".to_owned(), 4)];
    assert_eq!(vm.reasons, BTreeMap::from(reasons));
}

#[test]
fn a_doorbell_by_fast_mmio_has_the_name_that_its_first_write_gave_it() {
    let fast_mmio_bus = 3;
    let without_size = CountedEvent {
        size: 0,
        ..event(1, RecordKind::Ring, 0xfebf_1000)
    };
    let fast = (without_size, 20, fast_mmio_bus << 32 | 31);
    let names = |counts: &[_]| {
        let [doorbell] = &counted(counts).addresses[..] else {
            panic!("not one address");
        };
        assert_eq!(doorbell.space, Space::Mmio);
        doorbell.name.as_ref().map(|name| name.text.clone())
    };
    let first = (event(1, RecordKind::Ring, 0xfebf_1000), 1, 31);
    assert_eq!(names(&[first, fast]).as_deref(), Some("virtio-pci notify"));
    assert_eq!(names(&[fast]), None);
}

#[test]
fn an_irqfd_counts_what_a_worker_had_to_raise() {
    let at_once = CountedEvent {
        is_write: false,
        ..event(1, RecordKind::Irqfd, 24)
    };
    let by_worker = event(1, RecordKind::Irqfd, 24);
    let counts = [(at_once, 40, 135 << 32 | 136), (by_worker, 2, 0)];
    let vm = counted(&counts);
    let expected = Irqfd {
        gsi: 24,
        count: 42,
        by_worker: 2,
        first_signaller: Some(136),
    };
    assert_eq!(vm.irqfds, [expected]);
}

#[test]
fn a_vm_has_ended_when_its_folder_is_gone_or_without_statistics_the_threads_of_its_vcpus() {
    let counts = [ring(1, 7, 31), ring(2, 9, 32)];
    let ended = |reading: &Reading| -> Vec<_> {
        let all = vms(reading, |_| true).into_iter();
        all.map(|vm| (vm.fd, vm.counts[&Metric::Rings], vm.has_ended))
            .collect()
    };
    let mut reading = reading(&[(6, 200, Some(21))], &counts, &[(1, 20), (2, 21)]);
    assert_eq!(ended(&reading), [(None, 7, true), (Some(6), 9, false)]);
    reading.counters = None;
    reading.cpu = HashMap::from([(21, 5)]);
    assert_eq!(ended(&reading), [(None, 7, true), (None, 9, false)]);
}

/// Whether each VM in the counts is shown as ended.
fn shown_as_ended(reading: &Reading) -> Vec<bool> {
    let vms = vms(reading, |_| true);
    vms.iter().map(|vm| vm.has_ended).collect()
}

#[test]
fn a_vm_whose_threads_still_live_is_shown_once_as_ended_and_not_forgotten() {
    let counts = [ring(1, 7, 31), ring(2, 9, 32)];
    let mut reading = reading(&[(6, 200, Some(21))], &counts, &[(1, 20), (2, 21)]);
    reading.cpu = HashMap::from([(20, 5), (21, 5)]);
    assert_eq!(shown_as_ended(&reading), [true, false]);
    assert_eq!(reading.closed(), BTreeSet::from([kernel_vm(1)]));
    assert!(reading.ended().is_empty());
    reading.shown_closed = reading.closed();
    assert_eq!(shown_as_ended(&reading), [false]);
    // The other VM is closed as well, and the process is ending.
    reading.counters = Some(BTreeMap::new());
    reading.shown_closed = reading.closed();
    reading.take_out(&mut BTreeMap::from([(PID, 0)]));
    assert!(shown_as_ended(&reading).is_empty());
    assert_eq!(reading.ended(), reading.closed());
}

#[test]
fn a_vm_that_is_starting_has_not_ended() {
    // The first VM runs, and the second one has no vCPU, or one that has not run.
    let counts = [ring(1, 7, 31), ring(2, 9, 32)];
    let mut reading = reading(&[(5, 9, Some(20)), (6, 0, None)], &counts, &[(1, 20)]);
    reading.cpu = HashMap::from([(20, 5)]);
    assert_eq!(shown_as_ended(&reading), [false, false]);
    let counters = reading.counters.as_mut().unwrap();
    counters.values_mut().next_back().unwrap().has_no_vcpu = true;
    assert_eq!(shown_as_ended(&reading), [false, false]);
    // Several VMs of one creator are starting, and their folders cannot be told apart.
    let counters = reading.counters.as_mut().unwrap();
    let first = counters.values_mut().next().unwrap();
    first.vcpus.clear();
    reading.bpf.as_mut().unwrap().vcpus.clear();
    assert!(!shown_as_ended(&reading).contains(&true));
}

#[test]
fn a_process_whose_vms_were_shown_as_ended_is_not_shown_again() {
    let ring = event(1, RecordKind::Ring, 0xfe00_0000);
    let last = reading(&[], &[(ring, 7, 0)], &[(1, 21)]);
    assert_eq!(last.ended().len(), 1);
    let mut shown = BTreeMap::from([(PID, 0)]);
    let left = |folders: &[(u32, u64, Option<u32>)], shown: &mut BTreeMap<_, _>| {
        let mut reading = reading(folders, &[], &[]);
        reading.take_out(shown);
        vms(&reading, |_| true).len()
    };
    // The process has closed its VM, and has not ended.
    assert_eq!(left(&[], &mut shown), 0);
    assert!(shown.contains_key(&PID));
    // The process has a VM again.
    assert_eq!(left(&[(6, 1, None)], &mut shown), 1);
    assert!(shown.is_empty());
    // A different process has the same number.
    shown.insert(PID, 5);
    assert_eq!(left(&[], &mut shown), 1);
    assert!(shown.is_empty());
}

#[test]
fn the_share_of_pv_eoi_is_of_all_ends() {
    let counts = [
        (event(1, RecordKind::Eoi, 0), 100, 0),
        (event(1, RecordKind::PvEoi, 0), 93, 0),
    ];
    let mut reading = reading(&[(5, 0, None)], &counts, &[]);
    assert_eq!(first(&reading).pv_eoi_share(), Some(0.93));
    // Where the CPU ends interrupts itself, the counted EOIs are not all.
    reading.eois_by_cpu = true;
    let vm = first(&reading);
    assert_eq!(
        (vm.pv_eoi_share(), vm.counts.get(&Metric::Eois)),
        (None, None)
    );
    assert!(vm.eois_by_cpu);
}

#[test]
fn reasons_of_exits_have_names_and_the_most_frequent_of_all_vcpus_is_first() {
    let of = |vcpu, reason| CountedEvent {
        vcpu,
        ..event(1, RecordKind::Exit, reason)
    };
    let counts = [
        (of(0, 0x78), 3, 0),
        (of(0, 0x400), 40, 0),
        (of(3, 0x400), 50, 0),
        (of(3, 0x40), 2, 0),
        // A different exception.
        (of(3, 0x41), 5, 0),
        (of(0, 0x7c), 0, 0),
    ];
    let vm = counted(&counts);
    let reason = |name: &str, by_vcpu: &[(u32, u64)]| Reason {
        name: name.to_owned(),
        by_vcpu: by_vcpu.iter().copied().collect(),
    };
    let expected = [
        reason("npf", &[(0, 40), (3, 50)]),
        reason("exception", &[(3, 7)]),
        reason("hlt", &[(0, 3)]),
    ];
    assert_eq!(vm.exits, expected);
    assert_eq!(vm.exits[0].count(), 90);
    assert_eq!(vm.counts[&Metric::Exits], 100);
}

#[test]
fn what_kvm_answers_is_told_apart_from_exits_to_the_vmm_at_the_same_address() {
    let counts = [
        (event(1, RecordKind::KvmMmio, 0xfee0_00b0), 40, 0),
        (event(1, RecordKind::Mmio, 0xfee0_00b0), 2, 0),
        (event(1, RecordKind::KvmMsr, 0x80b), 30, 0),
        (event(1, RecordKind::KvmPort, 0x61), 20, 0),
    ];
    let vm = counted(&counts);
    let each = vm.addresses.iter();
    let each = each.map(|one| (one.space, one.address, one.to_vmm, one.by_kvm));
    let expected = [
        (Space::Mmio, 0xfee0_00b0, 2, 40),
        (Space::Msr, 0x80b, 0, 30),
        (Space::Port, 0x61, 0, 20),
    ];
    assert_eq!(each.collect::<Vec<_>>(), expected);
    assert_eq!(vm.counts[&Metric::ByKvm], 90);
}

/// A reading of exits to the VMM, with the time that they took.
fn timed(exit: CountedEvent, count: u64, nanoseconds: u64) -> Reading {
    let mut reading = reading(&[(5, 0, None)], &[(exit, count, 0)], &[]);
    let counts = &mut reading.bpf.as_mut().unwrap().counts;
    counts.get_mut(&exit).unwrap().nanoseconds = nanoseconds;
    reading
}

#[test]
fn time_in_the_vmm_is_counted_only_if_it_is_asked_for() {
    let reading = timed(event(1, RecordKind::Port, 0x608), 10, 7000);
    let with = first(&reading);
    assert_eq!(with.counts[&Metric::VmmTime], 7000);
    assert_eq!(with.addresses[0].vmm_time, 7000);
    let without = &vms(&reading, |metric| metric != Metric::VmmTime)[0];
    assert_eq!(without.counts.get(&Metric::VmmTime), None);
}

#[test]
fn the_difference_of_two_readings_has_the_time_between_them() {
    let exit = event(1, RecordKind::Port, 0x608);
    let since = timed(exit, 30, 9000).since(&timed(exit, 10, 2000));
    let counted = since.bpf.unwrap().counts[&exit];
    assert_eq!((counted.count, counted.nanoseconds), (20, 7000));
}

#[test]
fn samples_are_those_of_the_only_vm_of_a_process() {
    let samples = Samples {
        counts: HashMap::from([((PID, SampledPlace::Kvm), 60)]),
        refused: 0,
    };
    let mut one = reading(&[(5, 0, None)], &[], &[]);
    one.samples = Some(samples.clone());
    let sampled = first(&one).sampled;
    assert_eq!(sampled.map(|sampled| sampled.samples), Some(60));
    let mut two = reading(&[(5, 0, None), (6, 0, None)], &[], &[]);
    two.samples = Some(samples);
    assert!(vms(&two, |_| true).iter().all(|vm| vm.sampled.is_none()));
}

#[test]
fn a_register_that_was_read_earlier_is_not_one_that_is_only_written() {
    let read = CountedEvent {
        is_write: false,
        ..event(1, RecordKind::Mmio, 0xfebf_1000)
    };
    let counts = [
        (event(1, RecordKind::Mmio, 0xfebf_1000), 9, 0),
        (read, 0, 0),
    ];
    let vm = counted(&counts);
    let [register] = &vm.addresses[..] else {
        panic!("more than one");
    };
    assert_eq!(register.accesses, BTreeSet::from([(false, 2), (true, 2)]));
    assert_eq!(register.name, None);
}
