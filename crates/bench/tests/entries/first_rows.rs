//! The rows that answer the first questions about a host exist on the backend that every machine has.

use std::sync::Arc;

use vmbell_bench::scenario::{self, ScanValues};
use vmbell_bench::{BenchEntry, WantedEntries, catalogue, compare, select};
use vmbell_hypervisor::Hypervisor;
use vmbell_usermode::Usermode;

#[test]
fn the_first_rows_exist_and_bring_what_they_are_compared_with() {
    let hypervisor: Arc<dyn Hypervisor> = Arc::new(Usermode);
    let all = catalogue::all(vec![scenario::entries(&hypervisor, &ScanValues::default())]);
    let first = select(all, WantedEntries::First).unwrap();
    let names: Vec<&str> = first.iter().map(BenchEntry::name).collect();
    for name in compare::FIRST {
        assert!(names.contains(&name), "{name}");
    }
    for entry in &first {
        let reference = entry.reference();
        assert!(
            reference.is_none_or(|name| names.contains(&name)),
            "{entry:?}"
        );
    }
}
