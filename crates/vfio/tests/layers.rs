//! No module imports upward: `docs/architecture.md`, "Layers".
#![allow(clippy::tests_outside_test_module, reason = "the whole file is tests")]

/// Low to high.
const LAYERS: &[&[&str]] = &[
    &["chain"],
    &["region", "irq_index", "iova", "node", "host"],
    &["error", "PassthroughError"],
    &["device"],
    &["dma", "interrupt"],
    &["kernel", "pci", "placed"],
];

#[test]
fn no_module_imports_from_above_or_beside() {
    kit::layers::assert_no_import_upward(env!("CARGO_MANIFEST_DIR"), LAYERS);
}
