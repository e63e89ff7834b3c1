use super::*;
use crate::top::text::tests::vm;
use vmbell_top::model::{Irqfd, Reason};
use vmbell_top::names::Space;
use vmbell_top::process::Holder;
use vmbell_top::sampled::Sampled;
use vmbell_top::waiters::Waiter;

/// The JSON of [`known`].
const KNOWN: &str = r#"{"pid":4711,"fd":9,"vmm":"qemu","name":"web-server-1","ended":false,
 "vcpus":[{"id":0,"thread":4720,"exits_by_reason":{"npf":5}},{"id":1,"thread":4721,"exits_by_reason":{"npf":4}}],
 "cpu_seconds":0.0,"statistics":{"exits":620000},
 "exits_to_vmm":1,"ioeventfds":2,"irqfds":3,"msi_ioctls":4,"lines_raised":5,"kicks":6,
 "eois_by_cpu":false,"eois":7,"pv_eois":8,"exits_by_reason":{"npf":9},"vmm_nanoseconds":10,
 "addresses":[{"space":"mmio","address":4273934336,"exits_to_vmm":0,"vmm_nanoseconds":7,"ioeventfds":6200,"answered_by_kvm":8,
 "accesses":[{"write":true,"size":2}],
 "eventfds":[{"id":31,"fd":8,"holders":[{"pid":4800,"name":"virtiofsd"}],"waiter":{"name":"vhost","thread":4801}},
 {"id":32,"fd":null,"holders":[],"waiter":null}],"name":"virtio-pci notify","name_source":"guess"},
 {"space":"port","address":1544,"exits_to_vmm":3,"vmm_nanoseconds":0,"ioeventfds":0,"answered_by_kvm":0,
 "accesses":[{"write":false,"size":4}],"eventfds":[],"name":null,"name_source":null}],
 "reasons":{"hlt":1},"irqfds_by_gsi":[{"gsi":24,"signals":9,"by_worker":2,"first_signaller":4730}],
 "sampled":{"samples":50,"addresses":[{"space":"bus3","address":1544,"samples":3,"accesses":[{"write":false,"size":4}],
 "name":null,"name_source":null}],"reasons":{"hlt":12}}}"#;

/// A VM with all values known.
fn known() -> Vm {
    let mut vm = vm();
    let metrics = Metric::ALL.into_iter().zip(1..);
    vm.counts = metrics.collect();
    vm.exits = vec![Reason {
        name: "npf".to_owned(),
        by_vcpu: [(0, 5), (1, 4)].into(),
    }];
    vm.irqfds = vec![Irqfd {
        gsi: 24,
        count: 9,
        by_worker: 2,
        first_signaller: Some(4730),
    }];
    let doorbell = &mut vm.addresses[0];
    (doorbell.vmm_time, doorbell.by_kvm) = (7, 8);
    let eventfd = &mut doorbell.eventfds[0];
    eventfd.holders = vec![Holder {
        pid: 4800,
        name: "virtiofsd".to_owned(),
    }];
    eventfd.waiter = Some(Waiter {
        name: "vhost",
        thread: Some(4801),
    });
    let mut sampled = vm.addresses[1].clone();
    sampled.space = Space::Bus(3);
    vm.sampled = Some(Sampled {
        samples: 50,
        addresses: vec![sampled],
        reasons: [("hlt".to_owned(), 12)].into(),
    });
    vm
}

#[test]
fn each_count_of_a_vm_is_in_its_field_and_is_read_again() {
    let written = super::vm(known());
    let text = serde_json::to_string(&written).unwrap();
    assert_eq!(text, KNOWN.replace("\n ", ""));
    assert_eq!(serde_json::from_str::<TopVm>(&text).unwrap(), written);
}

#[test]
fn what_is_not_counted_is_null_and_not_zero() {
    let mut uncounted = known();
    uncounted.counts.clear();
    uncounted.sampled = None;
    let text = serde_json::to_string(&super::vm(uncounted)).unwrap();
    for field in [
        "exits_to_vmm",
        "ioeventfds",
        "irqfds",
        "msi_ioctls",
        "lines_raised",
        "kicks",
        "eois",
        "pv_eois",
        "exits_by_reason",
        "vmm_nanoseconds",
        "answered_by_kvm",
    ] {
        assert!(
            text.contains(&format!("\"{field}\":null")),
            "{field}: {text}"
        );
    }
    assert!(!text.contains("sampled"), "{text}");
}
