use proptest::prelude::*;

use super::*;

#[test]
fn ctrl_a_x_quits_and_what_came_before_is_the_guests() {
    assert_eq!(
        Escapes::default().filter(b"ls\r\x01xmore"),
        (b"ls\r".to_vec(), true)
    );
}

#[test]
fn ctrl_a_twice_is_one_for_the_guest() {
    assert_eq!(
        Escapes::default().filter(b"\x01\x01x"),
        (b"\x01x".to_vec(), false)
    );
}

#[test]
fn any_other_key_behind_ctrl_a_goes_to_the_guest_with_it() {
    assert_eq!(
        Escapes::default().filter(b"\x01k"),
        (b"\x01k".to_vec(), false)
    );
}

proptest! {
    #[test]
    fn a_command_is_found_however_the_keys_are_read(keys: Vec<u8>, chunk in 1_usize..4) {
        let whole = Escapes::default().filter(&keys);
        let mut escapes = Escapes::default();
        let mut parts = (Vec::new(), false);
        for keys in keys.chunks(chunk) {
            let (bytes, quit) = escapes.filter(keys);
            parts.0.extend(bytes);
            if quit {
                parts.1 = true;
                break;
            }
        }
        prop_assert_eq!(parts, whole);
    }
}
