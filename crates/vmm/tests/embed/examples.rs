//! The examples, on each backend and as `cargo run --example` runs them.

#[path = "../../examples/doorbell.rs"]
mod doorbell;
#[path = "../../examples/level_interrupt.rs"]
mod level_interrupt;

use vmbell_hypervisor::Hypervisor;

use testbed::bounded;

fn the_doorbell_example_rings_once_and_exits_once<H: Hypervisor>(h: &H) {
    assert_eq!(doorbell::ring(h).unwrap(), (1, vec![8]));
}

fn the_level_example_takes_an_interrupt_for_each_piece_of_work<H: Hypervisor>(h: &H) {
    assert_eq!(level_interrupt::serve(h, 3).unwrap(), 3);
}

testbed::on_both! {
    the_doorbell_example_rings_once_and_exits_once;
    the_level_example_takes_an_interrupt_for_each_piece_of_work;
}

#[test]
fn the_examples_run_on_the_best_backend_of_this_host() {
    bounded(|| {
        doorbell::main().unwrap();
        level_interrupt::main().unwrap();
    });
}
