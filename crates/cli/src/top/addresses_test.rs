use std::collections::{BTreeMap, BTreeSet};

use super::super::text::tests::vm;
use super::*;
use vmbell_report::{Block, Screen, terminal};
use vmbell_top::costs::Costs;
use vmbell_top::sampled::Sampled;
use vmbell_top::waiters::Waiter;

const MOST: usize = 8;

fn of(seconds: f64) -> TopInterval {
    TopInterval {
        seconds,
        ..TopInterval::default()
    }
}

fn shown(table: Table) -> String {
    terminal(&[Block::Table(table)], Screen::default())
}

#[test]
fn an_address_says_its_accesses_its_eventfds_and_its_name() {
    assert_eq!(
        shown(table(&[vm()], &of(2.0), MOST)),
        " PID  ADDRESS OR REASON  ACCESS  VMM/s  RINGS/s  WHAT
\
         4711  mmio 0xfebf1000    w2          0     3100  virtio-pci notify?, fd 8, eventfd 32, not open in the VMM
\
         4711  port 0x608         r4        1.5        0
\
         4711  hlt                          0.5        0
"
    );
}

#[test]
fn only_the_most_frequent_addresses_are_shown_with_the_sum_of_the_others() {
    let mut vm = vm();
    let last = vm.addresses[1].clone();
    vm.addresses.extend(vec![last; MOST]);
    let table = shown(table(&[vm], &of(1.0), MOST));
    let more = table.lines().find(|line| line.contains(" more ")).unwrap();
    assert_eq!(
        more.split_whitespace().collect::<Vec<_>>(),
        ["4711", "2", "more", "6.0", "0"]
    );
}

#[test]
fn an_eventfd_names_the_other_processes_that_have_it() {
    let holder = |name: &str, pid| Holder {
        pid,
        name: name.to_owned(),
    };
    let mut shared = Eventfd {
        id: 31,
        fd: None,
        holders: vec![holder("virtiofsd", 812)],
        waiter: None,
    };
    assert_eq!(eventfd(&shared), "eventfd 31 of virtiofsd (812)");
    shared.fd = Some(8);
    shared.holders.extend([holder("b", 813), holder("c", 814)]);
    assert_eq!(
        eventfd(&shared),
        "fd 8, also virtiofsd (812), b (813), 1 more"
    );
}

#[test]
fn an_eventfd_names_what_waits_for_it_in_the_kernel() {
    let waited = |thread| Eventfd {
        id: 31,
        fd: Some(19),
        holders: Vec::new(),
        waiter: Some(Waiter {
            name: "vhost",
            thread,
        }),
    };
    assert_eq!(eventfd(&waited(Some(152))), "fd 19 to vhost (152)");
    assert_eq!(eventfd(&waited(None)), "fd 19 to vhost");
}

#[test]
fn an_ioeventfd_that_is_not_counted_is_a_dash_and_not_zero() {
    let mut vm = vm();
    vm.counts.remove(&Metric::Rings);
    let table = shown(table(&[vm], &of(2.0), 1));
    let cells = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let rows: Vec<_> = table.lines().skip(1).map(cells).collect();
    assert!(rows.len() > 1);
    for row in rows {
        let rings = row.iter().position(|cell| cell == "-");
        assert!(rings.is_some(), "{row:?}");
    }
}

fn address() -> Address {
    Address {
        space: Space::Port,
        address: 0x608,
        to_vmm: 200,
        vmm_time: 3_000_000,
        rings: 0,
        by_kvm: 40,
        accesses: BTreeSet::new(),
        eventfds: Vec::new(),
        name: None,
    }
}

/// The titles and cells between RINGS/s and the last column, for one address.
fn optional(
    metrics: &[Metric],
    address: Address,
    costs: Option<Costs>,
    seconds: f64,
) -> Vec<(String, String)> {
    let vm = Vm {
        counts: metrics.iter().map(|metric| (*metric, 0)).collect(),
        addresses: vec![address],
        ..Vm::default()
    };
    let interval = TopInterval {
        costs,
        ..of(seconds)
    };
    let columns = table(&[vm], &interval, 1).columns.into_iter();
    let cells = columns.map(|column| (column.title, column.cells[0].text.clone()));
    cells
        .skip_while(|(title, _)| title != "RINGS/s")
        .skip(1)
        .collect()
}

#[test]
fn columns_are_there_only_if_they_are_counted() {
    let owned = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(title, cell)| ((*title).to_owned(), (*cell).to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(optional(&[Metric::ToVmm], address(), None, 2.0), []);
    let rows = [
        ("portio-no-eventfd", 300_000.0),
        ("outl_to_kernel", 100_000.0),
    ];
    let costs = Costs::new(rows.map(|(name, time)| (name.to_owned(), time)));
    // 100 exits, and 20 accesses that KVM answered, in a second.
    assert_eq!(
        optional(
            &[Metric::VmmTime, Metric::ByKvm],
            address(),
            Some(costs),
            2.0
        ),
        owned(&[
            ("US/EXIT", "15.0"),
            ("VMM CORE", "0.002"),
            ("KVM/s", "20"),
            ("CORE", "0.032")
        ])
    );
    assert_eq!(
        optional(&[], address(), Some(Costs::default()), 2.0),
        owned(&[("CORE", "-")])
    );
    let without_exits = Address {
        to_vmm: 0,
        vmm_time: 0,
        ..address()
    };
    assert_eq!(
        optional(&[Metric::VmmTime], without_exits, None, 1.0),
        owned(&[("US/EXIT", "-"), ("VMM CORE", "0.000")])
    );
}

#[test]
fn shares_of_samples_are_marked_and_addresses_beyond_the_limit_are_summed() {
    let at = |port, to_vmm| Address {
        address: port,
        to_vmm,
        accesses: BTreeSet::from([(true, 1)]),
        ..address()
    };
    let vm = Vm {
        pid: 132,
        sampled: Some(Sampled {
            samples: 1000,
            addresses: vec![at(0xb07, 299), at(0xb08, 20), at(0xb09, 5)],
            reasons: BTreeMap::from([("hlt".to_owned(), 1)]),
        }),
        ..Vm::default()
    };
    assert_eq!(
        shown(sampled(&[vm], 1)),
        "PID  ADDRESS OR REASON  ACCESS  IN VMM\n\
         132  port 0xb07         w1      ~29.9%\n\
         132  2 more                      ~2.5%\n\
         132  hlt                         ~0.1%\n"
    );
    assert!(sampled(&[Vm::default()], 1).is_empty());
}
