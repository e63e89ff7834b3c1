//! Trees of random bytes; the fuzz target tests more of them.

use proptest::prelude::*;

use super::super::{Choice, Copied, Tree};

const OVERLAY: &[u8] = include_bytes!("golden/overlay.dtbo");

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn a_blob_with_changed_bytes_is_read_without_a_panic(
        changes in prop::collection::vec((0..OVERLAY.len(), any::<u8>()), 1..5),
    ) {
        let mut bytes = OVERLAY.to_owned();
        for (place, byte) in changes {
            bytes[place] = byte;
        }
        if let Ok(tree) = Tree::from_blob(&bytes) {
            for choice in [Choice::Only, Choice::Path("/fragment@0/__overlay__/pl031@0")] {
                let _ = tree.device(&choice, Copied::All);
            }
        }
    }
}
