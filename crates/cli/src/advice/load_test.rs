use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_ticks_of_each_cpu_are_read() {
    let stat = "cpu  9 9 9 9\ncpu0 1 2 3 40 5 6 7 8 9 10\ncpu1 0 0 0 100\nintr 5\n";
    let ticks = ticks(stat);
    assert_eq!(
        ticks[&0],
        Ticks {
            idle: 45,
            steal: 8,
            all: 72
        }
    );
    assert_eq!(
        ticks[&1],
        Ticks {
            idle: 100,
            steal: 0,
            all: 100
        }
    );
    assert_eq!(ticks.len(), 2);
}

#[test]
fn stolen_time_distorts_while_it_is_stolen_and_is_a_note_afterwards() {
    let root = tempfile::tempdir().unwrap();
    let [before, now] = ["cpu0 50 0 0 40 0 0 0 10\n", "cpu0 55 0 0 40 0 0 0 15\n"].map(ticks);
    let found = watched(&HostFiles::new(root.path()), &[0], &before, &now);
    assert_eq!(found[0].severity, Severity::Distorts);
    assert_eq!(
        found[0].cost.as_deref(),
        Some("50.0 % of the time within 300ms, 13.6 % since this host was started")
    );
    let later = ticks("cpu0 65 0 0 40 0 0 0 15\n");
    let found = watched(&HostFiles::new(root.path()), &[0], &now, &later);
    assert_eq!(found[0].severity, Severity::Note);
    let quiet = ticks("cpu0 50 0 0 50 0 0 0 0\n");
    assert_eq!(
        watched(&HostFiles::new(root.path()), &[0], &quiet, &quiet),
        []
    );
}

#[test]
fn a_busy_sibling_is_found_and_an_idle_one_is_not() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        &format!("{CPUS}/cpu0/topology/thread_siblings_list"),
        "0,4\n",
    );
    let tree = HostFiles::new(root.path());
    let before = ticks("cpu0 0 0 0 0\ncpu4 0 0 0 0\n");
    let busy = ticks("cpu0 0 0 0 100\ncpu4 50 0 0 50\n");
    let found = watched(&tree, &[0], &before, &busy);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0].fact,
        "CPU 4 shares a core with another one and is busy"
    );
    assert_eq!(
        found[0].cost.as_deref(),
        Some("up to 50.0 % busy within 300ms")
    );
    let idle = ticks("cpu0 50 0 0 50\ncpu4 0 0 0 100\n");
    assert_eq!(watched(&tree, &[0], &before, &idle), []);
    assert_eq!(watched(&tree, &[], &before, &busy), []);
}

proptest! {
    #[test]
    fn any_text_of_the_kernel_is_survived(before in ".{0,300}", after in "(cpu[0-9]{1,20}( [0-9]{1,30}){0,12}\n){0,5}") {
        let root = tempfile::tempdir().unwrap();
        let tree = HostFiles::new(root.path());
        watched(&tree, &[0, 1], &ticks(&before), &ticks(&after));
        watched(&tree, &[0, 1], &ticks(&after), &ticks(&after));
    }
}
