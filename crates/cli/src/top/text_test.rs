use std::collections::{BTreeMap, BTreeSet};

use super::*;
use vmbell_top::address::{Address, Eventfd};
use vmbell_top::bpf::Metric;
use vmbell_top::model::Vm;
use vmbell_top::names::{Name, NameSource, Space};

fn interval_of(vms: &[Vm], seconds: f64) -> TopInterval {
    TopInterval {
        vms: vms.to_vec(),
        seconds,
        ..TopInterval::default()
    }
}

/// The table of VMs.
fn of_vms(interval: &TopInterval, width: Option<usize>) -> String {
    let vms: Vec<&Vm> = interval.vms.iter().collect();
    let table = columns::table(&vms, interval.seconds, VmColumn::FIRST);
    let color = false;
    terminal(&[Block::Table(table)], Screen { color, width })
}

/// A VM with a virtio device that notifies through an ioeventfd, and a port that the VMM emulates.
pub(in crate::top) fn vm() -> Vm {
    let address = |space, address, to_vmm, rings, access| Address {
        space,
        address,
        to_vmm,
        vmm_time: 0,
        rings,
        by_kvm: 0,
        accesses: BTreeSet::from([access]),
        eventfds: Vec::new(),
        name: None,
    };
    let doorbell = Address {
        eventfds: vec![
            Eventfd {
                id: 31,
                fd: Some(8),
                holders: Vec::new(),
                waiter: None,
            },
            Eventfd {
                id: 32,
                fd: None,
                holders: Vec::new(),
                waiter: None,
            },
        ],
        name: Some(Name {
            text: "virtio-pci notify".to_owned(),
            source: NameSource::Guess,
        }),
        ..address(Space::Mmio, 0xfebf_1000, 0, 6200, (true, 2))
    };
    Vm {
        pid: 4711,
        fd: Some(9),
        vmm: Some("qemu".to_owned()),
        name: Some("web-server-1".to_owned()),
        has_ended: false,
        eois_by_cpu: false,
        vcpus: BTreeMap::from([(0, 4720), (1, 4721)]),
        cpu: Some(0),
        statistics: Some(BTreeMap::from([("exits", 620_000)])),
        counts: BTreeMap::from([
            (Metric::ToVmm, 424_000),
            (Metric::Rings, 6200),
            (Metric::Messages, 2),
            (Metric::Lines, 1),
            (Metric::Eois, 200),
            (Metric::PvEois, 186),
        ]),
        addresses: vec![doorbell, address(Space::Port, 0x608, 3, 0, (false, 4))],
        sampled: None,
        reasons: BTreeMap::from([("hlt".to_owned(), 1)]),
        exits: Vec::new(),
        irqfds: Vec::new(),
    }
}

#[test]
fn a_vm_is_a_row_in_eighty_columns_and_what_is_not_counted_is_a_dash() {
    let other = Vm {
        pid: 4_194_304,
        counts: BTreeMap::new(),
        statistics: None,
        vcpus: BTreeMap::new(),
        cpu: None,
        has_ended: true,
        ..vm()
    };
    let table = of_vms(&interval_of(&[vm(), other], 2.0), Some(80));
    assert!(table.lines().all(|line| line.chars().count() == 80));
    assert_eq!(
        table,
        "    PID VM         vCPU  CORE EXITS/s   VMM/s RINGS/s IRQFD/s IOCTL/s EOI/s   PV\n   \
         4711 qemu:…er-1    2  0.00    310k    212k    3100       -     1.5   100  93%\n\
         4194304 (ende…er-1    -     -       -       -       -       -       -     -    -\n"
    );
}

fn named(names: &[&str]) -> TopInterval {
    let vm = |name: &&str| Vm {
        name: Some((*name).to_owned()),
        ..vm()
    };
    interval_of(&names.iter().map(vm).collect::<Vec<_>>(), 2.0)
}

/// The names in the table, without trailing blanks.
fn names(table: &str) -> Vec<&str> {
    let rows = table.lines().skip(1).map(|row| row[8..].trim_start());
    rows.map(|row| row.split("  ").next().unwrap()).collect()
}

#[test]
fn names_are_whole_without_a_terminal_and_cut_in_the_middle_if_they_do_not_fit_into_its_lines() {
    let table = named(&["instance-00000001", "instance-00000002", "a"]);
    let shown = |width| of_vms(&table, width);
    let whole = shown(None);
    let all = ["qemu:instance-00000001", "qemu:instance-00000002", "qemu:a"];
    assert_eq!(names(&whole), all);
    assert_eq!(shown(Some(200)), whole);
    assert_eq!(shown(Some(92)), whole);
    let cut = shown(Some(82));
    assert_eq!(names(&cut), ["qemu:i…00001", "qemu:i…00002", "qemu:a"]);
    assert!(cut.lines().all(|line| line.chars().count() == 82), "{cut}");
    // Narrower than the other columns together.
    assert_eq!(names(&shown(Some(10)))[..2], ["qemu:…0001", "qemu:…0002"]);
}

#[test]
fn columns_are_aligned_after_wide_characters() {
    let table = named(&["仮想機械", "a-long-name"]);
    for (width, cells) in [(None, 86), (Some(84), 84), (Some(80), 80)] {
        let shown = of_vms(&table, width);
        let is_aligned = |line: &str| vmbell_report::width(line) == cells;
        assert!(shown.lines().all(is_aligned), "{shown}");
    }
}

#[test]
fn notes_are_below_the_table() {
    let mut table = named(&["a"]);
    table.sources = vec!["counters"];
    table.notes = vec!["no bpf: why".to_owned(), "no samples: why".to_owned()];
    let shown = text(&table, None);
    let end = format!("\nno bpf: why\nno samples: why\n{HINT}\n\n");
    assert!(shown.starts_with("vmbell top: 1 VM, 2.00 s, by counters\n\n    PID VM "));
    assert!(shown.ends_with(&format!("\n{end}")), "{shown}");
    table.vms.clear();
    let shown = text(&table, None);
    assert!(shown.contains(&format!("\n{NO_VM}{end}")), "{shown}");
}

#[test]
fn tables_have_the_order_in_which_the_screen_begins() {
    let mut interval = named(&["idle", "busy"]);
    for (vm, ticks) in interval.vms.iter_mut().zip([1, 90]) {
        vm.cpu = Some(ticks);
    }
    let shown = text(&interval, None);
    let place = |name| shown.find(name).unwrap();
    assert!(place("qemu:busy") < place("qemu:idle"), "{shown}");
    let screen = crate::top::screen::TopScreen::new(std::time::Duration::from_secs(1));
    let names: Vec<_> = screen
        .rows(&interval)
        .into_iter()
        .filter_map(|row| match row.content {
            crate::top::screen::Content::Vm(vm) => vm.name.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["busy", "idle"]);
}

#[test]
fn the_tables_are_markdown_too_and_a_name_is_no_markup() {
    let text = vmbell_report::markdown(&blocks(&named(&["a|b"])));
    assert!(text.contains("| `4711` | qemu:a\\|b | 2 |"), "{text}");
}

#[test]
fn ends_of_interrupts_that_the_cpu_does_are_not_a_number() {
    let mut by_cpu = Vm {
        eois_by_cpu: true,
        ..vm()
    };
    by_cpu.counts.remove(&Metric::Eois);
    by_cpu.counts.remove(&Metric::PvEois);
    let table = of_vms(&interval_of(&[by_cpu], 2.0), None);
    let cells: Vec<_> = table.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(cells[cells.len() - 2..], ["hw", "-"]);
}
