use super::*;
use vmbell_virtqueue::SetupError;

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);

fn ready() -> Device {
    let device = Device::new(Notify::Exit);
    device.negotiate(0);
    device
}

fn setup_error(device: &Device) -> SetupError {
    match device.refusal() {
        Refusal::Setup { source, .. } => source,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sound_queue_becomes_ready() {
    let device = ready();
    assert!(device.set_up(1, 8, &LAYOUT));
    device.write(register::QUEUE_SEL, 0);
    assert_eq!(device.read(register::QUEUE_READY), 0, "the other is not");
}

#[test]
fn a_queue_of_no_descriptors_does_not_become_ready() {
    let device = ready();
    assert!(!device.set_up(0, 0, &LAYOUT));
    assert_eq!(setup_error(&device), SetupError::Size { size: 0 });
    assert_eq!(device.status() & NEEDS_RESET, 0, "it may try again");
    assert!(device.set_up(0, 8, &LAYOUT));
}

#[test]
fn a_size_that_is_no_power_of_two_does_not_become_ready() {
    let device = ready();
    assert!(!device.set_up(0, 6, &LAYOUT));
    assert_eq!(setup_error(&device), SetupError::Size { size: 6 });
}

#[test]
fn a_size_above_the_most_does_not_become_ready() {
    let device = ready();
    let most = device.read(register::QUEUE_SIZE_MAX);
    assert_eq!(most, 256);
    for size in [512, 65_536, 0x1_0008, u32::MAX] {
        assert!(!device.set_up(0, size, &LAYOUT), "{size}");
        let refusal = device.refusal();
        assert!(
            matches!(refusal, Refusal::Size { size: of, .. } if of == size),
            "{refusal:?}"
        );
    }
}

#[test]
fn a_ring_outside_of_ram_does_not_become_ready() {
    let device = ready();
    let end = RAM as u64;
    for base in [end, end - 64, 1 << 40, !0xfff] {
        let layout = SplitLayout {
            size: 8,
            descriptors: base,
            avail: base.wrapping_add(0x80),
            used: base.wrapping_add(0x100),
        };
        assert!(!device.set_up(0, 8, &layout), "{base:#x}");
        assert!(
            matches!(setup_error(&device), SetupError::Outside { .. }),
            "{base:#x}"
        );
    }
}

#[test]
fn a_misaligned_ring_does_not_become_ready() {
    let device = ready();
    let layout = SplitLayout {
        used: LAYOUT.used + 2,
        ..LAYOUT
    };
    assert!(!device.set_up(0, 8, &layout));
    assert!(matches!(
        setup_error(&device),
        SetupError::Misaligned { .. }
    ));
}

#[test]
fn a_queue_that_is_not_there_has_no_size_and_takes_nothing() {
    let device = ready();
    for queue in [2, 0x1_0000, u32::MAX] {
        device.write(register::QUEUE_SEL, queue);
        assert_eq!(device.read(register::QUEUE_SIZE_MAX), 0, "{queue}");
        assert!(!device.set_up(queue, 8, &LAYOUT), "{queue}");
    }
    assert_eq!(device.transport.queues().len(), 2);
}

#[test]
fn a_queue_is_not_ready_before_features_are_accepted() {
    let device = Device::new(Notify::Exit);
    device.write(register::STATUS, PROBED);
    assert!(!device.set_up(0, 8, &LAYOUT));
    assert!(matches!(
        device.refusal(),
        Refusal::ReadyOutOfTurn { status: 3, .. }
    ));
}

#[test]
fn a_queue_does_not_become_ready_once_the_device_is_live() {
    let device = ready();
    device.go_live();
    assert!(!device.set_up(0, 8, &LAYOUT));
    assert!(matches!(
        device.refusal(),
        Refusal::ReadyOutOfTurn { status: 15, .. }
    ));
}

#[test]
fn a_ready_queue_cannot_be_moved() {
    let device = ready();
    assert!(device.set_up(0, 8, &LAYOUT));
    device.write(register::QUEUE_DESC[0], 0xffff_fff0);
    device.write(register::QUEUE_SIZE, 0);
    device.go_live();
    let queue = Arc::clone(&device.transport.queues()[0]);
    assert_eq!(queue.serve(), Served::default());
    assert!(device.transport.take_refusal().is_none());
}

#[test]
fn a_reset_forgets_every_queue() {
    let device = ready();
    assert!(device.set_up(0, 8, &LAYOUT) && device.set_up(1, 8, &LAYOUT));
    device.write(register::STATUS, 0);
    for queue in [0, 1] {
        device.write(register::QUEUE_SEL, queue);
        assert_eq!(device.read(register::QUEUE_READY), 0);
    }
}
