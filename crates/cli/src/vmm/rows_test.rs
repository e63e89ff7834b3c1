use super::super::document::Document;
use super::super::launcher::Launcher;
use super::super::qemu::Board;
use super::*;
use vmbell_report::Status;
use vmbell_report::VmmGuest;

fn guest(hypervisor: &str, tsc_hz: Option<f64>) -> VmmGuest {
    VmmGuest {
        boot: "pvh".to_owned(),
        cpu_vendor: "v".to_owned(),
        cpu: "b".to_owned(),
        hypervisor: Some(hypervisor.to_owned()),
        apic: "xapic".to_owned(),
        cpus: 1,
        tsc_hz,
        tsc_source: None,
        devices: Vec::new(),
        end: String::new(),
    }
}

fn boot(hypervisor: &str, tsc_hz: Option<f64>, rows: &[(&str, &[u64])]) -> Document {
    let row = |(name, ticks): &(&str, &[u64])| DocumentRow {
        name: (*name).to_owned(),
        mark: None,
        result: match ticks {
            [] => Err("there is no such device".to_owned()),
            ticks => Ok(Batches {
                operations: 10,
                ticks: ticks.to_vec(),
            }),
        },
    };
    Document {
        guest: guest(hypervisor, tsc_hz),
        rows: rows.iter().map(row).collect(),
    }
}

fn column(launcher: Launcher, boots: Vec<Document>) -> Column {
    Column {
        launcher,
        program: Ok("/p".into()),
        version: None,
        accel: "kvm",
        boots,
        failure: None,
        repeated: None,
        exits: Exits::Off,
    }
}

fn of(columns: &[Column], timing: Timing) -> Vec<Row> {
    let clock = Clock::with_frequency(1e9, true);
    let facts = Facts {
        clock: &clock,
        timing,
        devices: &[Device::Rng],
    };
    rows(columns, facts)
}

const KVM: &str = "KVMKVMKVM";

#[test]
fn ticks_become_times_by_the_guests_own_frequency() {
    let boots = vec![
        boot(KVM, Some(2e9), &[("cpuid", &[20_000, 40_000])]),
        boot(KVM, Some(2e9), &[("cpuid", &[60_000])]),
    ];
    let rows = of(&[column(Launcher::Vmbell, boots)], Timing::Native);
    let times = rows[0].times().unwrap();
    assert_eq!(times.samples, [1000.0, 2000.0, 3000.0]);
    assert_eq!((times.median, times.ops_per_run()), (2000.0, Some(10)));
    assert!(rows[0].timing_valid);
}

#[test]
fn without_a_frequency_the_hosts_is_taken() {
    let boots = vec![boot(KVM, None, &[("cpuid", &[20_000])])];
    let rows = of(&[column(Launcher::Vmbell, boots)], Timing::Native);
    assert_eq!(rows[0].median(), Some(2000.0));
}

#[test]
fn where_instructions_count_no_frequency_does() {
    let boots = vec![boot(KVM, Some(2e9), &[("cpuid", &[20_000])])];
    let rows = of(&[column(Launcher::Vmbell, boots)], Timing::Instructions);
    assert_eq!(rows[0].median(), Some(2000.0));
}

#[test]
fn ratios_are_to_the_first_vmm_with_results() {
    let quick = vec![boot(KVM, None, &[("cpuid", &[100]), ("timer", &[5])])];
    let slow = vec![boot(KVM, None, &[("cpuid", &[300])])];
    let columns = [
        column(Launcher::Alioth, Vec::new()),
        column(Launcher::Qemu(Board::Pc), quick),
        column(Launcher::Vmbell, slow),
    ];
    let rows = of(&columns, Timing::Native);
    let ratios: Vec<_> = rows
        .iter()
        .map(|row| row.ratio().map(|r| r.value))
        .collect();
    assert_eq!(ratios, [None, None, Some(3.0)]);
    assert_eq!(rows[2].ratio().unwrap().reference, "cpuid (qemu-pc)");
}

#[test]
fn an_emulated_cpu_is_compared_with_nothing() {
    let real = vec![boot(KVM, None, &[("cpuid", &[100])])];
    let tcg = vec![boot(TCG, None, &[("cpuid", &[300])])];
    let columns = [
        column(Launcher::Vmbell, real),
        column(Launcher::Qemu(Board::Pc), tcg),
    ];
    let rows = of(&columns, Timing::Native);
    assert!(rows.iter().all(|row| row.ratio().is_none()));
    assert!(!rows[1].timing_valid);
}

#[test]
fn rows_of_devices_that_nobody_asked_for_are_left_out() {
    let rows = [
        ("virtio-rng-notify", &[][..]),
        ("virtio-net-notify", &[]),
        ("cpuid", &[5]),
    ];
    let boots = vec![boot(KVM, None, &rows)];
    let rows = of(&[column(Launcher::Vmbell, boots)], Timing::Native);
    let names: Vec<&str> = rows.iter().map(|row| row.command.as_str()).collect();
    assert_eq!(names, ["virtio-rng-notify", "cpuid"]);
    assert_eq!(rows[0].status(), Status::Skipped);
    assert_eq!(rows[0].reason(), Some("there is no such device"));
}
