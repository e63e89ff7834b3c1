//! A deterministic arm64 machine that is saved.

use super::boots::states::figures_do_not_depend_on_the_beginning;

#[test]
#[ignore = "boots the lab: cargo xtask lab --arch aarch64"]
fn figures_are_those_of_a_boot_with_and_without_a_seed() {
    figures_do_not_depend_on_the_beginning(1, &["mmio-no-eventfd", "mmio-wildcard-eventfd"]);
}
