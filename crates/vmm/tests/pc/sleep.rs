//! What a BIOS leaves, the clock, sleep and wake-up, and reset.

use std::time::Duration;

use vmbell_devices::WAKING_VECTOR;
use vmbell_hypervisor::Hypervisor;
use vmbell_vmm::{PcConfig, Stop};

use super::player::{Op, Play};
use kit::image::Segment;

const STATUS: u32 = 0x600;
const ENABLE: u32 = 0x602;
const CONTROL: u32 = 0x604;
/// The bit of the clock's event in the first two registers.
const RTC: u32 = 0x400;
/// S3 and S5, with the bit that starts the sleep.
const S3: u32 = 0x2400;
const S5: u32 = 0x2000;

/// Where the guest wakes up, and where it then stores what it finds.
const WAKING: u32 = 0x8_1235;
const AWAKE: u32 = 0x500;

/// Real-mode code: stores CS and CR0, reads the status of the events, and is done with code 7. Reads the marker at
/// `AWAKE` before it overwrites it.
const RESUME: [u8; 45] = [
    0xfa, // cli
    0x31, 0xc0, 0x8e, 0xd8, // xor ax, ax; mov ds, ax
    0xa1, 0x00, 0x05, 0xa3, 0x08, 0x05, // mov ax, [0x500]; mov [0x508], ax
    0x8c, 0xc8, 0xa3, 0x02, 0x05, // mov ax, cs; mov [0x502], ax
    0x0f, 0x20, 0xc0, 0x66, 0xa3, 0x04, 0x05, // mov eax, cr0; mov [0x504], eax
    0xba, 0x00, 0x06, 0xed, 0xa3, 0x00, 0x05, // mov dx, 0x600; in ax, dx; mov [0x500], ax
    0x66, 0x31, 0xc0, 0xb0, 0x07, // xor eax, eax; mov al, 7
    0xba, 0xf4, 0x00, 0x66, 0xef, // mov dx, 0xf4; out dx, eax
    0xf4, 0xeb, 0xfd, 0x90, 0x90, // hlt; jmp to hlt
];

fn cmos(register: u32, value: u32) -> [Op; 2] {
    [Op::Out(1, 0x70, register), Op::Out(1, 0x71, value)]
}

/// Sets an alarm for each second, which is an event.
fn alarm() -> Vec<Op> {
    let any = [1, 3, 5].map(|register| cmos(register, 0xc0));
    let flags = [Op::Out(1, 0x70, 0x0c), Op::In(1, 0x71)];
    let mut ops = vec![Op::Out(2, ENABLE, RTC)];
    ops.extend(any.concat());
    ops.extend(flags);
    ops.extend(cmos(0x0b, 0x22));
    ops
}

/// Goes to sleep. What the guest does after it wakes up is at `AWAKE`.
fn sleeper(vector: u32, vcpus: u16) -> Play {
    let mut ops = alarm();
    ops.push(Op::Store(4, WAKING_VECTOR, vector));
    ops.push(Op::Store(4, AWAKE, 0x1111));
    ops.push(Op::Out(2, CONTROL, S3));
    ops.push(Op::Store(4, AWAKE, 0x2222));
    Play {
        config: PcConfig {
            vcpus,
            ..PcConfig::default()
        },
        segments: vec![Segment::new(WAKING, RESUME)],
        ..Play::new(ops)
    }
}

/// The guest wakes up in real mode at the reset vector, as if it had jumped there.
fn guest_at_the_reset_vector_is_reset<H: Hypervisor>(hypervisor: &H) {
    let played = sleeper(0xf_fff0, 1).run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Reset));
}

fn alarm_wakes_a_sleeping_guest_at_its_vector_in_real_mode<H: Hypervisor>(hypervisor: &H) {
    for vcpus in [1, 2] {
        let played = sleeper(WAKING, vcpus).run(hypervisor);
        assert_eq!(played.end, Ok(Stop::Done(7)));
        let word = |at: usize| u16::from_le_bytes(played.low[at..at + 2].try_into().unwrap());
        assert_eq!(word(0x508), 0x1111, "nothing runs after the sleep began");
        assert_eq!(word(0x502), 0x8123, "its code segment");
        assert_eq!(word(0x504) & 1, 0, "real mode");
        assert_eq!(word(0x500) & 0x8400, 0x8400, "woken, by the clock");
    }
}

