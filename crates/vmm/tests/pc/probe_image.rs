//! The guest image that measures VMMs, on this VMM.

use serde_json::Value;
use vmbell_devices::virtio::{Disk, Entropy, Notify, Raise, VirtioConfig, VirtioDevice};
use vmbell_hypervisor::{CpuFeatures, Hypervisor};
use vmbell_vmm::{Boot, Image, Pc, PcConfig, PcModel, Stop};

use std::time::Instant;

use testbed::HANG;
use testbed::paper::Paper;

const OPERATIONS: u64 = 5;
const BATCHES: usize = 2;

/// Boots the image with virtio devices, and returns its document.
fn document<H: Hypervisor>(hypervisor: &H, vcpus: u16, virtio: VirtioConfig, words: &str) -> Value {
    let config = PcConfig {
        vcpus,
        ..PcConfig::default()
    };
    document_of(hypervisor, config, virtio, words)
}

fn document_of<H: Hypervisor>(
    hypervisor: &H,
    config: PcConfig,
    virtio: VirtioConfig,
    words: &str,
) -> Value {
    let image = Image::parse("probe.elf".to_owned(), vmbell_probe_image::ELF).unwrap();
    let paper = Paper::default();
    let boot = Boot {
        arguments: format!("ops={OPERATIONS} batches={BATCHES} {words}"),
        ..Boot::default()
    };
    let pc = Pc::new(hypervisor, config, &paper.output).unwrap();
    pc.add_virtio_pci(VirtioDevice::new(Entropy, 1, virtio))
        .unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let disk = VirtioDevice::new(Disk::new(file, false).unwrap(), 1, virtio);
    pc.add_virtio_pci(disk).unwrap();
    let begun = Instant::now();
    let end = pc.run(&image, &boot, move || begun.elapsed() > HANG);
    let output = paper.text();
    // 0x10 written to the port of the debug-exit device.
    assert_eq!(end.ok(), Some(Stop::Done(0x10)), "{output}");
    let (_, rest) = output.split_once("=== vmbell-probe begin 1 ===\n").unwrap();
    let (line, _) = rest.split_once("\n=== vmbell-probe end ===").unwrap();
    serde_json::from_str(line).unwrap()
}

fn rows(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let rows = document["rows"].as_array().unwrap();
    rows.iter().map(|row| (row["name"].as_str().unwrap(), row))
}

/// The PC has two virtio devices and all else that the rows need.
fn every_row_has_samples<H: Hypervisor>(hypervisor: &H) {
    let document = document(hypervisor, 2, VirtioConfig::default(), "");
    assert_eq!(document["boot"], "multiboot");
    assert_eq!(document["cpus"], 2);
    assert_eq!(document["hypervisor"], "KVMKVMKVM");
    assert_eq!(document["tsc_source"], "pvclock");
    for (name, row) in rows(&document) {
        let absent = ["virtio-console-", "virtio-net-"];
        if absent.iter().any(|device| name.starts_with(device)) {
            assert_eq!(row["reason"], "there is no such device");
        } else {
            has_samples(row);
        }
    }
}

fn has_samples(row: &Value) {
    assert_eq!(row["operations"], OPERATIONS, "{row}");
    let samples = row["samples"].as_array().unwrap();
    assert_eq!(samples.len(), BATCHES, "{row}");
    assert!(
        samples.iter().all(|sample| sample.as_u64() > Some(0)),
        "{row}"
    );
}

