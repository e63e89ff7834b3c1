use super::*;
use crate::{Look, sample, terminal};

#[test]
fn the_table() {
    insta::assert_snapshot!(terminal(&sample::events(), Look::default()));
}

#[test]
fn change_is_in_per_cent_of_the_first() {
    assert_eq!(change((200, 100)), "-50.0 %");
    assert_eq!(change((0, 7)), "new");
    assert_eq!(change((7, 7)), "");
}
