//! pc-testdev: its lines reach the kernel's interrupt controllers, its ports and its memory keep what is written, and
//! a flushed page keeps its contents.

use vmbell_hypervisor::Hypervisor;
use vmbell_hypervisor::measure::ExitCounts;
use vmbell_vmm::Stop;

use super::player::{Op, Play};

const MEMORY: u32 = 0xff00_0000;
/// Two pages of RAM that nothing else uses.
const PAGE: u32 = 0x50_0000;
const OTHER: u32 = 0x90_0000;

fn with_device(ops: impl Into<Vec<Op>>) -> Play {
    Play {
        pc_testdev: true,
        ..Play::new(ops)
    }
}

/// The interrupt requests of the second PIC, by its OCW3.
const REQUESTS: [Op; 2] = [Op::Out(1, 0xa0, 0x0a), Op::In(1, 0xa0)];

fn line_goes_up_and_down_at_the_controllers<H: Hypervisor>(hypervisor: &H) {
    // IRQ 14 of the second PIC is level-triggered, so that a request lasts as long as its line is up.
    let start = [
        Op::Out(1, 0x4d1, 0x40),
        Op::Out(1, 0xa0, 0x11),
        Op::Out(1, 0xa1, 0x28),
        Op::Out(1, 0xa1, 2),
        Op::Out(1, 0xa1, 1),
    ];
    let level = |value: u32| [Op::Out(1, 0x200e, value), REQUESTS[0], REQUESTS[1]];
    let ops = [&start[..], &level(0x80), &level(0), &level(1)].concat();
    let results = with_device(ops).results(hypervisor);
    let requests = [7, 10, 13].map(|index: usize| results[index] & 0x40);
    assert_eq!(requests, [0x40, 0, 0x40]);
}

fn latch_is_read_as_it_was_written_at_every_width<H: Hypervisor>(hypervisor: &H) {
    let results = with_device([
        Op::Out(4, 0xe0, 0x8765_4321),
        Op::In(4, 0xe0),
        Op::In(2, 0xe2),
        Op::Out(1, 0xe1, 0xff),
        Op::In(2, 0xe0),
        Op::In(4, 0xe8),
        Op::Out(2, 0xea, 0x1111),
        Op::In(1, 0xe3),
    ])
    .results(hypervisor);
    let read = [1, 2, 4, 5, 7].map(|index: usize| results[index]);
    assert_eq!(read, [0x8765_4321, 0x8765, 0xff21, 0x8765_ff21, 0x11]);
}

fn memory_keeps_what_is_written_to_its_end<H: Hypervisor>(hypervisor: &H) {
    let results = with_device([
        Op::Store(4, MEMORY + 0xfffc, 0x1234_5678),
        Op::Load(2, MEMORY + 0xfffe),
        Op::Load(4, MEMORY),
        Op::Load(4, MEMORY + 0x1_0000),
    ])
    .results(hypervisor);
    assert_eq!(results[1..], [0x1234, 0, 0xffff_ffff]);
}

/// Returns the exits of a guest that flushes a page and loads from [`PAGE`], 100 times.
fn exits<H: Hypervisor>(hypervisor: &H, flushed: u32) -> ExitCounts {
    let turn = [Op::Out(4, 0xe4, flushed + 0x123), Op::Load(4, PAGE)];
    let mut ops = vec![Op::Store(4, PAGE, 0x5eed)];
    ops.extend(turn.repeat(100));
    let played = with_device(ops).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Done(0)));
    let mut loads = played.results[2..].iter().step_by(2);
    assert!(loads.all(|value| *value == 0x5eed), "the contents stay");
    played.exits
}

fn flushed_page_faults_on_the_host_at_its_next_access<H: Hypervisor>(hypervisor: &H) {
    let (flushed, not) = (exits(hypervisor, PAGE), exits(hypervisor, OTHER));
    assert_eq!(flushed.heavy, not.heavy);
    // The number of other exits that do not reach the VMM, such as those for the host's timers, varies.
    let more = |(flushed, not)| flushed >= not + 50;
    assert!(
        flushed.light.zip(not.light).is_none_or(more),
        "{flushed:?} against {not:?}"
    );
}

fn flush_of_an_address_without_ram_does_nothing<H: Hypervisor>(hypervisor: &H) {
    let ops = [0xf000_0000, MEMORY, 128 << 20].map(|address| Op::Out(4, 0xe4, address));
    with_device(ops).results(hypervisor);
}

fn without_the_device_nobody_answers<H: Hypervisor>(hypervisor: &H) {
    let results = Play::new([
        Op::Out(4, 0xe0, 0),
        Op::In(4, 0xe0),
        Op::Store(4, MEMORY, 0),
        Op::Load(4, MEMORY),
    ])
    .results(hypervisor);
    assert_eq!((results[1], results[3]), (u32::MAX, u32::MAX));
}

testbed::on_kvm! {
    line_goes_up_and_down_at_the_controllers;
    latch_is_read_as_it_was_written_at_every_width;
    memory_keeps_what_is_written_to_its_end;
    flushed_page_faults_on_the_host_at_its_next_access;
    flush_of_an_address_without_ram_does_nothing;
    without_the_device_nobody_answers;
}
