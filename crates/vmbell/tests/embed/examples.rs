//! The examples, on each backend and as `cargo run --example` runs them.

#[path = "../../examples/doorbell.rs"]
mod doorbell;
#[path = "../../examples/foreign_vmm.rs"]
mod foreign_vmm;
#[path = "../../examples/level_interrupt.rs"]
mod level_interrupt;
#[path = "../../examples/virtqueue.rs"]
mod virtqueue;

use vmbell::hypervisor::Hypervisor;

use crate::harness::bounded;

fn the_doorbell_example_rings_once_and_exits_once<H: Hypervisor>(h: &H) {
    assert_eq!(doorbell::ring(h).unwrap(), (1, vec![8]));
}

fn the_level_example_takes_an_interrupt_for_each_piece_of_work<H: Hypervisor>(h: &H) {
    assert_eq!(level_interrupt::serve(h, 3).unwrap(), 3);
}

crate::on_both! {
    the_doorbell_example_rings_once_and_exits_once;
    the_level_example_takes_an_interrupt_for_each_piece_of_work;
}

#[test]
fn the_examples_run_on_the_best_backend_of_this_host() {
    bounded(|| {
        doorbell::main().unwrap();
        level_interrupt::main().unwrap();
        foreign_vmm::main().unwrap();
    });
}

#[test]
fn the_virtqueue_example_gets_its_answers() {
    // Its main takes the brand, of which the process has one.
    bounded(|| {
        let answers = virtqueue::exchange(&["look", "now"]).unwrap();
        assert_eq!(answers, ["LOOK", "NOW"]);
        assert!(virtqueue::main().is_err(), "there is one such queue");
    });
}

#[test]
fn the_foreign_example_finds_whose_each_access_is() {
    let outcome = foreign_vmm::run().unwrap();
    assert_eq!(outcome.rings, [0, 2]);
    assert_eq!(outcome.answers, [[7, 7]]);
    assert_eq!(outcome.unclaimed, 1);
}