fn virtio_rows_have_samples_by_each_way<H: Hypervisor>(hypervisor: &H) {
    let names = [
        "notify",
        "notify-idle",
        "round-trip-polled",
        "round-trip-interrupt",
        "eoi",
    ];
    let kinds = ["rng", "blk"];
    let names = kinds.map(|kind| names.map(|name| format!("virtio-{kind}-{name}")));
    let names = names.concat();
    let words = format!("only={}", names.join(","));
    for (notify, notify_ports) in [(Notify::Doorbell, true), (Notify::Exit, false)] {
        for raise in [Raise::Irqfd, Raise::Call] {
            let config = VirtioConfig {
                notify,
                raise,
                notify_ports,
                packed: false,
                notification_data: false,
            };
            let document = document(hypervisor, 1, config, &words);
            for (place, kind) in kinds.iter().enumerate() {
                let device = &document["devices"][place];
                assert_eq!(device["kind"], *kind, "{device}");
                assert_eq!(device["interrupt"], "msix", "{device}");
            }
            let asked = rows(&document).filter(|(name, _)| names.iter().any(|other| other == name));
            assert_eq!(asked.map(|(_, row)| has_samples(row)).count(), names.len());
        }
    }
}

fn pv_eoi_is_offered_unless_it_is_off<H: Hypervisor>(hypervisor: &H) {
    const ROW: &str = "xapic-self-ipi-pv-eoi";
    for pv_eoi in [true, false] {
        let config = PcConfig {
            pv_eoi,
            ..PcConfig::default()
        };
        let words = format!("only={ROW}");
        let document = document_of(hypervisor, config, VirtioConfig::default(), &words);
        let (_, row) = rows(&document).find(|(name, _)| *name == ROW).unwrap();
        if pv_eoi {
            has_samples(row);
        } else {
            assert_eq!(row["reason"], "no paravirtual EOI is offered", "{row}");
        }
    }
}

fn words_leave_rows_out<H: Hypervisor>(hypervisor: &H) {
    let document = document(
        hypervisor,
        1,
        VirtioConfig::default(),
        "safe x2apic only=cpuid,pio-unassigned,xapic-eoi",
    );
    assert_eq!(document["apic"], "x2apic");
    for (name, row) in rows(&document) {
        let reason = match name {
            "cpuid" => Value::Null,
            "pio-unassigned" => "left out by the word safe".into(),
            "xapic-eoi" => "the local APIC is in its other mode".into(),
            _ => "not asked for".into(),
        };
        assert_eq!(row["reason"], reason, "{name}");
    }
}

fn micro_model_starts_in_x2apic_mode_and_has_all_devices<H: Hypervisor>(hypervisor: &H) {
    let config = PcConfig {
        model: PcModel::Micro,
        vcpus: 2,
        ..PcConfig::default()
    };
    let document = document_of(hypervisor, config, VirtioConfig::default(), "");
    assert_eq!(document["apic"], "x2apic");
    for device in document["devices"].as_array().unwrap() {
        assert_eq!(device["found_by"], "pci-ecam", "{device}");
        assert_eq!(device["interrupt"], "msix", "{device}");
    }
    for (name, row) in rows(&document) {
        let absent = [
            "virtio-console-",
            "virtio-net-",
            "xapic-",
            "pit-",
            "rtc-",
            "pm-timer-",
        ];
        if absent.iter().any(|row| name.starts_with(row)) {
            assert_ne!(row["reason"], Value::Null, "{name}");
        } else {
            has_samples(row);
        }
    }
}

fn hidden_x2apic_is_not_the_mode_of_the_micro_model<H: Hypervisor>(hypervisor: &H) {
    let mut hidden = CpuFeatures::NONE;
    assert!(hidden.insert("x2apic"));
    let config = PcConfig {
        model: PcModel::Micro,
        hidden,
        ..PcConfig::default()
    };
    let document = document_of(
        hypervisor,
        config,
        VirtioConfig::default(),
        "only=xapic-eoi",
    );
    assert_eq!(document["apic"], "xapic");
}

testbed::on_kvm! {
    micro_model_starts_in_x2apic_mode_and_has_all_devices;
    hidden_x2apic_is_not_the_mode_of_the_micro_model;
    every_row_has_samples;
    virtio_rows_have_samples_by_each_way;
    pv_eoi_is_offered_unless_it_is_off;
    words_leave_rows_out;
}
