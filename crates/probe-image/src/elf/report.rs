//! The image's report: one line of JSON between two lines that no other program prints.

use core::fmt;

use super::rows::Probe;
use super::rows::{ROWS, Results, mark};
use super::serial::{Serial, say};
use super::virtio::{Device, Interrupt};
use crate::json::Json;
use crate::number::Digits;

/// The version of the report's format.
const VERSION: u64 = 1;

/// Prints the report.
pub fn print(probe: &Probe<'_>, apic: &str, cpus: u64, results: &Results, end: &str) {
    say!("=== vmbell-probe begin ", Digits::decimal(VERSION), " ===");
    // Writing to the serial port cannot fail.
    let _ = document(&mut Json::new(&mut Serial), probe, apic, cpus, results, end);
    say!("");
    say!("=== vmbell-probe end ===");
}

fn document(
    json: &mut Json<'_, Serial>,
    probe: &Probe<'_>,
    apic: &str,
    cpus: u64,
    results: &Results,
    end: &str,
) -> fmt::Result {
    json.open('{')?;
    json.name("version")?;
    json.number(VERSION)?;
    json.name("boot")?;
    json.text(probe.boot.name())?;
    json.name("cpu")?;
    json.open('{')?;
    json.name("vendor")?;
    json.text(probe.cpu.vendor())?;
    json.name("brand")?;
    json.text(probe.cpu.brand())?;
    json.close('}')?;
    json.name("hypervisor")?;
    json.text_or_null(probe.cpu.hypervisor())?;
    json.name("apic")?;
    json.text(apic)?;
    json.name("cpus")?;
    json.number(cpus)?;
    json.name("tsc_hz")?;
    json.number_or_null(probe.clock.map(|(hz, _)| hz))?;
    json.name("tsc_source")?;
    json.text_or_null(probe.clock.map(|(_, source)| source))?;
    json.name("devices")?;
    json.open('[')?;
    for device in probe.devices.working() {
        write_device(json, device)?;
    }
    json.close(']')?;
    json.name("rows")?;
    json.open('[')?;
    for (place, row) in ROWS.iter().enumerate() {
        json.open('{')?;
        json.name("name")?;
        json.text(row.name)?;
        json.name("mark")?;
        json.number(u64::from(mark(place)))?;
        match results.row(place, probe.options.batches) {
            Ok(samples) => {
                json.name("operations")?;
                json.number(u64::from(probe.options.operations))?;
                json.name("samples")?;
                json.open('[')?;
                for sample in samples {
                    json.number(*sample)?;
                }
                json.close(']')?;
            }
            Err(reason) => {
                json.name("reason")?;
                json.text(reason)?;
            }
        }
        json.close('}')?;
    }
    json.close(']')?;
    json.name("end")?;
    json.text(end)?;
    json.close('}')
}

fn write_device(json: &mut Json<'_, Serial>, device: &Device) -> fmt::Result {
    let (interrupt, gsi) = match device.interrupt {
        None => (None, None),
        Some(Interrupt::Msix(_)) => (Some("msix"), None),
        Some(Interrupt::Intx(line)) => (Some("intx"), Some(line.gsi)),
        Some(Interrupt::Mmio(line)) => (Some("line"), Some(line.gsi)),
    };
    json.open('{')?;
    json.name("kind")?;
    json.text(device.kind.name())?;
    json.name("transport")?;
    json.text(if device.is_pci() { "pci" } else { "mmio" })?;
    json.name("found_by")?;
    json.text(device.found_by)?;
    json.name("interrupt")?;
    json.text_or_null(interrupt)?;
    json.name("gsi")?;
    json.number_or_null(gsi.map(u64::from))?;
    json.close('}')
}
