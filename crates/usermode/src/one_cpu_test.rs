use std::sync::mpsc;

use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

/// A thread that acts as a vCPU until the value is dropped.
struct Vcpu {
    id: Pid,
    end: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Vcpu {
    fn start() -> Self {
        let (tell, id) = mpsc::channel();
        let (end, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(gettid()).unwrap();
            let _ = wait.recv();
        });
        Self {
            id: id.recv().unwrap(),
            end: Some(end),
            thread: Some(thread),
        }
    }

    fn cpus(&self) -> CpuSet {
        sched_getaffinity(Some(self.id)).unwrap()
    }
}

impl Drop for Vcpu {
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

fn my_cpus() -> CpuSet {
    sched_getaffinity(None).unwrap()
}

/// Counts exits until the threads are bound. At first the machine may be too busy for four exits in 4 ms.
fn together(one_cpu: &mut OneCpu, vcpu: &Vcpu) -> usize {
    loop {
        one_cpu.count_exit(vcpu.id);
        assert!(!matches!(one_cpu.place, Place::Refused));
        if let Place::Together(together) = &one_cpu.place {
            return together.cpu.0;
        }
    }
}

#[test]
fn frequent_exits_bring_both_threads_to_one_cpu() {
    let (before, vcpu) = (my_cpus(), Vcpu::start());
    let mut one_cpu = OneCpu::new();
    let cpu = together(&mut one_cpu, &vcpu);
    assert!(before.is_set(cpu));
    assert_eq!((my_cpus(), vcpu.cpus()), (only(cpu), only(cpu)));
    one_cpu.let_go();
    assert_eq!((my_cpus(), vcpu.cpus()), (before, before));
}

#[test]
fn seldom_exits_leave_the_threads_alone() {
    let (before, vcpu) = (my_cpus(), Vcpu::start());
    let mut one_cpu = OneCpu::new();
    for _ in 0..3 * EXITS {
        one_cpu.since -= EXITS_WITHIN;
        one_cpu.count_exit(vcpu.id);
    }
    assert!(!one_cpu.is_together());
    assert_eq!((my_cpus(), vcpu.cpus()), (before, before));
}

#[test]
fn threads_are_let_go_in_time_and_when_the_vcpu_is_dropped() {
    let (before, vcpu) = (my_cpus(), Vcpu::start());
    let mut one_cpu = OneCpu::new();
    together(&mut one_cpu, &vcpu);
    one_cpu.since -= TOGETHER;
    one_cpu.count_exit(vcpu.id);
    assert!(!one_cpu.is_together());
    assert_eq!((my_cpus(), vcpu.cpus()), (before, before));
    together(&mut one_cpu, &vcpu);
    drop(one_cpu);
    assert_eq!((my_cpus(), vcpu.cpus()), (before, before));
}

/// Replaces the scheduler's files. According to the new files, in the last 10 ms the vCPU ran for a quarter of the
/// time, and the monitor waited for another quarter and for `taken`.
fn disturb(one_cpu: &mut OneCpu, taken: Duration) {
    let Place::Together(together) = &mut one_cpu.place else {
        panic!("not together");
    };
    let vcpu_ran = CHECK / 4;
    let file = |running: Duration, waiting: Duration| {
        let file = File::from(memfd_create("schedstat", MemfdFlags::empty()).unwrap());
        let text = format!("{} {} 7\n", running.as_nanos(), waiting.as_nanos());
        file.write_all_at(text.as_bytes(), 0).unwrap();
        file
    };
    together.use_of_cpu = Some(UseOfCpu {
        files: [
            file(Duration::ZERO, vcpu_ran + taken),
            file(vcpu_ran, Duration::ZERO),
        ],
        before: [Times::default(); 2],
        since: Instant::now() - CHECK,
    });
}

#[test]
fn threads_whose_cpu_others_use_stay_apart_for_longer_each_time() {
    let vcpu = Vcpu::start();
    let mut one_cpu = OneCpu::new();
    for pause in [FIRST_PAUSE, FIRST_PAUSE * 2, FIRST_PAUSE * 4] {
        together(&mut one_cpu, &vcpu);
        disturb(&mut one_cpu, CHECK / 2);
        one_cpu.count_exit(vcpu.id);
        let Place::ApartUntil(moment) = one_cpu.place else {
            panic!("still together");
        };
        assert_eq!(moment - one_cpu.since, pause);
        one_cpu.place = Place::ApartUntil(one_cpu.since);
    }
}

#[test]
fn a_wait_for_another_vcpu_is_no_disturbance() {
    let vcpus = [Vcpu::start(), Vcpu::start()];
    let mut one_cpu = OneCpu::new();
    together(&mut one_cpu, &vcpus[0]);
    disturb(&mut one_cpu, CHECK);
    OneCpu::new().count_exit(vcpus[1].id);
    one_cpu.count_exit(vcpus[0].id);
    assert!(one_cpu.is_together());
}

#[test]
fn a_wait_for_the_other_thread_is_no_disturbance() {
    let vcpu = Vcpu::start();
    let mut one_cpu = OneCpu::new();
    together(&mut one_cpu, &vcpu);
    disturb(&mut one_cpu, Duration::ZERO);
    let Place::Together(together) = &mut one_cpu.place else {
        panic!("not together");
    };
    let disturbed = together.is_disturbed(Instant::now());
    assert!(!disturbed);
}

#[test]
fn threads_are_let_go_by_whoever_drops_the_vcpu() {
    let (before, vcpu) = (my_cpus(), Vcpu::start());
    let mut one_cpu = OneCpu::new();
    together(&mut one_cpu, &vcpu);
    thread::spawn(move || drop(one_cpu)).join().unwrap();
    assert_eq!((my_cpus(), vcpu.cpus()), (before, before));
}

#[test]
fn cpus_that_others_gave_a_bound_thread_are_left_to_it() {
    let (before, vcpu) = (my_cpus(), Vcpu::start());
    let mut one_cpu = OneCpu::new();
    together(&mut one_cpu, &vcpu);
    sched_setaffinity(Some(vcpu.id), &before).unwrap();
    let mut fewer = before;
    if let Some(cpu) = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| before.is_set(cpu))
        .nth(1)
    {
        fewer.unset(cpu);
        sched_setaffinity(None, &fewer).unwrap();
    }
    one_cpu.let_go();
    let after = my_cpus();
    sched_setaffinity(None, &before).unwrap();
    assert_eq!(vcpu.cpus(), before);
    // A set of one CPU cannot be distinguished from ours.
    assert!(after == fewer || fewer.count() == 1);
}