/// Real-mode code: stores the PV EOI register at 0x510 and above and switches it on. Goes to sleep again the first
/// time, and is done with code 7 the second time.
const TWICE: [u8; 75] = [
    0x66, 0xb9, 0x04, 0x4d, 0x56, 0x4b, // mov ecx, 0x4b564d04
    0x8b, 0x1e, 0x00, 0x05, 0xc1, 0xe3, 0x02, // mov bx, [0x500]; shl bx, 2
    0x0f, 0x32, 0x66, 0x09, 0xd0, // rdmsr; or eax, edx
    0x66, 0x89, 0x87, 0x10, 0x05, // mov [bx + 0x510], eax
    0x66, 0xb8, 0x01, 0x30, 0x00, 0x00, // mov eax, 0x3001
    0x66, 0x31, 0xd2, 0x0f, 0x30, // xor edx, edx; wrmsr
    0xff, 0x06, 0x00, 0x05, // inc word ptr [0x500]
    0x83, 0x3e, 0x00, 0x05, 0x02, 0x74, 0x14, // cmp word ptr [0x500], 2; je to the end
    0xb0, 0x0c, 0xe6, 0x70, 0xe4, 0x71, // the clock's flags are cleared by reading register C
    0xba, 0x00, 0x06, 0xb8, 0x00, 0x84, 0xef, // mov dx, 0x600; mov ax, 0x8400; out dx, ax
    0x83, 0xc2, 0x04, 0xb4, 0x24, 0xef, 0xf4, // add dx, 4; mov ah, 0x24; out dx, ax; hlt
    0x66, 0xb8, 0x07, 0x00, 0x00, 0x00, // mov eax, 7
    0x66, 0xe7, 0xf4, 0xf4, // out 0xf4, eax; hlt
];

fn every_wake_up_is_a_reset_of_the_cpu<H: Hypervisor>(hypervisor: &H) {
    let sleeper = sleeper(WAKING, 1);
    let mut ops = sleeper.ops.clone();
    ops.insert(ops.len() - 2, Op::Store(4, AWAKE, 0));
    let play = Play {
        ops,
        segments: vec![Segment::new(WAKING, TWICE)],
        ..sleeper
    };
    let played = play.run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Done(7)));
    let word = |at: usize| u32::from_le_bytes(played.low[at..at + 4].try_into().unwrap());
    assert_eq!(word(AWAKE as usize), 2, "it woke up twice");
    assert_eq!(
        (word(0x510), word(0x514)),
        (0, 0),
        "PV EOI is off each time"
    );
}

/// Real-mode code: halts with interrupts on until the BIOS has counted two ticks, and is done with code 7.
const TICKS: [u8; 19] = [
    0xfb, 0xf4, // sti; hlt
    0x83, 0x3e, 0x6c, 0x04, 0x02, 0x72, 0xf8, // cmp word ptr [0x46c], 2; jb to hlt
    0x66, 0xb8, 0x07, 0x00, 0x00, 0x00, // mov eax, 7
    0x66, 0xe7, 0xf4, 0xf4, // out 0xf4, eax; hlt
];

fn timer_of_the_bios_ticks_in_real_mode<H: Hypervisor>(hypervisor: &H) {
    let play = Play {
        segments: vec![Segment::new(WAKING, TICKS)],
        ..sleeper(WAKING, 1)
    };
    let played = play.run(hypervisor);
    assert_eq!(played.end, Ok(Stop::Done(7)));
    assert!(played.low[0x46c] >= 2);
}

fn pics_are_set_up_with_the_timer_alone_enabled<H: Hypervisor>(hypervisor: &H) {
    let ops = [Op::In(1, 0x21), Op::In(1, 0xa1)];
    assert_eq!(Play::new(ops).results(hypervisor), [0xfa, 0xff]);
}

fn sleep_without_an_event_lasts_until_the_limit<H: Hypervisor>(hypervisor: &H) {
    let play = Play {
        limit: Some(Duration::from_millis(1500)),
        ..Play::new([
            Op::Out(2, STATUS, 0xffff),
            Op::Out(2, CONTROL, S3),
            Op::done(1),
        ])
    };
    assert_eq!(play.run(hypervisor).end, Ok(Stop::Kicked));
}

