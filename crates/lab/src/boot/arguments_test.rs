use super::*;
use crate::board::{AARCH64, AARCH64_NESTING, X86_64};
use crate::device::L1Driver;

fn line(settings: &Settings) -> String {
    line_of(&X86_64, settings)
}

fn line_of(board: &LabBoard, settings: &Settings) -> String {
    line_from(Start::Boot, board, settings)
}

fn line_from(start: Start, board: &LabBoard, settings: &Settings) -> String {
    let ports = [Channel::new("lab.control").unwrap()];
    let inherited = QemuFiles {
        start,
        initramfs: Some(8),
        window: 7,
        ports: &ports,
    };
    let words = arguments(board, settings, Path::new("/k"), None, &inherited);
    words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
        // The descriptor's number differs each time.
        .replace(&ports[0].chardev(), "socket,id=lab.control,fd=9")
}

#[test]
fn deterministic_mode_counts_instructions_on_one_cpu() {
    let line = line(&Settings {
        mode: TimeMode::Deterministic { seed: None },
        ..Settings::default()
    });
    assert!(
        line.contains("-icount shift=0,sleep=off") && line.contains("-smp 1 "),
        "{line}"
    );
    assert!(!line.contains("thread=multi"));
}

#[test]
fn a_seed_moves_the_start_within_one_period_of_the_same_machine() {
    let settings = |seed, moment| Settings {
        mode: TimeMode::Deterministic { seed },
        moment,
        ..Settings::default()
    };
    let phase = |seed, moment| settings(seed, moment).phase();
    // One saved state serves all seeds.
    assert_eq!(line(&settings(None, 0)), line(&settings(Some(7), 3)));
    assert_eq!(phase(None, 0), 0);
    let mut phases: Vec<u64> = (1..=64).map(|seed| phase(Some(seed), 0)).collect();
    phases.push(phase(Some(u32::MAX), u32::MAX));
    assert!(phases.iter().all(|phase| *phase < TICK), "{phases:?}");
    phases.sort_unstable();
    assert!(
        phases.windows(2).all(|two| two[1] - two[0] < TICK / 16),
        "{phases:?}"
    );
    // A restarted program starts at a different phase of the period.
    assert!(phase(None, 1) != phase(None, 0) && phase(Some(7), 2) != phase(Some(7), 1));
}

/// A guest sees the same hardware, no matter how its machine starts.
#[test]
fn a_machine_has_the_same_devices_in_the_same_slots_however_it_begins() {
    let (memory, monitor) = (5, 6);
    let starts = [
        Start::Boot,
        Start::Save { memory, monitor },
        Start::Restore { memory, monitor },
    ];
    let devices = starts.map(|start| {
        let line = line_from(start, &X86_64, &Settings::default());
        let words = line.split(" -device ").skip(1);
        let device = |word: &str| word.split(' ').next().unwrap().to_owned();
        words.map(device).collect::<Vec<_>>()
    });
    assert_eq!(devices[0], devices[1]);
    assert_eq!(devices[0], devices[2]);
    assert!(
        devices[0]
            .iter()
            .any(|device| device.starts_with("ivshmem-plain,"))
    );
}

#[test]
fn only_a_machine_that_is_saved_shares_its_memory() {
    let (memory, monitor) = (5, 6);
    for (start, shared) in [
        (Start::Boot, 0),
        (Start::Save { memory, monitor }, 2),
        (Start::Restore { memory, monitor }, 0),
    ] {
        let line = line_from(start, &X86_64, &Settings::default());
        assert_eq!(line.matches("share=on").count(), shared, "{line}");
        assert!(line.contains("memory-backend=lab.ram"), "{line}");
    }
}

#[test]
fn only_a_machine_that_is_saved_stops_itself() {
    let (memory, monitor) = (5, 6);
    let booted = line_from(Start::Boot, &X86_64, &Settings::default());
    assert!(booted.contains("-action panic=none"), "{booted}");
    let saved = Start::Save { memory, monitor };
    let saved = line_from(saved, &X86_64, &Settings::default());
    assert!(saved.contains("-action panic=pause"), "{saved}");
}