#[test]
fn threads_without_a_common_cpu_stay_apart() {
    let (before, vcpu) = (my_cpus(), Vcpu::start());
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| before.is_set(cpu))
        .collect();
    let [first, second, ..] = cpus[..] else {
        eprintln!("not tested: one CPU");
        return;
    };
    sched_setaffinity(Some(vcpu.id), &only(second)).unwrap();
    sched_setaffinity(None, &only(first)).unwrap();
    let mut one_cpu = OneCpu::new();
    while !matches!(one_cpu.place, Place::Refused) {
        assert!(!one_cpu.is_together());
        one_cpu.count_exit(vcpu.id);
    }
    let after = (my_cpus(), vcpu.cpus());
    sched_setaffinity(None, &before).unwrap();
    assert_eq!(after, (only(first), only(second)));
}

#[test]
fn vcpus_spread_over_the_cpus() {
    // No host has these CPUs, so no other test of this process claims them.
    let claim = || Claim::of_least_claimed(1001..1004, 1002).unwrap();
    let claims = [claim(), claim(), claim(), claim()];
    assert_eq!(
        claims.each_ref().map(|claim| claim.0),
        [1002, 1001, 1003, 1002]
    );
    drop(claims);
    assert_eq!(claim().0, 1002);
    assert!(Claim::of_least_claimed(0..0, 0).is_none());
}