fn vector_that_real_mode_cannot_reach_is_an_error<H: Hypervisor>(hypervisor: &H) {
    for vector in [0, 0x10_0000] {
        let error = sleeper(vector, 1).run(hypervisor).end.unwrap_err();
        let expected = format!("its waking vector in the FACS is {vector:#x}");
        assert!(error.contains(&expected), "{error}");
    }
}

fn alarm_is_an_interrupt_at_line_8<H: Hypervisor>(hypervisor: &H) {
    // The second PIC with level-triggered lines, and the requests that it sees.
    let mut ops = vec![
        Op::Out(1, 0x4d1, 0x02),
        Op::Out(1, 0xa0, 0x11),
        Op::Out(1, 0xa1, 0x28),
        Op::Out(1, 0xa1, 2),
        Op::Out(1, 0xa1, 1),
        Op::Out(1, 0xa0, 0x0a),
    ];
    ops.extend(alarm());
    ops.push(Op::In(1, 0xa0));
    let before = ops.len() - 1;
    ops.extend([Op::AwaitSet(STATUS + 1, 0x04), Op::In(2, STATUS)]);
    ops.push(Op::In(1, 0xa0));
    let results = Play::new(ops).results(hypervisor);
    assert_eq!(results[before] & 3, 0);
    assert_eq!(results[results.len() - 2] & RTC, RTC);
    // Line 8 from the clock, line 9 from the event.
    assert_eq!(results[results.len() - 1] & 3, 3);
}

fn s5_switches_off<H: Hypervisor>(hypervisor: &H) {
    let ops = [Op::Out(2, CONTROL, S5), Op::done(1)];
    assert_eq!(Play::new(ops).run(hypervisor).end, Ok(Stop::Shutdown));
}

fn each_way_of_reset_ends_the_run_at_once<H: Hypervisor>(hypervisor: &H) {
    for (port, value) in [(0x64, 0xfe), (0x92, 0x01), (0xcf9, 0x06), (0xcf9, 0x0e)] {
        // A guest that continues after the reset would be done.
        let ops = [Op::Out(1, port, value), Op::done(1)];
        assert_eq!(Play::new(ops).run(hypervisor).end, Ok(Stop::Reset));
    }
}

fn bios_data_say_where_low_memory_ends<H: Hypervisor>(hypervisor: &H) {
    let results = Play::new([
        Op::Load(2, 0x40e),
        Op::Load(2, 0x413),
        Op::Load(1, 0x9_fc00),
        Op::In(1, 0x92),
        Op::In(1, 0x64),
    ])
    .results(hypervisor);
    assert_eq!(results[..4], [0x9fc0, 639, 1, 2]);
    assert_eq!(results[4] & 3, 0, "the controller is ready");
}

fn clock_shows_that_an_update_is_in_progress_once_a_second<H: Hypervisor>(hypervisor: &H) {
    let seconds = [Op::Out(1, 0x70, 0), Op::In(1, 0x71)];
    let updating = [
        Op::Out(1, 0x70, 0x0a),
        Op::AwaitSet(0x71, 0x80),
        Op::AwaitClear(0x71, 0x80),
    ];
    let ops = [&updating[..], &seconds, &updating, &seconds].concat();
    let results = Play::new(ops).results(hypervisor);
    assert_ne!(results[4], results[9]);
}

testbed::on_kvm! {
    guest_at_the_reset_vector_is_reset;
    alarm_wakes_a_sleeping_guest_at_its_vector_in_real_mode;
    every_wake_up_is_a_reset_of_the_cpu;
    timer_of_the_bios_ticks_in_real_mode;
    pics_are_set_up_with_the_timer_alone_enabled;
    sleep_without_an_event_lasts_until_the_limit;
    vector_that_real_mode_cannot_reach_is_an_error;
    alarm_is_an_interrupt_at_line_8;
    s5_switches_off;
    each_way_of_reset_ends_the_run_at_once;
    bios_data_say_where_low_memory_ends;
    clock_shows_that_an_update_is_in_progress_once_a_second;
}
