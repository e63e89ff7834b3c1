use super::*;
use crate::history::histories;
use crate::recording::tests::{line, recording, vm};
use crate::{TopIrqfd, TopVm};

fn of(text: &str) -> Vec<String> {
    let recording = Recording::parse(text).unwrap();
    findings(&recording, &histories(&recording))
}

fn of_vms(before: &[TopVm], after: &[TopVm]) -> Vec<String> {
    of(&(recording(&[]) + &line(0.0, before) + &line(2.0, after)))
}

#[test]
fn the_vm_with_the_most_exits_to_its_vmm_is_named_with_its_busiest_address() {
    let mut quiet = vm(1, 2);
    quiet.name = None;
    quiet.vmm = Some("crosvm".to_owned());
    let sentences = of_vms(&[], &[quiet, vm(2, 100)]);
    let [sentence] = sentences.as_slice() else {
        panic!("{sentences:?}");
    };
    assert!(
        sentence.contains(" exits to its VMM most often: 50"),
        "{sentence}"
    );
    assert!(sentence.starts_with("qemu "), "{sentence}");
    assert!(
        sentence.contains(" % of them at port 0x608 ("),
        "{sentence}"
    );
}

#[test]
fn lost_events_come_first() {
    let mut text = recording(&[(0.0, 0), (1.0, 10)]);
    text = text.replace("\"lost\":0", "\"lost\":7");
    let sentences = of(&text);
    assert_eq!(sentences[0], "7 events lost, so counts are too low");
    assert!(sentences[1].contains("exits to its VMM"), "{sentences:?}");
}

#[test]
fn without_vms_exits_or_counts_there_is_a_sentence_too() {
    assert_eq!(of_vms(&[], &[]), ["No VM ran on KVM in this time"]);
    let mut still = vm(1, 0);
    still.addresses.clear();
    assert_eq!(of_vms(&[], &[still.clone()]), ["No VM exited to its VMM"]);
    still.exits_to_vmm = None;
    assert_eq!(of_vms(&[], &[still]), ["Exits to the VMM were not counted"]);
}

#[test]
fn interrupts_by_a_worker_are_told() {
    let mut busy = vm(1, 5);
    busy.irqfds_by_gsi = vec![TopIrqfd {
        gsi: 24,
        signals: 10,
        by_worker: 4,
        first_signaller: None,
    }];
    let sentences = of_vms(&[], &[busy.clone()]);
    assert!(
        sentences[1].ends_with(": a kernel worker raises 40 % of the interrupts by irqfd"),
        "{sentences:?}"
    );
    busy.irqfds_by_gsi[0].by_worker = 0;
    assert_eq!(of_vms(&[], &[busy]).len(), 1);
}