#[test]
fn deterministic_mode_answers_notifications_on_the_thread_of_the_cpu() {
    let line_in = |mode| {
        line(&Settings {
            mode,
            ..Settings::default()
        })
    };
    let off = "-device virtio-serial-pci,ioeventfd=off ";
    assert!(line_in(TimeMode::Deterministic { seed: None }).contains(off));
    assert!(!line_in(TimeMode::Functional { cpus: 2 }).contains(off));
}

#[test]
fn devices_add_an_iommu_and_change_nothing_else() {
    let plugged = |name: &str| PluggedDevice {
        device: X86_64.devices.iter().find(|d| d.name == name).unwrap(),
        driver: L1Driver::None,
    };
    let settings = |devices| Settings {
        devices,
        ..Settings::default()
    };
    let line_with = line(&settings(vec![plugged("edu"), plugged("e1000e")]));
    let devices = " -device intel-iommu,intremap=on -device edu,addr=3 \
        -netdev hubport,id=lab.e1000e,hubid=0 -netdev hubport,id=lab.net,hubid=0 \
        -device e1000e,addr=4,netdev=lab.e1000e,mac=52:54:00:00:00:04,romfile= \
        -device virtio-net-pci,addr=5,netdev=lab.net,mac=52:54:00:00:00:05,romfile= ";
    assert!(line_with.contains(devices), "{line_with}");
    assert!(line_with.contains(" intel_iommu=on "), "{line_with}");
    let without = line_with
        .replace(devices, " ")
        .replace(" intel_iommu=on ", " ");
    assert_eq!(line(&settings(Vec::new())), without);
}

#[test]
fn arm64_has_the_interrupt_controller_that_is_asked_for() {
    for (gic, version) in [
        (None, 3),
        (Some(GicVersion::V3), 3),
        (Some(GicVersion::V2), 2),
    ] {
        let line = line_of(
            &AARCH64,
            &Settings {
                gic,
                ..Settings::default()
            },
        );
        let machine = format!(
            "-machine virt,virtualization=on,gic-version={version},memory-backend=lab.ram -cpu cortex-a76 "
        );
        assert!(line.starts_with(&machine), "{line}");
    }
}

#[test]
fn arm64_has_el2_in_guests_on_a_newer_cpu_with_a_parameter_of_the_kernel() {
    let line = line_of(&AARCH64_NESTING, &Settings::default());
    assert!(line.contains(" -cpu max,pauth=off "), "{line}");
    assert!(line.contains(" kvm-arm.mode=nested "), "{line}");
    let line = line_of(&AARCH64, &Settings::default());
    assert!(!line.contains("nested"), "{line}");
}

#[test]
fn a_platform_device_puts_the_iommu_into_the_machine() {
    let devices = AARCH64.devices.iter().map(|device| PluggedDevice {
        device,
        driver: L1Driver::None,
    });
    let settings = Settings {
        devices: devices.collect(),
        ..Settings::default()
    };
    let line = line_of(&AARCH64, &settings);
    assert!(
        line.contains(",gic-version=3,iommu=smmuv3,memory-backend"),
        "{line}"
    );
    assert!(line.contains(" -rtc clock=vm -kernel"), "{line}");
    let machine = machine_arguments(&AARCH64, &settings, ",dumpdtb=/t");
    let machine = machine[1].to_str().unwrap();
    assert!(machine.ends_with(",iommu=smmuv3,dumpdtb=/t"), "{machine}");
}

#[test]
fn the_callers_words_come_last() {
    let settings = Settings {
        parameters: vec!["intel_iommu=on".into()],
        qemu: vec!["-device".into(), "edu".into()],
        ..Settings::default()
    };
    let line = line(&settings);
    assert!(
        line.contains(" intel_iommu=on rdinit=/lab/loader ") && line.ends_with(" -device edu"),
        "{line}"
    );
    assert!(line.contains("-initrd /proc/self/fd/8 "), "{line}");
    assert!(line.contains("-chardev socket,id=lab.control,fd=9 "));
    assert!(line.contains(" -device virtserialport,chardev=lab.control,name=lab.control"));
}
